/* Sums along a row of elements in vectors (order/sum.h). A vector holds SB_VL of the order's 64 lanes, so that a single
 * row runs at the speed of its loads. */
#ifndef SB_SUM_SIMD_H
#define SB_SUM_SIMD_H

#include "formats/elements_simd.h"
#include "order/sum.h"

#define LANE_VECTORS (SB_SUM_LANES / SB_VL)

/* Adds x - mean, or its square. */
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

/* The sum of x - mean over a row, or of its squares. One function a format: inlined into each pair of formats they took
 * most of the compile time. */
typedef float sb_row_sum(const void *x, int64_t n, float mean, int squares);

#define SB_DEFINE_ROW_SUM(name, format)                                                                                \
    static __attribute__((noinline, unused)) float name(const void *x, int64_t n, float mean, int squares)             \
    {                                                                                                                  \
        return squares ? sum_chunks(format, x, n, mean, 1) : sum_chunks(format, x, n, mean, 0);                        \
    }
SB_DEFINE_ROW_SUM(sb_sum_f32, SAMEBITS_FORMAT_F32)
SB_DEFINE_ROW_SUM(sb_sum_f16, SAMEBITS_FORMAT_F16)
SB_DEFINE_ROW_SUM(sb_sum_bf16, SAMEBITS_FORMAT_BF16)

#endif
