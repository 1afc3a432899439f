/* Packing of activations for int8-1. AVX2, also for the AVX-512 rows: a machine with the one has the other. */
#include <immintrin.h>

#include "kernels/matmul_quantized/int8_pack.h"

SB_INLINE uint32_t largest_bits(const __m256 x[4])
{
    const __m256i mask = _mm256_set1_epi32(0x7FFFFFFF);
    __m256i m = _mm256_and_si256(_mm256_castps_si256(x[0]), mask);
    for (int i = 1; i < 4; i++) m = _mm256_max_epi32(m, _mm256_and_si256(_mm256_castps_si256(x[i]), mask));
    __m128i h = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4E));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0xB1));
    return (uint32_t)_mm_cvtsi128_si32(h);
}

/* sb_quantize_step in vectors. */
SB_INLINE float quantize(const float *in, __m256i *quants)
{
    __m256 x[4];
    for (int i = 0; i < 4; i++) x[i] = _mm256_loadu_ps(in + 8 * i);
    const uint32_t bits = largest_bits(x);
    const float max = sb_float(bits);
    *quants = _mm256_setzero_si256();
    if (bits >= 0x7F800000u) return sb_float(SB_NAN_F32);
    if (max < 0x1p-64f) return 0.0f;
    const __m256 inverse = _mm256_set1_ps(127.0f / max);
    __m256i q[4];
    for (int i = 0; i < 4; i++) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(x[i], inverse));
    /* Packing works within 128 bits; the permutation puts the words back in order. */
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    *quants = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    return max / 127.0f;
}

SB_INLINE sums sums_of(__m128i pairs)
{
    pairs = _mm_add_epi16(pairs, _mm_shuffle_epi32(pairs, 0x4E));
    pairs = _mm_add_epi16(pairs, _mm_shuffle_epi32(pairs, 0xB1));
    const int32_t word = _mm_cvtsi128_si32(pairs);
    return (sums){(int16_t)word, word >> 16};
}

/* Also the sums of each half of the step. */
SB_INLINE float quantize_and_sum(const float *in, __m256i *quants, sums half[2])
{
    const float scale = quantize(in, quants);
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), *quants);
    half[0] = sums_of(_mm256_castsi256_si128(pairs));
    half[1] = sums_of(_mm256_extracti128_si256(pairs, 1));
    return scale;
}

SB_INLINE void pack(samebits_format f, lanes kind, const void *const *x, int rows, int64_t k, char *out)
{
    for (int64_t s = 0; s < k / SB_STEP; s++)
        for (int r = 0; r < rows; r++) {
            sums half[2];
            __m256i quants;
            const float scale = quantize_and_sum((const float *)x[r] + s * SB_STEP, &quants, half);
            int32_t words[8];
            _mm256_storeu_si256((__m256i *)words, quants);
            put_record(f, kind, words, scale, half[0], half[1], rows, out + 4 * (s * SB_X_DWORDS * rows + r));
        }
}

/* For the rows of AMX a record has the quants of row after row, 16 of them, and no starts. */
void sb_pack_int8_amx(const void *const *x, int rows, int64_t k, void *out)
{
    for (int64_t s = 0; s < k / SB_STEP; s++) {
        char *record = (char *)out + 4 * s * SB_X_DWORDS * SB_MAX_TILE;
        memset(record, 0, 4 * SB_X_DWORDS * SB_MAX_TILE);
        for (int r = 0; r < rows; r++) {
            sums half[2];
            __m256i quants;
            const float scale = quantize_and_sum((const float *)x[r] + s * SB_STEP, &quants, half);
            const float sum = (float)(half[0].low + half[0].high + half[1].low + half[1].high);
            _mm256_storeu_si256((__m256i *)(void *)(record + SB_STEP * r), quants);
            memcpy(record + 4 * (SB_X_SCALE * SB_MAX_TILE + r), &scale, 4);
            memcpy(record + 4 * (SB_X_SUM * SB_MAX_TILE + r), &sum, 4);
        }
    }
}

#define DEFINE(name, format)                                                                                           \
    void sb_pack_int8_##name##_avx2(const void *const *x, int rows, int64_t k, void *out)                              \
    {                                                                                                                  \
        pack(format, PAIRS, x, rows, k, out);                                                                          \
    }                                                                                                                  \
    void sb_pack_int8_##name##_avx512vnni(const void *const *x, int rows, int64_t k, void *out)                        \
    {                                                                                                                  \
        pack(format, WORDS, x, rows, k, out);                                                                          \
    }

DEFINE(q4_0, SAMEBITS_FORMAT_Q4_0)
DEFINE(q4_1, SAMEBITS_FORMAT_Q4_1)
DEFINE(q5_0, SAMEBITS_FORMAT_Q5_0)
DEFINE(q5_1, SAMEBITS_FORMAT_Q5_1)
DEFINE(q8_0, SAMEBITS_FORMAT_Q8_0)
DEFINE(iq4_nl, SAMEBITS_FORMAT_IQ4_NL)
DEFINE(mxfp4, SAMEBITS_FORMAT_MXFP4)
DEFINE(q2_k, SAMEBITS_FORMAT_Q2_K)
DEFINE(q3_k, SAMEBITS_FORMAT_Q3_K)
DEFINE(q4_k, SAMEBITS_FORMAT_Q4_K)
DEFINE(q5_k, SAMEBITS_FORMAT_Q5_K)
DEFINE(q6_k, SAMEBITS_FORMAT_Q6_K)
DEFINE(affine_2, SAMEBITS_FORMAT_AFFINE_2)
DEFINE(affine_3, SAMEBITS_FORMAT_AFFINE_3)
DEFINE(affine_4, SAMEBITS_FORMAT_AFFINE_4)
DEFINE(affine_5, SAMEBITS_FORMAT_AFFINE_5)
DEFINE(affine_6, SAMEBITS_FORMAT_AFFINE_6)
DEFINE(affine_8, SAMEBITS_FORMAT_AFFINE_8)
DEFINE(mlx_mxfp4, SAMEBITS_FORMAT_MLX_MXFP4)
DEFINE(mlx_nvfp4, SAMEBITS_FORMAT_MLX_NVFP4)
DEFINE(nvfp4, SAMEBITS_FORMAT_NVFP4)
