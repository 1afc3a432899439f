/* Kernels of the epilogue of matrix products.
 *
 * Shapes: out (n) from acc (n): a run of columns of one row.
 * Order:  portable-1, spec/ops/matmul.md, section epilogue.
 * Memory: the caller's; kernels allocate nothing. Elements are contiguous; out may be c.
 * Threads: kernels run on the calling thread, in the floating-point environment of the orders. */
#ifndef SB_EPILOGUE_KERNEL_H
#define SB_EPILOGUE_KERNEL_H

#include <samebits/matmul.h>

#include "base/kernel_table.h"
#include "formats/formats.h"

typedef struct sb_epilogue_args {
    int64_t n;
    const void *acc;      /* f32; f64 if out is */
    double alpha, beta;   /* rounded to f32 unless out is f64 */
    const void *c, *bias; /* NULL: absent */
    void *out;
    samebits_format c_format, bias_format, out_format; /* F32, F16 or BF16; or all of them SB_FORMAT_F64 */
    samebits_activation activation;
} sb_epilogue_args;

typedef void sb_epilogue_fn(const sb_epilogue_args *args);

SB_KERNEL_ROW(epilogue);

#define SB_EPILOGUE_ROW(symbol, order, cpu) sb_epilogue_fn symbol;
#include "kernels/epilogue/epilogue.inc"
#undef SB_EPILOGUE_ROW

SB_KERNEL_TABLE(epilogue);

#endif
