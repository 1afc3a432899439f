/* top_k and sample (samebits/sampling.h): check, then choose row by row. Probabilities are integers, so that their sums
 * have no order (spec/ops/sampling.md). */
#include <samebits/sampling.h>

#include "device/cpu/parallel.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/reduce/reduce.h"
#include "kernels/softmax/softmax.h"
#include "ops/rows.h"
#include "ops/select.h"
#include "order/philox.h"
#include "order/softmax.h"

typedef struct {
    sb_view x, noise, token; /* sample's */
    sb_view value, index;    /* top_k's; data NULL: not wanted */
    samebits_sampling_params params;
    const sb_softmax_row *softmax;
    const sb_reduce_row *reduce;
    const sb_elementwise_row *widen;
    int64_t n, k, rows, block; /* rows in all, rows a task */
    char *buffers;             /* ranks, two rows of x and one of scratch for each worker */
    int64_t rank_size, row_size;
} selection;

enum { BLOCK = 128 /* entries that are passed over at once if none of them matters */ };

/* The best k of a row; with e, exp(x - max) of each entry, of those that weigh something. As the indices ascend, an
 * entry is only better than the worst so far if it is larger, or NaN. */
static int64_t best_of(const selection *p, const float *x, const float *e, int64_t k, uint64_t *ranks)
{
    int64_t count = 0;
    for (int64_t begin = 0; begin < p->n; begin += BLOCK) {
        const int64_t end = SB_MIN(begin + BLOCK, p->n);
        if (count == k) {
            sb_reduce_args a = {.op = SB_REDUCE_MAX, .n = end - begin, .x = x + begin, .x_format = SAMEBITS_FORMAT_F32};
            p->reduce->fn(&a);
            if (a.value <= x[sb_rank_index(ranks[0])]) continue;
        }
        for (int64_t i = begin; i < end; i++) {
            if (count == k && x[i] <= x[sb_rank_index(ranks[0])]) continue;
            if (!e || sb_softmax_weight(e[i])) sb_offer(ranks, &count, k, sb_rank(x[i], i));
        }
    }
    return count;
}

static void top_k_row(const selection *p, int64_t row, const float *x, uint64_t *ranks)
{
    const int64_t count = best_of(p, x, NULL, p->k, ranks);
    sb_sort_best(ranks, count);
    const int last = p->x.ndim - 1;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = sb_rank_index(ranks[i]);
        if (p->value.data) sb_store(&p->value, sb_row_offset(&p->value, 1, row) + i * p->value.stride[last], x[at]);
        if (p->index.data)
            ((int32_t *)p->index.data)[sb_row_offset(&p->index, 1, row) + i * p->index.stride[last]] = (int32_t)at;
    }
}

/* The worst rank that top_k and top_p leave. */
static uint64_t worst_of_best(const selection *p, const float *x, const float *e, uint64_t *ranks)
{
    int64_t count = best_of(p, x, e, p->params.top_k, ranks), total = 0, prefix = 0;
    if (p->params.top_p >= 1.0f) return ranks[0];
    for (int64_t i = 0; i < count; i++) total += sb_softmax_weight(e[sb_rank_index(ranks[i])]);
    const double enough = (double)p->params.top_p * (double)total;
    sb_queue_best(ranks, count);
    uint64_t worst;
    do {
        worst = sb_take_best(ranks, &count);
        prefix += sb_softmax_weight(e[sb_rank_index(worst)]);
    } while (count && (double)prefix < enough);
    return worst;
}

static int64_t weight_sum(const float *e, int64_t n)
{
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++) total += sb_softmax_weight(e[i]);
    return total;
}

/* The same for top_p alone, without a sort: 11 bits of the ranks at a time, the weights of each value of these bits are
 * added up, to find the value at which there is enough. */
static uint64_t worst_of_all(const selection *p, const float *x, const float *e)
{
    enum { BITS = 11, VALUES = 1 << BITS };
    const double enough = (double)p->params.top_p * (double)weight_sum(e, p->n);
    int64_t prefix = 0;
    uint64_t found = 0, known = 0; /* bits of the worst rank, and which */
    for (int shift = 64 - BITS; shift >= 32 - 1; shift -= BITS) {
        int64_t sum[VALUES] = {0};
        for (int64_t i = 0; i < p->n; i++) {
            const uint64_t rank = sb_rank(x[i], i);
            if ((rank & known) == found) sum[rank >> shift & (VALUES - 1)] += sb_softmax_weight(e[i]);
        }
        uint64_t v = 0;
        for (; v < VALUES - 1 && !(sum[v] && (double)(prefix + sum[v]) >= enough); v++) prefix += sum[v];
        found |= v << shift;
        known |= (uint64_t)(VALUES - 1) << shift;
    }
    uint64_t worst = found;
    for (int64_t i = 0; i < p->n; i++) {
        const uint64_t rank = sb_rank(x[i], i);
        const int64_t weight = (rank & known) == found ? sb_softmax_weight(e[i]) : 0;
        if (!weight) continue;
        worst = rank;
        prefix += weight;
        if ((double)prefix >= enough) break;
    }
    return worst;
}

/* Entries that may not be drawn get the exponential 0. */
static void filter(const selection *p, const float *x, float *e, uint64_t *ranks)
{
    if (p->params.top_k || p->params.top_p < 1.0f) {
        const uint64_t worst = p->params.top_k ? worst_of_best(p, x, e, ranks) : worst_of_all(p, x, e);
        const int64_t at = sb_rank_index(worst);
        const float least = x[at];
        for (int64_t i = 0; i <= at; i++) e[i] = x[i] >= least ? e[i] : 0.0f;
        for (int64_t i = at + 1; i < p->n; i++) e[i] = x[i] > least ? e[i] : 0.0f;
    }
    if (p->params.min_p > 0.0f)
        for (int64_t i = 0; i < p->n; i++) e[i] = e[i] >= p->params.min_p ? e[i] : 0.0f;
}

static uint64_t draw(const selection *p, int64_t row)
{
    uint32_t words[4], out[4];
    const int64_t at = sb_row_offset(&p->noise, 1, row);
    for (int i = 0; i < 4; i++)
        words[i] = ((const uint32_t *)p->noise.data)[at + i * p->noise.stride[p->noise.ndim - 1]];
    sb_philox(words, (const uint32_t[4]){words[2], words[3]}, out);
    return out[0] | (uint64_t)out[1] << 32;
}

static int32_t greedy(const selection *p, const float *x)
{
    sb_reduce_args a = {.op = SB_REDUCE_ARGMAX, .n = p->n, .x = x, .x_format = SAMEBITS_FORMAT_F32};
    p->reduce->fn(&a);
    return x[a.index] > -INFINITY ? (int32_t)a.index : -1;
}

static int32_t sample_row(const selection *p, int64_t row, const float *x, float *e, uint64_t *ranks)
{
    if (p->params.temperature == 0.0f) return greedy(p, x);
    float parts[2];
    const sb_softmax_args a = {.n = p->n,
                               .x = x,
                               .x_format = SAMEBITS_FORMAT_F32,
                               .out_format = SAMEBITS_FORMAT_F32,
                               .scale = 1.0f / p->params.temperature,
                               .slope = 1.0f,
                               .scratch = e,
                               .parts = parts};
    p->softmax->fn(&a);
    if (!(parts[0] > -INFINITY && parts[0] < INFINITY)) return -1;
    filter(p, x, e, ranks);
    const int64_t total = weight_sum(e, p->n);
    int64_t left = (int64_t)((unsigned __int128)draw(p, row) * (uint64_t)total >> 64), i = 0;
    for (int64_t sum; i + BLOCK <= p->n && (sum = weight_sum(e + i, BLOCK)) <= left; i += BLOCK) left -= sum;
    for (; (left -= sb_softmax_weight(e[i])) >= 0; i++) {
    }
    return (int32_t)i;
}

/* A row as contiguous f32. */
static const float *wide_row(const selection *p, int64_t row, char *buffers)
{
    const void *x = sb_row_in(&p->x, row, buffers);
    const samebits_format format = sb_format_of(p->x.dtype);
    if (format == SAMEBITS_FORMAT_F32) return x;
    float *out = (float *)(buffers + p->row_size);
    sb_elementwise_convert(p->widen, p->n, format, x, SAMEBITS_FORMAT_F32, out);
    return out;
}

static void selection_task(void *arg, int64_t index, int worker)
{
    const selection *p = arg;
    char *buffer = p->buffers + worker * (p->rank_size + 3 * p->row_size), *rows = buffer + p->rank_size;
    for (int64_t r = index * p->block; r < SB_MIN((index + 1) * p->block, p->rows); r++) {
        const float *x = wide_row(p, r, rows);
        if (p->token.data)
            ((int32_t *)p->token.data)[sb_row_offset(&p->token, 0, r)] =
                sample_row(p, r, x, (float *)(rows + 2 * p->row_size), (uint64_t *)buffer);
        else
            top_k_row(p, r, x, (uint64_t *)buffer);
    }
}

/* `ranks` of them are needed. */
static samebits_status run(const samebits_context *context, selection *p, int64_t ranks)
{
    p->block = sb_rows_a_task(p->n);
    p->softmax = sb_softmax_select(context->cpu);
    p->reduce = sb_reduce_select(context->cpu);
    p->widen = sb_elementwise_select(context->cpu);
    const int64_t tasks = sb_ceil_div(p->rows, p->block);
    int64_t size;
    p->rank_size = sb_round_up(ranks * (int64_t)sizeof(uint64_t), SB_ALIGN); /* n is below 2^31 */
    p->row_size = sb_round_up(p->n * (int64_t)sizeof(float), SB_ALIGN);
    if (__builtin_mul_overflow(p->rank_size + 3 * p->row_size, sb_workers(context, tasks), &size))
        return sb_fail(SAMEBITS_ERR_OVERFLOW, "the selection's working memory overflows the address space");
    p->buffers = sb_alloc(context, (size_t)size);
    if (!p->buffers)
        return sb_fail(SAMEBITS_ERR_MEMORY, "out of memory: a selection needs %lld bytes", (long long)size);
    sb_parallel(context, tasks, selection_task, p);
    sb_free(context, p->buffers, (size_t)size);
    return SAMEBITS_OK;
}

/* (..., k) of x's rows. */
static samebits_status check_best(const DLTensor *tensor, const char *name, unsigned dtypes, selection *p,
                                  sb_view *view)
{
    if (!tensor) return SAMEBITS_OK;
    samebits_status status = sb_view_of(tensor, name, dtypes, 1, SB_MAX_DIMS, view);
    if (status) return status;
    const int last = p->x.ndim - 1;
    const int fits = view->ndim == p->x.ndim && view->shape[last] >= 1 && view->shape[last] <= p->n &&
                     (p->k == 0 || p->k == view->shape[last]) && sb_same_sizes(view, &p->x, last);
    char have[128], want[128];
    if (!fits)
        return sb_fail(SAMEBITS_ERR_SHAPE, "%s is %s, want x's %s with one k from 1 to %lld for the last", name,
                       sb_shape_text(view, have), sb_shape_text(&p->x, want), (long long)p->n);
    p->k = view->shape[last];
    if ((status = sb_check_output_named(view, name))) return status;
    return sb_check_overlap(view, &p->x, "x", 0);
}

static samebits_status check_x(const samebits_context *context, const DLTensor *x, selection *p)
{
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
    const samebits_status status = sb_view_of(x, "x", SB_SET_FLOATS, 1, SB_MAX_DIMS, &p->x);
    if (status) return status;
    p->n = p->x.shape[p->x.ndim - 1];
    if (p->n < 1 || p->n > INT32_MAX)
        return sb_fail(SAMEBITS_ERR_SHAPE, "x has %lld columns, want 1 to 2^31 - 1", (long long)p->n);
    p->rows = p->x.count / p->n;
    return SAMEBITS_OK;
}

samebits_status samebits_top_k(samebits_context *context, const DLTensor *x, DLTensor *value, DLTensor *index)
{
    selection p = {0};
    samebits_status status = check_x(context, x, &p);
    if (status) return status;
    if (!value && !index) return sb_fail(SAMEBITS_ERR_NULL, "value and index are NULL: want one of them");
    if ((status = check_best(value, "value", SB_SET_FLOATS, &p, &p.value)) ||
        (status = check_best(index, "index", SB_SET_I32, &p, &p.index)))
        return status;
    if (value && p.value.dtype != SB_F32 && p.value.dtype != p.x.dtype)
        return sb_fail(SAMEBITS_ERR_DTYPE, "value is %s, want f32 or x's %s", sb_dtype_name(p.value.dtype),
                       sb_dtype_name(p.x.dtype));
    if (value && index && (status = sb_check_overlap(&p.index, &p.value, "value", 0))) return status;
    return p.rows ? run(context, &p, p.k) : SAMEBITS_OK;
}

void samebits_sampling_params_default(samebits_sampling_params *params)
{
    if (params) *params = (samebits_sampling_params){.struct_size = sizeof *params, .temperature = 1.0f, .top_p = 1.0f};
}

static samebits_status check_params(const samebits_sampling_params *p, int64_t n)
{
    if (p->struct_size != sizeof *p)
        return sb_fail(SAMEBITS_ERR_PARAM,
                       "params.struct_size is %zu, want %zu: call samebits_sampling_params_default first",
                       p->struct_size, sizeof *p);
    if (p->temperature != 0.0f && !(p->temperature >= 0x1p-126f && p->temperature < INFINITY))
        return sb_fail(SAMEBITS_ERR_PARAM, "temperature is %g, want 0 or a positive number", (double)p->temperature);
    if (p->top_k < 0 || p->top_k > n)
        return sb_fail(SAMEBITS_ERR_PARAM, "top_k is %lld, want 0 (all) to %lld", (long long)p->top_k, (long long)n);
    if (!(p->top_p >= 0.0f && p->top_p <= 1.0f))
        return sb_fail(SAMEBITS_ERR_PARAM, "top_p is %g, want 0 to 1", (double)p->top_p);
    if (!(p->min_p >= 0.0f && p->min_p <= 1.0f))
        return sb_fail(SAMEBITS_ERR_PARAM, "min_p is %g, want 0 to 1", (double)p->min_p);
    return SAMEBITS_OK;
}

/* Four words a row. */
static samebits_status check_noise(const DLTensor *tensor, selection *p)
{
    const samebits_status status = sb_view_of(tensor, "noise", SB_SET_U32, 1, SB_MAX_DIMS, &p->noise);
    if (status) return status;
    const int last = p->x.ndim - 1;
    const int fits = p->noise.ndim == p->x.ndim && p->noise.shape[last] == 4 && sb_same_sizes(&p->noise, &p->x, last);
    char have[128], want[128];
    if (fits) return sb_check_overlap(&p->token, &p->noise, "noise", 0);
    return sb_fail(SAMEBITS_ERR_SHAPE, "noise is %s, want x's %s with 4 for the last", sb_shape_text(&p->noise, have),
                   sb_shape_text(&p->x, want));
}

samebits_status samebits_sample(samebits_context *context, const DLTensor *x, const samebits_sampling_params *params,
                                const DLTensor *noise, DLTensor *token)
{
    selection p = {0};
    samebits_sampling_params_default(&p.params);
    if (params) p.params = *params;
    samebits_status status;
    if ((status = check_x(context, x, &p)) ||
        (status = sb_check_one_a_row(token, "token", SB_SET_I32, &p.x, &p.token)) ||
        (status = sb_check_output_named(&p.token, "token")) || (status = sb_check_overlap(&p.token, &p.x, "x", 0)) ||
        (status = check_noise(noise, &p)) || (status = check_params(&p.params, p.n)))
        return status;
    return p.rows ? run(context, &p, p.params.top_k) : SAMEBITS_OK;
}
