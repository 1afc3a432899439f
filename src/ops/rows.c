#include "ops/rows.h"

#include "formats/formats.h"

samebits_format sb_format_of(sb_dtype dtype)
{
    switch (dtype) {
    case SB_F16: return SAMEBITS_FORMAT_F16;
    case SB_BF16: return SAMEBITS_FORMAT_BF16;
    case SB_F64: return SB_FORMAT_F64;
    case SB_C64: return SB_FORMAT_C64;
    default: return SAMEBITS_FORMAT_F32;
    }
}

samebits_status sb_check_like(const DLTensor *tensor, const char *name, const sb_view *x, sb_view *view)
{
    const samebits_status status = sb_view_of(tensor, name, SB_SET_FLOATS, 1, SB_MAX_DIMS, view);
    if (status) return status;
    if (x->ndim == view->ndim && sb_same_sizes(x, view, x->ndim)) return SAMEBITS_OK;
    char have[128], want[128];
    return sb_fail(SAMEBITS_ERR_SHAPE, "%s is %s, want x's %s", name, sb_shape_text(view, have),
                   sb_shape_text(x, want));
}

samebits_status sb_check_rows(const samebits_context *context, const DLTensor *x, const DLTensor *out, sb_view *xv,
                              sb_view *ov)
{
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
    samebits_status status;
    if ((status = sb_view_of(x, "x", SB_SET_FLOATS, 1, SB_MAX_DIMS, xv)) ||
        (status = sb_check_like(out, "out", xv, ov)))
        return status;
    if (ov->dtype != SB_F32 && ov->dtype != xv->dtype)
        return sb_fail(SAMEBITS_ERR_DTYPE, "out is %s, want f32 or x's %s", sb_dtype_name(ov->dtype),
                       sb_dtype_name(xv->dtype));
    if ((status = sb_check_output(ov))) return status;
    return sb_check_overlap(ov, xv, "x", 1);
}

samebits_status sb_check_one_a_row(const DLTensor *tensor, const char *name, unsigned dtypes, const sb_view *x,
                                   sb_view *view)
{
    const samebits_status status = sb_view_of(tensor, name, dtypes, 0, SB_MAX_DIMS, view);
    if (status) return status;
    const int last = x->ndim - 1;
    const int has_place = view->ndim == last || (view->ndim == x->ndim && view->shape[last] == 1);
    if (!has_place || !sb_same_sizes(view, x, last)) {
        char have[128], want[128];
        return sb_fail(SAMEBITS_ERR_SHAPE, "%s is %s, want x's %s without the last, or with 1 for it", name,
                       sb_shape_text(view, have), sb_shape_text(x, want));
    }
    view->ndim = last;
    return SAMEBITS_OK;
}

samebits_status sb_check_reduced(const samebits_context *context, const DLTensor *x, const DLTensor *out,
                                 unsigned dtypes, sb_view *xv, sb_view *ov)
{
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
    samebits_status status;
    if ((status = sb_view_of(x, "x", SB_SET_FLOATS, 1, SB_MAX_DIMS, xv)) ||
        (status = sb_check_one_a_row(out, "out", dtypes, xv, ov)))
        return status;
    if (ov->dtype != SB_F32 && ov->dtype != SB_I32 && ov->dtype != xv->dtype)
        return sb_fail(SAMEBITS_ERR_DTYPE, "out is %s, want f32 or x's %s", sb_dtype_name(ov->dtype),
                       sb_dtype_name(xv->dtype));
    if ((status = sb_check_output(ov))) return status;
    return sb_check_overlap(ov, xv, "x", 0);
}

samebits_status sb_check_columns(const DLTensor *tensor, const char *name, const sb_view *out, sb_view *view)
{
    if (!tensor) return SAMEBITS_OK;
    const samebits_status status = sb_view_of(tensor, name, SB_SET_FLOATS, 1, 1, view);
    if (status) return status;
    const int64_t n = out->shape[out->ndim - 1];
    if (view->shape[0] != n)
        return sb_fail(SAMEBITS_ERR_SHAPE, "%s has %lld elements, want %lld, one a column", name,
                       (long long)view->shape[0], (long long)n);
    return sb_check_overlap(out, view, name, 0);
}

void sb_widen_columns(const sb_view *view, float *out)
{
    for (int64_t i = 0; i < view->shape[0]; i++) out[i] = sb_load(view, i * view->stride[0]);
}

enum { TASK_ELEMENTS = 16384 };

static int is_contiguous(const sb_view *v) { return v->stride[v->ndim - 1] == 1 || v->shape[v->ndim - 1] == 1; }

/* Copies n elements of 2 or 4 bytes between strides. */
static void copy(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, int size)
{
    if (size == 2)
        for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step * 2, from + i * from_step * 2, 2);
    else
        for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step * 4, from + i * from_step * 4, 4);
}

static char *row_at(const sb_view *v, int64_t index)
{
    return v->data + sb_row_offset(v, 1, index) * sb_dtype_size(v->dtype);
}

const void *sb_row_in(const sb_view *v, int64_t index, void *buffer)
{
    const int last = v->ndim - 1;
    if (is_contiguous(v)) return row_at(v, index);
    copy(buffer, 1, row_at(v, index), v->stride[last], v->shape[last], sb_dtype_size(v->dtype));
    return buffer;
}

const void *sb_row_next(const sb_view *v, int64_t index, int64_t end)
{
    const int fits = v->shape[v->ndim - 1] <= TASK_ELEMENTS;
    return index + 1 < end && fits && is_contiguous(v) ? row_at(v, index + 1) : NULL;
}

void *sb_row_out(const sb_view *v, int64_t index, void *buffer) { return is_contiguous(v) ? row_at(v, index) : buffer; }

void sb_row_put(const sb_view *v, int64_t index, const void *buffer)
{
    const int last = v->ndim - 1;
    if (is_contiguous(v)) return;
    copy(row_at(v, index), v->stride[last], buffer, 1, v->shape[last], sb_dtype_size(v->dtype));
}

int sb_rows_are_even(const sb_view *v, int64_t *stride)
{
    int64_t step = 0, rows = 1;
    if (!is_contiguous(v)) return 0;
    for (int i = v->ndim - 2; i >= 0; i--) {
        if (v->shape[i] == 1) continue;
        if (rows == 1)
            step = v->stride[i];
        else if (v->stride[i] != rows * step)
            return 0;
        rows *= v->shape[i];
    }
    *stride = step;
    return 1;
}

int64_t sb_rows_a_task(int64_t n) { return SB_MAX(1, TASK_ELEMENTS / n); }
