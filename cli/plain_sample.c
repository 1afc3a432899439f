/* top_k and sample in plain C (spec/ops/sampling.md). */
#include <math.h>
#include <stdlib.h>

#include "op_rows.h"
#include "plain.h"
#include "plain_math.h"

typedef struct entry {
    float x;
    int64_t index, weight;
    int kept;
} entry;

/* NaN first, then larger ones, then lower indices. */
static int compare_entries(const void *a, const void *b)
{
    const entry *l = a, *r = b;
    if (isnan(l->x) != isnan(r->x)) return isnan(l->x) ? -1 : 1;
    if (l->x != r->x && !isnan(l->x)) return l->x > r->x ? -1 : 1;
    return l->index < r->index ? -1 : 1;
}

static entry *sorted(const float *x, int64_t n)
{
    entry *list = cli_alloc((size_t)n * sizeof *list);
    for (int64_t i = 0; i < n; i++) list[i] = (entry){x[i], i, 0, 1};
    qsort(list, (size_t)n, sizeof *list, compare_entries);
    return list;
}

static void top_k_row(const plain_call *call, const float *x, int64_t row)
{
    const int64_t n = call->p->k;
    entry *list = sorted(x, n);
    for (int64_t i = 0; i < n; i++) tensor_set(call->out, row * n + i, list[i].x);
    free(list);
}

/* Philox4x32-10, its first two words as one number. */
static uint64_t noise(const uint32_t words[4])
{
    uint32_t k0 = words[0], k1 = words[1], c0 = words[2], c1 = words[3], c2 = 0, c3 = 0;
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
        const uint64_t p = (uint64_t)c0 * 0xD2511F53, q = (uint64_t)c2 * 0xCD9E8D57;
        c0 = (uint32_t)(q >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)q;
        c2 = (uint32_t)(p >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p;
    }
    return (uint64_t)c1 << 32 | c0;
}

/* The scores' maximum, NaN if the row has no probabilities. */
static float weigh(const plain_call *call, entry *list, float r, float min_p)
{
    const int64_t n = call->p->k;
    float max = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const float s = list[i].x * r;
        if (!(s < INFINITY)) return NAN;
        max = s > max ? s : max;
    }
    if (max == -INFINITY) return NAN;
    for (int64_t i = 0; i < n; i++) {
        const float e = plain_exp(list[i].x * r - max);
        list[i].weight = llrint((double)e * 0x1p30);
        list[i].kept = e >= min_p;
    }
    return max;
}

static int32_t pick(entry *list, int64_t n, uint64_t random)
{
    int64_t total = 0, before = 0;
    int64_t *weight = cli_alloc((size_t)n * sizeof *weight);
    for (int64_t i = 0; i < n; i++) {
        weight[list[i].index] = list[i].kept ? list[i].weight : 0;
        total += weight[list[i].index];
    }
    const int64_t at = (int64_t)((unsigned __int128)random * (uint64_t)total >> 64);
    int32_t token = 0;
    while (before + weight[token] <= at) before += weight[token++];
    free(weight);
    return token;
}

static void sample_row(const plain_call *call, const float *x, int64_t row)
{
    const int64_t n = call->p->k;
    samebits_sampling_params params;
    uint32_t words[4];
    int32_t *token = tensor_at(call->out, row);
    sampling_of(call->p, &params, words);
    entry *list = sorted(x, n);
    *token = -1;
    if (!isnan(weigh(call, list, 1.0f / params.temperature, params.min_p))) {
        /* Entries of weight 0 are never drawn, and count in nothing. */
        int64_t all = 0, sum = 0, most = params.top_k ? params.top_k : n;
        for (int64_t i = 0; i < CLI_MIN(most, n); i++) all += list[i].weight;
        for (int64_t i = 0; i < n; i++) {
            if (i >= most || (i && params.top_p < 1.0f && (double)sum >= (double)params.top_p * (double)all))
                list[i].kept = 0;
            sum += list[i].weight;
        }
        *token = pick(list, n, noise(words));
    }
    free(list);
}

void plain_top_k(const plain_call *call) { plain_each_row(call, top_k_row); }
void plain_sample(const plain_call *call) { plain_each_row(call, sample_row); }
