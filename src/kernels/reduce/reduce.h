/* Kernels of sum, mean, max and argmax along a row.
 *
 * Shapes: one number from x (n).
 * Order:  portable-1, spec/ops/reduce.md.
 * Memory: the caller's; kernels allocate nothing. The elements of a row are contiguous.
 * Threads: kernels run on the calling thread, in the floating-point environment of the orders. */
#ifndef SB_REDUCE_H
#define SB_REDUCE_H

#include <samebits/weights.h>

#include "base/base.h"
#include "base/kernel_table.h"

typedef enum sb_reduce_op {
    SB_REDUCE_SUM,
    SB_REDUCE_MEAN,
    SB_REDUCE_MAX,
    SB_REDUCE_ARGMAX, /* n > 0 */
    SB_REDUCE_COUNT
} sb_reduce_op;

typedef struct sb_reduce_args {
    sb_reduce_op op;
    int64_t n;
    const void *x;
    samebits_format x_format; /* F32, F16 or BF16 */
    float value;              /* the result, any NaN for NaN */
    int64_t index;            /* that of argmax */
} sb_reduce_args;

typedef void sb_reduce_fn(sb_reduce_args *args);

/* Numbers as integers of the same order; -0 is below +0. */
SB_INLINE int32_t sb_reduce_key(float x)
{
    const int32_t bits = (int32_t)sb_bits(x);
    return bits ^ ((bits >> 31) & 0x7FFFFFFF);
}
SB_INLINE float sb_reduce_unkey(int32_t key) { return sb_float((uint32_t)(key ^ ((key >> 31) & 0x7FFFFFFF))); }

SB_KERNEL_ROW(reduce);

#define SB_REDUCE_ROW(symbol, order, cpu) sb_reduce_fn symbol;
#include "kernels/reduce/reduce.inc"
#undef SB_REDUCE_ROW

SB_KERNEL_TABLE(reduce);

#endif
