/* The body of the vector rows. */
#ifndef SB_ROPE_SIMD_H
#define SB_ROPE_SIMD_H

#include "formats/elements_simd.h"
#include "kernels/rope/rope.h"
#include "order/angle.h"

enum { BLOCK = 64 };

/* In blocks and steps, so that the compiler makes a loop over f64 vectors of each step, whose chains are short enough
 * for the CPU to work on several. */
SB_INLINE void angles(const sb_rope_angles *a)
{
    double rest[BLOCK], cosine[BLOCK], sine[BLOCK];
    uint64_t quarter[BLOCK];
    float c[BLOCK], s[BLOCK];
    const double magnitude = a->magnitude, signed_magnitude = a->inverse ? -magnitude : magnitude;
    for (int64_t begin = 0; begin < a->pairs; begin += BLOCK) {
        const int count = (int)SB_MIN(BLOCK, a->pairs - begin);
        if (a->section)
            for (int i = 0; i < count; i++) rest[i] = a->position[a->section[begin + i]] * a->frequency[begin + i];
        else
            for (int i = 0; i < count; i++) rest[i] = a->position[0] * a->frequency[begin + i];
        for (int i = 0; i < count; i++) rest[i] = sb_angle_reduce(rest[i], &quarter[i]);
        for (int i = 0; i < count; i++) sb_angle_series(rest[i], &cosine[i], &sine[i]);
        for (int i = 0; i < count; i++) {
            sb_angle_turn(quarter[i], &cosine[i], &sine[i]);
            c[i] = (float)(cosine[i] * magnitude);
            s[i] = (float)(sine[i] * signed_magnitude);
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

/* One row and the angles of its position. */
typedef struct {
    const float *cos, *sin;
    const void *x;
    void *out;
} row;

SB_INLINE void copy(samebits_format in, samebits_format out, row r, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += SB_VL) set_lanes(out, r.out, i, end - i, lanes(in, r.x, i, end - i));
}

SB_INLINE void halves(samebits_format in, samebits_format out, const sb_rope_args *a, row r)
{
    const samebits_format f32 = SAMEBITS_FORMAT_F32;
    for (int64_t i = 0; i < a->pairs; i += SB_VL) {
        const int64_t count = a->pairs - i, first = a->first + i, second = first + a->pairs;
        const vf c = lanes(f32, r.cos, i, count), s = lanes(f32, r.sin, i, count);
        const vf x0 = lanes(in, r.x, first, count), x1 = lanes(in, r.x, second, count);
        set_lanes(out, r.out, first, count, vf_fms(x0, c, vf_mul(x1, s)));
        set_lanes(out, r.out, second, count, vf_fma(x1, c, vf_mul(x0, s)));
    }
}

/* sin holds -s for the first of a pair: x * c + other * -s has the bits of x * c - other * s. */
SB_INLINE void interleaved(samebits_format in, samebits_format out, const sb_rope_args *a, row r)
{
    const samebits_format f32 = SAMEBITS_FORMAT_F32;
    for (int64_t i = 0; i < 2 * a->pairs; i += SB_VL) {
        const int64_t count = 2 * a->pairs - i;
        const vf c = lanes(f32, r.cos, i, count), s = lanes(f32, r.sin, i, count);
        const vf x = lanes(in, r.x, a->first + i, count);
        set_lanes(out, r.out, a->first + i, count, vf_fma(x, c, vf_mul(vf_swap_pairs(x), s)));
    }
}

SB_INLINE void turn_as(samebits_format in, samebits_format out, const sb_rope_args *a)
{
    row r = {a->cos, a->sin, a->x, a->out};
    for (int64_t done = 0; done < a->rows; done++) {
        copy(in, out, r, 0, a->first);
        copy(in, out, r, a->first + 2 * a->pairs, a->n);
        if (a->layout == SAMEBITS_ROPE_HALVES)
            halves(in, out, a, r);
        else
            interleaved(in, out, a, r);
        r.cos += a->angle_stride;
        r.sin += a->angle_stride;
        r.x = (const char *)r.x + a->x_stride * sb_element_size(in);
        r.out = (char *)r.out + a->out_stride * sb_element_size(out);
    }
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
