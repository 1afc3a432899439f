/* Kernels of rms_norm, layer_norm, group_norm and l2_norm.
 *
 * Shapes: out (rows, n) from x (rows, n); weight and bias NULL or (n).
 * Order:  portable-1, spec/ops/norm.md: sums as in order/sum.h, a row at a time.
 * Memory: the caller's; kernels allocate nothing. The elements of a row are contiguous; out may be x.
 * Threads: kernels run on the calling thread, in the floating-point environment of the orders. */
#ifndef SB_NORM_H
#define SB_NORM_H

#include <math.h>

#include <samebits/weights.h>

#include "base/base.h"
#include "base/kernel_table.h"

typedef enum sb_norm_kind {
    SB_NORM_RMS,
    SB_NORM_LAYER, /* subtracts the mean */
    SB_NORM_L2     /* divides by the length, which is at least eps */
} sb_norm_kind;

typedef struct sb_norm_args {
    int64_t rows, n; /* n > 0 */
    const void *x;
    void *out;
    samebits_format x_format, out_format; /* F32, F16 or BF16; out F32 or as x */
    int64_t x_stride, out_stride;         /* from row to row, elements */
    const float *weight, *bias;
    float eps;
    sb_norm_kind kind;
} sb_norm_args;

/* What a row is multiplied with, from its sum of squares. */
SB_INLINE float sb_norm_scale(const sb_norm_args *a, float squares)
{
    if (a->kind != SB_NORM_L2) return 1.0f / sqrtf(squares / (float)a->n + a->eps);
    const float length = sqrtf(squares);
    return 1.0f / (a->eps > length ? a->eps : length);
}

typedef void sb_norm_fn(const sb_norm_args *args);

SB_KERNEL_ROW(norm);

#define SB_NORM_ROW(symbol, order, cpu) sb_norm_fn symbol;
#include "kernels/norm/norm.inc"
#undef SB_NORM_ROW

SB_KERNEL_TABLE(norm);

#endif
