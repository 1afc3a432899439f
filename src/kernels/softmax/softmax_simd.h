/* The body of the SIMD rows: scores and their maximum; exponentials and the sum of their weights;
 * the quotients. Between the passes the row lies in scratch, padded with -Inf, which adds nothing. */
#ifndef SB_SOFTMAX_SIMD_H
#define SB_SOFTMAX_SIMD_H

#include "formats/elements_simd.h"
#include "kernels/softmax/softmax.h"
#include "order/exp_simd.h"
#include "order/softmax.h"

SB_INLINE vf score(const sb_softmax_args *a, samebits_format in, int masked, int64_t i)
{
    const vf s = vf_mul(v_elements(in, a->x, i), vf_set1(a->scale)), hidden = vf_set1(-INFINITY);
    if (!masked) return s;
    const vf mask = v_elements(a->mask_format, a->mask, i);
    return vf_select(vf_eq(mask, hidden), hidden, vf_add(s, vf_mul(vf_set1(a->slope), mask)));
}

/* The last, partial vector; lanes past the end are hidden. */
SB_INLINE vf last_score(const sb_softmax_args *a, samebits_format in, int masked, int64_t i)
{
    float lane[SB_VL];
    for (int l = 0; l < SB_VL; l++) {
        lane[l] = -INFINITY;
        if (i + l >= a->n) continue;
        const float x = sb_element(in, a->x, i + l);
        lane[l] =
            masked ? sb_softmax_score(x, a->scale, a->slope, sb_element(a->mask_format, a->mask, i + l)) : x * a->scale;
    }
    return vf_load(lane);
}

SB_INLINE float scores(const sb_softmax_args *a, samebits_format in, int masked)
{
    const vf infinity = vf_set1(INFINITY);
    vf max = vf_set1(-INFINITY), good = infinity;
    for (int64_t i = 0; i < a->n; i += SB_VL) {
        const vf s = i + SB_VL <= a->n ? score(a, in, masked, i) : last_score(a, in, masked, i);
        vf_store(a->scratch + i, s);
        max = vf_max(s, max);
        /* 0 from the first score on that is NaN or +Inf. */
        good = vf_select(vf_lt(s, infinity), good, vf_zero());
    }
    float lane[SB_VL], fine[SB_VL], top = a->has_sink ? a->sink : -INFINITY;
    int bad = !(top < INFINITY);
    vf_store(lane, max);
    vf_store(fine, good);
    for (int l = 0; l < SB_VL; l++) {
        top = lane[l] > top ? lane[l] : top;
        bad |= fine[l] == 0.0f;
    }
    return bad ? sb_float(SB_NAN_F32) : top;
}

/* The sum of the weights, as 64-bit lanes; differences stay in scratch for log, exponentials otherwise. */
SB_INLINE int64_t exponentials(const sb_softmax_args *a, float max, int log)
{
    const vf m = vf_set1(max), two_30 = vf_set1(0x1p30f);
    const vl low_half = vl_set1(0xFFFFFFFF);
    vl even = vl_zero(), odd = vl_zero();
    for (int64_t i = 0; i < a->n; i += SB_VL) {
        const vf d = vf_sub(vf_load(a->scratch + i), m), e = v_exp(d);
        const vi weight = vf_round_i(vf_mul(e, two_30));
        even = vl_add(even, vl_and(vi_as_l(weight), low_half));
        odd = vl_add(odd, vi_as_l(vi_odd(weight)));
        vf_store(a->scratch + i, log ? d : e);
    }
    int64_t lane[SB_VL / 2], total = 0;
    vl_store(lane, vl_add(even, odd));
    for (int l = 0; l < SB_VL / 2; l++) total += lane[l];
    return total;
}

SB_INLINE void results(const sb_softmax_args *a, samebits_format out, int log, float denominator)
{
    const vf d = vf_set1(log ? sb_log(denominator) : denominator);
    for (int64_t i = 0; i < a->n; i += SB_VL) {
        const vf s = vf_load(a->scratch + i), y = log ? vf_sub(s, d) : vf_div(s, d);
        if (i + SB_VL <= a->n)
            v_set_elements(out, a->out, i, y);
        else
            v_set_elements_part(out, a->out, i, a->n - i, y);
    }
}

SB_INLINE void softmax_row(const sb_softmax_args *a, samebits_format in, samebits_format out, int log)
{
    const float max = a->mask ? scores(a, in, 1) : scores(a, in, 0);
    if (sb_is_nan(max) || max == -INFINITY) {
        if (a->parts) {
            sb_softmax_put_special(a, max);
            return;
        }
        const float value = sb_is_nan(max) ? max : log ? -INFINITY : 0.0f;
        for (int64_t i = 0; i < a->n; i++) sb_set_element(out, a->out, i, value);
        return;
    }
    int64_t total = a->has_sink ? sb_softmax_weight(sb_exp(a->sink - max)) : 0;
    total += exponentials(a, max, log);
    if (a->parts) {
        a->parts[0] = max;
        a->parts[1] = sb_log(sb_softmax_denominator(total));
        return;
    }
    results(a, out, log, sb_softmax_denominator(total));
}

SB_INLINE void softmax_of(const sb_softmax_args *a, samebits_format in, samebits_format out)
{
    if (a->log)
        softmax_row(a, in, out, 1);
    else
        softmax_row(a, in, out, 0);
}

SB_INLINE void softmax(const sb_softmax_args *a)
{
    const samebits_format f32 = SAMEBITS_FORMAT_F32, f16 = SAMEBITS_FORMAT_F16, bf16 = SAMEBITS_FORMAT_BF16;
    if (a->x_format == f32)
        softmax_of(a, f32, f32);
    else if (a->x_format == f16 && a->out_format == f16)
        softmax_of(a, f16, f16);
    else if (a->x_format == f16)
        softmax_of(a, f16, f32);
    else if (a->out_format == bf16)
        softmax_of(a, bf16, bf16);
    else
        softmax_of(a, bf16, f32);
}

#endif
