/* rms_norm, layer_norm and l2_norm (samebits/norm.h): check, widen weight and bias once, run blocks of rows. */
#include <samebits/norm.h>

#include "device/cpu/parallel.h"
#include "kernels/norm/norm.h"
#include "ops/rows.h"

typedef struct {
    sb_view x, out;
    sb_norm_args args; /* what all rows share */
    const sb_norm_row *row;
    int64_t rows, block; /* rows in all, rows a task */
    int even;            /* rows at one distance: a task is one call */
    char *buffers;       /* two rows for each worker, if not even */
    int64_t row_size;
} norm;

static void norm_task(void *arg, int64_t index, int worker)
{
    const norm *p = arg;
    sb_norm_args a = p->args;
    const int64_t begin = index * p->block, end = SB_MIN(begin + p->block, p->rows);
    if (p->even) {
        a.rows = end - begin;
        a.x = sb_row_in(&p->x, begin, NULL);
        a.out = sb_row_out(&p->out, begin, NULL);
        p->row->fn(&a);
        return;
    }
    char *buffer = p->buffers + worker * 2 * p->row_size;
    a.rows = 1;
    for (int64_t r = begin; r < end; r++) {
        a.x = sb_row_in(&p->x, r, buffer);
        a.out = sb_row_out(&p->out, r, buffer + p->row_size);
        p->row->fn(&a);
        sb_row_put(&p->out, r, a.out);
    }
}

static samebits_status run(const samebits_context *context, norm *p, const sb_view *weight, const sb_view *bias)
{
    const int64_t n = p->args.n, tasks = sb_ceil_div(p->rows, p->block), workers = sb_workers(context, tasks);
    p->row_size = sb_round_up(n * (int64_t)sizeof(float), SB_ALIGN); /* n fits: x spans n elements */
    int64_t size;
    if (__builtin_mul_overflow(p->row_size, 2 + (p->even ? 0 : 2 * workers), &size))
        return sb_fail(SAMEBITS_ERR_OVERFLOW, "the norm's working memory overflows the address space");
    char *memory = sb_alloc(context, (size_t)size);
    if (!memory) return sb_fail(SAMEBITS_ERR_MEMORY, "out of memory: a norm needs %lld bytes", (long long)size);
    float *wide_weight = (float *)memory, *wide_bias = (float *)(memory + p->row_size);
    p->buffers = memory + 2 * p->row_size;
    if (weight->data) {
        sb_widen_columns(weight, wide_weight);
        p->args.weight = wide_weight;
    }
    if (bias->data) {
        sb_widen_columns(bias, wide_bias);
        p->args.bias = wide_bias;
    }
    sb_parallel(context, tasks, norm_task, p);
    sb_free(context, memory, (size_t)size);
    return SAMEBITS_OK;
}

static samebits_status norm_of(const samebits_context *context, const DLTensor *x, const DLTensor *weight,
                               const DLTensor *bias, float eps, sb_norm_kind kind, const DLTensor *out)
{
    norm p = {0};
    sb_view weight_view = {0}, bias_view = {0};
    samebits_status status;
    if ((status = sb_check_rows(context, x, out, &p.x, &p.out)) ||
        (status = sb_check_columns(weight, "weight", &p.out, &weight_view)) ||
        (status = sb_check_columns(bias, "bias", &p.out, &bias_view)))
        return status;
    if (!(eps >= 0.0f)) return sb_fail(SAMEBITS_ERR_PARAM, "eps is %g, want 0 or more", (double)eps);
    if (p.out.count == 0) return SAMEBITS_OK;
    const int64_t n = p.x.shape[p.x.ndim - 1];
    p.rows = p.x.count / n;
    p.block = sb_rows_a_task(n);
    p.args = (sb_norm_args){
        .n = n, .x_format = sb_format_of(p.x.dtype), .out_format = sb_format_of(p.out.dtype), .eps = eps, .kind = kind};
    p.even = sb_rows_are_even(&p.x, &p.args.x_stride) && sb_rows_are_even(&p.out, &p.args.out_stride);
    p.row = sb_norm_select(context->cpu);
    return run(context, &p, &weight_view, &bias_view);
}

samebits_status samebits_rms_norm(samebits_context *context, const DLTensor *x, const DLTensor *weight, float eps,
                                  DLTensor *out)
{
    return norm_of(context, x, weight, NULL, eps, SB_NORM_RMS, out);
}

samebits_status samebits_layer_norm(samebits_context *context, const DLTensor *x, const DLTensor *weight,
                                    const DLTensor *bias, float eps, DLTensor *out)
{
    return norm_of(context, x, weight, bias, eps, SB_NORM_LAYER, out);
}

samebits_status samebits_l2_norm(samebits_context *context, const DLTensor *x, float eps, DLTensor *out)
{
    return norm_of(context, x, NULL, NULL, eps, SB_NORM_L2, out);
}
