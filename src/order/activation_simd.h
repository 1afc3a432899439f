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

#endif
