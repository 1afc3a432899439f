/* logsumexp, log_likelihood and cross_entropy (samebits/softmax.h): from the maximum and the denominator of each row.
 */
#include "device/cpu/parallel.h"
#include "kernels/softmax/softmax.h"
#include "ops/rows.h"
#include "order/softmax.h"

#include <samebits/softmax.h>

typedef enum { LOGSUMEXP, LOG_LIKELIHOOD, CROSS_ENTROPY } likelihood_op;

typedef struct {
    sb_view x, token, out;
    likelihood_op op;
    const sb_softmax_row *row;
    int64_t n, rows, block; /* rows in all, rows a task */
    char *buffers;          /* two rows for each worker */
    int64_t row_size;
} likelihood;

static int32_t token_of(const likelihood *p, int64_t row)
{
    return ((const int32_t *)p->token.data)[sb_row_offset(&p->token, 0, row)];
}

static void likelihood_task(void *arg, int64_t index, int worker)
{
    const likelihood *p = arg;
    char *buffer = p->buffers + worker * 2 * p->row_size;
    for (int64_t r = index * p->block; r < SB_MIN((index + 1) * p->block, p->rows); r++) {
        float parts[2] = {-INFINITY, 0.0f};
        sb_softmax_args a = {.n = p->n,
                             .x_format = sb_format_of(p->x.dtype),
                             .out_format = sb_format_of(p->x.dtype),
                             .scale = 1.0f,
                             .slope = 1.0f,
                             .log = 1,
                             .scratch = (float *)buffer,
                             .parts = parts};
        if (p->n) {
            a.x = sb_row_in(&p->x, r, buffer + p->row_size);
            p->row->fn(&a);
        }
        float value = sb_logsumexp(parts);
        if (p->op != LOGSUMEXP) {
            const int64_t at = token_of(p, r) * p->x.stride[p->x.ndim - 1];
            value = sb_log_probability(sb_load(&p->x, sb_row_offset(&p->x, 1, r) + at), parts);
        }
        sb_store(&p->out, sb_row_offset(&p->out, 0, r), p->op == CROSS_ENTROPY ? -value : value);
    }
}

static samebits_status run(const samebits_context *context, likelihood *p)
{
    if (p->out.count == 0) return SAMEBITS_OK;
    p->n = p->x.shape[p->x.ndim - 1];
    p->rows = p->out.count;
    p->block = sb_rows_a_task(SB_MAX(p->n, 1));
    p->row = sb_softmax_select(context->cpu);
    const int64_t tasks = sb_ceil_div(p->rows, p->block);
    int64_t size;
    p->row_size = sb_round_up(p->n * (int64_t)sizeof(float), SB_ALIGN); /* n fits: x spans n elements */
    if (__builtin_mul_overflow(p->row_size, 2 * (int64_t)sb_workers(context, tasks), &size))
        return sb_fail(SAMEBITS_ERR_OVERFLOW, "the working memory overflows the address space");
    p->buffers = sb_alloc(context, (size_t)size);
    if (!p->buffers)
        return sb_fail(SAMEBITS_ERR_MEMORY, "out of memory: a likelihood needs %lld bytes", (long long)size);
    sb_parallel(context, tasks, likelihood_task, p);
    sb_free(context, p->buffers, (size_t)size);
    return SAMEBITS_OK;
}

samebits_status samebits_logsumexp(samebits_context *context, const DLTensor *x, DLTensor *out)
{
    likelihood p = {.op = LOGSUMEXP};
    const samebits_status status = sb_check_reduced(context, x, out, SB_SET_FLOATS, &p.x, &p.out);
    return status ? status : run(context, &p);
}

static samebits_status of_tokens(samebits_context *context, likelihood_op op, const DLTensor *x, const DLTensor *token,
                                 DLTensor *out)
{
    likelihood p = {.op = op};
    samebits_status status;
    if ((status = sb_check_reduced(context, x, out, SB_SET_FLOATS, &p.x, &p.out)) ||
        (status = sb_check_one_a_row(token, "token", SB_SET_I32, &p.x, &p.token)) ||
        (status = sb_check_overlap(&p.out, &p.token, "token", 0)))
        return status;
    const int64_t n = p.x.shape[p.x.ndim - 1];
    for (int64_t r = 0; r < p.out.count; r++)
        if (token_of(&p, r) < 0 || token_of(&p, r) >= n)
            return sb_fail(SAMEBITS_ERR_PARAM, "token of row %lld is %d, want 0 to %lld", (long long)r,
                           (int)token_of(&p, r), (long long)n - 1);
    return run(context, &p);
}

samebits_status samebits_log_likelihood(samebits_context *context, const DLTensor *x, const DLTensor *token,
                                        DLTensor *out)
{
    return of_tokens(context, LOG_LIKELIHOOD, x, token, out);
}

samebits_status samebits_cross_entropy(samebits_context *context, const DLTensor *x, const DLTensor *token,
                                       DLTensor *out)
{
    return of_tokens(context, CROSS_ENTROPY, x, token, out);
}
