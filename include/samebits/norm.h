/* rms_norm and layer_norm over the last dimension. */
#ifndef SAMEBITS_NORM_H
#define SAMEBITS_NORM_H

#include <dlpack/dlpack.h>

#include <samebits/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out = x / sqrt(mean(x^2) + eps) * weight.
 * Shapes: x (..., N), weight NULL or (N), out as x; dtypes f32, f16, bf16 (weight: any of them); out x's
 *   dtype or f32; any strides >= 0. out may be x.
 * Order: portable-1, spec/ops/norm.md.
 * Errors: NULL, RANK, SHAPE, DTYPE, DEVICE, STRIDE, OVERLAP, OVERFLOW, PARAM (eps < 0 or NaN), MEMORY; out
 *   is then untouched.
 * Threads: any. */
SAMEBITS_API samebits_status samebits_rms_norm(samebits_context *context, const DLTensor *x, const DLTensor *weight,
                                               float eps, DLTensor *out);

/* out = (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias. weight and bias may be NULL.
 * Otherwise as samebits_rms_norm. */
SAMEBITS_API samebits_status samebits_layer_norm(samebits_context *context, const DLTensor *x, const DLTensor *weight,
                                                 const DLTensor *bias, float eps, DLTensor *out);

#ifdef __cplusplus
}
#endif
#endif
