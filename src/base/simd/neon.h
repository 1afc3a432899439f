/* simd.h for 64-bit Arm: 8 lanes, in two registers. */
#ifndef SB_SIMD_NEON_H
#define SB_SIMD_NEON_H

#include <arm_neon.h>

#include "base/base.h"

#define SB_VL        8
#define SB_ISA(name) name##_neon

typedef struct {
    float32x4_t lo, hi;
} vf;
typedef struct {
    int32x4_t lo, hi;
} vi;
typedef struct {
    uint32x4_t lo, hi;
} vm;

/* An intrinsic, or a cast, applied to both halves. */
#define V_1(type, f, a)       ((type){f((a).lo), f((a).hi)})
#define V_2(type, f, a, b)    ((type){f((a).lo, (b).lo), f((a).hi, (b).hi)})
#define V_3(type, f, a, b, c) ((type){f((a).lo, (b).lo, (c).lo), f((a).hi, (b).hi, (c).hi)})

SB_INLINE vf vf_set1(float x) { return (vf){vdupq_n_f32(x), vdupq_n_f32(x)}; }
SB_INLINE vf vf_zero(void) { return vf_set1(0.0f); }
SB_INLINE vf vf_load(const float *p) { return (vf){vld1q_f32(p), vld1q_f32(p + 4)}; }
SB_INLINE void vf_store(float *p, vf a)
{
    vst1q_f32(p, a.lo);
    vst1q_f32(p + 4, a.hi);
}
SB_INLINE vf vf_add(vf a, vf b) { return V_2(vf, vaddq_f32, a, b); }
SB_INLINE vf vf_sub(vf a, vf b) { return V_2(vf, vsubq_f32, a, b); }
SB_INLINE vf vf_mul(vf a, vf b) { return V_2(vf, vmulq_f32, a, b); }
SB_INLINE vf vf_div(vf a, vf b) { return V_2(vf, vdivq_f32, a, b); }
SB_INLINE vf vf_sqrt(vf a) { return V_1(vf, vsqrtq_f32, a); }
SB_INLINE vf vf_fma(vf a, vf b, vf c) { return V_3(vf, vfmaq_f32, c, a, b); }
SB_INLINE vf vf_fms(vf a, vf b, vf c) { return vf_fma(a, b, V_1(vf, vnegq_f32, c)); }
SB_INLINE vf vf_load_f16(const uint16_t *p)
{
    const float16x8_t h = vreinterpretq_f16_u16(vld1q_u16(p));
    return (vf){vcvt_f32_f16(vget_low_f16(h)), vcvt_high_f32_f16(h)};
}
SB_INLINE vf vf_load_bf16(const uint16_t *p)
{
    const uint16x8_t h = vld1q_u16(p);
    return (vf){vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16)),
                vreinterpretq_f32_u32(vshll_high_n_u16(h, 16))};
}

SB_INLINE vi vi_set1(int32_t x) { return (vi){vdupq_n_s32(x), vdupq_n_s32(x)}; }
SB_INLINE vi vi_load(const void *p)
{
    const uint8_t *bytes = p;
    return (vi){vreinterpretq_s32_u8(vld1q_u8(bytes)), vreinterpretq_s32_u8(vld1q_u8(bytes + 16))};
}
SB_INLINE void vi_store(void *p, vi a)
{
    uint8_t *bytes = p;
    vst1q_u8(bytes, vreinterpretq_u8_s32(a.lo));
    vst1q_u8(bytes + 16, vreinterpretq_u8_s32(a.hi));
}
/* table[each byte of index]; the bytes are 0..15. */
SB_INLINE int32x4_t v_lookup8(uint8x16_t table, int32x4_t index)
{
    return vreinterpretq_s32_u8(vqtbl1q_u8(table, vreinterpretq_u8_s32(index)));
}
SB_INLINE vi vi_lookup8(const uint8_t table[16], vi index)
{
    const uint8x16_t t = vld1q_u8(table);
    return (vi){v_lookup8(t, index.lo), v_lookup8(t, index.hi)};
}
SB_INLINE vi vi_add(vi a, vi b) { return V_2(vi, vaddq_s32, a, b); }
SB_INLINE vi vi_sub(vi a, vi b) { return V_2(vi, vsubq_s32, a, b); }
SB_INLINE vi vi_mul(vi a, vi b) { return V_2(vi, vmulq_s32, a, b); }
SB_INLINE vi vi_and(vi a, vi b) { return V_2(vi, vandq_s32, a, b); }
SB_INLINE vi vi_or(vi a, vi b) { return V_2(vi, vorrq_s32, a, b); }
SB_INLINE vi vi_xor(vi a, vi b) { return V_2(vi, veorq_s32, a, b); }
SB_INLINE vi vi_max(vi a, vi b) { return V_2(vi, vmaxq_s32, a, b); }
SB_INLINE vi vi_shl(vi a, int n) { return (vi){a.lo << n, a.hi << n}; }
SB_INLINE vi vi_shr(vi a, int n)
{
    return (vi){(int32x4_t)((uint32x4_t)a.lo >> n), (int32x4_t)((uint32x4_t)a.hi >> n)};
}
SB_INLINE vi vi_high_halves(vi a) { return vi_and(a, vi_set1((int32_t)0xFFFF0000)); }
SB_INLINE vi vi_move_byte(vi a, int from, int to)
{
    return vi_and(to > from ? vi_shl(a, 8 * (to - from)) : vi_shr(a, 8 * (from - to)),
                  vi_set1((int32_t)(0xFFu << 8 * to)));
}
SB_INLINE vi vi_sar(vi a, int n) { return (vi){a.lo >> n, a.hi >> n}; }
SB_INLINE vf vi_to_f(vi a) { return V_1(vf, vcvtq_f32_s32, a); }
SB_INLINE vi vf_bits(vf a) { return V_1(vi, vreinterpretq_s32_f32, a); }
SB_INLINE vf vi_as_f(vi a) { return V_1(vf, vreinterpretq_f32_s32, a); }
SB_INLINE vi vf_round_i(vf a) { return V_1(vi, vcvtnq_s32_f32, a); }
SB_INLINE vf vf_round(vf a) { return V_1(vf, vrndnq_f32, a); }
SB_INLINE vf vf_swap_pairs(vf a) { return V_1(vf, vrev64q_f32, a); }
SB_INLINE vi vi_load_i8(const void *p)
{
    const int16x8_t h = vmovl_s8(vld1_s8(p));
    return (vi){vmovl_s16(vget_low_s16(h)), vmovl_high_s16(h)};
}
SB_INLINE vi vi_load_u8(const uint8_t *p)
{
    const uint16x8_t h = vmovl_u8(vld1_u8(p));
    return (vi){vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(h))), vreinterpretq_s32_u32(vmovl_high_u16(h))};
}

typedef struct {
    float64x2_t lo, hi;
} vd;
SB_INLINE vd vd_set1(double x) { return (vd){vdupq_n_f64(x), vdupq_n_f64(x)}; }
SB_INLINE vd vd_zero(void) { return vd_set1(0.0); }
SB_INLINE vd vd_load(const double *p) { return (vd){vld1q_f64(p), vld1q_f64(p + 2)}; }
SB_INLINE void vd_store(double *p, vd a)
{
    vst1q_f64(p, a.lo);
    vst1q_f64(p + 2, a.hi);
}
SB_INLINE vd vd_add(vd a, vd b) { return V_2(vd, vaddq_f64, a, b); }
SB_INLINE vd vd_fma(vd a, vd b, vd c) { return V_3(vd, vfmaq_f64, c, a, b); }
SB_INLINE vd vd_mul(vd a, vd b) { return V_2(vd, vmulq_f64, a, b); }
SB_INLINE vd vd_div(vd a, vd b) { return V_2(vd, vdivq_f64, a, b); }
SB_INLINE vf vd_interleave(vd even, vd odd)
{
    const float32x4_t a = vcvt_high_f32_f64(vcvt_f32_f64(even.lo), even.hi);
    const float32x4_t b = vcvt_high_f32_f64(vcvt_f32_f64(odd.lo), odd.hi);
    return (vf){vzip1q_f32(a, b), vzip2q_f32(a, b)};
}

typedef struct {
    int64x2_t lo, hi;
} vl;
SB_INLINE vl vl_set1(int64_t x) { return (vl){vdupq_n_s64(x), vdupq_n_s64(x)}; }
SB_INLINE vl vl_zero(void) { return vl_set1(0); }
SB_INLINE vl vl_load(const int64_t *p) { return (vl){vld1q_s64(p), vld1q_s64(p + 2)}; }
SB_INLINE void vl_store(int64_t *p, vl a)
{
    vst1q_s64(p, a.lo);
    vst1q_s64(p + 2, a.hi);
}
SB_INLINE vl vl_add(vl a, vl b) { return V_2(vl, vaddq_s64, a, b); }
SB_INLINE vl vl_sub(vl a, vl b) { return V_2(vl, vsubq_s64, a, b); }
SB_INLINE vl vl_and(vl a, vl b) { return V_2(vl, vandq_s64, a, b); }
SB_INLINE vl vl_or(vl a, vl b) { return V_2(vl, vorrq_s64, a, b); }
SB_INLINE vl vl_xor(vl a, vl b) { return V_2(vl, veorq_s64, a, b); }
SB_INLINE vl vl_shr(vl a, int n)
{
    return (vl){(int64x2_t)((uint64x2_t)a.lo >> n), (int64x2_t)((uint64x2_t)a.hi >> n)};
}
SB_INLINE vl vi_as_l(vi a) { return V_1(vl, vreinterpretq_s64_s32, a); }
SB_INLINE vd vl_as_d(vl a) { return V_1(vd, vreinterpretq_f64_s64, a); }
SB_INLINE vl vi_mul_even(vi a, vi b)
{
    const vl x = vi_as_l(a), y = vi_as_l(b);
    return (vl){vmull_s32(vmovn_s64(x.lo), vmovn_s64(y.lo)), vmull_s32(vmovn_s64(x.hi), vmovn_s64(y.hi))};
}
SB_INLINE vi vi_odd(vi a)
{
    const vl odd = vl_shr(vi_as_l(a), 32);
    return V_1(vi, vreinterpretq_s32_s64, odd);
}

SB_INLINE void vf_store_f16(uint16_t *p, vf a)
{
    vst1q_u16(p, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(a.lo), a.hi)));
}
SB_INLINE void vi_store_u16(uint16_t *p, vi a)
{
    vst1q_u16(p, vmovn_high_u32(vmovn_u32(vreinterpretq_u32_s32(a.lo)), vreinterpretq_u32_s32(a.hi)));
}

SB_INLINE vm vf_lt(vf a, vf b) { return V_2(vm, vcltq_f32, a, b); }
SB_INLINE vm vf_gt(vf a, vf b) { return V_2(vm, vcgtq_f32, a, b); }
SB_INLINE vm vf_eq(vf a, vf b) { return V_2(vm, vceqq_f32, a, b); }
SB_INLINE vm vf_is_nan(vf a) { return (vm){vmvnq_u32(vceqq_f32(a.lo, a.lo)), vmvnq_u32(vceqq_f32(a.hi, a.hi))}; }
SB_INLINE vf vf_select(vm mask, vf a, vf b) { return V_3(vf, vbslq_f32, mask, a, b); }
/* Not the instructions, which order zeros and pass NaN on. */
SB_INLINE vf vf_max(vf a, vf b) { return vf_select(vf_gt(a, b), a, b); }
SB_INLINE vf vf_min(vf a, vf b) { return vf_select(vf_lt(a, b), a, b); }
SB_INLINE vm vm_and(vm a, vm b) { return V_2(vm, vandq_u32, a, b); }
SB_INLINE vm vf_ordered(vf a, vf b) { return vm_and(vf_eq(a, a), vf_eq(b, b)); }
SB_INLINE int vm_all(vm mask) { return vminvq_u32(vandq_u32(mask.lo, mask.hi)) != 0; }
SB_INLINE int vm_any(vm mask) { return vmaxvq_u32(vorrq_u32(mask.lo, mask.hi)) != 0; }

/* Bytes and int16 of a half. */
#define V_BYTES(x) vreinterpretq_s8_s32(x)
#define V_PAIRS(x) vreinterpretq_s16_s32(x)

SB_INLINE int32x4_t v_madd16(int32x4_t a, int32x4_t b)
{
    return vpaddq_s32(vmull_s16(vget_low_s16(V_PAIRS(a)), vget_low_s16(V_PAIRS(b))),
                      vmull_high_s16(V_PAIRS(a), V_PAIRS(b)));
}
SB_INLINE vi vi_madd16(vi a, vi b) { return V_2(vi, v_madd16, a, b); }

/* a0 * b0 + a1 * b1, a2 * b2 + a3 * b3 of each lane, as int16 modulo 2^16. */
SB_INLINE int16x8_t v_pairs(int32x4_t a, int32x4_t b)
{
    return vpaddq_s16(vmull_s8(vget_low_s8(V_BYTES(a)), vget_low_s8(V_BYTES(b))),
                      vmull_high_s8(V_BYTES(a), V_BYTES(b)));
}
/* u is below 128. */
SB_INLINE int32x4_t v_dot2x2(int32x4_t sum, int32x4_t u, int32x4_t s)
{
    return vreinterpretq_s32_s16(vaddq_s16(V_PAIRS(sum), v_pairs(u, s)));
}
SB_INLINE vi vi_dot2x2(vi sum, vi u, vi s) { return V_3(vi, v_dot2x2, sum, u, s); }

#if defined(__ARM_FEATURE_DOTPROD)
SB_INLINE int32x4_t v_dot4_signed(int32x4_t sum, int32x4_t a, int32x4_t b)
{
    return vdotq_s32(sum, V_BYTES(a), V_BYTES(b));
}
#define SB_DOT4_MAX 127
SB_INLINE vi vi_dot4(vi sum, vi u, vi s) { return V_3(vi, v_dot4_signed, sum, u, s); }
#else
SB_INLINE int32x4_t v_dot4_signed(int32x4_t sum, int32x4_t a, int32x4_t b) { return vpadalq_s16(sum, v_pairs(a, b)); }
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8)
#define SB_HAS_MMLA 1
/* Products of two rows of x with 8 columns, 8 weights each. x: 8 bytes of the one row, 8 of the other. w: 8 bytes a
 * column, as vi_store_zipped leaves them. The sums a and b are 2 x 2 blocks, until vi_untangle makes them rows. */
SB_INLINE void vi_mmla(vi *a, vi *b, int8x16_t x, const uint8_t *w)
{
    a->lo = vmmlaq_s32(a->lo, x, vreinterpretq_s8_u8(vld1q_u8(w)));
    a->hi = vmmlaq_s32(a->hi, x, vreinterpretq_s8_u8(vld1q_u8(w + 16)));
    b->lo = vmmlaq_s32(b->lo, x, vreinterpretq_s8_u8(vld1q_u8(w + 32)));
    b->hi = vmmlaq_s32(b->hi, x, vreinterpretq_s8_u8(vld1q_u8(w + 48)));
}
/* Two words of each row: a vi_mmla operand from where the first lies and where the second does. */
SB_INLINE int8x16_t v_two_rows(const void *first, const void *second)
{
    const int32x2_t a = vreinterpret_s32_u8(vld1_u8(first)), b = vreinterpret_s32_u8(vld1_u8(second));
    return vreinterpretq_s8_s32(vcombine_s32(vzip1_s32(a, b), vzip2_s32(a, b)));
}
/* The same words as both rows. */
SB_INLINE int8x16_t v_one_row(int32_t first, int32_t second)
{
    return vreinterpretq_s8_s32(vzip1q_s32(vdupq_n_s32(first), vdupq_n_s32(second)));
}
/* Sums that start from a number a row. */
SB_INLINE void vi_tangle(int32_t first, int32_t second, vi *a, vi *b)
{
    const int32x4_t start = vcombine_s32(vdup_n_s32(first), vdup_n_s32(second));
    *a = *b = (vi){start, start};
}
SB_INLINE int32x4_t v_low_64(int32x4_t a, int32x4_t b) { return vcombine_s32(vget_low_s32(a), vget_low_s32(b)); }
SB_INLINE int32x4_t v_high_64(int32x4_t a, int32x4_t b) { return vcombine_s32(vget_high_s32(a), vget_high_s32(b)); }
SB_INLINE void vi_untangle(vi *a, vi *b)
{
    const vi x = *a, y = *b;
    *a = (vi){v_low_64(x.lo, x.hi), v_low_64(y.lo, y.hi)};
    *b = (vi){v_high_64(x.lo, x.hi), v_high_64(y.lo, y.hi)};
}
/* Lanes of a and b in turn: 64 bytes. */
SB_INLINE void vi_store_zipped(uint8_t *p, vi a, vi b)
{
    vi_store(p, (vi){vzip1q_s32(a.lo, b.lo), vzip2q_s32(a.lo, b.lo)});
    vi_store(p + 32, (vi){vzip1q_s32(a.hi, b.hi), vzip2q_s32(a.hi, b.hi)});
}
#endif
SB_INLINE vi vi_dot4_signed(vi sum, vi a, vi b) { return V_3(vi, v_dot4_signed, sum, a, b); }

/* 16 lanes of 16 bits. */
typedef struct {
    uint16x8_t lo, hi;
} vh;
SB_INLINE vh vh_set1(uint16_t x) { return (vh){vdupq_n_u16(x), vdupq_n_u16(x)}; }
SB_INLINE uint16x8_t v_load_8(const void *p) { return vreinterpretq_u16_u8(vld1q_u8(p)); }
SB_INLINE vh vh_load(const void *p) { return (vh){v_load_8(p), v_load_8((const char *)p + 16)}; }
SB_INLINE vh vh_load_2(const void *p, const void *q) { return (vh){v_load_8(p), v_load_8(q)}; }
SB_INLINE vh vh_load_half(const void *p) { return (vh){v_load_8(p), vdupq_n_u16(0)}; }
SB_INLINE void vh_store(uint16_t *p, vh a)
{
    vst1q_u16(p, a.lo);
    vst1q_u16(p + 8, a.hi);
}
SB_INLINE vh vh_and(vh a, vh b) { return V_2(vh, vandq_u16, a, b); }
SB_INLINE vh vh_max(vh a, vh b) { return V_2(vh, vmaxq_u16, a, b); }
SB_INLINE vh vh_up_to(vh a, vh limit) { return vh_and(a, V_2(vh, vcleq_u16, a, limit)); }
SB_INLINE uint16_t vh_largest(vh a) { return vmaxvq_u16(vmaxq_u16(a.lo, a.hi)); }

#define V_ZIP(bits, zip, a, b)                                                                                         \
    vreinterpretq_u16_u##bits(zip##_u##bits(vreinterpretq_u##bits##_u16(a), vreinterpretq_u##bits##_u16(b)))
#define V_ZIPS(name, zip, bits)                                                                                        \
    SB_INLINE vh vh_##name##_##bits(vh a, vh b)                                                                        \
    {                                                                                                                  \
        return (vh){V_ZIP(bits, zip, a.lo, b.lo), V_ZIP(bits, zip, a.hi, b.hi)};                                       \
    }
SB_INLINE vh vh_zip_low_16(vh a, vh b) { return V_2(vh, vzip1q_u16, a, b); }
SB_INLINE vh vh_zip_high_16(vh a, vh b) { return V_2(vh, vzip2q_u16, a, b); }
V_ZIPS(zip_low, vzip1q, 32)
V_ZIPS(zip_high, vzip2q, 32)
V_ZIPS(zip_low, vzip1q, 64)
V_ZIPS(zip_high, vzip2q, 64)
#undef V_ZIPS
#undef V_ZIP

/* 4 lanes of f32. */
typedef float32x4_t vq;
SB_INLINE vq vq_load(const float *p) { return vld1q_f32(p); }
SB_INLINE void vq_store(float *p, vq a) { vst1q_f32(p, a); }
SB_INLINE int vq_has_bits(vq a) { return vmaxvq_u32(vreinterpretq_u32_f32(a)) != 0; }
SB_INLINE void vq_transpose(vq a[4])
{
    const float32x4x2_t x = vtrnq_f32(a[0], a[1]), y = vtrnq_f32(a[2], a[3]);
    a[0] = vcombine_f32(vget_low_f32(x.val[0]), vget_low_f32(y.val[0]));
    a[1] = vcombine_f32(vget_low_f32(x.val[1]), vget_low_f32(y.val[1]));
    a[2] = vcombine_f32(vget_high_f32(x.val[0]), vget_high_f32(y.val[0]));
    a[3] = vcombine_f32(vget_high_f32(x.val[1]), vget_high_f32(y.val[1]));
}

#endif
