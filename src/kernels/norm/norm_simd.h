/* The body of the SIMD rows. */
#ifndef SB_NORM_SIMD_H
#define SB_NORM_SIMD_H

#include "formats/sum_simd.h"
#include "kernels/norm/norm.h"

#define LINE 16 /* f32 elements a cache line */

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

SB_INLINE void norm_rows(const sb_norm_args *a, sb_row_sum *sum, samebits_format in, samebits_format out)
{
    for (int64_t r = 0; r < a->rows; r++) {
        const void *x = (const char *)a->x + r * a->x_stride * sb_element_size(in);
        void *y = (char *)a->out + r * a->out_stride * sb_element_size(out);
        const char *next = r + 1 < a->rows ? (const char *)x + a->x_stride * sb_element_size(in) : x;
        const float mean = a->kind == SB_NORM_LAYER ? sum(x, a->n, 0.0f, 0) / (float)a->n : 0.0f;
        scale_row(a, in, out, x, mean, sb_norm_scale(a, sum(x, a->n, mean, 1)), y, next);
    }
}

SB_INLINE void norm(const sb_norm_args *a)
{
    const samebits_format f32 = SAMEBITS_FORMAT_F32, f16 = SAMEBITS_FORMAT_F16, bf16 = SAMEBITS_FORMAT_BF16;
    if (a->x_format == f32)
        norm_rows(a, sb_sum_f32, f32, f32);
    else if (a->x_format == f16 && a->out_format == f16)
        norm_rows(a, sb_sum_f16, f16, f16);
    else if (a->x_format == f16)
        norm_rows(a, sb_sum_f16, f16, f32);
    else if (a->out_format == bf16)
        norm_rows(a, sb_sum_bf16, bf16, bf16);
    else
        norm_rows(a, sb_sum_bf16, bf16, f32);
}

#endif
