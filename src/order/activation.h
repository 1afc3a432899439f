/* The activations of order portable-1 (spec/order.md, section activations).
 * activation_simd.h has the same steps for vectors. */
#ifndef SB_ACTIVATION_H
#define SB_ACTIVATION_H

#include <samebits/activation.h>

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

/* x * sigmoid(1.702 x) */
#define SB_GELU_QUICK_C 0x1.b3b646p+0f /* 0x3FD9DB23 */
SB_INLINE float sb_gelu_quick(float x) { return sb_gate(x, x * SB_GELU_QUICK_C); }

/* x / 2 * (1 + erf(x / sqrt(2))); gelu(-Inf) = +0. */
#define SB_SQRT_HALF 0x1.6a09e6p-1f /* 0x3F3504F3 */
SB_INLINE float sb_gelu(float x)
{
    const float h = 0.5f * (SB_LOWEST > x ? SB_LOWEST : x);
    return fmaf(h, sb_erf(x * SB_SQRT_HALF), h);
}

SB_INLINE float sb_relu(float x) { return x > 0.0f ? x : (sb_is_nan(x) ? x : 0.0f); }

SB_INLINE float sb_activation(samebits_activation activation, float x)
{
    switch (activation) {
    case SAMEBITS_ACTIVATION_RELU: return sb_relu(x);
    case SAMEBITS_ACTIVATION_SILU: return sb_silu(x);
    case SAMEBITS_ACTIVATION_GELU: return sb_gelu(x);
    case SAMEBITS_ACTIVATION_GELU_TANH: return sb_gelu_tanh(x);
    case SAMEBITS_ACTIVATION_GELU_QUICK: return sb_gelu_quick(x);
    case SAMEBITS_ACTIVATION_SIGMOID: return sb_sigmoid(x);
    case SAMEBITS_ACTIVATION_TANH: return sb_tanh(x);
    case SAMEBITS_ACTIVATION_EXP: return sb_exp(x);
    default: return x;
    }
}

#endif
