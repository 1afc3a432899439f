/* Kernels of softmax and log_softmax.
 *
 * Shapes: out (n) from x (n), one row; mask NULL or (n).
 * Order:  portable-1, spec/ops/softmax.md: the denominator is exact.
 * Memory: the caller's; kernels allocate nothing. Elements are contiguous; out may be x.
 * Threads: kernels run on the calling thread, in the floating-point environment of the orders. */
#ifndef SB_SOFTMAX_H
#define SB_SOFTMAX_H

#include <math.h>

#include <samebits/weights.h>

#include "base/base.h"
#include "base/kernel_table.h"
#include "formats/elements.h"
#include "order/softmax.h"

typedef struct sb_softmax_args {
    int64_t n; /* > 0 */
    const void *x;
    const void *mask; /* or NULL */
    void *out;
    samebits_format x_format, mask_format, out_format; /* F32, F16 or BF16; out F32 or as x */
    float scale, slope;
    int has_sink;
    float sink;
    int log;        /* log_softmax: scale 1, no mask, no sink */
    float *scratch; /* n elements, rounded up to 16 */
    /* NULL; or, in place of out: the maximum and the logarithm of the denominator. Without log scratch then holds the
     * exponentials. */
    float *parts;
    const void *next; /* the row after this one, to be fetched; or NULL */
} sb_softmax_args;

/* The score of entry i. */
SB_INLINE float sb_softmax_score_of(const sb_softmax_args *a, int64_t i)
{
    const float x = sb_element(a->x_format, a->x, i);
    return a->mask ? sb_softmax_score(x, a->scale, a->slope, sb_element(a->mask_format, a->mask, i)) : x * a->scale;
}

/* The parts of a row without a denominator: its maximum, NaN and Inf included, and 0. */
SB_INLINE void sb_softmax_put_special(const sb_softmax_args *a, float max)
{
    a->parts[0] = max == -INFINITY ? max : INFINITY;
    for (int64_t i = 0; i < a->n; i++)
        if (sb_is_nan(sb_softmax_score_of(a, i))) a->parts[0] = sb_float(SB_NAN_F32);
    a->parts[1] = 0.0f;
}

typedef void sb_softmax_fn(const sb_softmax_args *args);

SB_KERNEL_ROW(softmax);

#define SB_SOFTMAX_ROW(symbol, order, cpu) sb_softmax_fn symbol;
#include "kernels/softmax/softmax.inc"
#undef SB_SOFTMAX_ROW

SB_KERNEL_TABLE(softmax);

#endif
