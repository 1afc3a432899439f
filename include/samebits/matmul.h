/* Matrix products: matmul, linear, addmm, and products with quantised or prepared weights. */
#ifndef SAMEBITS_MATMUL_H
#define SAMEBITS_MATMUL_H

#include <samebits/activation.h>
#include <samebits/weights.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What happens to the product before its one rounding to the output's dtype (spec/ops/matmul.md):
 * t = alpha * acc; t = fma(beta, c, t) if c; t = t + bias if bias; t = activation(t). In f32, with alpha and beta
 * rounded to it; in f64 if the product is of f64. With an f64 output the activation is none or relu, with complex64
 * none. */
typedef struct samebits_epilogue {
    size_t struct_size; /* set by samebits_epilogue_default */
    double alpha;
    double beta;
    const DLTensor *c;    /* NULL, or broadcastable to the output; f32, f16 or bf16, or as an f64 or complex64 output */
    const DLTensor *bias; /* NULL, or (N); the same dtypes */
    samebits_activation activation;
} samebits_epilogue;

/* alpha 1, beta 0, no c, no bias, no activation. */
SAMEBITS_API void samebits_epilogue_default(samebits_epilogue *epilogue);

/* out = epilogue(a @ b).
 * Shapes: a (..., M, K), b (..., K, N), out (..., M, N); batch dims broadcast; any strides >= 0, so a
 *   transposed b is a view. dtypes f32, f16, bf16: a and b alike, out alike or f32; with out f32 a and b may
 *   differ. Or f64 or complex64, all three of them.
 *   M, N or K of 0 is valid: nothing, or the epilogue of +0.
 * Order: portable-1, spec/ops/matmul.md.
 * Ownership: nothing is kept. epilogue may be NULL (defaults).
 * Errors: NULL, RANK, SHAPE, DTYPE, DEVICE, STRIDE, OVERLAP, OVERFLOW, PARAM, MEMORY; out is then untouched.
 * Threads: any. */
SAMEBITS_API samebits_status samebits_matmul(samebits_context *context, const DLTensor *a, const DLTensor *b,
                                             const samebits_epilogue *epilogue, DLTensor *out);

/* out = epilogue(x @ w^T): w (N, K), x (..., K), out (..., N). Otherwise as samebits_matmul. */
SAMEBITS_API samebits_status samebits_linear(samebits_context *context, const DLTensor *x, const DLTensor *w,
                                             const samebits_epilogue *epilogue, DLTensor *out);

/* out = alpha * (a @ b) + beta * c. Otherwise as samebits_matmul. */
SAMEBITS_API samebits_status samebits_addmm(samebits_context *context, const DLTensor *c, const DLTensor *a,
                                            const DLTensor *b, double alpha, double beta, DLTensor *out);

/* out = epilogue(x @ w^T) with prepared weights of any format.
 * Shapes: x (..., K), out (..., N). x f32, f16 or bf16 with any format; out f32 or x's dtype.
 * Order: portable-1 (spec/ops/matmul.md, spec/ops/matmul_quantized.md), int8-1 for quantised formats, or the device
 *   order amx-1 for bf16 weights and bf16 x, which any machine can compute.
 * Ownership: nothing is kept; weights stay the caller's. epilogue may be NULL (defaults).
 * Errors: as samebits_matmul, ORDER, and DTYPE for another x in amx-1.
 * Threads: any. */
SAMEBITS_API samebits_status samebits_linear_prepared(samebits_context *context, const DLTensor *x,
                                                      const samebits_weights *weights, samebits_order order,
                                                      const samebits_epilogue *epilogue, DLTensor *out);

/* The order of this machine for products of x and weights of one float format, for callers who take whichever is
 * fastest here: amx-1 for bf16 where the context may use AMX, else portable-1. Its bits are not those of other
 * machines' choice; a row's still depend on nothing but the row. Errors: none; context may be NULL (portable-1). */
SAMEBITS_API samebits_order samebits_device_order(const samebits_context *context, samebits_format format);

/* out = epilogue(x @ w^T) with quantised weights as they lie: w uint8 (N, row size), see
 * samebits_weights_prepare. The bits are those of samebits_linear_prepared, which is faster.
 * Errors: as samebits_linear_prepared, and FORMAT.
 * Order, ownership, threads: as samebits_linear_prepared. */
SAMEBITS_API samebits_status samebits_matmul_quantized(samebits_context *context, const DLTensor *x, const DLTensor *w,
                                                       samebits_format format, samebits_order order,
                                                       const samebits_epilogue *epilogue, DLTensor *out);

/* out = epilogue(x @ w^T) with affine weights as they lie; the bits are those of samebits_linear_prepared. With
 * transpose 0 out = epilogue(x @ w), the weights packed along N.
 * Shapes: x and out as samebits_linear_prepared; w, scales and biases as samebits_weights_prepare_affine;
 *   with transpose 0 w (K, N * bits / 32), scales and biases (K, N / group).
 * Order: as samebits_linear_prepared; with transpose 0 portable-1 alone.
 * Errors: as samebits_linear_prepared and samebits_weights_prepare_affine.
 * Ownership, threads: as samebits_linear_prepared. */
SAMEBITS_API samebits_status samebits_matmul_affine(samebits_context *context, const DLTensor *x, const DLTensor *w,
                                                    const DLTensor *scales, const DLTensor *biases, int bits, int group,
                                                    int transpose, samebits_order order,
                                                    const samebits_epilogue *epilogue, DLTensor *out);

/* The same with weights of an MLX format.
 * Shapes: x and out as samebits_linear_prepared; w and scales as samebits_weights_prepare_scaled; with transpose 0
 *   w (K, N * bits / 32) uint32 or (K, N * bits / 8) uint8, scales (K, N / group), N a multiple of 32.
 * Order: as samebits_linear_prepared; MLX_MXFP8, and with transpose 0 all of them: portable-1 alone.
 * Errors: as samebits_linear_prepared and samebits_weights_prepare_scaled.
 * Ownership, threads: as samebits_linear_prepared. */
SAMEBITS_API samebits_status samebits_matmul_scaled(samebits_context *context, const DLTensor *x, const DLTensor *w,
                                                    const DLTensor *scales, samebits_format format, int transpose,
                                                    samebits_order order, const samebits_epilogue *epilogue,
                                                    DLTensor *out);

#ifdef __cplusplus
}
#endif
#endif
