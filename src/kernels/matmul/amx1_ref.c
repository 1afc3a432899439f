/* Order amx-1 in scalar C: every other row must give these bits (spec/ops/matmul.md, section amx-1). */
#include <math.h>

#include "base/float16.h"
#include "kernels/matmul/matmul.h"

/* A number below the smallest normal one is taken and given as zero. */
static float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }

/* One step, of operands that are flushed. A result that reaches 2^-126 only by rounding to the digits that a subnormal
 * has is one below it: seen with all exponents 64 higher. (Where the scaling overflows, no result is that small.) */
static float step(float a, float b, float c)
{
    const float r = fmaf(a, b, c);
    const int is_below = fabsf(r) == 0x1p-126f && fabsf(fmaf(a * 0x1p32f, b * 0x1p32f, c * 0x1p64f)) < 0x1p-62f;
    return is_below ? copysignf(0.0f, r) : flushed(r);
}

/* Steps [0, length) of a column's block; those that are missing are 0 * 0. */
static float block(const float *x, int64_t x_stride, const uint16_t *w, int64_t column, int64_t length)
{
    float sum[2] = {0.0f, 0.0f};
    for (int64_t i = 0; i < SB_AMX1_BLOCK; i++) {
        const float a = i < length ? flushed(x[i * x_stride]) : 0.0f;
        const float b = i < length ? flushed(sb_from_bf16(w[sb_panel_index(SAMEBITS_FORMAT_BF16, i, column)])) : 0.0f;
        sum[i % 2] = step(a, b, sum[i % 2]);
    }
    return flushed(sum[0] + sum[1]);
}

void sb_matmul_amx1_bf16_ref(const sb_matmul_args *a)
{
    for (int64_t col = 0; col < a->panels * SB_PANEL; col++) {
        const uint16_t *w = (const uint16_t *)(a->w + col / SB_PANEL * a->panel_size);
        for (int64_t r = 0; r < a->rows; r++) {
            const int64_t t = r / a->tile, height = SB_MIN(a->tile, a->rows - t * a->tile);
            const float *x = a->x + t * a->tile * a->k + r % a->tile;
            float acc = 0.0f;
            for (int64_t k = 0; k < a->k; k += SB_AMX1_BLOCK)
                acc = flushed(acc + block(x + k * height, height, w + k * SB_PANEL, col % SB_PANEL,
                                          SB_MIN(SB_AMX1_BLOCK, a->k - k)));
            a->acc[r * a->acc_stride + col] = acc;
        }
    }
}
