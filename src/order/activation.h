/* sigmoid, silu and the two gelus of order portable-1 (spec/order.md, section activations).
 * activation_simd.h has the same steps for vectors. */
#ifndef SB_ACTIVATION_H
#define SB_ACTIVATION_H

#include "order/functions.h"

/* x * sigmoid(y): one exp of a number <= 0, so that nothing overflows and small results keep their digits.
 * The limit makes -Inf * +0 a zero: x * sigmoid of -Inf is -0. */
#define SB_LOWEST (-0x1.fffffep+127f)
SB_INLINE float sb_gate(float x, float y)
{
    const float e = sb_exp(-sb_abs(y));
    const float n = y >= 0.0f ? x : (SB_LOWEST > x ? SB_LOWEST : x) * e;
    return n / (1.0f + e);
}

SB_INLINE float sb_sigmoid(float x) { return sb_gate(1.0f, x); }
SB_INLINE float sb_silu(float x) { return sb_gate(x, x); }

/* x * sigmoid(2u), u = sqrt(2 / pi) * (x + 0.044715 x^3): the tanh form, as 1 + tanh(u) = 2 * sigmoid(2u). */
#define SB_GELU_TANH_C1 0x1.988454p+0f /* 0x3FCC422A: 2 * sqrt(2 / pi) */
#define SB_GELU_TANH_C3 0x1.2444f2p-4f /* 0x3D922279: C1 * 0.044715 */
SB_INLINE float sb_gelu_tanh(float x) { return sb_gate(x, x * fmaf(x * x, SB_GELU_TANH_C3, SB_GELU_TANH_C1)); }

/* x / 2 * (1 + erf(x / sqrt(2))); gelu(-Inf) = +0. */
#define SB_SQRT_HALF 0x1.6a09e6p-1f /* 0x3F3504F3 */
SB_INLINE float sb_gelu(float x)
{
    const float h = 0.5f * (SB_LOWEST > x ? SB_LOWEST : x);
    return fmaf(h, sb_erf(x * SB_SQRT_HALF), h);
}

#endif
