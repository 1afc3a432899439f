/* The order in scalar C: every other row must give these bits. */
#include "formats/elements.h"
#include "kernels/norm/norm.h"
#include "order/sum.h"

/* The sum over a row of x - mean, or of its squares by fma. */
static float sum(const sb_norm_args *a, const void *x, float mean, int squares)
{
    float total = 0.0f;
    for (int64_t begin = 0; begin < a->n; begin += SB_SUM_CHUNK) {
        const int64_t length = SB_MIN(SB_SUM_CHUNK, a->n - begin);
        float lane[SB_SUM_LANES] = {0};
        for (int64_t i = 0; i < length; i++) {
            float *s = &lane[i % SB_SUM_LANES];
            const float d = sb_element(a->x_format, x, begin + i) - mean;
            *s = squares ? fmaf(d, d, *s) : *s + d;
        }
        const float chunk = sb_sum_fold(lane, SB_SUM_LANES);
        total = begin ? total + chunk : chunk;
    }
    return total;
}

static void norm_row(const sb_norm_args *a, const void *x, void *out)
{
    const float mean = a->kind == SB_NORM_LAYER ? sum(a, x, 0.0f, 0) / (float)a->n : 0.0f;
    const float scale = sb_norm_scale(a, sum(a, x, mean, 1));
    for (int64_t i = 0; i < a->n; i++) {
        float y = (sb_element(a->x_format, x, i) - mean) * scale;
        if (a->weight) y = y * a->weight[i];
        if (a->bias) y = y + a->bias[i];
        sb_set_element(a->out_format, out, i, y);
    }
}

void sb_norm_ref(const sb_norm_args *a)
{
    for (int64_t r = 0; r < a->rows; r++)
        norm_row(a, (const char *)a->x + r * a->x_stride * sb_element_size(a->x_format),
                 (char *)a->out + r * a->out_stride * sb_element_size(a->out_format));
}
