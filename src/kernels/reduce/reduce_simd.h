/* The body of the SIMD rows. */
#ifndef SB_REDUCE_SIMD_H
#define SB_REDUCE_SIMD_H

#include "formats/sum_simd.h"
#include "kernels/reduce/reduce.h"

/* The largest as a number, by its key; NaN if there is one. */
SB_INLINE float max_of(samebits_format format, const void *x, int64_t n)
{
    const vi mask = vi_set1(0x7FFFFFFF);
    vi best = vi_set1(sb_reduce_key(-INFINITY));
    vf nan = vf_zero();
    for (int64_t i = 0; i < n; i += SB_VL) {
        const vf v = i + SB_VL <= n ? v_elements(format, x, i) : v_elements_part(format, x, i, n - i, -INFINITY);
        const vi bits = vf_bits(v);
        nan = vf_select(vf_is_nan(v), v, nan);
        best = vi_max(best, vi_xor(bits, vi_and(vi_sar(bits, 31), mask)));
    }
    if (vm_any(vf_is_nan(nan))) return sb_float(SB_NAN_F32);
    int32_t lane[SB_VL], top = sb_reduce_key(-INFINITY);
    vi_store(lane, best);
    for (int l = 0; l < SB_VL; l++) top = SB_MAX(top, lane[l]);
    return sb_reduce_unkey(top);
}

/* Where the largest, or NaN, stands first. */
SB_INLINE int64_t first_of(samebits_format format, const void *x, int64_t n, float largest)
{
    const vf want = vf_set1(largest);
    const int is_nan = sb_is_nan(largest);
    int64_t i = 0;
    for (; i + SB_VL <= n; i += SB_VL) {
        const vf v = v_elements(format, x, i);
        if (vm_any(is_nan ? vf_is_nan(v) : vf_eq(v, want))) break;
    }
    for (; i < n; i++) {
        const float e = sb_element(format, x, i);
        if (is_nan ? sb_is_nan(e) : e == largest) break;
    }
    return i;
}

SB_INLINE void reduce_of(sb_reduce_args *a, sb_row_sum *sum, samebits_format format)
{
    switch (a->op) {
    case SB_REDUCE_SUM: a->value = sum(a->x, a->n, 0.0f, 0); break;
    case SB_REDUCE_MEAN: a->value = sum(a->x, a->n, 0.0f, 0) / (float)a->n; break;
    case SB_REDUCE_MAX: a->value = max_of(format, a->x, a->n); break;
    default: a->index = first_of(format, a->x, a->n, max_of(format, a->x, a->n));
    }
}

SB_INLINE void reduce(sb_reduce_args *a)
{
    switch (a->x_format) {
    case SAMEBITS_FORMAT_F16: reduce_of(a, sb_sum_f16, SAMEBITS_FORMAT_F16); break;
    case SAMEBITS_FORMAT_BF16: reduce_of(a, sb_sum_bf16, SAMEBITS_FORMAT_BF16); break;
    default: reduce_of(a, sb_sum_f32, SAMEBITS_FORMAT_F32);
    }
}

#endif
