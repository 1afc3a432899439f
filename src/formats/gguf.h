/* GGUF's quantised blocks: their integers, and how a panel holds them (spec/formats.md).
 *
 * A panel is two streams. First the quants, 32 weights of all 16 columns at a time ("a step"):
 *   planes 0..3, 64 bytes each; byte 4 * column + i of plane z has the low 4 bits of weight 4z + i in its low
 *   nibble and those of weight 16 + 4z + i in its high nibble. Q8_0 has planes 0..7 instead: weight 4z + i + 128.
 *   Q5: one plane more, bit y of byte 4 * column + i is bit 4 of weight 4y + i.
 *   Q6: two planes more, bits 2z, 2z + 1 of that byte are bits 4, 5 of weight 16h + 4z + i in plane h.
 * Then the scales, block by block:
 *   Q4_0, Q5_0, Q8_0: d[16], f16.
 *   Q4_K, Q5_K: d[16], dmin[16], then for each of the 8 steps scale[16] and min[16], bytes.
 *   Q6_K: d[16], then for each step the scale[16] of weights 0..15 and that of weights 16..31, int8.
 * A vector load of a plane is then the 4 bytes a column that a 4-way integer dot takes. */
#ifndef SB_GGUF_H
#define SB_GGUF_H

#include "base/float16.h"
#include "formats/formats.h"

#define SB_STEP  32 /* weights a step */
#define SB_PLANE (4 * SB_PANEL)

/* One block of one column in plain integers. */
typedef struct sb_gguf_block {
    uint16_t d, dmin;
    uint8_t scale[16]; /* Q4_K, Q5_K: a step each; Q6_K: int8, 16 weights each */
    uint8_t min[8];
    uint8_t q[256]; /* as stored: without the offset; Q8_0 with 128 added */
} sb_gguf_block;

SB_INLINE int sb_gguf_is_k(samebits_format f) { return f >= SAMEBITS_FORMAT_Q4_K; }
SB_INLINE int sb_gguf_has_min(samebits_format f) { return f == SAMEBITS_FORMAT_Q4_K || f == SAMEBITS_FORMAT_Q5_K; }
/* Bits above the low 4 that have planes of their own. */
SB_INLINE int sb_gguf_high_bits(samebits_format f)
{
    return f == SAMEBITS_FORMAT_Q6_K ? 2 : f == SAMEBITS_FORMAT_Q5_0 || f == SAMEBITS_FORMAT_Q5_K;
}
/* What is subtracted from q to give the weight's integer. */
SB_INLINE int sb_gguf_offset(samebits_format f)
{
    switch (f) {
    case SAMEBITS_FORMAT_Q4_0: return 8;
    case SAMEBITS_FORMAT_Q5_0: return 16;
    case SAMEBITS_FORMAT_Q8_0: return 128;
    case SAMEBITS_FORMAT_Q6_K: return 32;
    default: return 0;
    }
}
/* Steps a block. */
SB_INLINE int sb_gguf_steps(samebits_format f) { return sb_gguf_is_k(f) ? 8 : 1; }
/* Bytes a step of the quants' stream. */
SB_INLINE int sb_gguf_step_bytes(samebits_format f)
{
    return f == SAMEBITS_FORMAT_Q8_0 ? 8 * SB_PLANE : (4 + sb_gguf_high_bits(f)) * SB_PLANE;
}
/* Bytes a block of the scales' stream. */
SB_INLINE int sb_gguf_scale_bytes(samebits_format f)
{
    if (!sb_gguf_is_k(f)) return 2 * SB_PANEL;
    return sb_gguf_has_min(f) ? 4 * SB_PANEL + 16 * SB_PANEL : 2 * SB_PANEL + 16 * SB_PANEL;
}
/* Where the scales' stream of a panel begins. */
SB_INLINE const uint8_t *sb_gguf_scales(samebits_format f, const uint8_t *panel, int64_t k)
{
    return panel + k / SB_STEP * sb_gguf_step_bytes(f);
}

/* Block `index` of one column of a panel. */
void sb_gguf_get(samebits_format format, const uint8_t *panel, int64_t k, int64_t index, int column,
                 sb_gguf_block *block);

/* The formulas of spec/formats.md for step `s` of a block, weight i in 0..31. Every product of d, a scale and an
 * integer is exact in f32, so the value has one rounding at most: that of the subtraction of the minimum. */
SB_INLINE float sb_gguf_weight(samebits_format f, const sb_gguf_block *b, int s, int i)
{
    const float d = sb_from_f16(b->d), q = (float)(b->q[s * SB_STEP + i] - sb_gguf_offset(f));
    if (sb_gguf_has_min(f)) return d * (float)b->scale[s] * q - sb_from_f16(b->dmin) * (float)b->min[s];
    if (f == SAMEBITS_FORMAT_Q6_K) return d * (float)(int8_t)b->scale[2 * s + i / 16] * q;
    return d * q;
}

#endif
