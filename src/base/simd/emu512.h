/* simd.h's 16 lanes on a machine with AVX2 only, for tests: the same kernel bodies, the same lane count. */
#ifndef SB_SIMD_EMU512_H
#define SB_SIMD_EMU512_H

#include "base/simd/x86.h"

#define SB_VL        16
#define SB_ISA(name) name##_avx512

typedef float vf __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef vi vm; /* -1 or 0 a lane */

typedef union {
    vf f;
    vi i;
    __m256 hf[2];
    __m256i hi[2];
} v_halves;

/* Applies an AVX2 intrinsic to both halves. */
#define V_UNARY(type, half, expression)                                                                                \
    v_halves x = {.type = a}, r;                                                                                       \
    for (int h = 0; h < 2; h++) r.half[h] = expression(x.half[h])

SB_INLINE vf vf_set1(float x) { return (vf){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
SB_INLINE vi vi_set1(int32_t x) { return (vi){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
SB_INLINE vf vf_zero(void) { return vf_set1(0.0f); }
SB_INLINE vf vf_load(const float *p)
{
    vf a;
    memcpy(&a, p, sizeof a);
    return a;
}
SB_INLINE void vf_store(float *p, vf a) { memcpy(p, &a, sizeof a); }
SB_INLINE vf vf_add(vf a, vf b) { return a + b; }
SB_INLINE vf vf_sub(vf a, vf b) { return a - b; }
SB_INLINE vf vf_mul(vf a, vf b) { return a * b; }
SB_INLINE vf vf_div(vf a, vf b) { return a / b; }
SB_INLINE vf vf_sqrt(vf a)
{
    V_UNARY(f, hf, _mm256_sqrt_ps);
    return r.f;
}
SB_INLINE vf vf_fma(vf a, vf b, vf c)
{
    v_halves x = {.f = a}, y = {.f = b}, z = {.f = c}, r;
    for (int h = 0; h < 2; h++) r.hf[h] = _mm256_fmadd_ps(x.hf[h], y.hf[h], z.hf[h]);
    return r.f;
}
SB_INLINE vf vf_fms(vf a, vf b, vf c) { return vf_fma(a, b, -c); }
SB_INLINE vf vf_swap_pairs(vf a)
{
    v_halves x = {.f = a}, r;
    for (int h = 0; h < 2; h++) r.hf[h] = _mm256_permute_ps(x.hf[h], 0xB1);
    return r.f;
}
SB_INLINE vf vf_load_f16(const uint16_t *p)
{
    v_halves r;
    for (int h = 0; h < 2; h++) r.hf[h] = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8 * h)));
    return r.f;
}
SB_INLINE vf vf_load_bf16(const uint16_t *p)
{
    v_halves r;
    for (int h = 0; h < 2; h++)
        r.hi[h] = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p + 8 * h))), 16);
    return r.f;
}

SB_INLINE vi vi_load(const void *p)
{
    vi a;
    memcpy(&a, p, sizeof a);
    return a;
}
SB_INLINE void vi_store(void *p, vi a) { memcpy(p, &a, sizeof a); }
SB_INLINE vi vi_add(vi a, vi b) { return a + b; }
SB_INLINE vi vi_sub(vi a, vi b) { return a - b; }
typedef uint8_t v_bytes __attribute__((vector_size(64)));
SB_INLINE vi vi_sub8(vi a, vi b) { return (vi)((v_bytes)a - (v_bytes)b); }
SB_INLINE vi vi_and(vi a, vi b) { return a & b; }
SB_INLINE vi vi_or(vi a, vi b) { return a | b; }
SB_INLINE vi vi_xor(vi a, vi b) { return a ^ b; }
typedef uint32_t v_unsigned __attribute__((vector_size(64)));
SB_INLINE vi vi_shl(vi a, int n) { return (vi)((v_unsigned)a << n); }
SB_INLINE vi vi_shr(vi a, int n) { return (vi)((v_unsigned)a >> n); }
SB_INLINE vi vi_high_halves(vi a) { return vi_and(a, vi_set1((int32_t)0xFFFF0000)); }
SB_INLINE vi vi_sar(vi a, int n) { return a >> n; }
SB_INLINE vf vi_to_f(vi a) { return __builtin_convertvector(a, vf); }
SB_INLINE vi vf_bits(vf a) { return (vi)a; }
SB_INLINE vf vi_as_f(vi a) { return (vf)a; }
SB_INLINE vi vf_round_i(vf a)
{
    v_halves x = {.f = a}, r;
    for (int h = 0; h < 2; h++) r.hi[h] = _mm256_cvtps_epi32(x.hf[h]);
    return r.i;
}
#define V_ROUND(x) _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
SB_INLINE vf vf_round(vf a)
{
    V_UNARY(f, hf, V_ROUND);
    return r.f;
}

SB_INLINE vi vi_max(vi a, vi b)
{
    v_halves x = {.i = a}, y = {.i = b}, r;
    for (int h = 0; h < 2; h++) r.hi[h] = _mm256_max_epi32(x.hi[h], y.hi[h]);
    return r.i;
}
SB_INLINE vi vi_load_i8(const void *p)
{
    v_halves r;
    for (int h = 0; h < 2; h++)
        r.hi[h] = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)((const char *)p + 8 * h)));
    return r.i;
}

typedef double vd __attribute__((vector_size(64)));
SB_INLINE vd vd_set1(double x) { return (vd){x, x, x, x, x, x, x, x}; }
SB_INLINE vd vd_zero(void) { return vd_set1(0.0); }
SB_INLINE vd vd_load(const double *p)
{
    vd a;
    memcpy(&a, p, sizeof a);
    return a;
}
SB_INLINE void vd_store(double *p, vd a) { memcpy(p, &a, sizeof a); }
SB_INLINE vd vd_add(vd a, vd b) { return a + b; }
SB_INLINE vd vd_fma(vd a, vd b, vd c)
{
    union {
        vd all;
        __m256d half[2];
    } x = {a}, y = {b}, z = {c}, r;
    for (int h = 0; h < 2; h++) r.half[h] = _mm256_fmadd_pd(x.half[h], y.half[h], z.half[h]);
    return r.all;
}

SB_INLINE vd vd_mul(vd a, vd b) { return a * b; }
SB_INLINE vd vd_div(vd a, vd b) { return a / b; }
SB_INLINE vf vd_interleave(vd even, vd odd)
{
    float x[16];
    for (int i = 0; i < 16; i++) x[i] = (float)(i % 2 ? odd : even)[i / 2];
    return vf_load(x);
}

typedef int64_t vl __attribute__((vector_size(64)));
SB_INLINE vl vl_set1(int64_t x) { return (vl){x, x, x, x, x, x, x, x}; }
SB_INLINE vl vl_zero(void) { return vl_set1(0); }
SB_INLINE vl vl_load(const int64_t *p)
{
    vl a;
    memcpy(&a, p, sizeof a);
    return a;
}
SB_INLINE void vl_store(int64_t *p, vl a) { memcpy(p, &a, sizeof a); }
SB_INLINE vl vl_add(vl a, vl b) { return a + b; }
SB_INLINE vl vl_sub(vl a, vl b) { return a - b; }
SB_INLINE vl vl_and(vl a, vl b) { return a & b; }
SB_INLINE vl vl_or(vl a, vl b) { return a | b; }
SB_INLINE vl vl_xor(vl a, vl b) { return a ^ b; }
typedef uint64_t v_unsigned_long __attribute__((vector_size(64)));
SB_INLINE vl vl_shr(vl a, int n) { return (vl)((v_unsigned_long)a >> n); }
SB_INLINE vl vi_as_l(vi a) { return (vl)a; }
SB_INLINE vd vl_as_d(vl a) { return (vd)a; }
SB_INLINE vl vi_mul_even(vi a, vi b)
{
    v_halves x = {.i = a}, y = {.i = b}, r;
    for (int h = 0; h < 2; h++) r.hi[h] = _mm256_mul_epi32(x.hi[h], y.hi[h]);
    return (vl)r.i;
}
SB_INLINE vi vi_odd(vi a) { return (vi)vl_shr((vl)a, 32); }

SB_INLINE void vf_store_f16(uint16_t *p, vf a)
{
    v_halves x = {.f = a};
    for (int h = 0; h < 2; h++)
        _mm_storeu_si128((__m128i *)(p + 8 * h),
                         _mm256_cvtps_ph(x.hf[h], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
SB_INLINE void vi_store_u16(uint16_t *p, vi a)
{
    for (int i = 0; i < 16; i++) p[i] = (uint16_t)a[i];
}

SB_INLINE vm vf_lt(vf a, vf b) { return a < b; }
SB_INLINE vm vf_gt(vf a, vf b) { return a > b; }
SB_INLINE vm vf_eq(vf a, vf b) { return a == b; }
SB_INLINE vm vf_ordered(vf a, vf b) { return (a == a) & (b == b); }
SB_INLINE vm vf_is_nan(vf a) { return a != a; }
SB_INLINE vf vf_select(vm mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }
SB_INLINE vf vf_max(vf a, vf b) { return vf_select(a > b, a, b); }
SB_INLINE vf vf_min(vf a, vf b) { return vf_select(a < b, a, b); }
SB_INLINE vm vm_and(vm a, vm b) { return a & b; }
SB_INLINE int vm_all(vm mask)
{
    v_halves x = {.i = ~mask};
    return _mm256_testz_si256(x.hi[0], x.hi[0]) && _mm256_testz_si256(x.hi[1], x.hi[1]);
}
SB_INLINE int vm_any(vm mask)
{
    v_halves x = {.i = mask};
    return !_mm256_testz_si256(x.hi[0], x.hi[0]) || !_mm256_testz_si256(x.hi[1], x.hi[1]);
}

SB_INLINE vi vi_load_u8(const uint8_t *p)
{
    v_halves r;
    for (int h = 0; h < 2; h++) r.hi[h] = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p + 8 * h)));
    return r.i;
}

SB_INLINE vi vi_lookup8(const uint8_t table[16], vi index)
{
    v_halves x = {.i = index}, r;
    const __m256i codes = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
    for (int h = 0; h < 2; h++) r.hi[h] = _mm256_shuffle_epi8(codes, x.hi[h]);
    return r.i;
}
SB_INLINE vi vi_move_byte(vi a, int from, int to)
{
    v_halves x = {.i = a}, r;
    for (int h = 0; h < 2; h++)
        r.hi[h] = _mm256_shuffle_epi8(x.hi[h], _mm256_broadcastsi128_si256(v_byte_moves(from, to)));
    return r.i;
}
SB_INLINE vi vi_madd16(vi a, vi b)
{
    v_halves x = {.i = a}, y = {.i = b}, r;
    for (int h = 0; h < 2; h++) r.hi[h] = _mm256_madd_epi16(x.hi[h], y.hi[h]);
    return r.i;
}
SB_INLINE vi vi_mul(vi a, vi b) { return a * b; }
#define SB_DOT4_MAX 255
SB_INLINE vi vi_dot4(vi sum, vi u, vi s)
{
    v_halves x = {.i = u}, y = {.i = s}, r = {.i = sum};
    for (int h = 0; h < 2; h++) r.hi[h] = v_dot4_of_pairs(r.hi[h], x.hi[h], y.hi[h]);
    return r.i;
}

/* VDPBF16PS, which flushes. */
SB_INLINE vf v_flush(vf a)
{
    const vi magnitude = (vi)a & vi_set1(0x7FFFFFFF);
    return (vf)((vi)a & ((magnitude >= vi_set1(0x00800000)) | vi_set1(INT32_MIN)));
}
SB_INLINE vf vf_dot_bf16(vf sum, vi a, vi b)
{
    const vi high = vi_set1((int32_t)0xFFFF0000);
    sum = v_flush(vf_fma(v_flush((vf)(a & high)), v_flush((vf)(b & high)), v_flush(sum)));
    return v_flush(vf_fma(v_flush((vf)(a << 16)), v_flush((vf)(b << 16)), sum));
}

SB_INLINE vf vf_lookup(vf table, vi index)
{
    vf r = vf_zero();
    for (int i = 0; i < SB_VL; i++) r[i] = table[index[i] & 15];
    return r;
}

#endif
