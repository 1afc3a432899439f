/* From the f32 sum to the stored output (spec/ops/matmul.md, section epilogue). */
#ifndef SB_EPILOGUE_H
#define SB_EPILOGUE_H

#include <samebits/matmul.h>

#include "order/activation.h"

SB_INLINE float sb_activation(samebits_activation activation, float t)
{
    switch (activation) {
    case SAMEBITS_ACTIVATION_RELU: return t > 0.0f ? t : (sb_is_nan(t) ? t : 0.0f);
    case SAMEBITS_ACTIVATION_SILU: return sb_silu(t);
    case SAMEBITS_ACTIVATION_GELU: return sb_gelu(t);
    case SAMEBITS_ACTIVATION_GELU_TANH: return sb_gelu_tanh(t);
    default: return t;
    }
}

#endif
