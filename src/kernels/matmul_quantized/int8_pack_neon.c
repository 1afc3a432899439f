/* Packing of activations for int8-1. NEON, also for the rows with dot and matrix products. */
#include <arm_neon.h>

#include "kernels/matmul_quantized/int8_pack.h"

/* sb_quantize_step in vectors. */
SB_INLINE float quantize(const float *in, int8x16_t quants[2])
{
    float32x4_t x[8];
    for (int i = 0; i < 8; i++) x[i] = vld1q_f32(in + 4 * i);
    uint32x4_t bits = vdupq_n_u32(0);
    for (int i = 0; i < 8; i++) bits = vmaxq_u32(bits, vreinterpretq_u32_f32(vabsq_f32(x[i])));
    const uint32_t top = vmaxvq_u32(bits);
    const float max = sb_float(top);
    quants[0] = quants[1] = vdupq_n_s8(0);
    if (top >= 0x7F800000u) return sb_float(SB_NAN_F32);
    if (max < 0x1p-64f) return 0.0f;
    const float32x4_t inverse = vdupq_n_f32(127.0f / max);
    for (int h = 0; h < 2; h++) {
        int16x4_t q[4];
        for (int i = 0; i < 4; i++) q[i] = vmovn_s32(vcvtnq_s32_f32(vmulq_f32(x[4 * h + i], inverse)));
        quants[h] = vcombine_s8(vmovn_s16(vcombine_s16(q[0], q[1])), vmovn_s16(vcombine_s16(q[2], q[3])));
    }
    return max / 127.0f;
}

SB_INLINE sums sums_of(int8x16_t quants)
{
    const int16x8_t pairs = vpaddlq_s8(quants);
    const int16x4_t low = vget_low_s16(pairs), high = vget_high_s16(pairs);
    return (sums){vaddv_s16(vuzp1_s16(low, high)), vaddv_s16(vuzp2_s16(low, high))};
}

SB_INLINE void pack(samebits_format f, lanes kind, const void *const *x, int rows, int64_t k, char *out)
{
    for (int64_t s = 0; s < k / SB_STEP; s++)
        for (int r = 0; r < rows; r++) {
            int8x16_t quants[2];
            const float scale = quantize((const float *)x[r] + s * SB_STEP, quants);
            int32_t words[8];
            vst1q_s32(words, vreinterpretq_s32_s8(quants[0]));
            vst1q_s32(words + 4, vreinterpretq_s32_s8(quants[1]));
            put_record(f, kind, words, scale, sums_of(quants[0]), sums_of(quants[1]), rows,
                       out + 4 * (s * SB_X_DWORDS * rows + r));
        }
}

#define DEFINE(name, format)                                                                                           \
    void sb_pack_int8_##name##_neon(const void *const *x, int rows, int64_t k, void *out)                              \
    {                                                                                                                  \
        pack(format, PAIRS, x, rows, k, out);                                                                          \
    }                                                                                                                  \
    void sb_pack_int8_##name##_dotprod(const void *const *x, int rows, int64_t k, void *out)                           \
    {                                                                                                                  \
        pack(format, WORDS, x, rows, k, out);                                                                          \
    }                                                                                                                  \
    void sb_pack_int8_##name##_i8mm(const void *const *x, int rows, int64_t k, void *out)                              \
    {                                                                                                                  \
        pack(format, WORDS, x, rows, k, out);                                                                          \
    }

DEFINE(q4_0, SAMEBITS_FORMAT_Q4_0)
DEFINE(q4_1, SAMEBITS_FORMAT_Q4_1)
DEFINE(q5_0, SAMEBITS_FORMAT_Q5_0)
DEFINE(q5_1, SAMEBITS_FORMAT_Q5_1)
DEFINE(q8_0, SAMEBITS_FORMAT_Q8_0)
DEFINE(iq4_nl, SAMEBITS_FORMAT_IQ4_NL)
DEFINE(mxfp4, SAMEBITS_FORMAT_MXFP4)
DEFINE(q2_k, SAMEBITS_FORMAT_Q2_K)
DEFINE(q3_k, SAMEBITS_FORMAT_Q3_K)
DEFINE(q4_k, SAMEBITS_FORMAT_Q4_K)
DEFINE(q5_k, SAMEBITS_FORMAT_Q5_K)
DEFINE(q6_k, SAMEBITS_FORMAT_Q6_K)
DEFINE(affine_2, SAMEBITS_FORMAT_AFFINE_2)
DEFINE(affine_3, SAMEBITS_FORMAT_AFFINE_3)
DEFINE(affine_4, SAMEBITS_FORMAT_AFFINE_4)
DEFINE(affine_5, SAMEBITS_FORMAT_AFFINE_5)
DEFINE(affine_6, SAMEBITS_FORMAT_AFFINE_6)
DEFINE(affine_8, SAMEBITS_FORMAT_AFFINE_8)
DEFINE(mlx_mxfp4, SAMEBITS_FORMAT_MLX_MXFP4)
DEFINE(mlx_nvfp4, SAMEBITS_FORMAT_MLX_NVFP4)
DEFINE(nvfp4, SAMEBITS_FORMAT_NVFP4)
