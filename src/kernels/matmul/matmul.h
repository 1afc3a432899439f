/* Kernels of float matrix products.
 *
 * Shapes: acc (rows, 16 * panels) = x (rows, k) @ panels of w; of f64 8 * panels.
 * Order:  portable-1, spec/ops/matmul.md: each acc is sb_dot or sb_dot_f64 over k, before any epilogue. amx-1, the
 *   section of that name: x holds bf16 values.
 * Memory: the caller's; kernels allocate nothing. x tiles and panels are aligned to 64 bytes.
 * Threads: kernels run on the calling thread, in the floating-point environment of the orders. */
#ifndef SB_MATMUL_H
#define SB_MATMUL_H

#include "formats/product.h"

enum { SB_AMX1_BLOCK = 32 }; /* of k, spec/ops/matmul.md, section amx-1 */

/* For the rows of AMX: tiles of bf16, [block of k][16 rows][32], filled up with zeros. */
sb_matmul_pack_fn sb_pack_amx1;

#define SB_MATMUL_ROW(symbol, format, order, cpu, max_tile, pack, pack_bytes) sb_matmul_fn symbol;
#include "kernels/matmul/matmul.inc"
#undef SB_MATMUL_ROW

/* All rows, references first; *count gets their number. */
const sb_matmul_row *sb_matmul_rows(int *count);
/* The best row for a format and an order on a CPU with these flags; NULL if there is none. */
const sb_matmul_row *sb_matmul_select(samebits_format format, samebits_order order, unsigned cpu);

#endif
