/* Formats and prepared weights (samebits/weights.h). */
#include <samebits/weights.h>

#include "base/context.h"
#include "device/cpu/parallel.h"
#include "formats/formats.h"
#include "ops/weights.h"

const char *samebits_format_name(samebits_format format)
{
    const sb_format *f = sb_format_info(format);
    return f ? f->name : "unknown";
}

int64_t samebits_format_block(samebits_format format)
{
    const sb_format *f = sb_format_info(format);
    return f ? f->block : 0;
}

static samebits_status check_depth(samebits_format format, int64_t k)
{
    const sb_format *f = sb_format_info(format);
    if (!f)
        return sb_fail(SAMEBITS_ERR_FORMAT, "weight format %d is unknown: want one of samebits_format", (int)format);
    if (k < 0) return sb_fail(SAMEBITS_ERR_PARAM, "K is %lld, want 0 or more", (long long)k);
    if (k % f->block)
        return sb_fail(SAMEBITS_ERR_FORMAT, "K is %lld, want a multiple of %d, the block of format %s", (long long)k,
                       f->block, f->name);
    return SAMEBITS_OK;
}

samebits_status samebits_format_row_size(samebits_format format, int64_t k, size_t *bytes)
{
    if (!bytes) return sb_fail(SAMEBITS_ERR_NULL, "bytes is NULL: pass the address of a size_t");
    const samebits_status status = check_depth(format, k);
    if (status) return status;
    const sb_format *f = sb_format_info(format);
    if (__builtin_mul_overflow((size_t)(k / f->block), (size_t)f->block_bytes, bytes))
        return sb_fail(SAMEBITS_ERR_OVERFLOW, "a row of %lld weights overflows size_t", (long long)k);
    return SAMEBITS_OK;
}

samebits_status sb_weights_bytes(samebits_format format, sb_group group, int64_t n, int64_t k, size_t *bytes)
{
    const samebits_status status = check_depth(format, k);
    if (status) return status;
    if (n < 0) return sb_fail(SAMEBITS_ERR_PARAM, "N is %lld, want 0 or more", (long long)n);
    const sb_format *f = sb_format_info(format);
    const int64_t scale_bytes = group.steps ? sb_panel_size(format, group, group.steps * f->block) : 0;
    const size_t block_bytes = (size_t)(group.steps ? scale_bytes : f->panel_bytes);
    const size_t steps = (size_t)k + (size_t)sb_panel_pad(format, k),
                 block = (size_t)(f->block * SB_MAX(1, group.steps));
    size_t panel;
    if (__builtin_mul_overflow(steps / block, block_bytes, &panel) ||
        __builtin_mul_overflow(panel, (size_t)sb_panels(n), bytes) || *bytes > INT64_MAX)
        return sb_fail(SAMEBITS_ERR_OVERFLOW, "%lld x %lld weights overflow size_t", (long long)n, (long long)k);
    return SAMEBITS_OK;
}

/* Formats with scales beside their rows have functions of their own, whose names end in _affine and _scaled. */
static samebits_status refuse_mlx(samebits_format format, const char *function)
{
    if (!sb_format_is_mlx(format)) return SAMEBITS_OK;
    return sb_fail(SAMEBITS_ERR_FORMAT, "format %s has scales beside its rows: call %s_%s",
                   samebits_format_name(format), function, sb_format_is_affine(format) ? "affine" : "scaled");
}

samebits_status samebits_weights_size(samebits_format format, int64_t n, int64_t k, size_t *bytes)
{
    if (!bytes) return sb_fail(SAMEBITS_ERR_NULL, "bytes is NULL: pass the address of a size_t");
    const samebits_status status = refuse_mlx(format, "samebits_weights_size");
    return status ? status : sb_weights_bytes(format, (sb_group){0}, n, k, bytes);
}

samebits_status sb_rows_of(const DLTensor *w, const char *name, samebits_format format, sb_rows *rows, sb_view *view)
{
    static const sb_dtype dtype_of[] = {SB_F32, SB_F16, SB_BF16};
    if (!sb_format_info(format))
        return sb_fail(SAMEBITS_ERR_FORMAT, "weight format %d is unknown: want one of samebits_format", (int)format);
    samebits_status status = refuse_mlx(format, "samebits_weights_prepare");
    if (status) return status;
    const int is_float = sb_format_is_float(format);
    status = sb_view_of(w, name, is_float ? 1u << dtype_of[format] : SB_SET_U8, 2, 2, view);
    if (status) return status;
    *rows = (sb_rows){.format = format,
                      .data = view->data,
                      .n = view->shape[0],
                      .k = view->shape[1],
                      .row_stride = view->stride[0],
                      .col_stride = view->stride[1]};
    if (is_float) return SAMEBITS_OK;
    const sb_format *f = sb_format_info(format);
    if (view->shape[1] % f->block_bytes)
        return sb_fail(SAMEBITS_ERR_FORMAT, "a row of %s has %lld bytes, want a multiple of %d, the block of format %s",
                       name, (long long)view->shape[1], f->block_bytes, f->name);
    rows->k = view->shape[1] / f->block_bytes * f->block;
    rows->col_stride = 1;
    return sb_check_side_by_side(view, name, "bytes");
}

typedef struct {
    const sb_rows *rows;
    uint8_t *panels;
    int64_t panel_size;
} pack_job;

static void pack_task(void *arg, int64_t index, int worker)
{
    (void)worker;
    const pack_job *job = arg;
    sb_pack_panel(job->rows, index, job->panels + index * job->panel_size);
}

samebits_status sb_weights_make(samebits_context *context, const sb_rows *rows, void *storage,
                                samebits_weights **weights)
{
    size_t size;
    const samebits_status status = sb_weights_bytes(rows->format, rows->group, rows->n, rows->k, &size);
    if (status) return status;
    if ((uintptr_t)storage % SB_ALIGN)
        return sb_fail(SAMEBITS_ERR_PARAM, "storage is not aligned to %d bytes", SB_ALIGN);

    samebits_weights *p = sb_alloc(context, sizeof *p);
    void *owned = storage || !p ? NULL : sb_alloc(context, size);
    if (!p || (!storage && !owned)) {
        sb_free(context, p, sizeof *p);
        return sb_fail(SAMEBITS_ERR_MEMORY, "out of memory: packed weights need %zu bytes", size);
    }
    *p = (samebits_weights){.format = rows->format,
                            .group = rows->group,
                            .n = rows->n,
                            .k = rows->k,
                            .panels = storage ? storage : owned,
                            .owned = owned,
                            .owned_size = size,
                            .allocator = context->options.allocator};
    pack_job job = {rows, storage ? storage : owned, sb_panel_size(rows->format, rows->group, rows->k)};
    sb_parallel(context, sb_panels(rows->n), pack_task, &job);
    *weights = p;
    return SAMEBITS_OK;
}

samebits_status samebits_weights_prepare(samebits_context *context, const DLTensor *w, samebits_format format,
                                         void *storage, samebits_weights **weights)
{
    if (!weights) return sb_fail(SAMEBITS_ERR_NULL, "weights is NULL: pass the address of a samebits_weights *");
    *weights = NULL;
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
    sb_rows rows;
    sb_view view;
    if (w && w->dtype.bits == 64 && (w->dtype.code == kDLFloat || w->dtype.code == kDLComplex))
        return sb_fail(SAMEBITS_ERR_DTYPE, "w is %s, which has no prepared form: call samebits_linear",
                       w->dtype.code == kDLFloat ? "f64" : "complex64");
    const samebits_status status = sb_rows_of(w, "w", format, &rows, &view);
    return status ? status : sb_weights_make(context, &rows, storage, weights);
}

void samebits_weights_destroy(samebits_weights **weights)
{
    if (!weights || !*weights) return;
    samebits_weights *p = *weights;
    const samebits_allocator a = p->allocator;
    if (p->owned) a.free(a.user, p->owned, p->owned_size ? p->owned_size : 1);
    a.free(a.user, p, sizeof *p);
    *weights = NULL;
}

samebits_status samebits_weights_restore(const samebits_weights *weights, void *rows, size_t row_stride)
{
    return samebits_weights_restore_rows(weights, 0, samebits_weights_rows(weights), rows, row_stride);
}

samebits_status samebits_weights_restore_rows(const samebits_weights *weights, int64_t first, int64_t count, void *rows,
                                              size_t row_stride)
{
    if (!weights || !rows) return sb_fail(SAMEBITS_ERR_NULL, "%s is NULL", weights ? "rows" : "weights");
    size_t row_size;
    samebits_status status = refuse_mlx(weights->format, "samebits_weights_restore");
    if (!status) status = samebits_format_row_size(weights->format, weights->k, &row_size);
    if (status) return status;
    if (row_stride < row_size)
        return sb_fail(SAMEBITS_ERR_PARAM, "row_stride is %zu, want at least a row's %zu bytes", row_stride, row_size);
    if (first < 0 || count < 0 || count > weights->n || first > weights->n - count)
        return sb_fail(SAMEBITS_ERR_PARAM, "%lld rows from row %lld on are asked for, and there are %lld",
                       (long long)count, (long long)first, (long long)weights->n);
    const int64_t panel_size = sb_panel_size(weights->format, weights->group, weights->k);
    for (int64_t done = 0; done < count;) {
        const int64_t row = first + done;
        const int column = (int)(row % SB_PANEL), columns = (int)SB_MIN(SB_PANEL - column, count - done);
        sb_unpack_panel(weights->format, weights->k, weights->panels + row / SB_PANEL * panel_size, column, columns,
                        (char *)rows + done * (int64_t)row_stride, (int64_t)row_stride);
        done += columns;
    }
    return SAMEBITS_OK;
}

int64_t samebits_weights_rows(const samebits_weights *weights) { return weights ? weights->n : 0; }
int64_t samebits_weights_depth(const samebits_weights *weights) { return weights ? weights->k : 0; }
samebits_format samebits_weights_format(const samebits_weights *weights)
{
    return weights ? weights->format : SAMEBITS_FORMAT_COUNT;
}
