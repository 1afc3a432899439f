/* softmax, log_softmax, and what is made from them, over the last dimension. */
#ifndef SAMEBITS_SOFTMAX_H
#define SAMEBITS_SOFTMAX_H

#include <dlpack/dlpack.h>

#include <samebits/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Optional parts of a softmax; all NULL and scale 1 by default. */
typedef struct samebits_softmax_params {
    size_t struct_size;     /* set by samebits_softmax_params_default */
    float scale;            /* x is multiplied by it first */
    const DLTensor *mask;   /* NULL, or added after scaling; broadcastable to x; f32, f16 or bf16 */
    const DLTensor *sinks;  /* NULL, or (H): f32 logit that joins maximum and denominator; x is (..., H, M, N) */
    const DLTensor *slopes; /* NULL, or (H): f32 factor on the mask of each head (ALiBi); x is (..., H, M, N) */
} samebits_softmax_params;

SAMEBITS_API void samebits_softmax_params_default(samebits_softmax_params *params);

/* out = softmax(scale * x + slope * mask) along the last dimension.
 * Shapes: x (..., N), out as x; dtypes f32, f16, bf16; out x's dtype or f32; any strides >= 0. out may be x.
 *   A mask of -inf hides an entry: it gives 0, and x may be NaN there. A row of hidden or -inf entries gives 0s; a
 *   visible NaN or +inf makes its row NaN.
 * Order: portable-1, spec/ops/softmax.md.
 * Ownership: nothing is kept. params may be NULL (defaults).
 * Errors: NULL, RANK, SHAPE, DTYPE, DEVICE, STRIDE, OVERLAP, OVERFLOW, PARAM (struct_size), MEMORY; out is then
 *   untouched.
 * Threads: any. */
SAMEBITS_API samebits_status samebits_softmax(samebits_context *context, const DLTensor *x,
                                              const samebits_softmax_params *params, DLTensor *out);

/* out = x - max - log(sum(exp(x - max))) along the last dimension. Otherwise as samebits_softmax. */
SAMEBITS_API samebits_status samebits_log_softmax(samebits_context *context, const DLTensor *x, DLTensor *out);

/* out = log(sum(exp(x))) along the last dimension: max + log(sum(exp(x - max))).
 * Shapes: x (..., N) of 1 to 8 dims, out x's shape without the last dim, or with 1 for it; dtypes f32, f16, bf16; out
 *   x's dtype or f32; any strides >= 0. A row of nothing or of -inf gives -inf; of a NaN NaN, else of a +inf +inf.
 * Order, ownership, errors, threads: as samebits_softmax. */
SAMEBITS_API samebits_status samebits_logsumexp(samebits_context *context, const DLTensor *x, DLTensor *out);

/* out = log_softmax(x)[token]: the log-likelihood of one token a row, with the bits of samebits_log_softmax.
 * Shapes: x (..., N), 1 to 8 dims; token int32 and out: x's shape without the last dim, or with 1 for it; dtypes f32,
 *   f16, bf16; out x's dtype or f32; any strides >= 0.
 * Errors: as samebits_softmax, and PARAM for a token that is not 0 to N - 1; out is then untouched.
 * Order, ownership, threads: as samebits_softmax. */
SAMEBITS_API samebits_status samebits_log_likelihood(samebits_context *context, const DLTensor *x,
                                                     const DLTensor *token, DLTensor *out);

/* out = -log_softmax(x)[token]. Otherwise as samebits_log_likelihood. */
SAMEBITS_API samebits_status samebits_cross_entropy(samebits_context *context, const DLTensor *x, const DLTensor *token,
                                                    DLTensor *out);

#ifdef __cplusplus
}
#endif
#endif
