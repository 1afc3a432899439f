/* Vectors of a fixed size, the same for AVX2 and AVX-512. */
#ifndef SB_SIMD_X86_H
#define SB_SIMD_X86_H

#include <immintrin.h>

#include "base/base.h"

/* 16 lanes of 16 bits, unsigned. */
typedef __m256i vh;
SB_INLINE vh vh_set1(uint16_t x) { return _mm256_set1_epi16((int16_t)x); }
SB_INLINE vh vh_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
/* Eight lanes of each. */
SB_INLINE vh vh_load_2(const void *p, const void *q)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)p)),
                                   _mm_loadu_si128((const __m128i *)q), 1);
}
/* Eight lanes, the others 0. */
SB_INLINE vh vh_load_half(const void *p) { return _mm256_zextsi128_si256(_mm_loadu_si128((const __m128i *)p)); }
SB_INLINE void vh_store(uint16_t *p, vh a) { _mm256_storeu_si256((__m256i *)(void *)p, a); }
SB_INLINE vh vh_and(vh a, vh b) { return _mm256_and_si256(a, b); }
SB_INLINE vh vh_max(vh a, vh b) { return _mm256_max_epu16(a, b); }
/* a where it is at most limit, else 0; both below 2^15. */
SB_INLINE vh vh_up_to(vh a, vh limit) { return _mm256_andnot_si256(_mm256_cmpgt_epi16(a, limit), a); }
/* The largest lane. */
SB_INLINE uint16_t vh_largest(vh a)
{
    const __m128i half = _mm_max_epu16(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    const __m128i least = _mm_minpos_epu16(_mm_xor_si128(half, _mm_set1_epi16(-1)));
    return (uint16_t)~_mm_extract_epi16(least, 0);
}
/* Lanes of a and b in turn, as lanes of 16, 32 or 64 bits: of the low half of each group of eight lanes, or of the
 * high half. */
SB_INLINE vh vh_zip_low_16(vh a, vh b) { return _mm256_unpacklo_epi16(a, b); }
SB_INLINE vh vh_zip_high_16(vh a, vh b) { return _mm256_unpackhi_epi16(a, b); }
SB_INLINE vh vh_zip_low_32(vh a, vh b) { return _mm256_unpacklo_epi32(a, b); }
SB_INLINE vh vh_zip_high_32(vh a, vh b) { return _mm256_unpackhi_epi32(a, b); }
SB_INLINE vh vh_zip_low_64(vh a, vh b) { return _mm256_unpacklo_epi64(a, b); }
SB_INLINE vh vh_zip_high_64(vh a, vh b) { return _mm256_unpackhi_epi64(a, b); }

/* What a shuffle of bytes takes to move byte `from` of each lane to byte `to` and to clear the others. */
SB_INLINE __m128i v_byte_moves(int from, int to)
{
    int32_t lane[4];
    for (int l = 0; l < 4; l++)
        lane[l] = (int32_t)((0x80808080u & ~(0xFFu << 8 * to)) | (uint32_t)(4 * l + from) << 8 * to);
    return _mm_setr_epi32(lane[0], lane[1], lane[2], lane[3]);
}

/* VPDPBUSD on 8 lanes, of AVX2: pairs of bytes would saturate, so even and odd ones as int16. For emulation. */
SB_INLINE __m256i v_dot4_of_pairs(__m256i sum, __m256i u, __m256i s)
{
    const __m256i even =
        _mm256_madd_epi16(_mm256_and_si256(u, _mm256_set1_epi16(255)), _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(u, 8), _mm256_srai_epi16(s, 8));
    return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
}

/* 4 lanes of f32. */
typedef __m128 vq;
SB_INLINE vq vq_load(const float *p) { return _mm_loadu_ps(p); }
SB_INLINE void vq_store(float *p, vq a) { _mm_storeu_ps(p, a); }
/* Whether any bit is set. */
SB_INLINE int vq_has_bits(vq a) { return !_mm_testz_si128(_mm_castps_si128(a), _mm_castps_si128(a)); }
SB_INLINE void vq_transpose(vq a[4]) { _MM_TRANSPOSE4_PS(a[0], a[1], a[2], a[3]); }

#endif
