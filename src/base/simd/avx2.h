/* simd.h for AVX2, FMA and F16C: 8 lanes. */
#ifndef SB_SIMD_AVX2_H
#define SB_SIMD_AVX2_H

#include "base/simd/x86.h"

#define SB_VL        8
#define SB_ISA(name) name##_avx2

typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;

SB_INLINE vf vf_zero(void) { return _mm256_setzero_ps(); }
SB_INLINE vf vf_set1(float x) { return _mm256_set1_ps(x); }
SB_INLINE vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
SB_INLINE void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
SB_INLINE vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
SB_INLINE vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
SB_INLINE vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
SB_INLINE vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
SB_INLINE vf vf_sqrt(vf a) { return _mm256_sqrt_ps(a); }
SB_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
/* a * b - c, one rounding */
SB_INLINE vf vf_fms(vf a, vf b, vf c) { return _mm256_fmsub_ps(a, b, c); }
/* a > b ? a : b, lane by lane: b where either is NaN. */
SB_INLINE vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
SB_INLINE vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
SB_INLINE vf vf_load_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
SB_INLINE vf vf_load_bf16(const uint16_t *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}

SB_INLINE vi vi_set1(int32_t x) { return _mm256_set1_epi32(x); }
SB_INLINE vi vi_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
SB_INLINE void vi_store(void *p, vi a) { _mm256_storeu_si256((__m256i *)p, a); }
SB_INLINE vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
SB_INLINE vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
SB_INLINE vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
SB_INLINE vi vi_or(vi a, vi b) { return _mm256_or_si256(a, b); }
SB_INLINE vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
SB_INLINE vi vi_shl(vi a, int n) { return _mm256_slli_epi32(a, n); }
SB_INLINE vi vi_shr(vi a, int n) { return _mm256_srli_epi32(a, n); }
/* a & 0xFFFF0000 in two shifts, which the compiler is kept from joining: a mask takes one of 16 registers, and loops
 * that have 12 sums spill one of them then, at a third of their speed. */
SB_INLINE vi vi_high_halves(vi a)
{
    vi low = vi_shr(a, 16);
    __asm__("" : "+x"(low));
    return vi_shl(low, 16);
}
SB_INLINE vi vi_sar(vi a, int n) { return _mm256_srai_epi32(a, n); }
SB_INLINE vf vi_to_f(vi a) { return _mm256_cvtepi32_ps(a); }
SB_INLINE vi vf_bits(vf a) { return _mm256_castps_si256(a); }
SB_INLINE vf vi_as_f(vi a) { return _mm256_castsi256_ps(a); }
/* Round to nearest even; the caller keeps |a| < 2^31. */
SB_INLINE vi vf_round_i(vf a) { return _mm256_cvtps_epi32(a); }
/* Round to nearest even, as a float. */
SB_INLINE vf vf_round(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/* Lanes 2i and 2i + 1 change places. */
SB_INLINE vf vf_swap_pairs(vf a) { return _mm256_permute_ps(a, 0xB1); }

SB_INLINE vi vi_max(vi a, vi b) { return _mm256_max_epi32(a, b); }
SB_INLINE vi vi_load_i8(const void *p) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)); }

/* f64 lanes, half as many. */
typedef __m256d vd;
SB_INLINE vd vd_zero(void) { return _mm256_setzero_pd(); }
SB_INLINE vd vd_set1(double x) { return _mm256_set1_pd(x); }
SB_INLINE vd vd_load(const double *p) { return _mm256_loadu_pd(p); }
SB_INLINE void vd_store(double *p, vd a) { _mm256_storeu_pd(p, a); }
SB_INLINE vd vd_add(vd a, vd b) { return _mm256_add_pd(a, b); }
SB_INLINE vd vd_fma(vd a, vd b, vd c) { return _mm256_fmadd_pd(a, b, c); }
SB_INLINE vd vd_mul(vd a, vd b) { return _mm256_mul_pd(a, b); }
SB_INLINE vd vd_div(vd a, vd b) { return _mm256_div_pd(a, b); }
/* Rounded to f32: lane i of the one goes to 2i, of the other to 2i + 1. */
SB_INLINE vf vd_interleave(vd even, vd odd)
{
    const __m128 a = _mm256_cvtpd_ps(even), b = _mm256_cvtpd_ps(odd);
    return _mm256_set_m128(_mm_unpackhi_ps(a, b), _mm_unpacklo_ps(a, b));
}

/* i64 lanes, half as many. */
typedef __m256i vl;
SB_INLINE vl vl_zero(void) { return _mm256_setzero_si256(); }
SB_INLINE vl vl_set1(int64_t x) { return _mm256_set1_epi64x(x); }
SB_INLINE vl vl_load(const int64_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
SB_INLINE void vl_store(int64_t *p, vl a) { _mm256_storeu_si256((__m256i *)p, a); }
SB_INLINE vl vl_add(vl a, vl b) { return _mm256_add_epi64(a, b); }
SB_INLINE vl vl_sub(vl a, vl b) { return _mm256_sub_epi64(a, b); }
SB_INLINE vl vl_and(vl a, vl b) { return _mm256_and_si256(a, b); }
SB_INLINE vl vl_or(vl a, vl b) { return _mm256_or_si256(a, b); }
SB_INLINE vl vl_xor(vl a, vl b) { return _mm256_xor_si256(a, b); }
SB_INLINE vl vl_shr(vl a, int n) { return _mm256_srli_epi64(a, n); }
SB_INLINE vl vi_as_l(vi a) { return a; }
SB_INLINE vd vl_as_d(vl a) { return _mm256_castsi256_pd(a); }
/* The 64-bit products of the even i32 lanes, and the odd lanes moved to the even ones. */
SB_INLINE vl vi_mul_even(vi a, vi b) { return _mm256_mul_epi32(a, b); }
SB_INLINE vi vi_odd(vi a) { return _mm256_srli_epi64(a, 32); }

/* Round to nearest even; NaN keeps its sign and payload. */
SB_INLINE void vf_store_f16(uint16_t *p, vf a)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
/* Stores the low halves; the high ones are zero. */
SB_INLINE void vi_store_u16(uint16_t *p, vi a)
{
    _mm_storeu_si128((__m128i *)p, _mm_packus_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1)));
}

SB_INLINE vm vf_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
SB_INLINE vm vf_gt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
SB_INLINE vm vf_eq(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
/* Where neither is NaN. */
SB_INLINE vm vf_ordered(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_ORD_Q); }
SB_INLINE vm vf_is_nan(vf a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
/* mask ? a : b */
SB_INLINE vf vf_select(vm mask, vf a, vf b) { return _mm256_blendv_ps(b, a, mask); }
SB_INLINE vm vm_and(vm a, vm b) { return _mm256_and_ps(a, b); }
SB_INLINE int vm_all(vm mask) { return _mm256_movemask_ps(mask) == 0xFF; }
SB_INLINE int vm_any(vm mask) { return _mm256_movemask_ps(mask) != 0; }

/* Bytes, zero-extended to lanes. */
SB_INLINE vi vi_load_u8(const uint8_t *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
/* table[each byte of index]; the bytes are 0..15. */
SB_INLINE vi vi_lookup8(const uint8_t table[16], vi index)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table)), index);
}
/* Byte `from` of each lane, as byte `to` of a lane that is else 0; both are constants. */
SB_INLINE vi vi_move_byte(vi a, int from, int to)
{
    if (from == 0 && to == 3) return vi_shl(a, 24);
    if (from == 3 && to == 0) return vi_shr(a, 24);
    if (from == to) return vi_and(a, vi_set1((int32_t)(0xFFu << 8 * to)));
    return _mm256_shuffle_epi8(a, _mm256_broadcastsi128_si256(v_byte_moves(from, to)));
}
/* Lanes as pairs of int16: a0 * b0 + a1 * b1. */
SB_INLINE vi vi_madd16(vi a, vi b) { return _mm256_madd_epi16(a, b); }
/* Keeps gcc from adding up products as a tree, with all of them in memory at once. */
#define V_IN_SEQUENCE(sum) __asm__("" : "+x"(sum))
/* sum as pairs of int16, u as 4 unsigned and s as 4 signed bytes a lane: sum0 + u0 * s0 + u1 * s1 and
 * sum1 + u2 * s2 + u3 * s3, modulo 2^16; the caller keeps the two products of a pair within int16. */
SB_INLINE vi vi_dot2x2(vi sum, vi u, vi s)
{
    vi r = _mm256_add_epi16(sum, _mm256_maddubs_epi16(u, s));
    V_IN_SEQUENCE(r);
    return r;
}
/* sum + a0 * b0 + .. + a3 * b3 with a and b as 4 signed bytes a lane, b > -128. */
SB_INLINE vi vi_dot4_signed(vi sum, vi a, vi b)
{
    const vi pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a));
    vi r = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    V_IN_SEQUENCE(r);
    return r;
}

#if defined(__AVXVNNI__) || defined(SB_EMULATE_AVXVNNI)
#define SB_DOT4_MAX 255 /* of u */
SB_INLINE vi vi_mul(vi a, vi b) { return _mm256_mullo_epi32(a, b); }
/* sum + u0 * s0 + .. + u3 * s3 with u as 4 unsigned and s as 4 signed bytes a lane. */
SB_INLINE vi vi_dot4(vi sum, vi u, vi s)
{
#if defined(SB_EMULATE_AVXVNNI)
    return v_dot4_of_pairs(sum, u, s);
#else
    return _mm256_dpbusd_avx_epi32(sum, u, s);
#endif
}
#endif

#endif
