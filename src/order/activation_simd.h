/* activation.h for vectors: the same steps, the same bits. */
#ifndef SB_ACTIVATION_SIMD_H
#define SB_ACTIVATION_SIMD_H

#include "order/activation.h"
#include "order/functions_simd.h"

SB_INLINE vf v_gate(vf x, vf y)
{
    const vf e = v_exp(vi_as_f(vi_or(vf_bits(y), vi_set1(INT32_MIN))));
    const vf low = vf_mul(vf_max(vf_set1(SB_LOWEST), x), e);
    const vf n = vf_select(vf_lt(y, vf_zero()), low, x);
    return vf_div(n, vf_add(vf_set1(1.0f), e));
}

SB_INLINE vf v_sigmoid(vf x) { return v_gate(vf_set1(1.0f), x); }
SB_INLINE vf v_silu(vf x) { return v_gate(x, x); }

SB_INLINE vf v_gelu_tanh(vf x)
{
    return v_gate(x, vf_mul(x, vf_fma(vf_mul(x, x), vf_set1(SB_GELU_TANH_C3), vf_set1(SB_GELU_TANH_C1))));
}

SB_INLINE vf v_gelu(vf x)
{
    const vf h = vf_mul(vf_set1(0.5f), vf_max(vf_set1(SB_LOWEST), x));
    return vf_fma(h, v_erf(vf_mul(x, vf_set1(SB_SQRT_HALF))), h);
}

SB_INLINE vf v_gelu_quick(vf x) { return v_gate(x, vf_mul(x, vf_set1(SB_GELU_QUICK_C))); }

SB_INLINE vf v_relu(vf x) { return vf_select(vf_lt(vf_zero(), x), x, vf_select(vf_is_nan(x), x, vf_zero())); }

SB_INLINE vf v_activation(samebits_activation activation, vf x)
{
    switch (activation) {
    case SAMEBITS_ACTIVATION_RELU: return v_relu(x);
    case SAMEBITS_ACTIVATION_SILU: return v_silu(x);
    case SAMEBITS_ACTIVATION_GELU: return v_gelu(x);
    case SAMEBITS_ACTIVATION_GELU_TANH: return v_gelu_tanh(x);
    case SAMEBITS_ACTIVATION_GELU_QUICK: return v_gelu_quick(x);
    case SAMEBITS_ACTIVATION_SIGMOID: return v_sigmoid(x);
    case SAMEBITS_ACTIVATION_TANH: return v_tanh(x);
    case SAMEBITS_ACTIVATION_EXP: return v_exp(x);
    default: return x;
    }
}

/* v_gate where x and y have one sign and y is within SB_EXP_NORMAL: x * e is nearer to 0 than x, which makes a maximum
 * of the choice. */
SB_INLINE vf v_gate_normal(vf x, vf y)
{
    const vf e = v_exp_normal(vi_as_f(vi_or(vf_bits(y), vi_set1(INT32_MIN))));
    return vf_div(vf_max(x, vf_mul(x, e)), vf_add(vf_set1(1.0f), e));
}

/* Where |x| is below this, v_activation_normal gives the bits of v_activation; 0: nowhere. */
SB_INLINE float v_activation_limit(samebits_activation activation)
{
    switch (activation) {
    case SAMEBITS_ACTIVATION_SILU:
    case SAMEBITS_ACTIVATION_SIGMOID:
    case SAMEBITS_ACTIVATION_EXP: return SB_EXP_NORMAL;
    case SAMEBITS_ACTIVATION_GELU_QUICK: return SB_EXP_NORMAL / 2.0f;
    case SAMEBITS_ACTIVATION_GELU_TANH: return 9.0f; /* 9 * (C1 + 81 C3) = 66.4 */
    case SAMEBITS_ACTIVATION_GELU:
    case SAMEBITS_ACTIVATION_TANH: return INFINITY;
    default: return 0.0f;
    }
}

/* No result is NaN. */
SB_INLINE vf v_activation_normal(samebits_activation activation, vf x)
{
    const vf one = vf_set1(1.0f), h = vf_mul(vf_set1(0.5f), x), square = vf_mul(x, x);
    switch (activation) {
    case SAMEBITS_ACTIVATION_SILU: return v_gate_normal(x, x);
    case SAMEBITS_ACTIVATION_GELU_QUICK: return v_gate_normal(x, vf_mul(x, vf_set1(SB_GELU_QUICK_C)));
    case SAMEBITS_ACTIVATION_GELU_TANH:
        return v_gate_normal(x, vf_mul(x, vf_fma(square, vf_set1(SB_GELU_TANH_C3), vf_set1(SB_GELU_TANH_C1))));
    case SAMEBITS_ACTIVATION_GELU: return vf_fma(h, v_erf_number(vf_mul(x, vf_set1(SB_SQRT_HALF))), h);
    case SAMEBITS_ACTIVATION_TANH: return v_tanh_number(x);
    case SAMEBITS_ACTIVATION_EXP: return v_exp_normal(x);
    case SAMEBITS_ACTIVATION_SIGMOID: {
        const vf e = v_exp_normal(vi_as_f(vi_or(vf_bits(x), vi_set1(INT32_MIN))));
        return vf_div(vf_select(vf_lt(x, vf_zero()), e, one), vf_add(one, e));
    }
    default: return x;
    }
}

#endif
