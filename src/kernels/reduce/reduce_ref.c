/* The order in scalar C: every other row must give these bits. */
#include "formats/elements.h"
#include "kernels/reduce/reduce.h"
#include "order/sum.h"

static float sum(const sb_reduce_args *a)
{
    float total = 0.0f;
    for (int64_t begin = 0; begin < a->n; begin += SB_SUM_CHUNK) {
        const int64_t length = SB_MIN(SB_SUM_CHUNK, a->n - begin);
        float lane[SB_SUM_LANES] = {0};
        for (int64_t i = 0; i < length; i++)
            lane[i % SB_SUM_LANES] = lane[i % SB_SUM_LANES] + sb_element(a->x_format, a->x, begin + i);
        const float chunk = sb_sum_fold(lane, SB_SUM_LANES);
        total = begin ? total + chunk : chunk;
    }
    return total;
}

static float max(const sb_reduce_args *a)
{
    int32_t best = sb_reduce_key(-INFINITY);
    for (int64_t i = 0; i < a->n; i++) {
        const float x = sb_element(a->x_format, a->x, i);
        if (sb_is_nan(x)) return x;
        best = SB_MAX(best, sb_reduce_key(x));
    }
    return sb_reduce_unkey(best);
}

/* The first of the largest; -0 and +0 are equal, and NaN is above all. */
static int64_t argmax(const sb_reduce_args *a)
{
    int64_t at = 0;
    float best = sb_element(a->x_format, a->x, 0);
    for (int64_t i = 1; i < a->n && !sb_is_nan(best); i++) {
        const float x = sb_element(a->x_format, a->x, i);
        if (!(x > best) && !sb_is_nan(x)) continue;
        best = x;
        at = i;
    }
    return at;
}

void sb_reduce_ref(sb_reduce_args *a)
{
    switch (a->op) {
    case SB_REDUCE_SUM: a->value = sum(a); break;
    case SB_REDUCE_MEAN: a->value = sum(a) / (float)a->n; break;
    case SB_REDUCE_MAX: a->value = max(a); break;
    default: a->index = argmax(a);
    }
}
