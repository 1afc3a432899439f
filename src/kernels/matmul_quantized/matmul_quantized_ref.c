/* Both orders in scalar C: every other row must give these bits. */
#include "kernels/matmul_quantized/int8.h"
#include "kernels/matmul_quantized/matmul_quantized.h"
#include "order/order.h"

/* portable-1: the weights of one column and chunk as f32, then dot. A block never straddles chunks. */
static void column_portable(const sb_matmul_args *a, samebits_format format, int64_t panel, int column)
{
    const int block_size = sb_quant_steps(format) * SB_STEP;
    const uint8_t *weights = a->w + panel * a->panel_size;
    float w[SB_CHUNK];
    for (int64_t r = 0; r < a->rows; r++) a->acc[r * a->acc_stride + panel * SB_PANEL + column] = 0.0f;
    for (int64_t begin = 0; begin < a->k; begin += SB_CHUNK) {
        const int64_t length = SB_MIN(SB_CHUNK, a->k - begin);
        for (int64_t i = 0; i < length; i += block_size) {
            sb_quant_block block;
            sb_quant_get(format, a->group, weights, a->k, (begin + i) / block_size, column, &block);
            for (int j = 0; j < block_size; j++) w[i + j] = sb_quant_weight(format, &block, j / SB_STEP, j % SB_STEP);
        }
        for (int64_t r = 0; r < a->rows; r++) {
            const int64_t t = r / a->tile, height = SB_MIN(a->tile, a->rows - t * a->tile);
            const float *x = a->x + t * a->tile * a->k + begin * height + r % a->tile;
            float *out = &a->acc[r * a->acc_stride + panel * SB_PANEL + column];
            const float sum = sb_dot(x, height, w, 1, length);
            *out = begin ? *out + sum : sum;
        }
    }
}

/* One step of int8-1: t of spec/ops/matmul_quantized.md. */
static float step_value(samebits_format format, const sb_quant_block *b, int step, const int8_t *x)
{
    int32_t sum[2] = {0, 0}, xsum[2] = {0, 0};
    for (int i = 0; i < SB_STEP; i++) {
        sum[i / 16] += x[i] * sb_quant_integer(format, b->q[step * SB_STEP + i]);
        xsum[i / 16] += x[i];
    }
    if (sb_quant_has_e4m3(format))
        return fmaf((float)sum[0], sb_quant_half_scale(format, b, 2 * step),
                    (float)sum[1] * sb_quant_half_scale(format, b, 2 * step + 1));
    const float d = sb_quant_d(format, b), dmin = sb_quant_has_min(format) ? sb_quant_dmin(format, b) : 0.0f;
    if (sb_quant_parts(format) == 2) {
        const int j = 2 * step;
        const float isum = (float)(sb_quant_scale(format, b, j) * sum[0] + sb_quant_scale(format, b, j + 1) * sum[1]);
        if (!sb_quant_has_min(format)) return isum * d;
        return fmaf(isum, d, -((float)(b->min[j] * xsum[0] + b->min[j + 1] * xsum[1]) * dmin));
    }
    const float isum = (float)(sum[0] + sum[1]);
    if (!sb_quant_has_min(format)) return isum * d;
    return fmaf(isum, d * (float)b->scale[step], -((float)(xsum[0] + xsum[1]) * (dmin * (float)b->min[step])));
}

static void column_int8(const sb_matmul_args *a, samebits_format format, int64_t panel, int column)
{
    const int steps = sb_quant_steps(format);
    const uint8_t *weights = a->w + panel * a->panel_size;
    for (int64_t r = 0; r < a->rows; r++) a->acc[r * a->acc_stride + panel * SB_PANEL + column] = 0.0f;
    sb_quant_block block;
    for (int64_t s = 0; s < a->k / SB_STEP; s++) {
        if (s % steps == 0) sb_quant_get(format, a->group, weights, a->k, s / steps, column, &block);
        for (int64_t r = 0; r < a->rows; r++) {
            const int64_t t = r / a->tile, height = SB_MIN(a->tile, a->rows - t * a->tile);
            const float *record = a->x + (t * a->tile * (a->k / SB_STEP) + s * height) * SB_X_DWORDS + r % a->tile;
            int8_t x[SB_STEP];
            for (int z = 0; z < 8; z++) memcpy(x + 4 * z, record + z * height, 4);
            float *acc = &a->acc[r * a->acc_stride + panel * SB_PANEL + column];
            *acc = fmaf(step_value(format, &block, (int)(s % steps), x), record[SB_X_SCALE * height], *acc);
        }
    }
}

static void pack(const void *const *x, int rows, int64_t k, void *out)
{
    for (int64_t s = 0; s < k / SB_STEP; s++)
        for (int r = 0; r < rows; r++) {
            int8_t q[SB_STEP];
            char *record = (char *)out + 4 * (s * SB_X_DWORDS * rows + r);
            const float scale = sb_quantize_step((const float *)x[r] + s * SB_STEP, q);
            memset(record + 4 * SB_X_SUM * rows, 0, 4);
            for (int z = 0; z < 8; z++) memcpy(record + 4 * z * rows, q + 4 * z, 4);
            memcpy(record + 4 * SB_X_SCALE * rows, &scale, 4);
        }
}

#define DEFINE_PORTABLE(name, format)                                                                                  \
    void sb_matmul_##name##_ref(const sb_matmul_args *a)                                                               \
    {                                                                                                                  \
        for (int64_t i = 0; i < a->panels * SB_PANEL; i++)                                                             \
            column_portable(a, format, i / SB_PANEL, (int)(i % SB_PANEL));                                             \
    }
#define DEFINE(name, format)                                                                                           \
    DEFINE_PORTABLE(name, format)                                                                                      \
    void sb_matmul_int8_##name##_ref(const sb_matmul_args *a)                                                          \
    {                                                                                                                  \
        for (int64_t i = 0; i < a->panels * SB_PANEL; i++) column_int8(a, format, i / SB_PANEL, (int)(i % SB_PANEL));  \
    }                                                                                                                  \
    void sb_pack_int8_##name##_ref(const void *const *x, int rows, int64_t k, void *out) { pack(x, rows, k, out); }

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
DEFINE_PORTABLE(mlx_mxfp8, SAMEBITS_FORMAT_MLX_MXFP8)
