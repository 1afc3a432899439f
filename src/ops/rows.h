/* Tensors as rows of their last dimension, for the ops that work row by row. */
#ifndef SB_ROWS_H
#define SB_ROWS_H

#include <samebits/context.h>
#include <samebits/weights.h>

#include "ops/tensor.h"

/* The element format of a float dtype. */
samebits_format sb_format_of(sb_dtype dtype);

/* A tensor of floats of x's shape, `name` in messages. */
samebits_status sb_check_like(const DLTensor *tensor, const char *name, const sb_view *x, sb_view *view);

/* Checks that are the same for all of these ops: context, x (..., N), out as x, out's dtype x's or f32, out
 * free of overlap with itself and with x unless it is x. */
samebits_status sb_check_rows(const samebits_context *context, const DLTensor *x, const DLTensor *out, sb_view *x_view,
                              sb_view *out_view);

/* The same for ops that make one number of a row: out has x's shape without the last dim, or with 1 for it, and its
 * view the shape without it. Of `dtypes` out may have f32, i32 and x's. */
samebits_status sb_check_reduced(const samebits_context *context, const DLTensor *x, const DLTensor *out,
                                 unsigned dtypes, sb_view *x_view, sb_view *out_view);
/* A tensor of that shape, `name` in messages. */
samebits_status sb_check_one_a_row(const DLTensor *tensor, const char *name, unsigned dtypes, const sb_view *x,
                                   sb_view *view);

/* A vector of one number a column, `name` in messages. *view is untouched when the tensor is NULL. */
samebits_status sb_check_columns(const DLTensor *tensor, const char *name, const sb_view *out, sb_view *view);

/* Such a vector as f32. */
void sb_widen_columns(const sb_view *view, float *out);

/* Row `index` as contiguous elements: where it lies, or copied into buffer (N elements). */
const void *sb_row_in(const sb_view *view, int64_t index, void *buffer);
/* The row after `index` if it is one below `end` that a kernel does well to fetch: contiguous, and short enough to stay
 * in a cache. Or NULL. */
const void *sb_row_next(const sb_view *view, int64_t index, int64_t end);
/* Where to write row `index`: in place, or into buffer, which sb_row_put then spreads. */
void *sb_row_out(const sb_view *view, int64_t index, void *buffer);
void sb_row_put(const sb_view *view, int64_t index, const void *buffer);

/* Whether all rows are contiguous and lie at one distance from each other; *stride gets it, in elements. */
int sb_rows_are_even(const sb_view *view, int64_t *stride);

/* Rows a task, so that a task is worth its start. */
int64_t sb_rows_a_task(int64_t n);

#endif
