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

void SB_ISA(math_weights)(const float *in, int32_t *out)
{
    for (int i = 0; i < MATH_BLOCK; i += SB_VL) vi_store(out + i, v_exp_weight(vf_load(in + i)));
}
