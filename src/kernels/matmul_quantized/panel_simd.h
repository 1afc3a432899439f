/* Reading panels of GGUF blocks in vectors: a lane is a column (formats/quant.h). */
#ifndef SB_PANEL_SIMD_H
#define SB_PANEL_SIMD_H

#include "base/simd.h"
#include "formats/elements_simd.h"
#include "formats/few_rows_simd.h"
#include "formats/quant.h"

#define PANEL_VECTORS (SB_PANEL / SB_VL)
#define AHEAD         2048 /* bytes of weights that few rows prefetch */

SB_INLINE vi byte_mask(int byte) { return vi_set1((int32_t)(0x01010101u * (uint32_t)byte)); }
SB_INLINE vi shifted(vi v, int left) { return left > 0 ? vi_shl(v, left) : left < 0 ? vi_shr(v, -left) : v; }

/* The bits of the weights 16 * half + 4z + i of a step, unsigned, a byte each, from bit `up` of the byte on. */
SB_INLINE vi read_bits(samebits_format f, const uint8_t *step, int half, int z, int up)
{
    const int low = sb_quant_low_bits(f);
    if (low == 8) return vi_load(step + (4 * half + z) * SB_PLANE);
    const vi v = low == 4 ? vi_and(shifted(vi_load(step + z * SB_PLANE), up - 4 * half), byte_mask(0x0F << up))
                          : vi_and(shifted(vi_load(step + half * SB_PLANE), up - 2 * z), byte_mask(0x03 << up));
    if (sb_quant_high_bits(f) == 1)
        return vi_or(
            v, vi_and(shifted(vi_load(step + low * SB_PLANE), up + low - z - 4 * half), byte_mask(0x01 << (up + low))));
    if (sb_quant_high_bits(f) == 2)
        return vi_or(v, vi_and(shifted(vi_load(step + (low + half) * SB_PLANE), up + low - 2 * z),
                               byte_mask(0x03 << (up + low))));
    return v;
}

/* The integers of these weights with the format's offset added, unsigned. */
SB_INLINE vi read_plane(samebits_format f, const uint8_t *step, int half, int z)
{
    const vi bits = read_bits(f, step, half, z, 0);
    return sb_quant_is_coded(f) ? vi_lookup8(sb_quant_codes(f), bits) : bits;
}

/* The scales of one step and the vector of columns from c. */
typedef struct {
    vf d, m;       /* factor of the weights, and the minimum */
    vi s[2], n[2]; /* two scales a step: what d and m are still to be multiplied with, for each half of the step */
    vf h[2];       /* or half of the scale of each half of the step */
} step_scales;

/* 2^(e - 128) in two factors, both normal: their product is exact, also when it is subnormal. */
SB_INLINE vf power_of_two(vi e)
{
    const vi half = vi_shr(e, 1), rest = vi_sub(e, half), bias = vi_set1(127 - 64);
    return vf_mul(vi_as_f(vi_shl(vi_add(half, bias), 23)), vi_as_f(vi_shl(vi_add(rest, bias), 23)));
}

/* The same for MLX, which has no finite number for 255. */
SB_INLINE vf power_of_two_or_inf(vi e)
{
    return vf_select(vf_eq(vi_to_f(e), vf_set1(255.0f)), vf_set1(INFINITY), power_of_two(e));
}

/* E4M3 in the highest byte of each lane, without its NaN, times 2^(p - 120): exact. Where its exponent may be 0, but
 * for the number 0, such a number is made of an integer: as a subnormal f32 it would take some CPUs over a hundred
 * cycles. */
SB_INLINE vf from_e4m3(vi bytes, int may_be_small, int p)
{
    const vi sign = vi_and(bytes, vi_set1(INT32_MIN)), magnitude = vi_and(vi_shr(bytes, 4), vi_set1(0x07F00000));
    vf number;
    if (may_be_small) {
        const vf small = vf_mul(vi_to_f(magnitude), vf_set1(sb_float((uint32_t)(p - 22) << 23)));
        const vm is_small = vf_eq(vi_to_f(vi_and(magnitude, vi_set1(0x07800000))), vf_zero());
        number = vf_select(is_small, small, vi_as_f(vi_add(magnitude, vi_set1(p << 23))));
    } else
        number = vf_mul(vi_as_f(magnitude), vf_set1(sb_float((uint32_t)(p + 127) << 23)));
    return vi_as_f(vi_or(sign, vf_bits(number)));
}
/* Where its NaN is. */
SB_INLINE vm e4m3_is_nan(vi bytes)
{
    return vf_eq(vi_as_f(vi_and(vi_shr(bytes, 4), vi_set1(0x07F00000))), vf_set1(sb_float(0x07F00000)));
}

/* Half of a scale; ggml's have no sign, and 0 for 0x7F, but not for 0xFF (spec/formats.md). */
SB_INLINE vf half_e4m3(samebits_format f, const uint8_t *p)
{
    const vi byte = vi_load_u8(p);
    if (f == SAMEBITS_FORMAT_NVFP4)
        return vf_select(vf_eq(vi_to_f(byte), vf_set1(127.0f)), vf_zero(),
                         from_e4m3(vi_and(vi_shl(byte, 24), vi_set1(0x7F000000)), 1, 119));
    const vi bytes = vi_shl(byte, 24);
    return vf_select(e4m3_is_nan(bytes), vf_set1(sb_float(SB_NAN_F32)), from_e4m3(bytes, 1, 119));
}

/* The group's scales as they lie. */
SB_INLINE step_scales read_affine(sb_group group, const uint8_t *scales, int64_t step, int c)
{
    const int64_t size = SB_PANEL * sb_element_size(group.scales);
    const uint8_t *d = scales + step / group.steps * 2 * size;
    return (step_scales){.d = v_elements(group.scales, d, c), .m = v_elements(group.scales, d + size, c)};
}

/* `scales` is the panel's stream. Products of d and dmin with GGUF's scales are exact. */
SB_INLINE step_scales read_scales(samebits_format f, sb_group group, const uint8_t *scales, int64_t step, int c)
{
    if (sb_format_is_affine(f)) return read_affine(group, scales, step, c);
    const uint8_t *block = scales + step / sb_quant_steps(f) * sb_quant_scale_bytes(f);
    const uint8_t *bytes = block + sb_quant_d_bytes(f) + step % sb_quant_steps(f) * 2 * SB_PANEL + c;
    if (sb_quant_has_e4m3(f)) return (step_scales){.h = {half_e4m3(f, bytes), half_e4m3(f, bytes + SB_PANEL)}};
    if (sb_format_is_scaled(f)) return (step_scales){.d = power_of_two_or_inf(vi_load_u8(block + c))};
    step_scales r = {.d = f == SAMEBITS_FORMAT_MXFP4 ? power_of_two(vi_load_u8(block + c))
                                                     : vf_load_f16((const uint16_t *)block + c)};
    if (sb_quant_has_min(f)) r.m = vf_load_f16((const uint16_t *)block + SB_PANEL + c);
    if (f == SAMEBITS_FORMAT_Q4_K || f == SAMEBITS_FORMAT_Q5_K) {
        r.d = vf_mul(r.d, vi_to_f(vi_load_u8(bytes)));
        r.m = vf_mul(r.m, vi_to_f(vi_load_u8(bytes + SB_PANEL)));
    }
    for (int h = 0; h < 2 && sb_quant_parts(f) == 2; h++) {
        if (!sb_quant_has_min(f)) {
            r.s[h] = vi_load_i8(bytes + h * SB_PANEL);
            continue;
        }
        const vi both = vi_load_u8(bytes + h * SB_PANEL);
        r.s[h] = vi_and(both, vi_set1(15));
        r.n[h] = vi_shr(both, 4);
    }
    return r;
}

/* Brings into cache what few_rows reads AHEAD bytes of weights later, in its panels, `apart` bytes from one to the
 * next, or, at their end, in the panels behind them: short panels would otherwise begin with misses, and their scales
 * lie apart from the weights. */
SB_INLINE void prefetch_step(samebits_format f, int panels, int64_t apart, const sb_matmul_args *a, const uint8_t *w,
                             int64_t step)
{
    const int bytes = sb_quant_step_bytes(f);
    const int64_t steps = a->k / SB_STEP, scale_bytes = a->panel_size / steps - bytes;
    int64_t ahead = step + (AHEAD + bytes - 1) / bytes;
    if (ahead >= steps) {
        ahead -= steps;
        w += a->panel_size;
    }
    SB_UNROLL
    for (int p = 0; p < panels; p++, w += apart) {
        SB_UNROLL
        for (int i = 0; i < bytes; i += 64) v_prefetch(w + ahead * bytes + i);
        v_prefetch(w + steps * bytes + ahead * scale_bytes);
    }
}

#endif
