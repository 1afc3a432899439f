/* simd.h for AVX-512 F, BW, DQ and VL: 16 lanes. */
#ifndef SB_SIMD_AVX512_H
#define SB_SIMD_AVX512_H

#include "base/simd/x86.h"

#define SB_VL        16
#define SB_ISA(name) name##_avx512

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

SB_INLINE vf vf_zero(void) { return _mm512_setzero_ps(); }
SB_INLINE vf vf_set1(float x) { return _mm512_set1_ps(x); }
SB_INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
SB_INLINE void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
SB_INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
SB_INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
SB_INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
SB_INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
SB_INLINE vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
SB_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
SB_INLINE vf vf_fms(vf a, vf b, vf c) { return _mm512_fmsub_ps(a, b, c); }
SB_INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
SB_INLINE vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
SB_INLINE vf vf_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
SB_INLINE vf vf_load_bf16(const uint16_t *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}

SB_INLINE vi vi_set1(int32_t x) { return _mm512_set1_epi32(x); }
SB_INLINE vi vi_load(const void *p) { return _mm512_loadu_si512(p); }
SB_INLINE void vi_store(void *p, vi a) { _mm512_storeu_si512(p, a); }
SB_INLINE vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
SB_INLINE vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
/* Byte by byte. */
SB_INLINE vi vi_sub8(vi a, vi b) { return _mm512_sub_epi8(a, b); }
SB_INLINE vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
SB_INLINE vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
SB_INLINE vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
SB_INLINE vi vi_shl(vi a, int n) { return _mm512_slli_epi32(a, (unsigned)n); }
SB_INLINE vi vi_shr(vi a, int n) { return _mm512_srli_epi32(a, (unsigned)n); }
SB_INLINE vi vi_high_halves(vi a) { return vi_and(a, vi_set1((int32_t)0xFFFF0000)); }
SB_INLINE vi vi_sar(vi a, int n) { return _mm512_srai_epi32(a, (unsigned)n); }
SB_INLINE vf vi_to_f(vi a) { return _mm512_cvtepi32_ps(a); }
SB_INLINE vi vf_bits(vf a) { return _mm512_castps_si512(a); }
SB_INLINE vf vi_as_f(vi a) { return _mm512_castsi512_ps(a); }
SB_INLINE vi vf_round_i(vf a) { return _mm512_cvtps_epi32(a); }
SB_INLINE vf vf_round(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
SB_INLINE vf vf_swap_pairs(vf a) { return _mm512_permute_ps(a, 0xB1); }

SB_INLINE vi vi_max(vi a, vi b) { return _mm512_max_epi32(a, b); }
SB_INLINE vi vi_load_i8(const void *p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)); }

typedef __m512d vd;
SB_INLINE vd vd_zero(void) { return _mm512_setzero_pd(); }
SB_INLINE vd vd_set1(double x) { return _mm512_set1_pd(x); }
SB_INLINE vd vd_load(const double *p) { return _mm512_loadu_pd(p); }
SB_INLINE void vd_store(double *p, vd a) { _mm512_storeu_pd(p, a); }
SB_INLINE vd vd_add(vd a, vd b) { return _mm512_add_pd(a, b); }
SB_INLINE vd vd_fma(vd a, vd b, vd c) { return _mm512_fmadd_pd(a, b, c); }
SB_INLINE vd vd_mul(vd a, vd b) { return _mm512_mul_pd(a, b); }
SB_INLINE vd vd_div(vd a, vd b) { return _mm512_div_pd(a, b); }
SB_INLINE vf vd_interleave(vd even, vd odd)
{
    const __m512i from = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    return _mm512_permutex2var_ps(_mm512_castps256_ps512(_mm512_cvtpd_ps(even)), from,
                                  _mm512_castps256_ps512(_mm512_cvtpd_ps(odd)));
}

typedef __m512i vl;
SB_INLINE vl vl_zero(void) { return _mm512_setzero_si512(); }
SB_INLINE vl vl_set1(int64_t x) { return _mm512_set1_epi64(x); }
SB_INLINE vl vl_load(const int64_t *p) { return _mm512_loadu_si512(p); }
SB_INLINE void vl_store(int64_t *p, vl a) { _mm512_storeu_si512(p, a); }
SB_INLINE vl vl_add(vl a, vl b) { return _mm512_add_epi64(a, b); }
SB_INLINE vl vl_sub(vl a, vl b) { return _mm512_sub_epi64(a, b); }
SB_INLINE vl vl_and(vl a, vl b) { return _mm512_and_si512(a, b); }
SB_INLINE vl vl_or(vl a, vl b) { return _mm512_or_si512(a, b); }
SB_INLINE vl vl_xor(vl a, vl b) { return _mm512_xor_si512(a, b); }
SB_INLINE vl vl_shr(vl a, int n) { return _mm512_srli_epi64(a, (unsigned)n); }
SB_INLINE vl vi_as_l(vi a) { return a; }
SB_INLINE vd vl_as_d(vl a) { return _mm512_castsi512_pd(a); }
SB_INLINE vl vi_mul_even(vi a, vi b) { return _mm512_mul_epi32(a, b); }
SB_INLINE vi vi_odd(vi a) { return _mm512_srli_epi64(a, 32); }

SB_INLINE void vf_store_f16(uint16_t *p, vf a)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
SB_INLINE void vi_store_u16(uint16_t *p, vi a) { _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(a)); }

SB_INLINE vm vf_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
SB_INLINE vm vf_gt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
SB_INLINE vm vf_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
SB_INLINE vm vf_ordered(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_ORD_Q); }
SB_INLINE vm vf_is_nan(vf a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
SB_INLINE vf vf_select(vm mask, vf a, vf b) { return _mm512_mask_blend_ps(mask, b, a); }
SB_INLINE vm vm_and(vm a, vm b) { return a & b; }
SB_INLINE int vm_all(vm mask) { return mask == 0xFFFF; }
SB_INLINE int vm_any(vm mask) { return mask != 0; }

SB_INLINE vi vi_load_u8(const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)); }

SB_INLINE vi vi_lookup8(const uint8_t table[16], vi index)
{
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table)), index);
}
SB_INLINE vi vi_move_byte(vi a, int from, int to)
{
    return _mm512_shuffle_epi8(a, _mm512_broadcast_i32x4(v_byte_moves(from, to)));
}
SB_INLINE vi vi_madd16(vi a, vi b) { return _mm512_madd_epi16(a, b); }
SB_INLINE vi vi_mul(vi a, vi b) { return _mm512_mullo_epi32(a, b); }
#if defined(__AVX512VNNI__)
#define SB_DOT4_MAX 255 /* of u */
/* sum + u0 * s0 + .. + u3 * s3 with u as 4 unsigned and s as 4 signed bytes a lane. */
SB_INLINE vi vi_dot4(vi sum, vi u, vi s) { return _mm512_dpbusd_epi32(sum, u, s); }
#endif

#if defined(__AVX512BF16__)
/* fma(a1, b1, fma(a0, b0, sum)) with a0, b0 the bf16 in the high and a1, b1 those in the low half of a lane; subnormal
 * inputs and results are zero, whatever the floating-point environment. */
SB_INLINE vf vf_dot_bf16(vf sum, vi a, vi b) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }
#endif

/* table[the low 4 bits of index] */
SB_INLINE vf vf_lookup(vf table, vi index) { return _mm512_permutexvar_ps(index, table); }

#endif
