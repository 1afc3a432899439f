/* Kernels of float matrix products.
 *
 * Shapes: acc (rows, 16 * panels) = x (rows, k) @ panels of w; of f64 8 * panels.
 * Order:  portable-1, spec/ops/matmul.md: each acc is sb_dot or sb_dot_f64 over k, before any epilogue.
 * Memory: the caller's; kernels allocate nothing. x tiles and panels are aligned to 64 bytes.
 * Threads: kernels run on the calling thread, in the floating-point environment of the orders. */
#ifndef SB_MATMUL_H
#define SB_MATMUL_H

#include "formats/product.h"

#define SB_MATMUL_ROW(symbol, format, order, cpu, max_tile) sb_matmul_fn symbol;
#include "kernels/matmul/matmul.inc"
#undef SB_MATMUL_ROW

/* All rows, references first; *count gets their number. */
const sb_matmul_row *sb_matmul_rows(int *count);
/* The best row for a format on a CPU with these flags; NULL if the format has none. */
const sb_matmul_row *sb_matmul_select(samebits_format format, unsigned cpu);

#endif
