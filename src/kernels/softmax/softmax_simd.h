/* The body of the SIMD rows: the maximum of the scores; exponentials and the sum of their weights; the results. Scores
 * are made again in each pass if that is one product; with a mask they lie in scratch, where the exponentials follow
 * them. A row's last, partial vector is padded with -Inf, which adds nothing. */
#ifndef SB_SOFTMAX_SIMD_H
#define SB_SOFTMAX_SIMD_H

#include "formats/elements_simd.h"
#include "kernels/softmax/softmax.h"
#include "order/exp_simd.h"

enum { GROUP = 4, STEP = GROUP * SB_VL };

SB_INLINE vf score(const sb_softmax_args *a, samebits_format in, int masked, int64_t i)
{
    const vf s = vf_mul(v_elements(in, a->x, i), vf_set1(a->scale)), hidden = vf_set1(-INFINITY);
    if (!masked) return s;
    const vf mask = v_elements(a->mask_format, a->mask, i);
    return vf_select(vf_eq(mask, hidden), hidden, vf_add(s, vf_mul(vf_set1(a->slope), mask)));
}

/* The same; lanes past the end are hidden. */
SB_INLINE vf any_score(const sb_softmax_args *a, samebits_format in, int masked, int64_t i)
{
    if (i + SB_VL <= a->n) return score(a, in, masked, i);
    float lane[SB_VL];
    for (int l = 0; l < SB_VL; l++) lane[l] = i + l < a->n ? sb_softmax_score_of(a, i + l) : -INFINITY;
    return vf_load(lane);
}

/* The largest score, the sink's included; NaN if one of them is NaN or +Inf. */
SB_INLINE float largest(const sb_softmax_args *a, samebits_format in, int masked)
{
    const vf infinity = vf_set1(INFINITY);
    vf max[GROUP];
    vm good = vf_lt(vf_zero(), infinity);
    for (int v = 0; v < GROUP; v++) max[v] = vf_set1(-INFINITY);
    int64_t i = 0;
    for (; i + STEP <= a->n; i += STEP) SB_UNROLL
    for (int v = 0; v < GROUP; v++) {
        const vf s = score(a, in, masked, i + v * SB_VL);
        if (masked) vf_store(a->scratch + i + v * SB_VL, s);
        max[v] = vf_max(s, max[v]);
        good = vm_and(good, vf_lt(s, infinity));
    }
    for (; i < a->n; i += SB_VL) {
        const vf s = any_score(a, in, masked, i);
        if (masked) vf_store(a->scratch + i, s);
        max[0] = vf_max(s, max[0]);
        good = vm_and(good, vf_lt(s, infinity));
    }
    float lane[GROUP * SB_VL], top = a->has_sink ? a->sink : -INFINITY;
    const int fine = vm_all(good) && top < INFINITY;
    for (int v = 0; v < GROUP; v++) vf_store(lane + v * SB_VL, max[v]);
    for (int l = 0; l < GROUP * SB_VL; l++) top = lane[l] > top ? lane[l] : top;
    return fine ? top : sb_float(SB_NAN_F32);
}

/* Adds weights to the 64-bit lanes of the sum. Two weights are at most 2^31, so that they add up as 32 bits. */
SB_INLINE void add_weights(vl sum[2], vi weights)
{
    sum[0] = vl_add(sum[0], vl_and(vi_as_l(weights), vl_set1(0xFFFFFFFF)));
    sum[1] = vl_add(sum[1], vi_as_l(vi_odd(weights)));
}

SB_INLINE vi weight(vf e) { return vf_round_i(vf_mul(e, vf_set1(0x1p30f))); }

SB_INLINE void exponentials_of(const vf d[GROUP], vf e[GROUP])
{
    if (v_all_within(d, GROUP, SB_EXP_NORMAL)) {
        SB_UNROLL
        for (int v = 0; v < GROUP; v++) e[v] = v_exp_normal(d[v]);
    } else {
        for (int v = 0; v < GROUP; v++) e[v] = v_exp(d[v]);
    }
}

/* The sum of the weights; without log the exponentials stay in scratch. The next row is fetched meanwhile. */
SB_INLINE int64_t exponentials(const sb_softmax_args *a, samebits_format in, int masked, int log, float max)
{
    const vf m = vf_set1(max);
    const int size = sb_element_size(in);
    const char *next = a->next ? a->next : a->x;
    vl sum[2] = {vl_zero(), vl_zero()};
    int64_t i = 0;
    for (; i + STEP <= a->n; i += STEP) {
        vf d[GROUP], e[GROUP];
        for (int64_t line = i * size; line < (i + STEP) * size; line += 64) {
            v_prefetch_l2(next + line);
            if (a->out) v_prefetch_l2((const char *)a->out + line);
        }
        SB_UNROLL
        for (int v = 0; v < GROUP; v++) {
            const int64_t at = i + v * SB_VL;
            d[v] = vf_sub(masked ? vf_load(a->scratch + at) : score(a, in, 0, at), m);
        }
        exponentials_of(d, e);
        SB_UNROLL
        for (int v = 0; v < GROUP; v++) {
            if (!log) vf_store(a->scratch + i + v * SB_VL, e[v]);
            if (v % 2) add_weights(sum, vi_add(weight(e[v - 1]), weight(e[v])));
        }
    }
    for (; i < a->n; i += SB_VL) {
        const vf e = v_exp(vf_sub(masked ? vf_load(a->scratch + i) : any_score(a, in, 0, i), m));
        if (!log) vf_store(a->scratch + i, e);
        add_weights(sum, weight(e));
    }
    int64_t lane[SB_VL / 2], total = 0;
    vl_store(lane, vl_add(sum[0], sum[1]));
    for (int l = 0; l < SB_VL / 2; l++) total += lane[l];
    return total;
}

SB_INLINE void results(const sb_softmax_args *a, samebits_format in, samebits_format out, int log, float max,
                       float denominator)
{
    const vf m = vf_set1(max), d = vf_set1(log ? sb_log(denominator) : denominator);
    int64_t i = 0;
    for (; i + SB_VL <= a->n; i += SB_VL) {
        if (log)
            v_set_elements(out, a->out, i, vf_sub(vf_sub(score(a, in, 0, i), m), d));
        else
            v_set_elements(out, a->out, i, vf_div(vf_load(a->scratch + i), d));
    }
    if (i == a->n) return;
    const vf y = log ? vf_sub(vf_sub(any_score(a, in, 0, i), m), d) : vf_div(vf_load(a->scratch + i), d);
    v_set_elements_part(out, a->out, i, a->n - i, y);
}

SB_INLINE void softmax_row(const sb_softmax_args *a, samebits_format in, samebits_format out, int log)
{
    const float max = a->mask ? largest(a, in, 1) : largest(a, in, 0);
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
    total += a->mask ? exponentials(a, in, 1, log, max) : exponentials(a, in, 0, log, max);
    if (a->parts) {
        a->parts[0] = max;
        a->parts[1] = sb_log(sb_softmax_denominator(total));
        return;
    }
    results(a, in, out, log, max, sb_softmax_denominator(total));
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
