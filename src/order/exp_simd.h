/* exp.h for vectors: the same steps, the same bits. */
#ifndef SB_EXP_SIMD_H
#define SB_EXP_SIMD_H

#include "base/simd.h"
#include "order/exp.h"

/* *shifted_bits are those of magic + n: SB_EXP_MAGIC, or an even number more, which rounds to the same n. */
SB_INLINE vf v_exp_reduce_with(vf magic, vf x, vi *shifted_bits)
{
    const vf shifted = vf_fma(x, vf_set1(SB_EXP_LOG2E), magic), n = vf_sub(shifted, magic);
    *shifted_bits = vf_bits(shifted);
    return vf_fma(n, vf_set1(-SB_EXP_LN2_LO), vf_fma(n, vf_set1(-SB_EXP_LN2_HI), x));
}

SB_INLINE vf v_exp_reduce(vf x, vi *shifted_bits) { return v_exp_reduce_with(vf_set1(SB_EXP_MAGIC), x, shifted_bits); }

SB_INLINE vf v_exp_q(vf r)
{
    vf q = vf_set1(SB_EXP_C6);
    q = vf_fma(q, r, vf_set1(SB_EXP_C5));
    q = vf_fma(q, r, vf_set1(SB_EXP_C4));
    q = vf_fma(q, r, vf_set1(SB_EXP_C3));
    q = vf_fma(q, r, vf_set1(SB_EXP_C2));
    return vf_fma(q, r, vf_set1(1.0f));
}

/* 2^n from the bits of MAGIC + n, for n in -126 .. 127. */
SB_INLINE vf v_two_n(vi shifted_bits) { return vi_as_f(vi_add(vi_shl(shifted_bits, 23), vi_set1(0x3F800000))); }

SB_INLINE vf v_exp(vf x)
{
    vi i;
    const vf r = v_exp_reduce(vf_min(vf_set1(SB_EXP_HIGH), vf_max(vf_set1(SB_EXP_LOW), x)), &i);
    const vf p = vf_fma(v_exp_q(r), r, vf_set1(1.0f));
    const vi even = vi_set1(~1);
    const vf low = vi_as_f(vi_add(vf_bits(p), vi_shl(vi_and(i, even), 22)));
    const vi high = vi_add(vi_shl(vi_and(vi_add(i, vi_set1(1)), even), 22), vi_set1(0x3F800000));
    return vf_select(vf_is_nan(x), vf_set1(sb_float(SB_NAN_F32)), vf_mul(low, vi_as_f(high)));
}

/* v_exp for |x| below SB_EXP_NORMAL: no limit, subnormal or infinity is near, and 2^n may be added to the exponent.
 * Half the operations, and of those that compare and select, which share two ports with fma, none. */
#define SB_EXP_NORMAL 86.0f
SB_INLINE vf v_exp_normal_with(vf magic, vf x)
{
    vi i;
    const vf r = v_exp_reduce_with(magic, x, &i), p = vf_fma(v_exp_q(r), r, vf_set1(1.0f));
    return vi_as_f(vi_add(vf_bits(p), vi_shl(i, 23)));
}

SB_INLINE vf v_exp_normal(vf x) { return v_exp_normal_with(vf_set1(SB_EXP_MAGIC), x); }
/* 2^30 * v_exp_normal(x) for x <= 0. */
SB_INLINE vf v_exp_normal_30(vf x) { return v_exp_normal_with(vf_set1(SB_EXP_MAGIC + 30.0f), x); }

/* Whether all lanes of v[0..count) are below a limit in magnitude; NaN is not. As integers, of ports that have time. */
SB_INLINE int v_all_within(const vf *v, int count, float limit)
{
    const vi magnitude = vi_set1(INT32_MAX);
    vi largest = vi_and(vf_bits(v[0]), magnitude);
    SB_UNROLL
    for (int i = 1; i < count; i++) largest = vi_max(largest, vi_and(vf_bits(v[i]), magnitude));
    return vm_all(vf_lt(vi_as_f(largest), vf_set1(limit)));
}

/* Below this, exp(x) * 2^30 < 1/2 by far, and rounds to 0; above, nothing here is subnormal. */
#define SB_EXP_WEIGHT_LOW -25.0f

/* sb_exp_weight for x <= 0: scaling by 2^30 is exact in both, so it may come before the rounding. */
SB_INLINE vi v_exp_weight(vf x) { return vf_round_i(v_exp_normal_30(vf_max(vf_set1(SB_EXP_WEIGHT_LOW), x))); }

#endif
