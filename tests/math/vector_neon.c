#include "math/vector_simd.h"

void math_to_f16_neon(const float *in, uint16_t *out)
{
    for (int i = 0; i < MATH_BLOCK; i += 4) vst1_u16(out + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(in + i))));
}

void math_from_f16_neon(const uint16_t *in, float *out)
{
    for (int i = 0; i < MATH_BLOCK; i += 4) vst1q_f32(out + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(in + i))));
}
