/* The body of the vector rows. */
#ifndef SB_ROPE_SIMD_H
#define SB_ROPE_SIMD_H

#include "formats/elements_simd.h"
#include "kernels/rope/rope.h"
#include "order/angle.h"

enum { BLOCK = 64 };

/* In blocks, so that the compiler makes a loop over f64 vectors of the middle one. */
SB_INLINE void angles(const sb_rope_angles *a)
{
    double angle[BLOCK];
    float c[BLOCK], s[BLOCK];
    const double magnitude = a->magnitude, sign = a->inverse ? -1.0 : 1.0;
    for (int64_t begin = 0; begin < a->pairs; begin += BLOCK) {
        const int count = (int)SB_MIN(BLOCK, a->pairs - begin);
        for (int i = 0; i < count; i++)
            angle[i] = a->position[a->section ? a->section[begin + i] : 0] * a->frequency[begin + i];
        for (int i = 0; i < count; i++) {
            double cosine, sine;
            sb_cos_sin(angle[i], &cosine, &sine);
            c[i] = (float)(cosine * magnitude);
            s[i] = (float)(sine * magnitude * sign);
        }
        if (a->layout == SAMEBITS_ROPE_HALVES) {
            memcpy(a->cos + begin, c, (size_t)count * sizeof *c);
            memcpy(a->sin + begin, s, (size_t)count * sizeof *s);
            continue;
        }
        for (int i = 0; i < count; i++) {
            a->cos[2 * (begin + i)] = a->cos[2 * (begin + i) + 1] = c[i];
            a->sin[2 * (begin + i)] = -s[i];
            a->sin[2 * (begin + i) + 1] = s[i];
        }
    }
}

/* A full vector at i, or the first `count` lanes of one. */
SB_INLINE vf lanes(samebits_format format, const void *p, int64_t i, int64_t count)
{
    return count >= SB_VL ? v_elements(format, p, i) : v_elements_part(format, p, i, count, 0.0f);
}

SB_INLINE void set_lanes(samebits_format format, void *p, int64_t i, int64_t count, vf value)
{
    if (count >= SB_VL)
        v_set_elements(format, p, i, value);
    else
        v_set_elements_part(format, p, i, count, value);
}

SB_INLINE void copy(samebits_format in, samebits_format out, const sb_rope_args *a, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += SB_VL) set_lanes(out, a->out, i, end - i, lanes(in, a->x, i, end - i));
}

SB_INLINE void halves(samebits_format in, samebits_format out, const sb_rope_args *a)
{
    const samebits_format f32 = SAMEBITS_FORMAT_F32;
    for (int64_t i = 0; i < a->pairs; i += SB_VL) {
        const int64_t count = a->pairs - i, first = a->first + i, second = first + a->pairs;
        const vf c = lanes(f32, a->cos, i, count), s = lanes(f32, a->sin, i, count);
        const vf x0 = lanes(in, a->x, first, count), x1 = lanes(in, a->x, second, count);
        set_lanes(out, a->out, first, count, vf_fms(x0, c, vf_mul(x1, s)));
        set_lanes(out, a->out, second, count, vf_fma(x1, c, vf_mul(x0, s)));
    }
}

/* sin holds -s for the first of a pair: x * c + other * -s has the bits of x * c - other * s. */
SB_INLINE void interleaved(samebits_format in, samebits_format out, const sb_rope_args *a)
{
    const samebits_format f32 = SAMEBITS_FORMAT_F32;
    for (int64_t i = 0; i < 2 * a->pairs; i += SB_VL) {
        const int64_t count = 2 * a->pairs - i;
        const vf c = lanes(f32, a->cos, i, count), s = lanes(f32, a->sin, i, count);
        const vf x = lanes(in, a->x, a->first + i, count);
        set_lanes(out, a->out, a->first + i, count, vf_fma(x, c, vf_mul(vf_swap_pairs(x), s)));
    }
}

SB_INLINE void turn_as(samebits_format in, samebits_format out, const sb_rope_args *a)
{
    copy(in, out, a, 0, a->first);
    copy(in, out, a, a->first + 2 * a->pairs, a->n);
    if (a->layout == SAMEBITS_ROPE_HALVES)
        halves(in, out, a);
    else
        interleaved(in, out, a);
}

SB_INLINE void turn(const sb_rope_args *a)
{
    const samebits_format f32 = SAMEBITS_FORMAT_F32;
    if (a->x_format == f32 && a->out_format == f32)
        turn_as(f32, f32, a);
    else
        turn_as(a->x_format, a->out_format, a);
}

#endif
