/* sum, mean, max and argmax (samebits/reduce.h): check, then run row by row. */
#include <samebits/reduce.h>

#include "device/cpu/parallel.h"
#include "kernels/reduce/reduce.h"
#include "ops/rows.h"

typedef struct {
    sb_view x, out;
    sb_reduce_op op;
    const sb_reduce_row *row;
    int64_t n, rows, block; /* rows in all, rows a task */
    char *buffers;          /* a row for each worker */
    int64_t row_size;
} reduction;

static void reduce_task(void *arg, int64_t index, int worker)
{
    const reduction *p = arg;
    for (int64_t r = index * p->block; r < SB_MIN((index + 1) * p->block, p->rows); r++) {
        sb_reduce_args a = {.op = p->op, .n = p->n, .x_format = sb_format_of(p->x.dtype)};
        if (p->n) a.x = sb_row_in(&p->x, r, p->buffers + worker * p->row_size);
        p->row->fn(&a);
        const int64_t at = sb_row_offset(&p->out, 0, r);
        if (p->op == SB_REDUCE_ARGMAX)
            ((int32_t *)p->out.data)[at] = (int32_t)a.index;
        else
            sb_store(&p->out, at, a.value);
    }
}

static samebits_status run(const samebits_context *context, reduction *p)
{
    if (p->out.count == 0) return SAMEBITS_OK;
    p->n = p->x.shape[p->x.ndim - 1];
    p->rows = p->out.count;
    p->block = sb_rows_a_task(SB_MAX(p->n, 1));
    p->row = sb_reduce_select(context->cpu);
    const int64_t tasks = sb_ceil_div(p->rows, p->block);
    int64_t size;
    p->row_size = sb_round_up(p->n * (int64_t)sizeof(float), SB_ALIGN); /* n fits: x spans n elements */
    if (__builtin_mul_overflow(p->row_size, sb_workers(context, tasks), &size))
        return sb_fail(SAMEBITS_ERR_OVERFLOW, "the reduction's working memory overflows the address space");
    p->buffers = sb_alloc(context, (size_t)size);
    if (!p->buffers)
        return sb_fail(SAMEBITS_ERR_MEMORY, "out of memory: a reduction needs %lld bytes", (long long)size);
    sb_parallel(context, tasks, reduce_task, p);
    sb_free(context, p->buffers, (size_t)size);
    return SAMEBITS_OK;
}

static samebits_status reduce(const samebits_context *context, sb_reduce_op op, const DLTensor *x, const DLTensor *out)
{
    reduction p = {.op = op};
    const samebits_status status = sb_check_reduced(context, x, out, SB_SET_FLOATS, &p.x, &p.out);
    return status ? status : run(context, &p);
}

samebits_status samebits_sum(samebits_context *context, const DLTensor *x, DLTensor *out)
{
    return reduce(context, SB_REDUCE_SUM, x, out);
}

samebits_status samebits_mean(samebits_context *context, const DLTensor *x, DLTensor *out)
{
    return reduce(context, SB_REDUCE_MEAN, x, out);
}

samebits_status samebits_max(samebits_context *context, const DLTensor *x, DLTensor *out)
{
    return reduce(context, SB_REDUCE_MAX, x, out);
}

samebits_status samebits_argmax(samebits_context *context, const DLTensor *x, DLTensor *out)
{
    reduction p = {.op = SB_REDUCE_ARGMAX};
    const samebits_status status = sb_check_reduced(context, x, out, SB_SET_I32, &p.x, &p.out);
    if (status) return status;
    const int64_t n = p.x.shape[p.x.ndim - 1];
    if (n < 1 || n > INT32_MAX)
        return sb_fail(SAMEBITS_ERR_SHAPE, "x has %lld columns, want 1 to 2^31 - 1", (long long)n);
    return run(context, &p);
}
