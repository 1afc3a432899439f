/* Kernels of rope.
 *
 * Shapes: rows of n elements, of which 2 * pairs from `first` on are turned; cos and sin of a position hold up to
 *         2 * pairs numbers each.
 * Order:  portable-1, spec/ops/rope.md.
 * Memory: the caller's; kernels allocate nothing. The elements of a row are contiguous; out may be x.
 * Threads: kernels run on the calling thread, in the floating-point environment of the orders. */
#ifndef SB_ROPE_H
#define SB_ROPE_H

#include <samebits/rope.h>
#include <samebits/weights.h>

#include "base/kernel_table.h"

/* The cos and sin of one position. */
typedef struct sb_rope_angles {
    int64_t pairs;
    const double *frequency; /* of each pair */
    double magnitude;
    const uint8_t *section; /* which position a pair follows; NULL: the first */
    int32_t position[4];
    samebits_rope_layout layout;
    int inverse;
    /* HALVES: c and s of each pair. INTERLEAVED: c, c and -s, s. */
    float *cos, *sin;
} sb_rope_angles;

typedef struct sb_rope_args {
    int64_t rows, n, first, pairs; /* n elements a row, the first turned one */
    samebits_rope_layout layout;
    const float *cos, *sin;
    int64_t angle_stride;         /* from row to row in cos and sin; 0: the rows have one position */
    int64_t x_stride, out_stride; /* from row to row, elements */
    const void *x;
    void *out;
    samebits_format x_format, out_format; /* F32, F16 or BF16 */
} sb_rope_args;

typedef void sb_rope_angles_fn(const sb_rope_angles *angles);
typedef void sb_rope_fn(const sb_rope_args *args);

/* A row of the table rope.inc. Rows of one order give the same bits. */
typedef struct sb_rope_row {
    const char *name;
    sb_rope_angles_fn *angles;
    sb_rope_fn *turn;
    samebits_order order;
    unsigned cpu; /* SB_CPU_* flags it needs */
} sb_rope_row;

#define SB_ROPE_ROW(suffix, order, cpu)                                                                                \
    sb_rope_angles_fn sb_rope_angles_##suffix;                                                                         \
    sb_rope_fn sb_rope_##suffix;
#include "kernels/rope/rope.inc"
#undef SB_ROPE_ROW

SB_KERNEL_TABLE(rope);

#endif
