/* functions.h for vectors: the same steps, the same bits. Lanes take both sides of a branch. */
#ifndef SB_FUNCTIONS_SIMD_H
#define SB_FUNCTIONS_SIMD_H

#include "order/exp_simd.h"
#include "order/functions.h"

SB_INLINE vi v_sign(vf x) { return vi_and(vf_bits(x), vi_set1(INT32_MIN)); }
SB_INLINE vf v_abs(vf x) { return vi_as_f(vi_and(vf_bits(x), vi_set1(INT32_MAX))); }
SB_INLINE vf v_with_sign(vf x, vf sign) { return vi_as_f(vi_or(vf_bits(x), v_sign(sign))); }

/* NaN where x is, else t. */
SB_INLINE vf v_or_nan(vf x, vf t) { return vf_select(vf_is_nan(x), vf_set1(sb_float(SB_NAN_F32)), t); }

/* Of numbers; NaN gives no meaning. */
SB_INLINE vf v_tanh_number(vf x)
{
    const vf a = v_abs(x), z = vf_mul(a, a);
    vf p = vf_set1(SB_TANH_P6);
    p = vf_fma(p, z, vf_set1(SB_TANH_P5));
    p = vf_fma(p, z, vf_set1(SB_TANH_P4));
    p = vf_fma(p, z, vf_set1(SB_TANH_P3));
    p = vf_fma(p, z, vf_set1(SB_TANH_P2));
    p = vf_fma(p, z, vf_set1(SB_TANH_P1));
    p = vf_fma(p, z, vf_set1(SB_TANH_P0));
    const vf small = vf_fma(vf_mul(p, z), a, a);

    const vf b = vf_min(a, vf_set1(SB_TANH_HIGH)), one = vf_set1(1.0f);
    vi i;
    const vf r = v_exp_reduce(vf_add(b, b), &i), two_n = v_two_n(i);
    const vf plus_one = vf_fma(vf_mul(two_n, r), v_exp_q(r), vf_add(two_n, one));
    const vf large = vf_sub(one, vf_div(vf_set1(2.0f), plus_one));

    return v_with_sign(vf_select(vf_lt(a, vf_set1(SB_TANH_LIMIT)), small, large), x);
}

SB_INLINE vf v_tanh(vf x) { return v_or_nan(x, v_tanh_number(x)); }

SB_INLINE vf v_erf_large(vf a)
{
    vf v = vf_set1(SB_ERF_V6);
    v = vf_fma(v, a, vf_set1(SB_ERF_V5));
    v = vf_fma(v, a, vf_set1(SB_ERF_V4));
    v = vf_fma(v, a, vf_set1(SB_ERF_V3));
    v = vf_fma(v, a, vf_set1(SB_ERF_V2));
    v = vf_fma(v, a, vf_set1(SB_ERF_V1));
    v = vf_fma(v, a, vf_set1(SB_ERF_V0));
    const vf magic = vf_set1(SB_EXP_MAGIC), minus_a = vf_sub(vf_zero(), a);
    const vf shifted = vf_fma(vf_fma(minus_a, a, v), vf_set1(SB_EXP_LOG2E), magic), n = vf_sub(shifted, magic);
    const vf high = vf_add(vf_fma(minus_a, a, vf_mul(n, vf_set1(-SB_EXP_LN2_HI))), v);
    const vf r = vf_fma(n, vf_set1(-SB_EXP_LN2_LO), high), two_n = v_two_n(vf_bits(shifted));
    return vf_fma(vf_mul(vf_sub(vf_zero(), two_n), r), v_exp_q(r), vf_sub(vf_set1(1.0f), two_n));
}

/* Of numbers; NaN gives no meaning. */
SB_INLINE vf v_erf_number(vf x)
{
    const vf a = v_abs(x), z = vf_mul(a, a);
    vf p = vf_set1(SB_ERF_P6);
    p = vf_fma(p, z, vf_set1(SB_ERF_P5));
    p = vf_fma(p, z, vf_set1(SB_ERF_P4));
    p = vf_fma(p, z, vf_set1(SB_ERF_P3));
    p = vf_fma(p, z, vf_set1(SB_ERF_P2));
    p = vf_fma(p, z, vf_set1(SB_ERF_P1));
    p = vf_fma(p, z, vf_set1(SB_ERF_P0));
    const vf small = vf_fma(p, a, a), large = v_erf_large(vf_min(a, vf_set1(SB_ERF_HIGH)));
    return v_with_sign(vf_select(vf_lt(a, vf_set1(SB_ERF_LIMIT)), small, large), x);
}

SB_INLINE vf v_erf(vf x) { return v_or_nan(x, v_erf_number(x)); }

SB_INLINE vf v_log(vf x)
{
    const vm subnormal = vf_lt(x, vf_set1(0x1p-126f));
    const vi u = vf_bits(vf_select(subnormal, vf_mul(x, vf_set1(0x1p23f)), x));
    const vi exponent = vi_sar(vi_sub(u, vi_set1((int32_t)SB_LOG_SPLIT)), 23);
    const vf e = vf_sub(vi_to_f(exponent), vf_select(subnormal, vf_set1(23.0f), vf_zero()));
    const vf f = vf_sub(vi_as_f(vi_sub(u, vi_shl(exponent, 23))), vf_set1(1.0f)), z = vf_mul(f, f);
    vf p = vf_set1(SB_LOG_L7);
    p = vf_fma(p, f, vf_set1(SB_LOG_L6));
    p = vf_fma(p, f, vf_set1(SB_LOG_L5));
    p = vf_fma(p, f, vf_set1(SB_LOG_L4));
    p = vf_fma(p, f, vf_set1(SB_LOG_L3));
    p = vf_fma(p, f, vf_set1(SB_LOG_L2));
    p = vf_fma(p, f, vf_set1(SB_LOG_L1));
    p = vf_fma(p, f, vf_set1(SB_LOG_L0));
    p = vf_fma(p, f, vf_set1(-0.5f));
    const vf base = vf_mul(e, vf_set1(SB_EXP_LN2_HI)), high = vf_add(base, f);
    const vf low = vf_add(vf_sub(base, high), f);
    vf t = vf_add(high, vf_fma(p, z, vf_fma(e, vf_set1(SB_EXP_LN2_LO), low)));
    const vf infinity = vf_set1(sb_float(0x7F800000u));
    t = vf_select(vf_eq(x, infinity), infinity, t);
    t = vf_select(vf_eq(x, vf_zero()), vf_set1(sb_float(0xFF800000u)), t);
    const vf nan = vf_set1(sb_float(SB_NAN_F32));
    return vf_select(vf_lt(x, vf_zero()), nan, vf_select(vf_is_nan(x), nan, t));
}

#endif
