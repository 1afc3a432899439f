/* Products in which each row has its own weights: mixtures of experts. */
#ifndef SAMEBITS_GATHER_H
#define SAMEBITS_GATHER_H

#include <samebits/matmul.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Row r of out = epilogue(row r of x @ w^T), w the weights of expert index[r]: the bits of samebits_linear_prepared
 * with that expert.
 * Shapes: x (..., K), 2 to 8 dims; index (...) int32, x's shape without K; out (..., N); any strides >= 0. `count`
 *   experts of one N and K, of any formats. Rows in any sequence; an expert may have none. x f32, f16 or bf16; out f32
 *   or x's dtype.
 * Order: portable-1, int8-1 for quantised formats, or amx-1 for bf16; spec/ops/gather.md.
 * Ownership: nothing is kept; experts stay the caller's. epilogue may be NULL (defaults).
 * Errors: as samebits_linear_prepared, and PARAM for a count below 1 and an index that is not 0 to count - 1; out is
 *   then untouched.
 * Threads: any. */
SAMEBITS_API samebits_status samebits_gather_prepared(samebits_context *context, const DLTensor *x,
                                                      const samebits_weights *const *experts, int64_t count,
                                                      const DLTensor *index, samebits_order order,
                                                      const samebits_epilogue *epilogue, DLTensor *out);

/* The same with weights as they are: w (E, N, K) f32, f16 or bf16, or (E, N, bytes of a row) u8 of a quantised format.
 * Errors: also FORMAT for an affine or MLX format, whose experts are to be prepared one by one.
 * Otherwise as samebits_gather_prepared. */
SAMEBITS_API samebits_status samebits_gather_linear(samebits_context *context, const DLTensor *x, const DLTensor *w,
                                                    samebits_format format, const DLTensor *index, samebits_order order,
                                                    const samebits_epilogue *epilogue, DLTensor *out);

#ifdef __cplusplus
}
#endif
#endif
