/* The body of the SIMD rows. */
#ifndef SB_EPILOGUE_SIMD_H
#define SB_EPILOGUE_SIMD_H

#include "formats/elements_simd.h"
#include "kernels/epilogue/epilogue_f64.h"
#include "order/activation_simd.h"

/* A full vector at i, or the first `count` lanes of one. */
SB_INLINE vf lanes(samebits_format format, const void *p, int64_t i, int64_t count)
{
    return count >= SB_VL ? v_elements(format, p, i) : v_elements_part(format, p, i, count, 0.0f);
}

SB_INLINE vf value(const sb_epilogue_args *a, int64_t i, int64_t count)
{
    vf t = vf_mul(vf_set1((float)a->alpha), lanes(SAMEBITS_FORMAT_F32, a->acc, i, count));
    if (a->c) t = vf_fma(vf_set1((float)a->beta), lanes(a->c_format, a->c, i, count), t);
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
    if (a->out_format == SB_FORMAT_F64) {
        epilogue_f64(a);
        return;
    }
    switch (a->activation) {
#define CASE(name)                                                                                                     \
    case SAMEBITS_ACTIVATION_##name: epilogue_of(a, SAMEBITS_ACTIVATION_##name); break;
        CASE(RELU)
        CASE(SILU)
        CASE(GELU)
        CASE(GELU_TANH)
        CASE(GELU_QUICK)
        CASE(SIGMOID)
        CASE(TANH)
        CASE(EXP)
#undef CASE
    default: epilogue_of(a, SAMEBITS_ACTIVATION_NONE); break;
    }
}

#endif
