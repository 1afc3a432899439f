/* elements.h for vectors of contiguous elements. */
#ifndef SB_ELEMENTS_SIMD_H
#define SB_ELEMENTS_SIMD_H

#include "base/simd.h"
#include "formats/elements.h"

SB_INLINE vf v_elements(samebits_format format, const void *p, int64_t i)
{
    switch (format) {
    case SAMEBITS_FORMAT_F16: return vf_load_f16((const uint16_t *)p + i);
    case SAMEBITS_FORMAT_BF16: return vf_load_bf16((const uint16_t *)p + i);
    default: return vf_load((const float *)p + i);
    }
}

/* Of values that are not NaN. */
SB_INLINE void v_set_numbers(samebits_format format, void *p, int64_t i, vf v)
{
    if (format == SAMEBITS_FORMAT_F32) {
        vf_store((float *)p + i, v);
    } else if (format == SAMEBITS_FORMAT_F16) {
        vf_store_f16((uint16_t *)p + i, v);
    } else {
        const vi u = vf_bits(v), odd = vi_and(vi_shr(u, 16), vi_set1(1));
        vi_store_u16((uint16_t *)p + i, vi_shr(vi_add(vi_add(u, vi_set1(0x7FFF)), odd), 16));
    }
}

SB_INLINE void v_set_elements(samebits_format format, void *p, int64_t i, vf value)
{
    v_set_numbers(format, p, i, vf_select(vf_is_nan(value), vf_set1(sb_float(SB_NAN_F32)), value));
}

/* The first `count` lanes from memory, 0 < count < SB_VL, the others `fill`. */
SB_INLINE vf v_elements_part(samebits_format format, const void *p, int64_t i, int64_t count, float fill)
{
    float lane[SB_VL];
    for (int l = 0; l < SB_VL; l++) lane[l] = l < count ? sb_element(format, p, i + l) : fill;
    return vf_load(lane);
}

SB_INLINE void v_set_elements_part(samebits_format format, void *p, int64_t i, int64_t count, vf value)
{
    float lane[SB_VL];
    vf_store(lane, value);
    for (int64_t l = 0; l < count; l++) sb_set_element(format, p, i + l, lane[l]);
}

#endif
