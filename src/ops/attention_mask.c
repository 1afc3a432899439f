/* A mask has a value for each query and key, so these loops count: the compiler makes vectors of the plain ones. */
#include "ops/attention_mask.h"

#include <math.h>

enum { HIDDEN_F16 = 0xFC00, HIDDEN_BF16 = 0xFF80 };
#define HIDDEN_F32 0xFF800000u

static float element(const sb_mask_row *row, int64_t key)
{
    const sb_view view = {.data = (char *)row->data, .dtype = row->dtype};
    if (row->dtype == SB_BOOL) return row->data[key * row->step] ? 0.0f : -INFINITY;
    return sb_load(&view, key * row->step);
}

/* What differs from -inf's bits is visible. */
void sb_mask_seen(const sb_mask_row *row, const int32_t *key, int64_t first, int64_t count, uint16_t *seen)
{
    if (key || row->step != 1) {
        for (int64_t j = 0; j < count; j++) seen[j] |= element(row, key ? key[j] : first + j) != -INFINITY;
    } else if (row->dtype == SB_BOOL) {
        const uint8_t *m = (const uint8_t *)row->data + first;
        for (int64_t j = 0; j < count; j++) seen[j] |= m[j];
    } else if (row->dtype == SB_F32) {
        const uint32_t *m = (const uint32_t *)(const void *)row->data + first;
        for (int64_t j = 0; j < count; j++) seen[j] |= m[j] != HIDDEN_F32;
    } else {
        const uint16_t *m = (const uint16_t *)(const void *)row->data + first;
        const uint16_t hidden = row->dtype == SB_F16 ? HIDDEN_F16 : HIDDEN_BF16;
        for (int64_t j = 0; j < count; j++) seen[j] |= (uint16_t)(m[j] ^ hidden);
    }
}

/* sb_from_f16 without branches, which would keep the compiler from vectors. Scaling by 2^112 is exact, subnormals
 * included; infinity and NaN take the other form. */
SB_INLINE float widen_f16(uint16_t h)
{
    const int32_t magnitude = (h & 0x7FFF) << 13, special = -(magnitude >= 31 << 23);
    const uint32_t finite = sb_bits(sb_float((uint32_t)magnitude) * 0x1p112f),
                   other = (uint32_t)magnitude | 0x7F800000u;
    return sb_float((finite ^ ((finite ^ other) & (uint32_t)special)) | (uint32_t)(h & 0x8000) << 16);
}

void sb_mask_bias(const sb_mask_row *row, const int32_t *key, int run, int64_t count, float *bias)
{
    if (!count) return;
    if (row->step == 1 && row->dtype == SB_F16) {
        const uint16_t *m = (const uint16_t *)(const void *)row->data;
        if (run) {
            m += key[0];
            for (int64_t j = 0; j < count; j++) bias[j] = widen_f16(m[j]);
        } else {
            for (int64_t j = 0; j < count; j++) bias[j] = widen_f16(m[key[j]]);
        }
        return;
    }
    for (int64_t j = 0; j < count; j++) bias[j] = element(row, key[j]);
}
