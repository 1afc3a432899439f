/* group_norm (samebits/norm.h): each group of channels as one row of layer_norm. */
#include <samebits/norm.h>

#include "device/cpu/parallel.h"
#include "kernels/norm/norm.h"
#include "ops/rows.h"

typedef struct {
    sb_view x, out;       /* (B, groups, C / groups, ...) */
    sb_norm_args args;    /* what all rows share */
    float *weight, *bias; /* or NULL: one number an element of a sample, group after group */
    const sb_norm_row *row;
    int64_t rows, groups;
    char *buffers; /* two rows for each worker */
    int64_t row_size;
} group_norm;

/* The rows of one group as a tensor of their own. */
static sb_view group_of(const sb_view *v, int64_t index)
{
    sb_view group = *v;
    group.data += sb_row_offset(v, v->ndim - 2, index) * sb_dtype_size(v->dtype);
    group.ndim -= 2;
    memmove(group.shape, v->shape + 2, (size_t)group.ndim * sizeof *group.shape);
    memmove(group.stride, v->stride + 2, (size_t)group.ndim * sizeof *group.stride);
    return group;
}

static int is_dense(const sb_view *v)
{
    int64_t step = 1;
    for (int i = v->ndim - 1; i >= 0; step *= v->shape[i], i--)
        if (v->shape[i] != 1 && v->stride[i] != step) return 0;
    return 1;
}

/* Copies the n elements of a view to contiguous memory, or back. */
static void copy(const sb_view *v, char *memory, int64_t n, int back)
{
    const size_t size = (size_t)sb_dtype_size(v->dtype);
    for (int64_t i = 0; i < n; i++) {
        char *at = v->data + sb_row_offset(v, 0, i) * (int64_t)size, *mine = memory + (size_t)i * size;
        memcpy(back ? at : mine, back ? mine : at, size);
    }
}

static void group_task(void *arg, int64_t index, int worker)
{
    const group_norm *p = arg;
    char *buffer = p->buffers + worker * 2 * p->row_size;
    const sb_view x = group_of(&p->x, index), out = group_of(&p->out, index);
    const int64_t first = index % p->groups * p->args.n;
    const int in_place = is_dense(&out);
    sb_norm_args a = p->args;
    a.x = x.data;
    if (!is_dense(&x)) {
        copy(&x, buffer, a.n, 0);
        a.x = buffer;
    }
    a.out = in_place ? out.data : buffer + p->row_size;
    if (p->weight) a.weight = p->weight + first;
    if (p->bias) a.bias = p->bias + first;
    p->row->fn(&a);
    if (!in_place) copy(&out, a.out, a.n, 1);
}

/* A number a channel becomes one an element. */
static void spread(const sb_view *view, int64_t sample, float *out)
{
    const int64_t channels = view->shape[0], each = sample / channels;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < each; i++) out[c * each + i] = sb_load(view, c * view->stride[0]);
}

static samebits_status run(const samebits_context *context, group_norm *p, const sb_view *weight, const sb_view *bias)
{
    const int64_t sample = p->groups * p->args.n, workers = sb_workers(context, p->rows);
    const int vectors = (weight->data != NULL) + (bias->data != NULL);
    int64_t size, wide, buffers;
    if (p->args.n > INT64_MAX / 8 || __builtin_mul_overflow(sample, (int64_t)sizeof(float), &wide) ||
        wide > INT64_MAX - SB_ALIGN)
        return sb_fail(SAMEBITS_ERR_OVERFLOW, "a group of x overflows the address space");
    wide = sb_round_up(wide, SB_ALIGN);
    p->row_size = sb_round_up(p->args.n * (int64_t)sizeof(float), SB_ALIGN);
    if (__builtin_mul_overflow(wide, vectors, &wide) || __builtin_mul_overflow(p->row_size, 2 * workers, &buffers) ||
        __builtin_add_overflow(wide, buffers, &size))
        return sb_fail(SAMEBITS_ERR_OVERFLOW, "the norm's working memory overflows the address space");
    char *memory = sb_alloc(context, (size_t)size);
    if (!memory) return sb_fail(SAMEBITS_ERR_MEMORY, "out of memory: a norm needs %lld bytes", (long long)size);
    p->buffers = memory + wide;
    if (weight->data) spread(weight, sample, p->weight = (float *)memory);
    if (bias->data) spread(bias, sample, p->bias = (float *)(memory + (weight->data ? wide / vectors : 0)));
    sb_parallel(context, p->rows, group_task, p);
    sb_free(context, memory, (size_t)size);
    return SAMEBITS_OK;
}

/* (B, C, ...) as (B, groups, C / groups, ...). */
static void split(sb_view *v, int64_t groups)
{
    memmove(v->shape + 2, v->shape + 1, (size_t)(v->ndim - 1) * sizeof *v->shape);
    memmove(v->stride + 2, v->stride + 1, (size_t)(v->ndim - 1) * sizeof *v->stride);
    v->shape[1] = groups;
    v->shape[2] /= groups;
    v->stride[1] = v->shape[2] * v->stride[2];
    v->ndim++;
}

static samebits_status check_channels(const DLTensor *tensor, const char *name, const sb_view *out, sb_view *view)
{
    if (!tensor) return SAMEBITS_OK;
    const samebits_status status = sb_view_of(tensor, name, SB_SET_FLOATS, 1, 1, view);
    if (status) return status;
    if (view->shape[0] != out->shape[1])
        return sb_fail(SAMEBITS_ERR_SHAPE, "%s has %lld elements, want %lld, one a channel", name,
                       (long long)view->shape[0], (long long)out->shape[1]);
    return sb_check_overlap(out, view, name, 0);
}

samebits_status samebits_group_norm(samebits_context *context, const DLTensor *x, int64_t groups,
                                    const DLTensor *weight, const DLTensor *bias, float eps, DLTensor *out)
{
    group_norm p = {.groups = groups};
    sb_view weight_view = {0}, bias_view = {0};
    samebits_status status;
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
    if ((status = sb_view_of(x, "x", SB_SET_FLOATS, 2, SB_MAX_DIMS - 1, &p.x)) ||
        (status = sb_check_rows(context, x, out, &p.x, &p.out)) ||
        (status = check_channels(weight, "weight", &p.out, &weight_view)) ||
        (status = check_channels(bias, "bias", &p.out, &bias_view)))
        return status;
    if (!(eps >= 0.0f)) return sb_fail(SAMEBITS_ERR_PARAM, "eps is %g, want 0 or more", (double)eps);
    if (groups < 1 || p.x.shape[1] % groups)
        return sb_fail(SAMEBITS_ERR_PARAM, "groups is %lld, want a divisor of x's %lld channels", (long long)groups,
                       (long long)p.x.shape[1]);
    if (p.out.count == 0) return SAMEBITS_OK;
    split(&p.x, groups);
    split(&p.out, groups);
    p.rows = p.x.shape[0] * groups;
    p.args = (sb_norm_args){.rows = 1,
                            .n = p.x.count / p.rows,
                            .x_format = sb_format_of(p.x.dtype),
                            .out_format = sb_format_of(p.out.dtype),
                            .eps = eps,
                            .kind = SB_NORM_LAYER};
    p.row = sb_norm_select(context->cpu);
    return run(context, &p, &weight_view, &bias_view);
}
