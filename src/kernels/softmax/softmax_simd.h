/* The body of the SIMD rows: the maximum of the scores; exponentials and the sum of their weights; the results. Scores
 * are made again in each pass if that is a product or less; with a mask they lie in scratch. A row's last, partial
 * vector is padded with -Inf, which adds nothing. */
#ifndef SB_SOFTMAX_SIMD_H
#define SB_SOFTMAX_SIMD_H

#include "formats/elements_simd.h"
#include "kernels/softmax/softmax.h"
#include "order/exp_simd.h"

enum { GROUP = 4, STEP = GROUP * SB_VL };

/* What makes a score: x alone, which scale = 1 leaves as it is; x * scale; and the mask. */
typedef enum { PLAIN, SCALED, MASKED } scoring;

SB_INLINE scoring scoring_of(const sb_softmax_args *a, int log)
{
    return log || (!a->mask && a->scale == 1.0f) ? PLAIN : a->mask ? MASKED : SCALED;
}

SB_INLINE vf score(const sb_softmax_args *a, samebits_format in, scoring kind, int64_t i)
{
    const vf x = v_elements(in, a->x, i), s = vf_mul(x, vf_set1(a->scale)), hidden = vf_set1(-INFINITY);
    if (kind != MASKED) return kind == PLAIN ? x : s;
    const vf mask = v_elements(a->mask_format, a->mask, i);
    return vf_select(vf_eq(mask, hidden), hidden, vf_add(s, vf_mul(vf_set1(a->slope), mask)));
}

/* The same; lanes past the end are hidden. */
SB_INLINE vf any_score(const sb_softmax_args *a, samebits_format in, scoring kind, int64_t i)
{
    if (i + SB_VL <= a->n) return score(a, in, kind, i);
    float lane[SB_VL];
    for (int l = 0; l < SB_VL; l++) lane[l] = i + l < a->n ? sb_softmax_score_of(a, i + l) : -INFINITY;
    return vf_load(lane);
}

/* The largest score, the sink's included; NaN if one of them is NaN or +Inf. */
SB_INLINE float largest(const sb_softmax_args *a, samebits_format in, scoring kind)
{
    vf max[GROUP], s[GROUP];
    vm good = vf_ordered(vf_zero(), vf_zero());
    for (int v = 0; v < GROUP; v++) max[v] = vf_set1(-INFINITY);
    int64_t i = 0;
    for (; i + STEP <= a->n; i += STEP) SB_UNROLL
    for (int v = 0; v < GROUP; v++) {
        s[v] = score(a, in, kind, i + v * SB_VL);
        if (kind == MASKED) vf_store(a->scratch + i + v * SB_VL, s[v]);
        max[v] = vf_max(s[v], max[v]);
        if (v % 2) good = vm_and(good, vf_ordered(s[v - 1], s[v]));
    }
    for (; i < a->n; i += SB_VL) {
        s[0] = any_score(a, in, kind, i);
        if (kind == MASKED) vf_store(a->scratch + i, s[0]);
        max[0] = vf_max(s[0], max[0]);
        good = vm_and(good, vf_ordered(s[0], s[0]));
    }
    float lane[SB_VL], top = a->has_sink ? a->sink : -INFINITY;
    const int fine = vm_all(good) && !sb_is_nan(top);
    vf_store(lane, vf_max(vf_max(max[0], max[1]), vf_max(max[2], max[3])));
    for (int l = 0; l < SB_VL; l++) top = lane[l] > top ? lane[l] : top;
    return fine && top < INFINITY ? top : sb_float(SB_NAN_F32);
}

/* The exponentials of a row as multiples of 2^-30, a scale that is exact. */
typedef struct {
    vl whole, odd; /* sums of the rounded ones: of pairs of 32-bit lanes, and of the odd lanes alone */
    vf lowest;     /* the lowest d whose exponential is not 0 */
} weights;

/* Two weights are at most 2^31, so that they add up as 32 bits. A sum of pairs may wrap: see total_of. */
SB_INLINE void add_weights(weights *w, vi two)
{
    w->whole = vl_add(w->whole, vi_as_l(two));
    w->odd = vl_add(w->odd, vi_as_l(vi_odd(two)));
}

/* whole is even + 2^32 * odd, modulo 2^64. */
SB_INLINE int64_t total_of(const weights *w)
{
    int64_t whole[SB_VL / 2], odd[SB_VL / 2];
    uint64_t total = 0;
    vl_store(whole, w->whole);
    vl_store(odd, w->odd);
    for (int l = 0; l < SB_VL / 2; l++) total += (uint64_t)whole[l] - ((uint64_t)odd[l] << 32) + (uint64_t)odd[l];
    return (int64_t)total;
}

SB_INLINE float lowest_of(const weights *w)
{
    float lane[SB_VL], lowest = 0.0f;
    vf_store(lane, w->lowest);
    for (int l = 0; l < SB_VL; l++) lowest = lane[l] < lowest ? lane[l] : lowest;
    return lowest;
}

/* 2^30 * exp(d) for any d up to 0. */
SB_INLINE vf exponential(weights *w, vf d)
{
    w->lowest = vf_min(vf_select(vf_gt(d, vf_set1(SB_EXP_LOW)), d, vf_zero()), w->lowest);
    return vf_mul(v_exp(d), vf_set1(0x1p30f));
}

SB_INLINE void exponentials_of(weights *w, const vf d[GROUP], vf e[GROUP])
{
    vf lowest = d[0];
    SB_UNROLL
    for (int v = 1; v < GROUP; v++) lowest = vf_min(d[v], lowest);
    if (vm_all(vf_gt(lowest, vf_set1(-SB_EXP_NORMAL)))) {
        w->lowest = vf_min(lowest, w->lowest);
        SB_UNROLL
        for (int v = 0; v < GROUP; v++) e[v] = v_exp_normal_30(d[v]);
    } else {
        for (int v = 0; v < GROUP; v++) e[v] = exponential(w, d[v]);
    }
}

/* Where the exponentials of full vectors stay until they are divided; a last, partial one stays in scratch. In out, if
 * it is f32, they take no room of their own in the nearest cache. */
SB_INLINE float *kept(const sb_softmax_args *a, samebits_format out)
{
    return out == SAMEBITS_FORMAT_F32 && !a->parts ? a->out : a->scratch;
}

/* Without log the exponentials are kept; for parts, as they are. The next row is fetched meanwhile, and where to write
 * the results if nothing is written there before. */
SB_INLINE weights exponentials(const sb_softmax_args *a, samebits_format in, samebits_format out, scoring kind, int log,
                               float max)
{
    float *keep = kept(a, out);
    const vf m = vf_set1(max), one = vf_set1(0x1p-30f);
    const int size = sb_element_size(in);
    const char *next = a->next ? a->next : a->x, *own = a->out;
    const int writes_later = own && (log || out != SAMEBITS_FORMAT_F32);
    weights w = {vl_zero(), vl_zero(), vf_zero()};
    int64_t i = 0;
    for (; i + STEP <= a->n; i += STEP) {
        vf d[GROUP], e[GROUP];
        SB_UNROLL
        for (int line = 0; line < STEP * size; line += 64) {
            v_prefetch_l2(next + i * size + line);
            if (writes_later) v_prefetch_l2(own + i * size + line);
        }
        SB_UNROLL
        for (int v = 0; v < GROUP; v++) {
            const int64_t at = i + v * SB_VL;
            d[v] = vf_sub(kind == MASKED ? vf_load(a->scratch + at) : score(a, in, kind, at), m);
        }
        exponentials_of(&w, d, e);
        SB_UNROLL
        for (int v = 0; v < GROUP; v += 2) add_weights(&w, vi_add(vf_round_i(e[v]), vf_round_i(e[v + 1])));
        if (log) continue;
        if (a->parts) SB_UNROLL
        for (int v = 0; v < GROUP; v++) e[v] = vf_mul(e[v], one);
        SB_UNROLL
        for (int v = 0; v < GROUP; v++) vf_store(keep + i + v * SB_VL, e[v]);
    }
    for (; i < a->n; i += SB_VL) {
        const vf e = exponential(&w, vf_sub(kind == MASKED ? vf_load(a->scratch + i) : any_score(a, in, kind, i), m));
        if (!log) vf_store((i + SB_VL <= a->n ? keep : a->scratch) + i, a->parts ? vf_mul(e, one) : e);
        add_weights(&w, vf_round_i(e));
    }
    return w;
}

/* e / l, from r = RN(1 / l). q = RN(e * r) is less than an ulp from the quotient, or less than 3/2 and then on the side
 * on which r lies from 1 / l, and the remainder is exact, or in the latter case as good. Then q + remainder * r rounds
 * as the quotient does (Markstein 1990): for a remainder of one unit more or less than that of a midpoint between two
 * floats the error of r, half an ulp, is too small to reach it. That takes a quotient that is 0 or normal, and a
 * remainder, a multiple of ulp(q) * ulp(l), that does not underflow: l is 2^30 or more. */
SB_INLINE vf quotient(vf e, vf minus_l, vf r)
{
    const vf q = vf_mul(e, r);
    return vf_fma(vf_fma(q, minus_l, e), r, q);
}

/* From exponentials and a denominator that are both multiplied by 2^30. */
SB_INLINE void results(const sb_softmax_args *a, samebits_format out, float l, int normal)
{
    const vf d = vf_set1(l), minus_d = vf_set1(-l), r = vf_set1(1.0f / l);
    const float *e = kept(a, out);
    int64_t i = 0;
#define RESULT(e) normal ? quotient(vf_load(e), minus_d, r) : vf_div(vf_load(e), d)
    for (; i + STEP <= a->n; i += STEP) SB_UNROLL
    for (int v = 0; v < STEP; v += SB_VL) v_set_numbers(out, a->out, i + v, RESULT(e + i + v));
    for (; i + SB_VL <= a->n; i += SB_VL) v_set_numbers(out, a->out, i, RESULT(e + i));
    if (i < a->n) v_set_elements_part(out, a->out, i, a->n - i, RESULT(a->scratch + i));
#undef RESULT
}

SB_INLINE void logarithms(const sb_softmax_args *a, samebits_format in, samebits_format out, float max, float log)
{
    const vf m = vf_set1(max), l = vf_set1(log);
    int64_t i = 0;
    for (; i + SB_VL <= a->n; i += SB_VL) v_set_numbers(out, a->out, i, vf_sub(vf_sub(score(a, in, PLAIN, i), m), l));
    if (i < a->n) v_set_elements_part(out, a->out, i, a->n - i, vf_sub(vf_sub(any_score(a, in, PLAIN, i), m), l));
}

SB_INLINE void softmax_row(const sb_softmax_args *a, samebits_format in, samebits_format out, int log)
{
    const scoring kind = scoring_of(a, log);
    const float max = kind == PLAIN    ? largest(a, in, PLAIN)
                      : kind == SCALED ? largest(a, in, SCALED)
                                       : largest(a, in, MASKED);
    if (sb_is_nan(max) || max == -INFINITY) {
        if (a->parts) {
            sb_softmax_put_special(a, max);
            return;
        }
        const float value = sb_is_nan(max) ? max : log ? -INFINITY : 0.0f;
        for (int64_t i = 0; i < a->n; i++) sb_set_element(out, a->out, i, value);
        return;
    }
    const weights w = kind == PLAIN    ? exponentials(a, in, out, PLAIN, log, max)
                      : kind == SCALED ? exponentials(a, in, out, SCALED, log, max)
                                       : exponentials(a, in, out, MASKED, log, max);
    const float denominator =
        sb_softmax_denominator(total_of(&w) + (a->has_sink ? sb_softmax_weight(sb_exp(a->sink - max)) : 0));
    if (a->parts) {
        a->parts[0] = max;
        a->parts[1] = sb_log(denominator);
        return;
    }
    if (log)
        logarithms(a, in, out, max, sb_log(denominator));
    else if (sb_exp(lowest_of(&w)) >= denominator * 0x1p-125f)
        results(a, out, denominator * 0x1p30f, 1);
    else
        results(a, out, denominator * 0x1p30f, 0);
}

SB_INLINE void softmax_of(const sb_softmax_args *a, samebits_format in, samebits_format out)
{
    if (a->log)
        softmax_row(a, in, out, 1);
    else
        softmax_row(a, in, out, 0);
}

SB_INLINE void softmax(const sb_softmax_args *args)
{
    const sb_softmax_args own = *args, *a = &own; /* which no store can change, so that it stays in registers */
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
