/* The order in scalar C: every other row must give these bits. */
#include "base/float16.h"
#include "kernels/matmul/matmul.h"
#include "order/order.h"

static float weight(samebits_format format, const void *panel, int64_t i)
{
    switch (format) {
    case SAMEBITS_FORMAT_F16: return sb_from_f16(((const uint16_t *)panel)[i]);
    case SAMEBITS_FORMAT_BF16: return sb_from_bf16(((const uint16_t *)panel)[i]);
    default: return ((const float *)panel)[i];
    }
}

/* One chunk of k at a time, so that 16-bit weights are widened once for all rows. */
static void chunk(const sb_matmul_args *a, samebits_format format, const void *panel, int64_t begin, float *acc)
{
    float w[SB_CHUNK];
    const int64_t length = SB_MIN(SB_CHUNK, a->k - begin);
    for (int64_t c = 0; c < SB_PANEL; c++) {
        for (int64_t i = 0; i < length; i++) w[i] = weight(format, panel, sb_panel_index(format, begin + i, c));
        for (int64_t r = 0; r < a->rows; r++) {
            const int64_t t = r / a->tile, height = SB_MIN(a->tile, a->rows - t * a->tile);
            const float *x = a->x + t * a->tile * a->k + begin * height + r % a->tile;
            float *out = &acc[r * a->acc_stride + c];
            const float sum = sb_dot(x, height, w, 1, length);
            *out = begin ? *out + sum : sum;
        }
    }
}

static void matmul(const sb_matmul_args *a, samebits_format format)
{
    for (int64_t p = 0; p < a->panels; p++) {
        float *acc = a->acc + p * SB_PANEL;
        if (!a->k)
            for (int64_t r = 0; r < a->rows; r++) memset(acc + r * a->acc_stride, 0, SB_PANEL * sizeof *acc);
        for (int64_t begin = 0; begin < a->k; begin += SB_CHUNK) chunk(a, format, a->w + p * a->panel_size, begin, acc);
    }
}

void sb_matmul_f64_ref(const sb_matmul_args *a)
{
    for (int64_t r = 0; r < a->rows; r++) {
        const int64_t t = r / a->tile, height = SB_MIN(a->tile, a->rows - t * a->tile);
        const double *x = (const double *)a->x + t * a->tile * a->k + r % a->tile;
        double *acc = (double *)(a->acc + r * a->acc_stride);
        for (int64_t c = 0; c < a->panels * SB_WIDE_PANEL; c++) {
            const double *w = (const double *)(a->w + c / SB_WIDE_PANEL * a->panel_size) + c % SB_WIDE_PANEL;
            acc[c] = sb_dot_f64(x, height, w, SB_WIDE_PANEL, a->k);
        }
    }
}

void sb_matmul_f32_ref(const sb_matmul_args *a) { matmul(a, SAMEBITS_FORMAT_F32); }
void sb_matmul_f16_ref(const sb_matmul_args *a) { matmul(a, SAMEBITS_FORMAT_F16); }
void sb_matmul_bf16_ref(const sb_matmul_args *a) { matmul(a, SAMEBITS_FORMAT_BF16); }
