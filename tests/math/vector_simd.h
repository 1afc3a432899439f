/* The body of vector_avx2.c, vector_avx512.c and vector_neon.c. */
#include "math/vector.h"
#include "order/activation_simd.h"

void SB_ISA(math_map)(math_function function, const float *in, float *out)
{
    switch (function) {
#define X(name)                                                                                                        \
    case MATH_##name:                                                                                                  \
        for (int i = 0; i < MATH_BLOCK; i += SB_VL) vf_store(out + i, v_##name(vf_load(in + i)));                      \
        break;
        MATH_FUNCTIONS(X)
#undef X
    case MATH_COUNT: break;
    }
}

/* Where the short form of an activation has the bits of the other, by it. */
static inline vf v_short(samebits_activation activation, vf x)
{
    const vm near = vf_lt(v_abs(x), vf_set1(v_activation_limit(activation)));
    return vf_select(near, v_activation_normal(activation, x), v_activation(activation, x));
}

void SB_ISA(math_map_short)(math_function function, const float *in, float *out)
{
    switch (function) {
#define X(name, activation)                                                                                            \
    case MATH_##name:                                                                                                  \
        for (int i = 0; i < MATH_BLOCK; i += SB_VL) vf_store(out + i, v_short(activation, vf_load(in + i)));           \
        break;
        X(exp, SAMEBITS_ACTIVATION_EXP)
        X(tanh, SAMEBITS_ACTIVATION_TANH)
        X(sigmoid, SAMEBITS_ACTIVATION_SIGMOID)
        X(silu, SAMEBITS_ACTIVATION_SILU)
        X(gelu, SAMEBITS_ACTIVATION_GELU)
        X(gelu_tanh, SAMEBITS_ACTIVATION_GELU_TANH)
        X(gelu_quick, SAMEBITS_ACTIVATION_GELU_QUICK)
#undef X
    default: SB_ISA(math_map)(function, in, out);
    }
}

void SB_ISA(math_weights)(const float *in, int32_t *out)
{
    for (int i = 0; i < MATH_BLOCK; i += SB_VL) vi_store(out + i, v_exp_weight(vf_load(in + i)));
}
