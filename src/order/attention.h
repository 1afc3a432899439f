/* The arithmetic of attention in portable-1 (spec/ops/attention.md). Weights are in exp.h. */
#ifndef SB_ORDER_ATTENTION_H
#define SB_ORDER_ATTENTION_H

#include <samebits/weights.h>

#include "order/exp.h"

/* f16 values, and those of blocks, are integers once multiplied by 2^24; the others need a grid of the row. */
SB_INLINE int sb_value_is_fixed(samebits_format f) { return f != SAMEBITS_FORMAT_F32 && f != SAMEBITS_FORMAT_BF16; }

enum { SB_VALUE_FIXED_GRID = 24 };

/* g of V = RNE(v * 2^g), section values: 24, or 25 - e with e the exponent of the row's largest finite |v|,
 * that of a subnormal counting as -126. |V| < 2^26 on such a grid. */
SB_INLINE int sb_value_grid(samebits_format f, float largest)
{
    const int exponent = (int)(sb_bits(largest) >> 23 & 255u);
    return sb_value_is_fixed(f) ? SB_VALUE_FIXED_GRID : 25 + 127 - SB_MAX(exponent, 1);
}

/* 2^g as a double, |g| < 1000. */
SB_INLINE double sb_exp2i(int g)
{
    const uint64_t bits = (uint64_t)(1023 + g) << 52;
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

SB_INLINE int sb_is_finite(float f) { return (sb_bits(f) & 0x7F800000u) != 0x7F800000u; }

#endif
