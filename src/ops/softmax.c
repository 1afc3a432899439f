/* softmax and log_softmax (samebits/softmax.h): check, then run row by row. */
#include <samebits/softmax.h>

#include "device/cpu/parallel.h"
#include "kernels/softmax/softmax.h"
#include "ops/rows.h"

void samebits_softmax_params_default(samebits_softmax_params *params)
{
    if (params) *params = (samebits_softmax_params){.struct_size = sizeof *params, .scale = 1.0f};
}

typedef struct {
    sb_view x, out;
    sb_view mask, sinks, slopes; /* data NULL: absent */
    sb_softmax_args args;        /* what all rows share */
    const sb_softmax_row *row;
    int64_t rows, block;    /* rows in all, rows a task */
    int64_t heads, queries; /* of x (..., heads, queries, N); 1 without sinks and slopes */
    char *buffers;          /* four rows for each worker */
    int64_t row_size;
} softmax;

static void softmax_task(void *arg, int64_t index, int worker)
{
    const softmax *p = arg;
    sb_softmax_args a = p->args;
    char *buffer = p->buffers + worker * 4 * p->row_size;
    a.scratch = (float *)buffer;
    const int64_t begin = index * p->block, end = SB_MIN(begin + p->block, p->rows);
    for (int64_t r = begin; r < end; r++) {
        const int64_t head = r / p->queries % p->heads;
        a.x = sb_row_in(&p->x, r, buffer + p->row_size);
        if (p->mask.data) a.mask = sb_row_in(&p->mask, r, buffer + 2 * p->row_size);
        if (p->slopes.data) a.slope = sb_load(&p->slopes, head * p->slopes.stride[0]);
        if (p->sinks.data) a.sink = sb_load(&p->sinks, head * p->sinks.stride[0]);
        a.next = sb_row_next(&p->x, r, end);
        a.out = sb_row_out(&p->out, r, buffer + 3 * p->row_size);
        p->row->fn(&a);
        sb_row_put(&p->out, r, a.out);
    }
}

static samebits_status run(const samebits_context *context, softmax *p)
{
    if (p->out.count == 0) return SAMEBITS_OK;
    const int64_t n = p->x.shape[p->x.ndim - 1];
    p->args.n = n;
    p->args.x_format = sb_format_of(p->x.dtype);
    p->args.out_format = sb_format_of(p->out.dtype);
    p->args.has_sink = p->sinks.data != NULL;
    p->rows = p->x.count / n;
    p->block = sb_rows_a_task(n);
    p->row = sb_softmax_select(context->cpu);
    const int64_t tasks = sb_ceil_div(p->rows, p->block), workers = sb_workers(context, tasks);
    p->row_size = sb_round_up(n * (int64_t)sizeof(float), SB_ALIGN); /* n fits: x spans n elements */
    int64_t size;
    if (__builtin_mul_overflow(p->row_size, 4 * workers, &size))
        return sb_fail(SAMEBITS_ERR_OVERFLOW, "the softmax's working memory overflows the address space");
    p->buffers = sb_alloc(context, (size_t)size);
    if (!p->buffers) return sb_fail(SAMEBITS_ERR_MEMORY, "out of memory: a softmax needs %lld bytes", (long long)size);
    sb_parallel(context, tasks, softmax_task, p);
    sb_free(context, p->buffers, (size_t)size);
    return SAMEBITS_OK;
}

/* One number a head. */
static samebits_status check_heads(const DLTensor *tensor, const char *name, softmax *p, sb_view *view)
{
    if (!tensor) return SAMEBITS_OK;
    if (p->x.ndim < 3)
        return sb_fail(SAMEBITS_ERR_RANK, "x has %d dimensions, want at least 3 with %s: (..., heads, queries, N)",
                       p->x.ndim, name);
    const samebits_status status = sb_view_of(tensor, name, SB_SET_F32, 1, 1, view);
    if (status) return status;
    p->heads = p->x.shape[p->x.ndim - 3];
    p->queries = p->x.shape[p->x.ndim - 2];
    if (view->shape[0] != p->heads)
        return sb_fail(SAMEBITS_ERR_SHAPE, "%s has %lld elements, want one for each of the %lld heads", name,
                       (long long)view->shape[0], (long long)p->heads);
    return sb_check_overlap(&p->out, view, name, 0);
}

static samebits_status check_params(const samebits_softmax_params *params, softmax *p)
{
    if (!params) return SAMEBITS_OK;
    if (params->struct_size != sizeof *params)
        return sb_fail(SAMEBITS_ERR_PARAM,
                       "params.struct_size is %zu, want %zu: call samebits_softmax_params_default first",
                       params->struct_size, sizeof *params);
    p->args.scale = params->scale;
    samebits_status status;
    if (params->mask) {
        if ((status = sb_view_of(params->mask, "mask", SB_SET_FLOATS, 0, SB_MAX_DIMS, &p->mask)) ||
            (status = sb_check_overlap(&p->out, &p->mask, "mask", 0)) ||
            (status = sb_broadcast(&p->mask, "mask", p->x.ndim, p->x.shape)))
            return status;
        p->args.mask_format = sb_format_of(p->mask.dtype);
    }
    if ((status = check_heads(params->slopes, "slopes", p, &p->slopes))) return status;
    return check_heads(params->sinks, "sinks", p, &p->sinks);
}

samebits_status samebits_softmax(samebits_context *context, const DLTensor *x, const samebits_softmax_params *params,
                                 DLTensor *out)
{
    softmax p = {.args = {.scale = 1.0f, .slope = 1.0f}, .heads = 1, .queries = 1};
    samebits_status status;
    if ((status = sb_check_rows(context, x, out, &p.x, &p.out)) || (status = check_params(params, &p))) return status;
    return run(context, &p);
}

samebits_status samebits_log_softmax(samebits_context *context, const DLTensor *x, DLTensor *out)
{
    softmax p = {.args = {.scale = 1.0f, .slope = 1.0f, .log = 1}, .heads = 1, .queries = 1};
    const samebits_status status = sb_check_rows(context, x, out, &p.x, &p.out);
    return status ? status : run(context, &p);
}
