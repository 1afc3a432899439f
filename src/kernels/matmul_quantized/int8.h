/* Order int8-1: quantised activations (spec/ops/matmul_quantized.md, section activations), and how they are packed.
 *
 * A tile of r rows holds for each step of 32 k a record of SB_X_DWORDS * r 32-bit words: quants [8][r] (4 int8 a word),
 * scale [r] f32, sum of the quants [r] f32, and two words a row [2][r] from which a kernel's sums start (Q2_K: the sums
 * of the quants of each half of the step). */
#ifndef SB_INT8_H
#define SB_INT8_H

#include <math.h>

#include "formats/quant.h"
#include "kernels/matmul_quantized/matmul_quantized.h"

enum { SB_X_SCALE = 8, SB_X_SUM = 9, SB_X_START = 10 };

/* What is taken off weights without an offset, so that sums of int16 and signed bytes stay in range (int8_simd.h). */
SB_INLINE int sb_centre(samebits_format f)
{
    if (sb_quant_offset(f) || !sb_quant_has_min(f)) return 0;
    const int bits = sb_quant_low_bits(f) + sb_quant_high_bits(f);
    return bits == 5 ? 16 : bits == 8 ? 128 : 0;
}

/* Quantises 32 activations; returns their scale. */
SB_INLINE float sb_quantize_step(const float *x, int8_t q[SB_STEP])
{
    uint32_t bits = 0;
    for (int i = 0; i < SB_STEP; i++) {
        const uint32_t magnitude = sb_bits(x[i]) & 0x7FFFFFFFu;
        bits = SB_MAX(bits, magnitude);
    }
    const float max = sb_float(bits);
    memset(q, 0, SB_STEP);
    if (bits >= 0x7F800000u) return sb_float(SB_NAN_F32);
    if (max < 0x1p-64f) return 0.0f;
    const float inverse = 127.0f / max;
    for (int i = 0; i < SB_STEP; i++) q[i] = (int8_t)rintf(x[i] * inverse);
    return max / 127.0f;
}

#endif
