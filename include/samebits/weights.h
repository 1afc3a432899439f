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

/* How a row of weights is stored (spec/formats.md). Q4_0 to Q6_K and NVFP4 are GGUF's blocks, read bit for bit.
 * AFFINE_b is MLX's rows of b-bit integers, whose scales and biases are tensors of their own:
 * samebits_weights_prepare_affine. MLX_* are MLX's rows of small floats, whose scales are a tensor of their own:
 * samebits_weights_prepare_scaled. */
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
    SAMEBITS_FORMAT_AFFINE_2,
    SAMEBITS_FORMAT_AFFINE_3,
    SAMEBITS_FORMAT_AFFINE_4,
    SAMEBITS_FORMAT_AFFINE_5,
    SAMEBITS_FORMAT_AFFINE_6,
    SAMEBITS_FORMAT_AFFINE_8,
    SAMEBITS_FORMAT_MLX_MXFP4,
    SAMEBITS_FORMAT_MLX_MXFP8,
    SAMEBITS_FORMAT_MLX_NVFP4,
    SAMEBITS_FORMAT_NVFP4,
    SAMEBITS_FORMAT_COUNT
} samebits_format;

/* "f32", "q4_k", ...; "unknown" otherwise. */
SAMEBITS_API const char *samebits_format_name(samebits_format format);
/* Weights per block (1 for the floats), 0 for an unknown format. */
SAMEBITS_API int64_t samebits_format_block(samebits_format format);
/* Bytes of a row of k weights; of an affine or MLX format, without its scales.
 * Errors: NULL, FORMAT (unknown, or k is no multiple of the block), PARAM (k < 0), OVERFLOW. */
SAMEBITS_API samebits_status samebits_format_row_size(samebits_format format, int64_t k, size_t *bytes);

/* Weights in the layout the kernels like best. Packing never changes a bit of a result. */
typedef struct samebits_weights samebits_weights;

/* Bytes of storage that samebits_weights_prepare needs for n rows of k weights.
 * Errors: NULL, FORMAT (also an affine or MLX one), PARAM (n or k < 0), OVERFLOW. */
SAMEBITS_API samebits_status samebits_weights_size(samebits_format format, int64_t n, int64_t k, size_t *bytes);

/* Packs weights. f64 and complex64 have no prepared form: samebits_linear takes them as they lie.
 * Shapes: a float format takes w (N, K) of that dtype, any strides; a quantised one takes uint8
 *   w (N, row size), rows at any stride, bytes of a row contiguous.
 * Ownership: *weights is the caller's, until samebits_weights_destroy; w is not needed afterwards.
 *   storage: NULL (the context's allocator is used), or memory of samebits_weights_size bytes aligned to
 *   64, which the caller keeps alive for as long as the weights and frees itself.
 * Errors: NULL, RANK, SHAPE, DTYPE, DEVICE, STRIDE, FORMAT, OVERFLOW, PARAM (storage not aligned), MEMORY; *weights is
 *   then NULL.
 * Threads: any; prepared weights are read-only and may be shared between contexts. */
SAMEBITS_API samebits_status samebits_weights_prepare(samebits_context *context, const DLTensor *w,
                                                      samebits_format format, void *storage,
                                                      samebits_weights **weights);

/* The parameters of affine weights: weight = scale * q + bias, a scale and a bias for each `group` weights of a row. */
typedef struct samebits_affine {
    int bits;               /* of q: 2, 3, 4, 5, 6 or 8 */
    int group;              /* 32, 64 or 128 */
    samebits_format scales; /* dtype of scales and biases: F32, F16 or BF16 */
} samebits_affine;

/* Bytes of storage that samebits_weights_prepare_affine needs for n rows of k weights.
 * Errors: NULL, PARAM (bits, group, scales; n or k < 0), FORMAT (k is no multiple of the group), OVERFLOW. */
SAMEBITS_API samebits_status samebits_weights_size_affine(const samebits_affine *affine, int64_t n, int64_t k,
                                                          size_t *bytes);

/* Packs affine weights, as MLX has them (spec/formats.md, section affine).
 * Shapes: w uint32 (N, K * bits / 32), the 32-bit words of a row contiguous; scales and biases (N, K / group) of one
 *   float dtype, any strides. The format is that of bits, and the dtype of the scales theirs.
 * Ownership, errors, threads: as samebits_weights_prepare; PARAM also for bits and group. */
SAMEBITS_API samebits_status samebits_weights_prepare_affine(samebits_context *context, const DLTensor *w,
                                                             const DLTensor *scales, const DLTensor *biases, int bits,
                                                             int group, void *storage, samebits_weights **weights);

/* What affine weights were prepared with. Errors: NULL, FORMAT (they are of another format). */
SAMEBITS_API samebits_status samebits_weights_affine(const samebits_weights *weights, samebits_affine *affine);

/* Writes affine weights back as they were given, rows without gaps: (N, K * bits / 32) words, and (N, K / group) scales
 * and biases. Errors: NULL, FORMAT (weights of another format). */
SAMEBITS_API samebits_status samebits_weights_restore_affine(const samebits_weights *weights, void *w, void *scales,
                                                             void *biases);

/* Bytes of storage that samebits_weights_prepare_scaled needs for n rows of k weights.
 * Errors: NULL, FORMAT (not an MLX format; k is no multiple of 32), PARAM (n or k < 0), OVERFLOW. */
SAMEBITS_API samebits_status samebits_weights_size_scaled(samebits_format format, int64_t n, int64_t k, size_t *bytes);

/* Packs weights of an MLX format: rows of small floats, and a scale of a byte for each group of them. MLX_MXFP8 has
 * portable-1 alone: its elements are no int8.
 * Shapes: w uint32 (N, K * bits / 32) or uint8 (N, K * bits / 8), a row contiguous; scales uint8 (N, K / group), any
 *   strides; groups of 32, MLX_NVFP4 of 16; K a multiple of 32.
 * Ownership, errors, threads: as samebits_weights_prepare. */
SAMEBITS_API samebits_status samebits_weights_prepare_scaled(samebits_context *context, const DLTensor *w,
                                                             const DLTensor *scales, samebits_format format,
                                                             void *storage, samebits_weights **weights);

/* Writes them back as they were given, rows without gaps. Errors: NULL, FORMAT (weights of another format). */
SAMEBITS_API samebits_status samebits_weights_restore_scaled(const samebits_weights *weights, void *w, void *scales);

/* Destroys *weights (NULL is allowed) and sets it to NULL. */
SAMEBITS_API void samebits_weights_destroy(samebits_weights **weights);

/* Writes the rows back as they were given, byte for byte, at a distance of row_stride bytes.
 * Errors: NULL, PARAM (row_stride below the row size), FORMAT (affine or MLX weights). */
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
