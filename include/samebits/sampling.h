/* The largest of a row, and tokens drawn from logits. */
#ifndef SAMEBITS_SAMPLING_H
#define SAMEBITS_SAMPLING_H

#include <stdint.h>

#include <dlpack/dlpack.h>

#include <samebits/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The k largest of each row, largest first; of equal ones (+0 and -0 are equal) the lower index first; NaN before all.
 * Shapes: x (..., N) of 1 to 8 dims, N below 2^31; value and index (..., k), 1 <= k <= N; dtypes f32, f16, bf16; value
 *   x's dtype or f32, or NULL; index int32, or NULL; any strides >= 0.
 * Order: portable-1, spec/ops/sampling.md.
 * Ownership: nothing is kept.
 * Errors: NULL, RANK, SHAPE (k above N), DTYPE, DEVICE, STRIDE, OVERLAP, OVERFLOW, MEMORY; outputs are then untouched.
 * Threads: any. */
SAMEBITS_API samebits_status samebits_top_k(samebits_context *context, const DLTensor *x, DLTensor *value,
                                            DLTensor *index);

/* Which tokens may be drawn; the filters apply in this sequence. */
typedef struct samebits_sampling_params {
    size_t struct_size; /* set by samebits_sampling_params_default */
    float temperature;  /* logits are divided by it; 0: the largest logit is the token */
    int64_t top_k;      /* only the k largest; 0: all */
    float top_p;        /* of these, the fewest whose probabilities reach p of theirs all; 1: all */
    float min_p;        /* of these, those at least this much of the most probable token; 0: all */
} samebits_sampling_params;

/* Temperature 1, no filters. */
SAMEBITS_API void samebits_sampling_params_default(samebits_sampling_params *params);

/* token = one index of each row, drawn with the probabilities of its softmax.
 * Shapes: x (..., N) of 1 to 8 dims, 1 <= N < 2^31, f32, f16 or bf16; noise uint32 (..., 4): a row's key (two words)
 *   and counter (two words) for Philox4x32-10; token int32, x's shape without the last dim, or with 1 for it. Take
 *   another counter for each token of a sequence. A row with a NaN, a +inf (but at temperature 0), or nothing but -inf
 *   gives -1.
 * Order: portable-1, spec/ops/sampling.md. A row's token follows from its logits and its noise alone.
 * Ownership: nothing is kept. params may be NULL (defaults).
 * Errors: NULL, RANK, SHAPE, DTYPE, DEVICE, STRIDE, OVERLAP, OVERFLOW, MEMORY, PARAM (struct_size; temperature below 0,
 *   subnormal or not finite; top_k below 0 or above N; top_p or min_p outside 0 to 1); token is then untouched.
 * Threads: any. */
SAMEBITS_API samebits_status samebits_sample(samebits_context *context, const DLTensor *x,
                                             const samebits_sampling_params *params, const DLTensor *noise,
                                             DLTensor *token);

#ifdef __cplusplus
}
#endif
#endif
