/* Weight formats: sizes, and packing rows into panels (spec/formats.md).
 *
 * Every kernel reads weights as panels of SB_PANEL output columns: for each step in k (of bf16, each two), the values
 * of the 16 columns lie side by side, so that a vector lane is a column. Columns past N are zero. */
#ifndef SB_FORMATS_H
#define SB_FORMATS_H

#include <samebits/weights.h>

#include "formats/elements.h"

#define SB_PANEL 16

/* Of products with weights as they lie alone, so no public format: there are no prepared ones. Their panels have
 * SB_WIDE_PANEL columns, in as many bytes a step as 16 columns of f32. */
#define SB_FORMAT_F64 ((samebits_format)SAMEBITS_FORMAT_COUNT)
#define SB_FORMAT_C64 ((samebits_format)(SAMEBITS_FORMAT_COUNT + 1))
#define SB_WIDE_PANEL 8

typedef struct sb_format {
    const char *name;
    int block;       /* weights a block */
    int block_bytes; /* bytes a block, as its owner stores it */
    int panel_bytes; /* bytes that a block of SB_PANEL columns takes in a panel */
} sb_format;

/* The groups of an affine format, whose scales' dtype and number are not the format's. */
typedef struct sb_group {
    int steps;              /* of 32 weights that share a scale; 0: a format without groups */
    samebits_format scales; /* their dtype, and that of the biases */
} sb_group;

/* Where rows of weights lie. Strides are in elements for a float format; for a quantised one row_stride is
 * in bytes and the bytes of a row are contiguous. */
typedef struct sb_rows {
    samebits_format format;
    const void *data;
    int64_t n, k;
    int64_t row_stride, col_stride;
    /* What lies beside MLX's rows: (N, K / group), strides in elements. */
    sb_group group;
    const void *scales, *biases; /* biases: affine formats */
    int64_t scale_stride[2], bias_stride[2];
    /* If across is one of MLX's, format is F32 and data has k rows of n weights of that one: packing gives their
     * values. row_stride, scales and biases are those of such a row. */
    samebits_format across;
    sb_group across_group;
} sb_rows;

/* Prepared weights. */
struct samebits_weights {
    samebits_format format;
    sb_group group;
    int64_t n, k;
    const uint8_t *panels;
    void *owned; /* storage to free, or NULL when it is the caller's */
    size_t owned_size;
    samebits_allocator allocator;
};

/* NULL for an unknown format. */
const sb_format *sb_format_info(samebits_format format);
SB_INLINE int sb_format_is_float(samebits_format format) { return format <= SAMEBITS_FORMAT_BF16; }

SB_INLINE int sb_format_is_wide(samebits_format format) { return format >= SB_FORMAT_F64; }

SB_INLINE int sb_format_is_affine(samebits_format format)
{
    return format >= SAMEBITS_FORMAT_AFFINE_2 && format <= SAMEBITS_FORMAT_AFFINE_8;
}

/* MLX's rows of floats with a scale of a byte a group. */
SB_INLINE int sb_format_is_scaled(samebits_format format)
{
    return format >= SAMEBITS_FORMAT_MLX_MXFP4 && format <= SAMEBITS_FORMAT_MLX_NVFP4;
}

/* Rows whose scales are tensors of their own. */
SB_INLINE int sb_format_is_mlx(samebits_format format)
{
    return sb_format_is_affine(format) || sb_format_is_scaled(format);
}

SB_INLINE int64_t sb_panels(int64_t n) { return sb_ceil_div(n, SB_PANEL); }
SB_INLINE int sb_panel_columns(samebits_format format) { return sb_format_is_wide(format) ? SB_WIDE_PANEL : SB_PANEL; }

/* Steps of a product's chain: two for each k of complex numbers (spec/ops/matmul.md, section complex64). */
SB_INLINE int64_t sb_steps(samebits_format format, int64_t k) { return format == SB_FORMAT_C64 ? 2 * k : k; }

/* In panels of bf16 two steps of a column lie side by side, as units that multiply pairs want them. */
SB_INLINE int sb_format_is_paired(samebits_format format) { return format == SAMEBITS_FORMAT_BF16; }

/* Steps of zeros at the end of a panel. */
SB_INLINE int64_t sb_panel_pad(samebits_format format, int64_t k) { return sb_format_is_paired(format) ? k % 2 : 0; }

/* Where the weight of a float format at step i of a column is, in elements from the panel's beginning. */
SB_INLINE int64_t sb_panel_index(samebits_format format, int64_t i, int64_t column)
{
    return sb_format_is_paired(format) ? i / 2 * 2 * SB_PANEL + 2 * column + i % 2 : i * SB_PANEL + column;
}

/* Bytes of one panel of k weights a column. */
SB_INLINE int64_t sb_panel_size(samebits_format format, sb_group group, int64_t k)
{
    if (sb_format_is_wide(format)) return sb_steps(format, k) * SB_WIDE_PANEL * (int64_t)sizeof(double);
    k += sb_panel_pad(format, k);
    const sb_format *f = sb_format_info(format);
    const int64_t pair = 2 * sb_element_size(group.scales) * SB_PANEL;
    return k / f->block * f->panel_bytes + (group.steps ? k / f->block / group.steps * pair : 0);
}

/* Packs columns [16 * panel, 16 * panel + 16) of the rows; 8 of a wide format. */
void sb_pack_panel(const sb_rows *rows, int64_t panel, void *out);
/* The reverse, for `count` columns of a panel from `column`: byte for byte what was packed. */
void sb_unpack_panel(samebits_format format, int64_t k, const void *in, int column, int count, void *rows,
                     int64_t row_stride_bytes);

/* The values of a row: of the weights as they lie, and of one column of a panel. */
void sb_row_values(const sb_rows *rows, int64_t row, float *out);
void sb_panel_values(samebits_format format, sb_group group, const void *panel, int64_t k, int column, float *out);

/* One file a family of formats; called by the two functions above. */
void sb_pack_panel_float(const sb_rows *rows, int64_t panel, void *out);
void sb_unpack_panel_float(samebits_format format, int64_t k, const void *in, int column, int count, void *rows,
                           int64_t row_stride_bytes);
void sb_pack_panel_wide(const sb_rows *rows, int64_t panel, void *out);
void sb_pack_panel_gguf(const sb_rows *rows, int64_t panel, void *out);
void sb_unpack_panel_gguf(samebits_format format, int64_t k, const void *in, int column, int count, void *rows,
                          int64_t row_stride_bytes);
void sb_pack_panel_mlx(const sb_rows *rows, int64_t panel, void *out);
void sb_pack_panel_across(const sb_rows *rows, int64_t panel, void *out);
/* The tensors, at the first row that is wanted, their rows without gaps; biases of an affine format alone. */
void sb_unpack_panel_mlx(samebits_format format, sb_group group, int64_t k, const void *in, int column, int count,
                         void *w, void *scales, void *biases);

#endif
