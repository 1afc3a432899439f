/* Kernels of float matrix products.
 *
 * Shapes: acc (rows, 16 * panels) = x (rows, k) @ panels of w.
 * Order:  portable-1, spec/ops/matmul.md: each acc is sb_dot over k, before any epilogue.
 * Memory: the caller's; kernels allocate nothing. x tiles and panels are aligned to 64 bytes.
 * Threads: kernels run on the calling thread, in the floating-point environment of the orders. */
#ifndef SB_MATMUL_H
#define SB_MATMUL_H

#include "base/cpu.h"
#include "formats/formats.h"

#define SB_MAX_TILE 16 /* no row takes a higher tile */

typedef struct sb_matmul_args {
    int64_t rows;          /* rows of x, any number */
    int64_t k;
    int64_t panels;        /* panels of SB_PANEL columns */
    const float *x;        /* tiles of `tile` rows, the last one lower: [tile][k][rows of the tile] */
    int64_t tile;          /* rows a tile, at most the row's max_tile */
    const uint8_t *w;      /* panels, one after the other */
    int64_t panel_size;    /* bytes from one panel to the next */
    float *acc;            /* [rows][acc_stride] */
    int64_t acc_stride;    /* elements, at least SB_PANEL * panels */
} sb_matmul_args;

typedef void sb_matmul_fn(const sb_matmul_args *args);

/* A row of the table matmul.inc. Rows of one order and format give the same bits. */
typedef struct sb_matmul_row {
    const char *name;
    sb_matmul_fn *fn;
    samebits_format format; /* of w */
    samebits_order order;
    unsigned cpu;           /* SB_CPU_* flags it needs */
    int max_tile;           /* the highest tile it takes */
} sb_matmul_row;

#define SB_MATMUL_ROW(symbol, format, order, cpu, max_tile) sb_matmul_fn symbol;
#include "kernels/matmul/matmul.inc"
#undef SB_MATMUL_ROW

/* All rows, references first; *count gets their number. */
const sb_matmul_row *sb_matmul_rows(int *count);
/* The best row for a format on a CPU with these flags; NULL if the format has none. */
const sb_matmul_row *sb_matmul_select(samebits_format format, unsigned cpu);

#endif
