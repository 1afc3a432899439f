/* Ops that make each row of their output from one row of x: every way to call them must give a row the same bits.
 *
 * Each check runs an op in one of those ways and returns how many rows differ from the row computed alone
 * (one row, one thread, packed memory). A test wants 0 from the op and more than 0 from the control, an op
 * that is wrong in every way that a check looks for. */
#ifndef ROWS_H
#define ROWS_H

#include <samebits/samebits.h>

#include "support/tensor.h"

typedef struct row_op {
    char name[64];
    test_dtype in, out;
    int64_t width_in, width_out;
    int64_t max_rows; /* of the pool, and of the sweep over M: 140 or more */
    /* x (rows, width_in), out (rows, width_out). */
    samebits_status (*run)(const struct row_op *op, samebits_context *context, DLTensor *x, DLTensor *out);
    DLTensor *w; /* what run needs besides */
    samebits_weights *weights;
    samebits_format format;
    samebits_order order;
    samebits_epilogue epilogue;
    int small; /* x within 2^+-2: for exponentials */
    int tiny;  /* x is subnormal or nearly so */
    int is_control;
    test_tensor *x;       /* the pool of rows */
    unsigned char *alone; /* each row of the pool alone */
} row_op;

/* Fills the pool and computes its rows alone. */
void rows_prepare(row_op *op);
void rows_release(row_op *op);

typedef long rows_check(const row_op *op);

rows_check rows_batch;       /* M rows of any number, from any place */
rows_check rows_neighbours;  /* NaN, Inf and huge values in the other rows */
rows_check rows_threads;     /* 1 to 64 */
rows_check rows_levels;      /* every CPU level of this machine */
rows_check rows_layouts;     /* offsets, gaps, transposed memory, of x and of out */
rows_check rows_hooks;       /* the host's own parallel_for: threads, serial, backwards */
rows_check rows_nested;      /* inside the host's OpenMP region */
rows_check rows_shared;      /* threads that share one context, and that have one each */
rows_check rows_environment; /* FTZ, DAZ, rounding modes, traps: no bit moves and the caller's MXCSR is as before */

/* How many rows of `have` (packed) differ from the rows alone, from row `first` on. */
long rows_differing(const row_op *op, const void *have, int64_t first, int64_t rows);
/* Runs the op on rows of the pool in packed memory; the result is packed and malloc'd. */
unsigned char *rows_run(const row_op *op, samebits_context *context, int64_t first, int64_t rows);

/* An op whose sums depend on all that must not matter; see control.c. */
void control_op(row_op *op);

#endif
