/* add_rms_norm and add_layer_norm (samebits/norm.h): a row is added, stored, and normed while it is in cache. */
#include <samebits/norm.h>

#include "device/cpu/parallel.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "ops/rows.h"

typedef struct {
    sb_view x, residual, sum, out;
    sb_elementwise_args add;
    sb_norm_args norm; /* what all rows share */
    const sb_elementwise_row *add_row;
    const sb_norm_row *norm_row;
    int64_t rows, block; /* rows in all, rows a task */
    char *buffers;       /* four rows for each worker */
    int64_t row_size;
} norm_sum;

static void norm_sum_task(void *arg, int64_t index, int worker)
{
    const norm_sum *p = arg;
    char *buffer = p->buffers + worker * 4 * p->row_size;
    sb_elementwise_args add = p->add;
    sb_norm_args norm = p->norm;
    for (int64_t r = index * p->block; r < SB_MIN((index + 1) * p->block, p->rows); r++) {
        add.x = sb_row_in(&p->x, r, buffer);
        add.y = sb_row_in(&p->residual, r, buffer + p->row_size);
        add.out = sb_row_out(&p->sum, r, buffer + 2 * p->row_size);
        p->add_row->fn(&add);
        norm.x = add.out;
        norm.out = sb_row_out(&p->out, r, buffer + 3 * p->row_size);
        p->norm_row->fn(&norm);
        sb_row_put(&p->sum, r, add.out);
        sb_row_put(&p->out, r, norm.out);
    }
}

static samebits_status run(const samebits_context *context, norm_sum *p, const sb_view *weight, const sb_view *bias)
{
    const int64_t tasks = sb_ceil_div(p->rows, p->block), workers = sb_workers(context, tasks);
    p->row_size = sb_round_up(p->norm.n * (int64_t)sizeof(float), SB_ALIGN); /* n fits: x spans n elements */
    int64_t size;
    if (__builtin_mul_overflow(p->row_size, 2 + 4 * workers, &size))
        return sb_fail(SAMEBITS_ERR_OVERFLOW, "the norm's working memory overflows the address space");
    char *memory = sb_alloc(context, (size_t)size);
    if (!memory) return sb_fail(SAMEBITS_ERR_MEMORY, "out of memory: a norm needs %lld bytes", (long long)size);
    p->buffers = memory + 2 * p->row_size;
    if (weight->data) {
        sb_widen_columns(weight, (float *)memory);
        p->norm.weight = (float *)memory;
    }
    if (bias->data) {
        sb_widen_columns(bias, (float *)(memory + p->row_size));
        p->norm.bias = (float *)(memory + p->row_size);
    }
    sb_parallel(context, tasks, norm_sum_task, p);
    sb_free(context, memory, (size_t)size);
    return SAMEBITS_OK;
}

static samebits_status check_tensors(norm_sum *p, const DLTensor *x, const DLTensor *residual, const DLTensor *sum,
                                     const DLTensor *out)
{
    samebits_status status;
    if ((status = sb_view_of(x, "x", SB_SET_FLOATS, 1, SB_MAX_DIMS, &p->x)) ||
        (status = sb_check_like(residual, "residual", &p->x, &p->residual)) ||
        (status = sb_check_like(sum, "sum", &p->x, &p->sum)) || (status = sb_check_like(out, "out", &p->x, &p->out)))
        return status;
    if (p->sum.dtype != SB_F32 && p->sum.dtype != p->x.dtype && p->sum.dtype != p->residual.dtype)
        return sb_fail(SAMEBITS_ERR_DTYPE, "sum is %s, want f32, x's %s or residual's %s", sb_dtype_name(p->sum.dtype),
                       sb_dtype_name(p->x.dtype), sb_dtype_name(p->residual.dtype));
    if (p->out.dtype != SB_F32 && p->out.dtype != p->sum.dtype)
        return sb_fail(SAMEBITS_ERR_DTYPE, "out is %s, want f32 or sum's %s", sb_dtype_name(p->out.dtype),
                       sb_dtype_name(p->sum.dtype));
    if ((status = sb_check_output_named(&p->sum, "sum")) || (status = sb_check_output(&p->out)) ||
        (status = sb_check_overlap(&p->sum, &p->x, "x", 1)) ||
        (status = sb_check_overlap(&p->sum, &p->residual, "residual", 1)) ||
        (status = sb_check_overlap(&p->out, &p->x, "x", 0)) ||
        (status = sb_check_overlap(&p->out, &p->residual, "residual", 0)))
        return status;
    return sb_check_overlap(&p->out, &p->sum, "sum", 0);
}

static samebits_status norm_of_sum(const samebits_context *context, const DLTensor *x, const DLTensor *residual,
                                   const DLTensor *weight, const DLTensor *bias, float eps, sb_norm_kind kind,
                                   const DLTensor *sum, const DLTensor *out)
{
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
    norm_sum p = {0};
    sb_view weight_view = {0}, bias_view = {0};
    samebits_status status;
    if ((status = check_tensors(&p, x, residual, sum, out)) ||
        (status = sb_check_columns(weight, "weight", &p.out, &weight_view)) ||
        (status = sb_check_columns(bias, "bias", &p.out, &bias_view)))
        return status;
    if ((weight && (status = sb_check_overlap(&p.sum, &weight_view, "weight", 0))) ||
        (bias && (status = sb_check_overlap(&p.sum, &bias_view, "bias", 0))))
        return status;
    if (!(eps >= 0.0f)) return sb_fail(SAMEBITS_ERR_PARAM, "eps is %g, want 0 or more", (double)eps);
    if (p.out.count == 0) return SAMEBITS_OK;
    const int64_t n = p.x.shape[p.x.ndim - 1];
    const samebits_format sum_format = sb_format_of(p.sum.dtype);
    p.rows = p.x.count / n;
    p.block = sb_rows_a_task(n);
    p.add = (sb_elementwise_args){.op = SB_ELEMENTWISE_ADD,
                                  .n = n,
                                  .x_format = sb_format_of(p.x.dtype),
                                  .y_format = sb_format_of(p.residual.dtype),
                                  .out_format = sum_format,
                                  .x_step = 1,
                                  .y_step = 1};
    p.norm = (sb_norm_args){
        .rows = 1, .n = n, .x_format = sum_format, .out_format = sb_format_of(p.out.dtype), .eps = eps, .kind = kind};
    p.add_row = sb_elementwise_select(context->cpu);
    p.norm_row = sb_norm_select(context->cpu);
    return run(context, &p, &weight_view, &bias_view);
}

samebits_status samebits_add_rms_norm(samebits_context *context, const DLTensor *x, const DLTensor *residual,
                                      const DLTensor *weight, float eps, DLTensor *sum, DLTensor *out)
{
    return norm_of_sum(context, x, residual, weight, NULL, eps, SB_NORM_RMS, sum, out);
}

samebits_status samebits_add_layer_norm(samebits_context *context, const DLTensor *x, const DLTensor *residual,
                                        const DLTensor *weight, const DLTensor *bias, float eps, DLTensor *sum,
                                        DLTensor *out)
{
    return norm_of_sum(context, x, residual, weight, bias, eps, SB_NORM_LAYER, sum, out);
}
