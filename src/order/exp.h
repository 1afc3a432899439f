/* exp of order portable-1 (spec/order.md, section exp). exp_simd.h has the same steps for vectors. */
#ifndef SB_EXP_H
#define SB_EXP_H

#include <math.h>

#include "base/float16.h"

/* exp(x) = 2^n * exp(r), n = RNE(x * log2 e), r = x - n * ln 2. */
#define SB_EXP_LOW    -104.0f         /* exp of this and less rounds to +0 */
#define SB_EXP_HIGH   89.0f           /* exp of this and more is +Inf */
#define SB_EXP_LOG2E  0x1.715476p+0f  /* 0x3FB8AA3B */
#define SB_EXP_MAGIC  0x1.8p+23f      /* 0x4B400000: adding it rounds to an integer, kept in the low bits */
#define SB_EXP_LN2_HI 0x1.62e400p-1f  /* 0x3F317200: 9 zeros at the end, so that n times it is exact */
#define SB_EXP_LN2_LO 0x1.7f7d1cp-20f /* 0x35BFBE8E */
/* exp(r) = 1 + r * q, q = 1 + r * (C2 + C3 r + ... + C6 r^4), minimax on |r| <= ln2 / 2: relative error 2^-28.2. */
#define SB_EXP_C2 0x1.fffffcp-2f  /* 0x3EFFFFFE */
#define SB_EXP_C3 0x1.555492p-3f  /* 0x3E2AAA49 */
#define SB_EXP_C4 0x1.5558f2p-5f  /* 0x3D2AAC79 */
#define SB_EXP_C5 0x1.1239e2p-7f  /* 0x3C091CF1 */
#define SB_EXP_C6 0x1.6a2434p-10f /* 0x3AB5121A */

/* x = n * ln2 + r, |x| <= 104. Returns r; *shifted = MAGIC + n, whose low bits are n. */
SB_INLINE float sb_exp_reduce(float x, float *shifted)
{
    *shifted = fmaf(x, SB_EXP_LOG2E, SB_EXP_MAGIC);
    const float n = *shifted - SB_EXP_MAGIC;
    return fmaf(n, -SB_EXP_LN2_LO, fmaf(n, -SB_EXP_LN2_HI, x));
}

/* (exp(r) - 1) / r */
SB_INLINE float sb_exp_q(float r)
{
    float q = SB_EXP_C6;
    q = fmaf(q, r, SB_EXP_C5);
    q = fmaf(q, r, SB_EXP_C4);
    q = fmaf(q, r, SB_EXP_C3);
    q = fmaf(q, r, SB_EXP_C2);
    return fmaf(q, r, 1.0f);
}

/* Within 0.90 ulp of exp(x). exp(-Inf) = +0, exp(+Inf) = +Inf, exp(NaN) = the canonical NaN. Subnormal
 * results are rounded once from the product p * 2^n. */
SB_INLINE float sb_exp(float x)
{
    if (sb_is_nan(x)) return sb_float(SB_NAN_F32);
    x = SB_EXP_LOW > x ? SB_EXP_LOW : x;
    x = SB_EXP_HIGH < x ? SB_EXP_HIGH : x;
    float shifted;
    const float r = sb_exp_reduce(x, &shifted), p = fmaf(sb_exp_q(r), r, 1.0f);
    /* 2^n as 2^floor(n/2) * 2^ceil(n/2): the first product is exact, the second rounds, overflows or goes
     * subnormal. MAGIC's own bits vanish in the shift. */
    const uint32_t i = sb_bits(shifted);
    const float low = sb_float(sb_bits(p) + ((i & ~1u) << 22));
    return low * sb_float((((i + 1u) & ~1u) << 22) + 0x3F800000u);
}

/* The weight of a key or an entry in an exact softmax: RNE(exp(x) * 2^30) for x <= 0, an integer in
 * 0 .. 2^30 (spec/order.md, section exact sums). NaN gives no meaning; callers exclude it. */
SB_INLINE int32_t sb_exp_weight(float x) { return (int32_t)lrintf(sb_exp(x) * 0x1p30f); }

#endif
