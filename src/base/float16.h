/* f16, bf16 and E4M3: widening is exact, narrowing rounds to nearest even, NaN is canonical (spec/order.md), also of
 * f32 and f64. */
#ifndef SB_FLOAT16_H
#define SB_FLOAT16_H

#include "base/base.h"

#define SB_NAN_F32  0x7FC00000u
#define SB_NAN_BF16 0x7FC0u
#define SB_NAN_F16  0x7E00u
#define SB_NAN_F64  0x7FF8000000000000u

SB_INLINE int sb_is_nan(float f) { return (sb_bits(f) & 0x7FFFFFFFu) > 0x7F800000u; }

/* A stored f32: NaN has one bit pattern. */
SB_INLINE float sb_canonical(float f) { return sb_is_nan(f) ? sb_float(SB_NAN_F32) : f; }

SB_INLINE double sb_canonical_f64(double d) { return d != d ? sb_double(SB_NAN_F64) : d; }

SB_INLINE float sb_from_bf16(uint16_t h) { return sb_float((uint32_t)h << 16); }

SB_INLINE uint16_t sb_to_bf16(float f)
{
    const uint32_t u = sb_bits(f);
    if (sb_is_nan(f)) return SB_NAN_BF16;
    return (uint16_t)((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
}

SB_INLINE float sb_from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t exponent = (h >> 10) & 31u, mantissa = h & 0x3FFu;
    if (exponent == 31) return sb_float(sign | 0x7F800000u | (mantissa << 13));
    if (exponent) return sb_float(sign | ((exponent + 112u) << 23) | (mantissa << 13));
    /* Subnormal or zero: the mantissa in units of 2^-24, exact in f32. */
    return sb_float(sign | sb_bits((float)mantissa * 0x1p-24f));
}

/* E4M3 of the Open Compute Project: a byte of sign, 4 bits of exponent, 3 of mantissa; NaN and no Inf. */
SB_INLINE float sb_from_e4m3(uint8_t b)
{
    const uint32_t sign = (uint32_t)(b & 0x80u) << 24, magnitude = b & 0x7Fu;
    if (magnitude == 0x7F) return sb_float(SB_NAN_F32);
    /* The bits in place, as of a float whose exponent is 120 too low; exact, also of subnormals. */
    return sb_float(sign | sb_bits(sb_float(magnitude << 20) * 0x1p120f));
}

SB_INLINE uint16_t sb_to_f16(float f)
{
    const uint32_t u = sb_bits(f);
    const uint16_t sign = (uint16_t)((u >> 16) & 0x8000u);
    const uint32_t a = u & 0x7FFFFFFFu;
    if (a > 0x7F800000u) return SB_NAN_F16;
    if (a >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* rounds past 65504: infinity */
    if (a < 0x38800000u) {
        /* Subnormal result: adding 0.5 puts the unit in the last place at 2^-24, and the add rounds. */
        return (uint16_t)(sign | (sb_bits(sb_float(a) + 0.5f) - 0x3F000000u));
    }
    return (uint16_t)(sign | ((a + 0xFFFu + ((a >> 13) & 1u) - 0x38000000u) >> 13));
}

#endif
