/* Rows of a table as numbers: embedding lookup with dequantisation. */
#ifndef SAMEBITS_EMBEDDING_H
#define SAMEBITS_EMBEDDING_H

#include <dlpack/dlpack.h>

#include <samebits/context.h>
#include <samebits/weights.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out = the rows `id` of a table: the value of each weight (spec/formats.md), rounded to out's dtype.
 * Shapes: table (V, K) of a float dtype, any strides, or uint8 (V, bytes of a row) of a quantised format, the bytes of
 *   a row contiguous; id (...) int32, 0 to 7 dims; out (..., K) f32, f16 or bf16; any strides >= 0.
 * Order: portable-1, spec/ops/embedding.md.
 * Ownership: nothing is kept.
 * Errors: NULL, RANK, SHAPE, DTYPE, DEVICE, STRIDE, OVERLAP, OVERFLOW, FORMAT, MEMORY, and PARAM for an id
 *   that is not 0 to V - 1; out is then untouched.
 * Threads: any. */
SAMEBITS_API samebits_status samebits_embedding(samebits_context *context, const DLTensor *table,
                                                samebits_format format, const DLTensor *id, DLTensor *out);

/* The same from prepared weights of any format, such as those of an output matrix that is the embedding too.
 * Otherwise as samebits_embedding. */
SAMEBITS_API samebits_status samebits_embedding_prepared(samebits_context *context, const samebits_weights *table,
                                                         const DLTensor *id, DLTensor *out);

#ifdef __cplusplus
}
#endif
#endif
