/* Weight formats, and weights packed once for many calls. */
#ifndef SAMEBITS_WEIGHTS_H
#define SAMEBITS_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

#include <dlpack/dlpack.h>

#include <samebits/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a row of weights is stored (spec/formats.md). The quantised ones are GGUF's blocks, read bit for bit. */
typedef enum samebits_format {
    SAMEBITS_FORMAT_F32 = 0,
    SAMEBITS_FORMAT_F16,
    SAMEBITS_FORMAT_BF16,
    SAMEBITS_FORMAT_Q4_0,
    SAMEBITS_FORMAT_Q4_1,
    SAMEBITS_FORMAT_Q5_0,
    SAMEBITS_FORMAT_Q5_1,
    SAMEBITS_FORMAT_Q8_0,
    SAMEBITS_FORMAT_IQ4_NL,
    SAMEBITS_FORMAT_MXFP4,
    SAMEBITS_FORMAT_Q2_K,
    SAMEBITS_FORMAT_Q3_K,
    SAMEBITS_FORMAT_Q4_K,
    SAMEBITS_FORMAT_Q5_K,
    SAMEBITS_FORMAT_Q6_K,
    SAMEBITS_FORMAT_COUNT
} samebits_format;

/* "f32", "q4_k", ...; "unknown" otherwise. */
SAMEBITS_API const char *samebits_format_name(samebits_format format);
/* Weights per block (1 for the floats), 0 for an unknown format. */
SAMEBITS_API int64_t samebits_format_block(samebits_format format);
/* Bytes of a row of k weights. Errors: FORMAT (unknown, or k is no multiple of the block), PARAM, OVERFLOW. */
SAMEBITS_API samebits_status samebits_format_row_size(samebits_format format, int64_t k, size_t *bytes);

/* Weights in the layout the kernels like best. Packing never changes a bit of a result. */
typedef struct samebits_weights samebits_weights;

/* Bytes of storage that samebits_weights_prepare needs for n rows of k weights.
 * Errors: NULL, FORMAT, PARAM (n or k < 0), OVERFLOW. */
SAMEBITS_API samebits_status samebits_weights_size(samebits_format format, int64_t n, int64_t k, size_t *bytes);

/* Packs weights.
 * Shapes: a float format takes w (N, K) of that dtype, any strides; a quantised one takes uint8
 *   w (N, row size), rows at any stride, bytes of a row contiguous.
 * Ownership: *weights is the caller's, until samebits_weights_destroy; w is not needed afterwards.
 *   storage: NULL (the context's allocator is used), or memory of samebits_weights_size bytes aligned to
 *   64, which the caller keeps alive for as long as the weights and frees itself.
 * Errors: NULL, RANK, SHAPE, DTYPE, DEVICE, STRIDE, FORMAT, OVERFLOW, MEMORY; *weights is then NULL.
 * Threads: any; prepared weights are read-only and may be shared between contexts. */
SAMEBITS_API samebits_status samebits_weights_prepare(samebits_context *context, const DLTensor *w,
                                                      samebits_format format, void *storage,
                                                      samebits_weights **weights);

/* Destroys *weights (NULL is allowed) and sets it to NULL. */
SAMEBITS_API void samebits_weights_destroy(samebits_weights **weights);

/* Writes the rows back as they were given, byte for byte, at a distance of row_stride bytes.
 * Errors: NULL, PARAM (row_stride below the row size). */
SAMEBITS_API samebits_status samebits_weights_restore(const samebits_weights *weights, void *rows, size_t row_stride);

/* The same for rows [first, first + count). Errors: also PARAM (rows that do not exist). */
SAMEBITS_API samebits_status samebits_weights_restore_rows(const samebits_weights *weights, int64_t first,
                                                           int64_t count, void *rows, size_t row_stride);

SAMEBITS_API int64_t samebits_weights_rows(const samebits_weights *weights);  /* N */
SAMEBITS_API int64_t samebits_weights_depth(const samebits_weights *weights); /* K */
SAMEBITS_API samebits_format samebits_weights_format(const samebits_weights *weights);

#ifdef __cplusplus
}
#endif
#endif
