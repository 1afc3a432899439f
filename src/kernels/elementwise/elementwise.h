/* Kernels of the ops that work element by element.
 *
 * Shapes: out (n) from x (n) and, where the op has two operands, y (n); a step of 0 takes the first element for all.
 * Order:  portable-1, spec/ops/elementwise.md.
 * Memory: the caller's; kernels allocate nothing. Elements are contiguous; out may be x or y.
 * Threads: kernels run on the calling thread, in the floating-point environment of the orders. */
#ifndef SB_ELEMENTWISE_H
#define SB_ELEMENTWISE_H

#include <samebits/activation.h>
#include <samebits/weights.h>

#include "base/base.h"
#include "base/kernel_table.h"

typedef enum sb_elementwise_op {
    SB_ELEMENTWISE_ACTIVATE, /* activation(x) */
    SB_ELEMENTWISE_GATED,    /* activation(x) * y */
    SB_ELEMENTWISE_ADD,
    SB_ELEMENTWISE_SUB,
    SB_ELEMENTWISE_MUL,
    SB_ELEMENTWISE_DIV,
    SB_ELEMENTWISE_SCALE, /* fma(x, scale, bias) */
    SB_ELEMENTWISE_COUNT
} sb_elementwise_op;

typedef struct sb_elementwise_args {
    int64_t n;
    sb_elementwise_op op;
    samebits_activation activation;
    float scale, bias;
    const void *x, *y; /* y NULL: the op has one operand */
    void *out;
    samebits_format x_format, y_format, out_format; /* F32, F16 or BF16 */
    int x_step, y_step;                             /* 0 or 1 */
} sb_elementwise_args;

typedef void sb_elementwise_fn(const sb_elementwise_args *args);

SB_KERNEL_ROW(elementwise);

#define SB_ELEMENTWISE_ROW(symbol, order, cpu) sb_elementwise_fn symbol;
#include "kernels/elementwise/elementwise.inc"
#undef SB_ELEMENTWISE_ROW

SB_KERNEL_TABLE(elementwise);

/* n elements in another format. */
SB_INLINE void sb_elementwise_convert(const sb_elementwise_row *row, int64_t n, samebits_format x_format, const void *x,
                                      samebits_format out_format, void *out)
{
    const sb_elementwise_args a = {.n = n,
                                   .op = SB_ELEMENTWISE_ACTIVATE,
                                   .activation = SAMEBITS_ACTIVATION_NONE,
                                   .x = x,
                                   .x_format = x_format,
                                   .x_step = 1,
                                   .out = out,
                                   .out_format = out_format};
    row->fn(&a);
}

#endif
