/* Kernels of matrix products with GGUF's quantised weights.
 *
 * Shapes: see formats/product.h.
 * Order:  portable-1 or int8-1, spec/ops/matmul_quantized.md.
 * Memory, threads: see formats/product.h. */
#ifndef SB_MATMUL_QUANTIZED_H
#define SB_MATMUL_QUANTIZED_H

#include "formats/product.h"

enum { SB_X_DWORDS = 12 }; /* 32-bit words of 32 packed activations of a row, see int8.h */

#define SB_MATMUL_QUANTIZED_ROW(symbol, format, order, cpu, max_tile, pack, pack_bytes, min_rows, whole_tiles)         \
    sb_matmul_fn symbol;
#define SB_MATMUL_QUANTIZED_PACK(symbol) sb_matmul_pack_fn symbol;
#include "kernels/matmul_quantized/matmul_quantized.inc"
#undef SB_MATMUL_QUANTIZED_ROW
#undef SB_MATMUL_QUANTIZED_PACK

/* All rows, references first; *count gets their number. */
const sb_matmul_row *sb_matmul_quantized_rows(int *count);
/* The best row for a format, an order and so many rows of x on a CPU with these flags; NULL if there is none. */
const sb_matmul_row *sb_matmul_quantized_select(samebits_format format, samebits_order order, unsigned cpu,
                                                int64_t rows);

#endif
