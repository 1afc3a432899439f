/* Elements of a float format in scalar code: reads widen exactly, stores round once and make NaN canonical. */
#ifndef SB_ELEMENTS_H
#define SB_ELEMENTS_H

#include <samebits/weights.h>

#include "base/float16.h"

SB_INLINE float sb_element(samebits_format format, const void *p, int64_t i)
{
    switch (format) {
    case SAMEBITS_FORMAT_F16: return sb_from_f16(((const uint16_t *)p)[i]);
    case SAMEBITS_FORMAT_BF16: return sb_from_bf16(((const uint16_t *)p)[i]);
    default: return ((const float *)p)[i];
    }
}

SB_INLINE void sb_set_element(samebits_format format, void *p, int64_t i, float value)
{
    switch (format) {
    case SAMEBITS_FORMAT_F16: ((uint16_t *)p)[i] = sb_to_f16(value); break;
    case SAMEBITS_FORMAT_BF16: ((uint16_t *)p)[i] = sb_to_bf16(value); break;
    default: ((float *)p)[i] = sb_canonical(value);
    }
}

SB_INLINE int sb_element_size(samebits_format format) { return format == SAMEBITS_FORMAT_F32 ? 4 : 2; }

#endif
