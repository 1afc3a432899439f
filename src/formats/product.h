/* What the engine of matrix products (src/ops/product.c) and the tables of its kernels agree on.
 *
 * Shapes: acc (rows, 16 * panels) = x (rows, k) @ panels of w, before any epilogue. Of f64, x and acc hold doubles, and
 *   a panel has 8 columns; a product of complex64 is one of f32 (spec/ops/matmul.md).
 * Memory: the caller's; kernels allocate nothing. x tiles and panels are 64-byte aligned where their sizes allow.
 * Threads: kernels run on the calling thread, in the floating-point environment of the orders. */
#ifndef SB_PRODUCT_KERNEL_H
#define SB_PRODUCT_KERNEL_H

#include "base/cpu.h"
#include "formats/formats.h"

#define SB_MAX_TILE 16 /* no row takes a higher tile */

typedef struct sb_matmul_args {
    int64_t rows; /* rows of x, any number */
    int64_t k;
    int64_t panels;   /* panels of SB_PANEL columns */
    const float *x;   /* tiles of `tile` rows, the last one lower: [tile][k][rows of the tile], or as pack wrote them */
    int64_t tile;     /* rows a tile: sb_matmul_tile */
    const uint8_t *w; /* panels, one after the other */
    sb_group group;   /* of an affine format's scales */
    int64_t panel_size; /* bytes from one panel to the next */
    float *acc;         /* [rows][acc_stride] */
    int64_t acc_stride; /* floats, at least SB_PANEL * panels */
} sb_matmul_args;

typedef void sb_matmul_fn(const sb_matmul_args *args);

/* Packs a tile of rows x[0 .. rows), contiguous, of k elements each: bf16 for order amx-1, else f32. For a table row of
 * whole tiles, max_tile rows are written, those that are missing as zeros. */
typedef void sb_matmul_pack_fn(const void *const *x, int rows, int64_t k, void *out);

/* A row of a table of product kernels. Rows of one order and format give the same bits. */
typedef struct sb_matmul_row {
    const char *name;
    sb_matmul_fn *fn;
    samebits_format format; /* of w */
    samebits_order order;
    unsigned cpu;            /* SB_CPU_* flags it needs */
    int max_tile;            /* the highest tile it takes */
    int min_rows;            /* rows of x from which it pays; it must do with any number */
    int whole_tiles;         /* packed tiles are max_tile rows high, the last one too */
    sb_matmul_pack_fn *pack; /* NULL: f32 tiles, which the engine packs */
    int pack_bytes;          /* bytes that pack writes for 32 elements of a row */
} sb_matmul_row;

/* How `rows` rows are cut into packed tiles: rows a tile, and rows of all tiles. */
SB_INLINE int64_t sb_matmul_tile(const sb_matmul_row *row, int64_t rows)
{
    if (row->whole_tiles) return row->max_tile;
    return SB_MAX(1, sb_ceil_div(rows, SB_MAX(1, sb_ceil_div(rows, row->max_tile))));
}
SB_INLINE int64_t sb_matmul_packed_rows(const sb_matmul_row *row, int64_t rows)
{
    return row->whole_tiles ? sb_round_up(rows, row->max_tile) : rows;
}

/* Bytes of a packed row of x. */
SB_INLINE int64_t sb_matmul_x_bytes(const sb_matmul_row *row, int64_t k)
{
    return row->pack ? sb_ceil_div(k, 32) * row->pack_bytes : k * (row->format == SB_FORMAT_F64 ? 8 : 4);
}

#endif
