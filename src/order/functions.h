/* tanh, erf and log of order portable-1 (spec/order.md, section functions). functions_simd.h has the same
 * steps for vectors. Each is within 1 ulp for every input, NaN gives the canonical NaN, and zeros keep
 * their sign. */
#ifndef SB_FUNCTIONS_H
#define SB_FUNCTIONS_H

#include "order/exp.h"

SB_INLINE float sb_abs(float x) { return sb_float(sb_bits(x) & 0x7FFFFFFFu); }
SB_INLINE float sb_with_sign(float x, float sign) { return sb_float(sb_bits(x) | (sb_bits(sign) & 0x80000000u)); }

/* tanh(x) = x + x^3 * P(x^2) below the limit (minimax, relative error 2^-29.7), 1 - 2 / (exp(2x) + 1) above. */
#define SB_TANH_LIMIT 0.9f             /* 0x3F666666 */
#define SB_TANH_HIGH  10.0f            /* tanh of this and more is 1 */
#define SB_TANH_P0    -0x1.55554ep-2f  /* 0xBEAAAAA7 */
#define SB_TANH_P1    0x1.110f34p-3f   /* 0x3E08879A */
#define SB_TANH_P2    -0x1.b9c9f2p-5f  /* 0xBD5CE4F9 */
#define SB_TANH_P3    0x1.62ef7cp-6f   /* 0x3CB177BE */
#define SB_TANH_P4    -0x1.0ed006p-7f  /* 0xBC076803 */
#define SB_TANH_P5    0x1.5283fap-9f   /* 0x3B2941FD */
#define SB_TANH_P6    -0x1.dd95aep-12f /* 0xB9EECAD7 */

SB_INLINE float sb_tanh_large(float a)
{
    float shifted;
    const float r = sb_exp_reduce(a + a, &shifted);
    const float two_n = sb_float((sb_bits(shifted) << 23) + 0x3F800000u);
    /* exp(2a) + 1 = 2^n * r * q + (2^n + 1): two roundings fewer than from sb_exp. */
    return 1.0f - 2.0f / fmaf(two_n * r, sb_exp_q(r), two_n + 1.0f);
}

SB_INLINE float sb_tanh(float x)
{
    if (sb_is_nan(x)) return sb_float(SB_NAN_F32);
    const float a = sb_abs(x);
    if (!(a < SB_TANH_LIMIT)) return sb_with_sign(sb_tanh_large(a < SB_TANH_HIGH ? a : SB_TANH_HIGH), x);
    const float z = a * a;
    float p = SB_TANH_P6;
    p = fmaf(p, z, SB_TANH_P5);
    p = fmaf(p, z, SB_TANH_P4);
    p = fmaf(p, z, SB_TANH_P3);
    p = fmaf(p, z, SB_TANH_P2);
    p = fmaf(p, z, SB_TANH_P1);
    p = fmaf(p, z, SB_TANH_P0);
    return sb_with_sign(fmaf(p * z, a, a), x);
}

/* erf(x) = x + x * P(x^2) below the limit (relative error 2^-30.6). Above, with V(x) = log(erfc(x)) + x^2
 * (2^-29.4 of erf): erf(x) = 1 - exp(V - x^2), where x^2 meets n * ln2 before anything is rounded. */
#define SB_ERF_LIMIT 0.9140625f
#define SB_ERF_HIGH  4.0f             /* erf of this and more is 1 */
#define SB_ERF_P0    0x1.06eba8p-3f   /* 0x3E0375D4 */
#define SB_ERF_P1    -0x1.812742p-2f  /* 0xBEC093A1 */
#define SB_ERF_P2    0x1.ce2dcap-4f   /* 0x3DE716E5 */
#define SB_ERF_P3    -0x1.b80960p-6f  /* 0xBCDC04B0 */
#define SB_ERF_P4    0x1.54965ep-8f   /* 0x3BAA4B2F */
#define SB_ERF_P5    -0x1.a88d64p-11f /* 0xBA5446B2 */
#define SB_ERF_P6    0x1.574e62p-14f  /* 0x38ABA731 */
#define SB_ERF_V0    -0x1.009c54p-12f /* 0xB9804E2A */
#define SB_ERF_V1    -0x1.20a232p+0f  /* 0xBF905119 */
#define SB_ERF_V2    0x1.732eb8p-2f   /* 0x3EB9975C */
#define SB_ERF_V3    -0x1.a882b0p-4f  /* 0xBDD44158 */
#define SB_ERF_V4    0x1.69e226p-6f   /* 0x3CB4F113 */
#define SB_ERF_V5    -0x1.8a5578p-9f  /* 0xBB452ABC */
#define SB_ERF_V6    0x1.938b74p-13f  /* 0x3949C5BA */

SB_INLINE float sb_erf_large(float a)
{
    float v = SB_ERF_V6;
    v = fmaf(v, a, SB_ERF_V5);
    v = fmaf(v, a, SB_ERF_V4);
    v = fmaf(v, a, SB_ERF_V3);
    v = fmaf(v, a, SB_ERF_V2);
    v = fmaf(v, a, SB_ERF_V1);
    v = fmaf(v, a, SB_ERF_V0);
    const float shifted = fmaf(fmaf(-a, a, v), SB_EXP_LOG2E, SB_EXP_MAGIC), n = shifted - SB_EXP_MAGIC;
    const float r = fmaf(n, -SB_EXP_LN2_LO, fmaf(-a, a, n * -SB_EXP_LN2_HI) + v);
    const float two_n = sb_float((sb_bits(shifted) << 23) + 0x3F800000u);
    return fmaf(-two_n * r, sb_exp_q(r), 1.0f - two_n);
}

SB_INLINE float sb_erf(float x)
{
    if (sb_is_nan(x)) return sb_float(SB_NAN_F32);
    const float a = sb_abs(x);
    if (!(a < SB_ERF_LIMIT)) return sb_with_sign(sb_erf_large(a < SB_ERF_HIGH ? a : SB_ERF_HIGH), x);
    const float z = a * a;
    float p = SB_ERF_P6;
    p = fmaf(p, z, SB_ERF_P5);
    p = fmaf(p, z, SB_ERF_P4);
    p = fmaf(p, z, SB_ERF_P3);
    p = fmaf(p, z, SB_ERF_P2);
    p = fmaf(p, z, SB_ERF_P1);
    p = fmaf(p, z, SB_ERF_P0);
    return sb_with_sign(fmaf(p, a, a), x);
}

/* log(x) = e * ln2 + log1p(f), x = 2^e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)),
 * log1p(f) = f - f^2 / 2 + f^3 * (L0 + ... + L7 f^7), minimax, relative error 2^-27.3. */
#define SB_LOG_SPLIT 0x3F3504F3u     /* the bits of sqrt(1/2), rounded down */
#define SB_LOG_L0    0x1.555554p-2f  /* 0x3EAAAAAA */
#define SB_LOG_L1    -0x1.000226p-2f /* 0xBE800113 */
#define SB_LOG_L2    0x1.99a008p-3f  /* 0x3E4CD004 */
#define SB_LOG_L3    -0x1.547244p-3f /* 0xBE2A3922 */
#define SB_LOG_L4    0x1.22da1ap-3f  /* 0x3E116D0D */
#define SB_LOG_L5    -0x1.0d8548p-3f /* 0xBE06C2A4 */
#define SB_LOG_L6    0x1.055b82p-3f  /* 0x3E02ADC1 */
#define SB_LOG_L7    -0x1.38b59ep-4f /* 0xBD9C5ACF */

/* log(+-0) = -Inf, log(+Inf) = +Inf, log of a negative number or NaN = the canonical NaN. */
SB_INLINE float sb_log(float x)
{
    if (!(x >= 0.0f)) return sb_float(SB_NAN_F32);
    if (x == 0.0f) return sb_float(0xFF800000u);
    if (sb_bits(x) == 0x7F800000u) return x;
    const int subnormal = x < 0x1p-126f;
    const uint32_t u = sb_bits(subnormal ? x * 0x1p23f : x);
    const int32_t exponent = (int32_t)(u - SB_LOG_SPLIT) >> 23;
    const float e = (float)exponent - (subnormal ? 23.0f : 0.0f);
    const float f = sb_float(u - ((uint32_t)exponent << 23)) - 1.0f, z = f * f;
    float p = SB_LOG_L7;
    p = fmaf(p, f, SB_LOG_L6);
    p = fmaf(p, f, SB_LOG_L5);
    p = fmaf(p, f, SB_LOG_L4);
    p = fmaf(p, f, SB_LOG_L3);
    p = fmaf(p, f, SB_LOG_L2);
    p = fmaf(p, f, SB_LOG_L1);
    p = fmaf(p, f, SB_LOG_L0);
    p = fmaf(p, f, -0.5f);
    /* e * LN2_HI is exact; `high` is its sum with f, `low` what that sum lost and all smaller terms. */
    const float base = e * SB_EXP_LN2_HI, high = base + f;
    const float low = (base - high) + f;
    return high + fmaf(p, z, fmaf(e, SB_EXP_LN2_LO, low));
}

#endif
