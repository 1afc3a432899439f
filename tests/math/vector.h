/* The vector functions of one instruction set, as maps over arrays; and the hardware's conversions. */
#ifndef SB_MATH_VECTOR_H
#define SB_MATH_VECTOR_H

#include "base/base.h"

/* X(name): sb_<name> is the scalar function, v_<name> the vector one. */
#define MATH_FUNCTIONS(X) X(exp) X(tanh) X(erf) X(log) X(sigmoid) X(silu) X(gelu) X(gelu_tanh) X(gelu_quick)

typedef enum math_function {
#define X(name) MATH_##name,
    MATH_FUNCTIONS(X)
#undef X
        MATH_COUNT
} math_function;

enum { MATH_BLOCK = 256 };

/* out[i] = function(in[i]) for MATH_BLOCK elements. */
typedef void math_map(math_function function, const float *in, float *out);
math_map math_map_avx2, math_map_avx512, math_map_neon;
/* The same, by the form of fewer operations that kernels use where no lane needs more. */
math_map math_map_short_avx2, math_map_short_avx512, math_map_short_neon;

/* The vector form of sb_exp_weight, and the hardware's conversions. */
typedef void math_weights(const float *in, int32_t *out);
math_weights math_weights_avx2, math_weights_avx512, math_weights_neon;
typedef void math_to_f16(const float *in, uint16_t *out);
math_to_f16 math_to_f16_avx2, math_to_f16_neon;
typedef void math_from_f16(const uint16_t *in, float *out);
math_from_f16 math_from_f16_avx2, math_from_f16_neon;

#endif
