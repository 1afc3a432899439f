#include "math/vector_simd.h"

void math_to_f16_avx2(const float *in, uint16_t *out)
{
    for (int i = 0; i < MATH_BLOCK; i += 8)
        _mm_storeu_si128((__m128i *)(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

void math_from_f16_avx2(const uint16_t *in, float *out)
{
    for (int i = 0; i < MATH_BLOCK; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(in + i))));
}
