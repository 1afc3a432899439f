/* The order in scalar C: every other row must give these bits. */
#include "kernels/softmax/softmax.h"

/* Scores into scratch, -Inf where hidden. Returns their maximum (the sink's included), NaN if one of them is
 * NaN or +Inf. */
static float scores(const sb_softmax_args *a)
{
    float max = a->has_sink ? a->sink : -INFINITY;
    int bad = !(max < INFINITY);
    for (int64_t i = 0; i < a->n; i++) {
        const float s = sb_softmax_score_of(a, i);
        a->scratch[i] = s;
        bad |= !(s < INFINITY);
        max = s > max ? s : max;
    }
    return bad ? sb_float(SB_NAN_F32) : max;
}

static void fill(const sb_softmax_args *a, float value)
{
    for (int64_t i = 0; i < a->n; i++) sb_set_element(a->out_format, a->out, i, value);
}

void sb_softmax_ref(const sb_softmax_args *a)
{
    const float max = scores(a);
    if (sb_is_nan(max) || max == -INFINITY) {
        if (a->parts) {
            sb_softmax_put_special(a, max);
            return;
        }
        fill(a, sb_is_nan(max) ? max : a->log ? -INFINITY : 0.0f);
        return;
    }
    int64_t total = a->has_sink ? sb_softmax_weight(sb_exp(a->sink - max)) : 0;
    for (int64_t i = 0; i < a->n; i++) {
        const float d = a->scratch[i] - max, e = sb_exp(d);
        total += sb_softmax_weight(e);
        a->scratch[i] = a->log ? d : e;
    }
    const float denominator = sb_softmax_denominator(total), log = sb_log(denominator);
    if (a->parts) {
        a->parts[0] = max;
        a->parts[1] = log;
        return;
    }
    for (int64_t i = 0; i < a->n; i++)
        sb_set_element(a->out_format, a->out, i, a->log ? a->scratch[i] - log : a->scratch[i] / denominator);
}
