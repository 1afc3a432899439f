/* sum, mean, max and argmax over the last dimension. */
#ifndef SAMEBITS_REDUCE_H
#define SAMEBITS_REDUCE_H

#include <dlpack/dlpack.h>

#include <samebits/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out = the sum of each row. A row of nothing gives 0.
 * Shapes: x (..., N) of 1 to 8 dims, out x's shape without the last dim, or with 1 for it; dtypes f32, f16, bf16; out
 *   x's dtype or f32; any strides >= 0.
 * Order: portable-1, spec/ops/reduce.md.
 * Ownership: nothing is kept.
 * Errors: NULL, RANK, SHAPE, DTYPE, DEVICE, STRIDE, OVERLAP, OVERFLOW, MEMORY; out is then untouched.
 * Threads: any. */
SAMEBITS_API samebits_status samebits_sum(samebits_context *context, const DLTensor *x, DLTensor *out);

/* out = the sum of each row, divided by N: NaN for N = 0. Otherwise as samebits_sum. */
SAMEBITS_API samebits_status samebits_mean(samebits_context *context, const DLTensor *x, DLTensor *out);

/* out = the largest of each row: NaN if one is NaN, +0 before -0, -inf for N = 0. Otherwise as samebits_sum. */
SAMEBITS_API samebits_status samebits_max(samebits_context *context, const DLTensor *x, DLTensor *out);

/* out = the index of the largest of each row, the first of several (+0 and -0 are equal); that of the first NaN if
 * there is one.
 * Shapes: out int32; N at least 1, below 2^31 (else SHAPE).
 * Otherwise as samebits_sum. */
SAMEBITS_API samebits_status samebits_argmax(samebits_context *context, const DLTensor *x, DLTensor *out);

#ifdef __cplusplus
}
#endif
#endif
