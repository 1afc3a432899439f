/* From dots to scores, one row: spec/ops/attention.md, section scores. */
#ifndef SB_SCORE_SIMD_H
#define SB_SCORE_SIMD_H

#include "base/simd.h"
#include "kernels/attention/attention.h"
#include "order/functions_simd.h"

typedef struct {
    vf max, top;
    vm good;
} line_state;

/* Lanes [low, high) of the vector at j. */
SB_INLINE vm lanes_between(int64_t low, int64_t high)
{
    static const float index[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const vf lane = vf_load(index);
    const float first = (float)SB_MAX(low, 0), last = (float)SB_MAX(0, SB_MIN(high, SB_VL));
    return vm_and(vf_gt(lane, vf_set1(first - 0.5f)), vf_lt(lane, vf_set1(last)));
}

/* capped, biased and ranged are constants. */
SB_INLINE void score_vector(const sb_attention_line *l, int64_t j, int capped, int biased, int ranged,
                            line_state *state)
{
    const vf hidden = vf_set1(-INFINITY);
    vf s = vf_mul(vf_load(l->score + j), vf_set1(l->scale));
    if (capped) {
        const vf cap = vf_set1(l->softcap);
        s = vf_mul(cap, v_tanh(vf_div(s, cap)));
    }
    vf top = l->largest ? vf_load(l->largest + j) : vf_zero();
    if (biased) {
        const vf bias = vf_load(l->bias + j);
        const vm gone = vf_eq(bias, hidden);
        s = vf_select(gone, hidden, vf_add(s, vf_mul(vf_set1(l->slope), bias)));
        top = vf_select(gone, vf_zero(), top);
    }
    if (ranged) {
        const vm in = lanes_between(l->begin - j, l->end - j);
        s = vf_select(in, s, hidden);
        top = vf_select(in, top, vf_zero());
    }
    vf_store(l->score + j, s);
    state->good = vm_and(state->good, vf_lt(s, vf_set1(INFINITY)));
    state->max = vf_max(s, state->max);
    state->top = vf_max(top, state->top);
}

SB_INLINE void score_line(sb_attention_line *l, int capped, int biased)
{
    const int64_t padded = sb_round_up(l->keys, SB_ATTENTION_PAD);
    line_state state = {vf_set1(l->max), vf_set1(l->top), vf_lt(vf_zero(), vf_set1(1.0f))};
    for (int64_t j = 0; j < padded; j += SB_VL) {
        if (j >= l->begin && j + SB_VL <= SB_MIN(l->end, l->keys))
            score_vector(l, j, capped, biased, 0, &state);
        else if (j >= l->end || j + SB_VL <= l->begin)
            vf_store(l->score + j, vf_set1(-INFINITY));
        else
            score_vector(l, j, capped, biased, 1, &state);
    }
    float max[SB_VL], top[SB_VL];
    vf_store(max, state.max);
    vf_store(top, state.top);
    for (int i = 0; i < SB_VL; i++) {
        l->max = max[i] > l->max ? max[i] : l->max;
        l->top = top[i] > l->top ? top[i] : l->top;
    }
    l->bad = !vm_all(state.good);
}

SB_INLINE void any_line(sb_attention_line *l)
{
    l->end = SB_MIN(l->end, l->keys);
    if (l->softcap > 0.0f) {
        if (l->bias)
            score_line(l, 1, 1);
        else
            score_line(l, 1, 0);
    } else if (l->bias) {
        score_line(l, 0, 1);
    } else {
        score_line(l, 0, 0);
    }
}

#endif
