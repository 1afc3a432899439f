/* The body of the SIMD rows. */
#ifndef SB_EPILOGUE_SIMD_H
#define SB_EPILOGUE_SIMD_H

#include "formats/elements_simd.h"
#include "kernels/epilogue/epilogue.h"
#include "order/activation_simd.h"
#include "order/epilogue.h"

SB_INLINE vf v_activation(samebits_activation activation, vf t)
{
    switch (activation) {
    case SAMEBITS_ACTIVATION_RELU: return vf_select(vf_lt(vf_zero(), t), t, vf_select(vf_is_nan(t), t, vf_zero()));
    case SAMEBITS_ACTIVATION_SILU: return v_silu(t);
    case SAMEBITS_ACTIVATION_GELU: return v_gelu(t);
    case SAMEBITS_ACTIVATION_GELU_TANH: return v_gelu_tanh(t);
    default: return t;
    }
}

/* A full vector at i, or the first `count` lanes of one. */
SB_INLINE vf lanes(samebits_format format, const void *p, int64_t i, int64_t count)
{
    return count >= SB_VL ? v_elements(format, p, i) : v_elements_part(format, p, i, count, 0.0f);
}

SB_INLINE vf value(const sb_epilogue_args *a, int64_t i, int64_t count)
{
    vf t = vf_mul(vf_set1(a->alpha), lanes(SAMEBITS_FORMAT_F32, a->acc, i, count));
    if (a->c) t = vf_fma(vf_set1(a->beta), lanes(a->c_format, a->c, i, count), t);
    return a->bias ? vf_add(t, lanes(a->bias_format, a->bias, i, count)) : t;
}

SB_INLINE void epilogue_of(const sb_epilogue_args *a, samebits_activation activation)
{
    int64_t i = 0;
    for (; i + SB_VL <= a->n; i += SB_VL)
        v_set_elements(a->out_format, a->out, i, v_activation(activation, value(a, i, SB_VL)));
    if (i < a->n)
        v_set_elements_part(a->out_format, a->out, i, a->n - i, v_activation(activation, value(a, i, a->n - i)));
}

SB_INLINE void epilogue(const sb_epilogue_args *a)
{
    switch (a->activation) {
    case SAMEBITS_ACTIVATION_RELU: epilogue_of(a, SAMEBITS_ACTIVATION_RELU); break;
    case SAMEBITS_ACTIVATION_SILU: epilogue_of(a, SAMEBITS_ACTIVATION_SILU); break;
    case SAMEBITS_ACTIVATION_GELU: epilogue_of(a, SAMEBITS_ACTIVATION_GELU); break;
    case SAMEBITS_ACTIVATION_GELU_TANH: epilogue_of(a, SAMEBITS_ACTIVATION_GELU_TANH); break;
    default: epilogue_of(a, SAMEBITS_ACTIVATION_NONE); break;
    }
}

#endif
