/* Ops that work element by element: activations, gated activations, arithmetic with broadcasting. */
#ifndef SAMEBITS_ELEMENTWISE_H
#define SAMEBITS_ELEMENTWISE_H

#include <dlpack/dlpack.h>

#include <samebits/activation.h>
#include <samebits/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out = activation(x).
 * Shapes: x of 1 to 8 dims, out as x; dtypes f32, f16, bf16; out x's dtype or f32; any strides >= 0. out may be x.
 * Order: portable-1, spec/ops/elementwise.md.
 * Ownership: nothing is kept.
 * Errors: NULL, RANK, SHAPE, DTYPE, DEVICE, STRIDE, OVERLAP, OVERFLOW, PARAM (unknown activation); out is then
 *   untouched.
 * Threads: any. */
SAMEBITS_API samebits_status samebits_activate(samebits_context *context, const DLTensor *x,
                                               samebits_activation activation, DLTensor *out);

/* out = activation(x) * y: swiglu with SILU, geglu with one of the GELUs, reglu with RELU. The activation is not
 * rounded to the output's dtype before the product.
 * Shapes: x and y broadcast to out; dtypes f32, f16, bf16, one for each; out f32, x's or y's. out may be x or y.
 * Otherwise as samebits_activate. */
SAMEBITS_API samebits_status samebits_gated(samebits_context *context, const DLTensor *x, const DLTensor *y,
                                            samebits_activation activation, DLTensor *out);

/* out = a + b, a - b, a * b, a / b: one f32 operation, then the rounding to out's dtype.
 * Shapes: a and b broadcast to out; dtypes f32, f16, bf16, one for each; out f32, a's or b's. out may be a or b.
 * Otherwise as samebits_activate. */
SAMEBITS_API samebits_status samebits_add(samebits_context *context, const DLTensor *a, const DLTensor *b,
                                          DLTensor *out);
SAMEBITS_API samebits_status samebits_sub(samebits_context *context, const DLTensor *a, const DLTensor *b,
                                          DLTensor *out);
SAMEBITS_API samebits_status samebits_mul(samebits_context *context, const DLTensor *a, const DLTensor *b,
                                          DLTensor *out);
SAMEBITS_API samebits_status samebits_div(samebits_context *context, const DLTensor *a, const DLTensor *b,
                                          DLTensor *out);

/* out = fma(x, scale, bias). A bias of -0 gives the product alone, zeros of both signs included.
 * scale and bias may be any numbers. Otherwise as samebits_activate. */
SAMEBITS_API samebits_status samebits_scale(samebits_context *context, const DLTensor *x, float scale, float bias,
                                            DLTensor *out);

#ifdef __cplusplus
}
#endif
#endif
