/* The body of the SIMD rows. A vector holds SB_VL of the order's 64 lanes, so that a single row
 * runs at the speed of its loads. */
#ifndef SB_NORM_SIMD_H
#define SB_NORM_SIMD_H

#include "formats/elements_simd.h"
#include "kernels/norm/norm.h"
#include "order/sum.h"

#define LANE_VECTORS (SB_SUM_LANES / SB_VL)
#define LINE         16 /* f32 elements a cache line */

SB_INLINE vf add_to(vf sum, vf x, vf mean, int squares)
{
    const vf d = vf_sub(x, mean);
    return squares ? vf_fma(d, d, sum) : vf_add(sum, d);
}

/* Lanes past the end add +0, which changes no sum: a sum that starts from +0 is never -0. */
SB_INLINE vf part_of(samebits_format format, const void *x, int64_t i, int64_t count, float mean)
{
    float lane[SB_VL];
    for (int l = 0; l < SB_VL; l++) lane[l] = l < count ? sb_element(format, x, i + l) - mean : 0.0f;
    return vf_load(lane);
}

SB_INLINE float sum_chunk(samebits_format format, const void *x, int64_t begin, int64_t length, float mean, int squares)
{
    vf sum[LANE_VECTORS];
    const vf m = vf_set1(mean);
    SB_UNROLL
    for (int v = 0; v < LANE_VECTORS; v++) sum[v] = vf_zero();
    int64_t i = 0;
    for (; i + SB_SUM_LANES <= length; i += SB_SUM_LANES) SB_UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        sum[v] = add_to(sum[v], v_elements(format, x, begin + i + v * SB_VL), m, squares);
    SB_UNROLL
    for (int v = 0; v < LANE_VECTORS; v++, i += SB_VL) {
        if (i + SB_VL <= length)
            sum[v] = add_to(sum[v], v_elements(format, x, begin + i), m, squares);
        else if (i < length)
            sum[v] = add_to(sum[v], part_of(format, x, begin + i, length - i, mean), vf_zero(), squares);
    }
    SB_UNROLL
    for (int half = LANE_VECTORS / 2; half; half /= 2) SB_UNROLL
    for (int v = 0; v < half; v++) sum[v] = vf_add(sum[v], sum[v + half]);
    float lane[SB_VL];
    vf_store(lane, sum[0]);
    return sb_sum_fold(lane, SB_VL);
}

SB_INLINE float sum_chunks(samebits_format format, const void *x, int64_t n, float mean, int squares)
{
    float total = 0.0f;
    for (int64_t begin = 0; begin < n; begin += SB_SUM_CHUNK) {
        const float chunk = sum_chunk(format, x, begin, SB_MIN(SB_SUM_CHUNK, n - begin), mean, squares);
        total = begin ? total + chunk : chunk;
    }
    return total;
}

/* One function a format: inlined into each pair of formats they took most of the compile time. */
static float sum_f32(const void *x, int64_t n, float mean, int squares)
{
    const samebits_format f = SAMEBITS_FORMAT_F32;
    return squares ? sum_chunks(f, x, n, mean, 1) : sum_chunks(f, x, n, mean, 0);
}
static float sum_f16(const void *x, int64_t n, float mean, int squares)
{
    const samebits_format f = SAMEBITS_FORMAT_F16;
    return squares ? sum_chunks(f, x, n, mean, 1) : sum_chunks(f, x, n, mean, 0);
}
static float sum_bf16(const void *x, int64_t n, float mean, int squares)
{
    const samebits_format f = SAMEBITS_FORMAT_BF16;
    return squares ? sum_chunks(f, x, n, mean, 1) : sum_chunks(f, x, n, mean, 0);
}

SB_INLINE vf scaled(const sb_norm_args *a, vf x, int64_t i, int64_t count, vf mean, vf scale)
{
    const samebits_format f32 = SAMEBITS_FORMAT_F32;
    const int full = count >= SB_VL;
    vf y = vf_mul(vf_sub(x, mean), scale);
    if (a->weight) y = vf_mul(y, full ? vf_load(a->weight + i) : v_elements_part(f32, a->weight, i, count, 0.0f));
    if (a->bias) y = vf_add(y, full ? vf_load(a->bias + i) : v_elements_part(f32, a->bias, i, count, 0.0f));
    return y;
}

/* While a row is scaled the next one is fetched: 0.91 instead of 0.73 of memcpy's speed on rows of 16 KiB
 * from memory. */
SB_INLINE void scale_row(const sb_norm_args *a, samebits_format in, samebits_format out, const void *x, float mean,
                         float scale, void *y, const char *next)
{
    const vf m = vf_set1(mean), s = vf_set1(scale);
    int64_t i = 0;
    for (; i + LINE <= a->n; i += LINE) {
        v_prefetch(next + i * sb_element_size(in));
        SB_UNROLL
        for (int v = 0; v < LINE; v += SB_VL)
            v_set_elements(out, y, i + v, scaled(a, v_elements(in, x, i + v), i + v, SB_VL, m, s));
    }
    for (; i + SB_VL <= a->n; i += SB_VL) v_set_elements(out, y, i, scaled(a, v_elements(in, x, i), i, SB_VL, m, s));
    if (i < a->n) {
        const vf part = v_elements_part(in, x, i, a->n - i, 0.0f);
        v_set_elements_part(out, y, i, a->n - i, scaled(a, part, i, a->n - i, m, s));
    }
}

typedef float row_sum(const void *x, int64_t n, float mean, int squares);

SB_INLINE void norm_rows(const sb_norm_args *a, row_sum *sum, samebits_format in, samebits_format out)
{
    const float n = (float)a->n;
    for (int64_t r = 0; r < a->rows; r++) {
        const void *x = (const char *)a->x + r * a->x_stride * sb_element_size(in);
        void *y = (char *)a->out + r * a->out_stride * sb_element_size(out);
        const char *next = r + 1 < a->rows ? (const char *)x + a->x_stride * sb_element_size(in) : x;
        const float mean = a->centered ? sum(x, a->n, 0.0f, 0) / n : 0.0f;
        scale_row(a, in, out, x, mean, 1.0f / sqrtf(sum(x, a->n, mean, 1) / n + a->eps), y, next);
    }
}

SB_INLINE void norm(const sb_norm_args *a)
{
    const samebits_format f32 = SAMEBITS_FORMAT_F32, f16 = SAMEBITS_FORMAT_F16, bf16 = SAMEBITS_FORMAT_BF16;
    if (a->x_format == f32)
        norm_rows(a, sum_f32, f32, f32);
    else if (a->x_format == f16 && a->out_format == f16)
        norm_rows(a, sum_f16, f16, f16);
    else if (a->x_format == f16)
        norm_rows(a, sum_f16, f16, f32);
    else if (a->out_format == bf16)
        norm_rows(a, sum_bf16, bf16, bf16);
    else
        norm_rows(a, sum_bf16, bf16, f32);
}

#endif
