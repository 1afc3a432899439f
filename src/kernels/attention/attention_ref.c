/* The order in scalar C: every other row must give these bits. The sums are plain 128-bit integers. */
#include "base/float16.h"
#include "formats/quant.h"
#include "kernels/attention/attention.h"
#include "order/functions.h"
#include "order/order.h"

static float element(const sb_kv *kv, int64_t key, int64_t column)
{
    const char *row = kv->data + key * kv->row_stride;
    uint16_t h;
    float f;
    switch (kv->format) {
    case SAMEBITS_FORMAT_F16: memcpy(&h, row + column * kv->col_stride, sizeof h); return sb_from_f16(h);
    case SAMEBITS_FORMAT_BF16: memcpy(&h, row + column * kv->col_stride, sizeof h); return sb_from_bf16(h);
    case SAMEBITS_FORMAT_F32: memcpy(&f, row + column * kv->col_stride, sizeof f); return f;
    default: {
        const sb_format *info = sb_format_info(kv->format);
        sb_quant_block block;
        sb_quant_read(kv->format, (const uint8_t *)row + column / SB_STEP * info->block_bytes, &block);
        return sb_quant_weight(kv->format, &block, 0, (int)(column % SB_STEP));
    }
    }
}

void sb_attention_dots_ref(const sb_attention_part *p)
{
    float *row = p->scratch;
    for (int64_t j = 0; j < p->keys; j++) {
        for (int64_t i = 0; i < p->k.width; i++) row[i] = element(&p->k, p->key[j], i);
        for (int64_t r = 0; r < p->rows; r++)
            p->score[r * p->score_stride + j] = sb_dot(p->q + r * p->k.width, 1, row, 1, p->k.width);
        if (!p->largest) continue;
        p->largest[j] = 0.0f;
        for (int64_t c = 0; c < p->v.width; c++) {
            const float v = fabsf(element(&p->v, p->key[j], c));
            if (sb_is_finite(v) && v > p->largest[j]) p->largest[j] = v;
        }
    }
}

void sb_attention_score_ref(sb_attention_line *l)
{
    const int64_t padded = sb_round_up(l->keys, SB_ATTENTION_PAD);
    l->bad = 0;
    for (int64_t j = 0; j < padded; j++) {
        const int hidden = j < l->begin || j >= l->end || (l->bias && l->bias[j] == -INFINITY);
        if (hidden) {
            l->score[j] = -INFINITY;
            continue;
        }
        float s = l->score[j] * l->scale;
        if (l->softcap > 0.0f) s = l->softcap * sb_tanh(s / l->softcap);
        if (l->bias) s = s + l->slope * l->bias[j];
        l->score[j] = s;
        if (!(s < INFINITY)) l->bad = 1;
        if (s > l->max) l->max = s;
        if (l->largest && l->largest[j] > l->top) l->top = l->largest[j];
    }
}

void sb_attention_values_ref(const sb_attention_part *p)
{
    __int128 *sum = p->scratch;
    for (int64_t r = 0; r < p->rows; r++) {
        const float *score = p->score + r * p->score_stride;
        const double scale = sb_exp2i(p->grid[r]);
        uint8_t *poison = p->poison + r * p->sum_stride;
        memset(poison, 0, (size_t)p->sum_stride);
        memset(sum, 0, (size_t)p->v.width * sizeof *sum);
        p->total[r] = 0;
        for (int64_t j = 0; j < p->keys && p->max[r] > -INFINITY; j++) {
            const int32_t weight = sb_exp_weight(score[j] - p->max[r]);
            p->total[r] += weight;
            for (int64_t c = 0; c < p->v.width && weight; c++) {
                const float v = element(&p->v, p->key[j], c);
                if (sb_is_finite(v))
                    sum[c] += (__int128)weight * (int64_t)llrint((double)v * scale);
                else
                    poison[c] = 1;
            }
        }
        for (int64_t c = 0; c < p->sum_stride; c++) { /* parts are added over the padding too */
            const __int128 value = c < p->v.width ? sum[c] : 0;
            p->high[r * p->sum_stride + c] = (int64_t)(value >> SB_SUM_SHIFT);
            p->low[r * p->sum_stride + c] = (int64_t)(value & (((int64_t)1 << SB_SUM_SHIFT) - 1));
        }
    }
}

void sb_attention_finish_ref(const sb_attention_sums *s)
{
    const double total = (double)s->total, unit = sb_exp2i(-s->grid);
    for (int64_t c = 0; c < s->width; c++) {
        const __int128 sum = (__int128)s->high[c] * ((int64_t)1 << SB_SUM_SHIFT) + s->low[c];
        s->out[c] = s->poison[c] ? sb_float(SB_NAN_F32) : s->total ? (float)((double)sum / total * unit) : 0.0f;
    }
}
