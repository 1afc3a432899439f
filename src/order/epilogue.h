/* From the f32 sum to the stored output (spec/ops/matmul.md, section epilogue). */
#ifndef SB_EPILOGUE_H
#define SB_EPILOGUE_H

#include <math.h>

#include <samebits/matmul.h>

#include "base/float16.h"

SB_INLINE float sb_activation(samebits_activation activation, float t)
{
    switch (activation) {
    case SAMEBITS_ACTIVATION_RELU: return t > 0.0f ? t : (sb_is_nan(t) ? t : 0.0f);
    default: return t;
    }
}

#endif
