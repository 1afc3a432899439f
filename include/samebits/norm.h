/* rms_norm, layer_norm, l2_norm, group_norm, and norms of a sum. */
#ifndef SAMEBITS_NORM_H
#define SAMEBITS_NORM_H

#include <stdint.h>

#include <dlpack/dlpack.h>

#include <samebits/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out = x / sqrt(mean(x^2) + eps) * weight.
 * Shapes: x (..., N), weight NULL or (N), out as x; dtypes f32, f16, bf16 (weight: any of them); out x's
 *   dtype or f32; any strides >= 0. out may be x.
 * Order: portable-1, spec/ops/norm.md.
 * Ownership: nothing is kept.
 * Errors: NULL, RANK, SHAPE, DTYPE, DEVICE, STRIDE, OVERLAP, OVERFLOW, PARAM (eps < 0 or NaN), MEMORY; out
 *   is then untouched.
 * Threads: any. */
SAMEBITS_API samebits_status samebits_rms_norm(samebits_context *context, const DLTensor *x, const DLTensor *weight,
                                               float eps, DLTensor *out);

/* out = (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias. weight and bias may be NULL.
 * Otherwise as samebits_rms_norm. */
SAMEBITS_API samebits_status samebits_layer_norm(samebits_context *context, const DLTensor *x, const DLTensor *weight,
                                                 const DLTensor *bias, float eps, DLTensor *out);

/* out = x / max(length, eps), length the square root of the row's sum of squares. Otherwise as samebits_rms_norm. */
SAMEBITS_API samebits_status samebits_l2_norm(samebits_context *context, const DLTensor *x, float eps, DLTensor *out);

/* layer_norm of each of `groups` groups of channels.
 * Shapes: x (B, C, ...), 2 to 7 dims, C a multiple of groups: a row is C / groups channels with all that follows them;
 *   weight and bias NULL or (C), one number a channel; out as x.
 * Errors: as samebits_layer_norm, and PARAM for groups that do not divide C.
 * Order, ownership, threads: as samebits_layer_norm. */
SAMEBITS_API samebits_status samebits_group_norm(samebits_context *context, const DLTensor *x, int64_t groups,
                                                 const DLTensor *weight, const DLTensor *bias, float eps,
                                                 DLTensor *out);

/* sum = x + residual, out = rms_norm(sum): the bits of samebits_add and then samebits_rms_norm, in one pass.
 * Shapes: residual, sum and out as x (no broadcasting); dtypes f32, f16, bf16; sum f32, x's or residual's; out sum's
 *   dtype or f32. sum may be x or residual.
 * Otherwise as samebits_rms_norm. */
SAMEBITS_API samebits_status samebits_add_rms_norm(samebits_context *context, const DLTensor *x,
                                                   const DLTensor *residual, const DLTensor *weight, float eps,
                                                   DLTensor *sum, DLTensor *out);

/* sum = x + residual, out = layer_norm(sum). Otherwise as samebits_add_rms_norm. */
SAMEBITS_API samebits_status samebits_add_layer_norm(samebits_context *context, const DLTensor *x,
                                                     const DLTensor *residual, const DLTensor *weight,
                                                     const DLTensor *bias, float eps, DLTensor *sum, DLTensor *out);

#ifdef __cplusplus
}
#endif
#endif
