/* GGUF's quantised blocks and MLX's rows: their integers, and how a panel holds them (spec/formats.md).
 *
 * A panel is two streams. First the quants, 32 weights of all 16 columns at a time ("a step"), in planes of 64 bytes,
 * 4 bytes a column. The low bits of a weight, and i = 0..3 for the bytes of a column:
 *   8 (Q8_0, AFFINE_8, MLX_MXFP8): plane y has weight 4y + i; that of Q8_0 with 128 added.
 *   4: plane z has weight 4z + i in its low nibble and weight 16 + 4z + i in its high one.
 *   2 (Q2_K, Q3_K, AFFINE_2 and 3): plane h has weight 16h + 4z + i in bits 2z, 2z + 1.
 * The bits above have planes of their own behind those:
 *   1 (Q5, Q3_K, AFFINE_3 and 5): bit y of the one plane is that of weight 4y + i.
 *   2 (Q6_K, AFFINE_6): bits 2z, 2z + 1 of plane h are those of weight 16h + 4z + i.
 * Then the scales, block by block:
 *   Q4_0, Q5_0, Q8_0, IQ4_NL: d[16], f16. MXFP4, MLX_MXFP4, MLX_MXFP8: e[16], bytes.
 *   NVFP4, MLX_NVFP4: for each half of a step scale[16], E4M3.
 *   Q4_1, Q5_1: d[16], dmin[16]: minus the format's m.
 *   Q4_K, Q5_K: d[16], dmin[16], then for each of the 8 steps scale[16] and min[16], bytes.
 *   Q2_K: d[16], dmin[16], then for each half of a step a byte[16], scale in the low nibble and min in the high one.
 *   Q3_K, Q6_K: d[16], then for each half of a step scale[16], int8.
 *   AFFINE: for each group d[16] and dmin[16], the scales and minus the biases, in their own dtype.
 * A vector load of a plane is then the 4 bytes a column that a 4-way integer dot takes. */
#ifndef SB_QUANT_H
#define SB_QUANT_H

#include <math.h>

#include "base/float16.h"
#include "formats/formats.h"

#define SB_STEP  32 /* weights a step */
#define SB_PLANE (4 * SB_PANEL)

/* One block of one column in plain integers. */
typedef struct sb_quant_block {
    uint32_t d, dmin;           /* bits of f16; affine: bits of f32; MX formats: d is the exponent */
    uint8_t scale[16], min[16]; /* Q4_K, Q5_K: a step each; Q2_K, Q3_K, Q6_K (int8), NVFP4: 16 weights each; else 1 */
    uint8_t q[256];             /* as stored: codes, or without the offset; Q8_0 with 128 added */
} sb_quant_block;

SB_INLINE int sb_quant_is_k(samebits_format f) { return f >= SAMEBITS_FORMAT_Q2_K && f <= SAMEBITS_FORMAT_Q6_K; }
SB_INLINE int sb_quant_has_min(samebits_format f)
{
    return sb_format_is_affine(f) || f == SAMEBITS_FORMAT_Q4_1 || f == SAMEBITS_FORMAT_Q5_1 ||
           f == SAMEBITS_FORMAT_Q2_K || f == SAMEBITS_FORMAT_Q4_K || f == SAMEBITS_FORMAT_Q5_K;
}
/* Scales that are floats of a byte, two a step. */
SB_INLINE int sb_quant_has_e4m3(samebits_format f)
{
    return f == SAMEBITS_FORMAT_NVFP4 || f == SAMEBITS_FORMAT_MLX_NVFP4;
}
/* Scales a step. */
SB_INLINE int sb_quant_parts(samebits_format f)
{
    return f == SAMEBITS_FORMAT_Q2_K || f == SAMEBITS_FORMAT_Q3_K || f == SAMEBITS_FORMAT_Q6_K || sb_quant_has_e4m3(f)
               ? 2
               : 1;
}
/* Scales that are a power of two each. */
SB_INLINE int sb_quant_has_e8m0(samebits_format f)
{
    return f == SAMEBITS_FORMAT_MXFP4 || f == SAMEBITS_FORMAT_MLX_MXFP4 || f == SAMEBITS_FORMAT_MLX_MXFP8;
}
/* Bits of a weight in the first planes, and in those behind; also the numbers of these planes. */
SB_INLINE int sb_quant_low_bits(samebits_format f)
{
    switch (f) {
    case SAMEBITS_FORMAT_AFFINE_8:
    case SAMEBITS_FORMAT_MLX_MXFP8:
    case SAMEBITS_FORMAT_Q8_0: return 8;
    case SAMEBITS_FORMAT_AFFINE_2:
    case SAMEBITS_FORMAT_AFFINE_3:
    case SAMEBITS_FORMAT_Q2_K:
    case SAMEBITS_FORMAT_Q3_K: return 2;
    default: return 4;
    }
}
SB_INLINE int sb_quant_high_bits(samebits_format f)
{
    switch (f) {
    case SAMEBITS_FORMAT_AFFINE_3:
    case SAMEBITS_FORMAT_AFFINE_5:
    case SAMEBITS_FORMAT_Q5_0:
    case SAMEBITS_FORMAT_Q5_1:
    case SAMEBITS_FORMAT_Q3_K:
    case SAMEBITS_FORMAT_Q5_K: return 1;
    case SAMEBITS_FORMAT_AFFINE_6:
    case SAMEBITS_FORMAT_Q6_K: return 2;
    default: return 0;
    }
}

/* Codes of 4 bits that stand for integers: facts of the formats (ggml's ggml-common.h), with b added to each. */
#define SB_IQ4_NL_INTEGERS(b)                                                                                          \
    (b) - 127, (b)-104, (b)-83, (b)-65, (b)-49, (b)-35, (b)-22, (b)-10, (b) + 1, (b) + 13, (b) + 25, (b) + 38,         \
        (b) + 53, (b) + 69, (b) + 89, (b) + 113
/* Twice the E2M1 numbers. */
#define SB_E2M1_INTEGERS(b)                                                                                            \
    (b), (b) + 1, (b) + 2, (b) + 3, (b) + 4, (b) + 6, (b) + 8, (b) + 12, (b), (b)-1, (b)-2, (b)-3, (b)-4, (b)-6,       \
        (b)-8, (b)-12
SB_INLINE int sb_quant_is_e2m1(samebits_format f)
{
    return f == SAMEBITS_FORMAT_MXFP4 || f == SAMEBITS_FORMAT_MLX_MXFP4 || sb_quant_has_e4m3(f);
}
SB_INLINE int sb_quant_is_coded(samebits_format f) { return f == SAMEBITS_FORMAT_IQ4_NL || sb_quant_is_e2m1(f); }
/* MLX's floats have a -0, which GGUF's do not: twice the E2M1 numbers as E4M3. */
#define SB_E2M1_AS_E4M3 0x00, 0x38, 0x40, 0x44, 0x48, 0x4C, 0x50, 0x54, 0x80, 0xB8, 0xC0, 0xC4, 0xC8, 0xCC, 0xD0, 0xD4

/* What is subtracted from q to give the weight's integer; from the code's integer with the offset added. */
SB_INLINE int sb_quant_offset(samebits_format f)
{
    if (sb_quant_is_e2m1(f)) return 12;
    switch (f) {
    case SAMEBITS_FORMAT_Q4_0: return 8;
    case SAMEBITS_FORMAT_Q5_0: return 16;
    case SAMEBITS_FORMAT_IQ4_NL:
    case SAMEBITS_FORMAT_Q8_0: return 128;
    case SAMEBITS_FORMAT_Q3_K: return 4;
    case SAMEBITS_FORMAT_Q6_K: return 32;
    default: return 0;
    }
}
/* The 16 integers of a coded format, with the offset added. */
SB_INLINE const uint8_t *sb_quant_codes(samebits_format f)
{
    static const uint8_t iq4_nl[16] = {SB_IQ4_NL_INTEGERS(128)}, e2m1[16] = {SB_E2M1_INTEGERS(12)};
    return f == SAMEBITS_FORMAT_IQ4_NL ? iq4_nl : e2m1;
}
SB_INLINE int sb_quant_integer(samebits_format f, uint8_t q)
{
    return (sb_quant_is_coded(f) ? sb_quant_codes(f)[q] : q) - sb_quant_offset(f);
}

/* Steps a block. */
SB_INLINE int sb_quant_steps(samebits_format f) { return sb_quant_is_k(f) ? 8 : f == SAMEBITS_FORMAT_NVFP4 ? 2 : 1; }
/* Bytes a step of the quants' stream. */
SB_INLINE int sb_quant_step_bytes(samebits_format f)
{
    return (sb_quant_low_bits(f) + sb_quant_high_bits(f)) * SB_PLANE;
}
/* Bytes of d and dmin of a block in the scales' stream, and of all the block there. */
SB_INLINE int sb_quant_d_bytes(samebits_format f)
{
    if (sb_quant_has_e4m3(f)) return 0;
    if (sb_quant_has_e8m0(f)) return SB_PANEL;
    return sb_quant_has_min(f) ? 4 * SB_PANEL : 2 * SB_PANEL;
}
SB_INLINE int sb_quant_scale_bytes(samebits_format f)
{
    const int bytes = sb_quant_is_k(f) ? 16 : sb_quant_has_e4m3(f) ? 2 * sb_quant_steps(f) : 0;
    return sb_quant_d_bytes(f) + bytes * SB_PANEL;
}
/* Where the scales' stream of a panel begins. */
SB_INLINE const uint8_t *sb_quant_scales(samebits_format f, const uint8_t *panel, int64_t k)
{
    return panel + k / SB_STEP * sb_quant_step_bytes(f);
}

/* A block of GGUF as its owner stores it. */
void sb_quant_read(samebits_format format, const uint8_t *bytes, sb_quant_block *block);
/* Block `index` of one column of a panel; for an affine format, 32 weights. */
void sb_quant_get(samebits_format format, sb_group group, const uint8_t *panel, int64_t k, int64_t index, int column,
                  sb_quant_block *block);
/* The 32 weights of a step of one column, as the planes at `step` hold them. */
void sb_quant_put_step(samebits_format format, const uint8_t *q, int column, uint8_t *step);
void sb_quant_get_step(samebits_format format, const uint8_t *step, int column, uint8_t *q);
/* The scale and minus the bias of a group of one column, as bits of f32. */
void sb_affine_get_scales(samebits_format format, sb_group group, const uint8_t *panel, int64_t k, int64_t index,
                          int column, sb_quant_block *block);

SB_INLINE float sb_quant_d(samebits_format f, const sb_quant_block *b)
{
    if (sb_format_is_affine(f)) return sb_float(b->d);
    if (!sb_quant_has_e8m0(f)) return sb_from_f16((uint16_t)b->d);
    if (b->d == 255 && sb_format_is_scaled(f)) return INFINITY;
    return sb_float(b->d < 2 ? 0x00200000u << b->d : (b->d - 1) << 23); /* 2^(e - 128) */
}
SB_INLINE float sb_quant_dmin(samebits_format f, const sb_quant_block *b)
{
    return sb_format_is_affine(f) ? sb_float(b->dmin) : sb_from_f16((uint16_t)b->dmin);
}
/* What d is multiplied with for the weights of index j, a step or half a step. */
SB_INLINE int sb_quant_scale(samebits_format f, const sb_quant_block *b, int j)
{
    return sb_quant_has_min(f) ? b->scale[j] : (int8_t)b->scale[j];
}

/* Half of the scale of 16 weights. */
SB_INLINE float sb_quant_half_scale(samebits_format f, const sb_quant_block *b, int j)
{
    const uint8_t scale = b->scale[j];
    if (f != SAMEBITS_FORMAT_NVFP4) return sb_from_e4m3(scale) * 0.5f;
    return scale == 0x7F ? 0.0f : sb_float((uint32_t)(scale & 0x7F) << 20) * 0x1p119f; /* as ggml reads it */
}

/* What the 16 weights share to which weight i in 0..31 of step `s` belongs. */
typedef struct sb_quant_factors {
    float scale, min;
} sb_quant_factors;

SB_INLINE sb_quant_factors sb_quant_factors_of(samebits_format f, const sb_quant_block *b, int s, int i)
{
    const int j = sb_quant_parts(f) == 2 ? 2 * s + i / 16 : s;
    if (sb_quant_has_e4m3(f)) return (sb_quant_factors){sb_quant_half_scale(f, b, j), 0.0f};
    if (sb_format_is_scaled(f)) return (sb_quant_factors){sb_quant_d(f, b), 0.0f};
    return (sb_quant_factors){sb_quant_d(f, b) * (float)sb_quant_scale(f, b, j),
                              sb_quant_has_min(f) ? sb_quant_dmin(f, b) * (float)b->min[j] : 0.0f};
}

/* A float of MLX's, twice. */
SB_INLINE float sb_quant_twice(samebits_format f, uint8_t q)
{
    static const uint8_t e2m1[16] = {SB_E2M1_AS_E4M3};
    return sb_quant_is_e2m1(f) ? sb_from_e4m3(e2m1[q]) : 2.0f * sb_from_e4m3(q);
}

/* The formulas of spec/formats.md. Every product of d, a scale and an integer is exact in f32 for GGUF's formats, so
 * that their values have one rounding at most, with fma or without. */
SB_INLINE float sb_quant_value(samebits_format f, sb_quant_factors of, uint8_t q)
{
    if (sb_format_is_scaled(f)) return sb_quant_twice(f, q) * of.scale;
    const float integer = (float)sb_quant_integer(f, q);
    if (!sb_quant_has_min(f)) return of.scale * integer;
    return sb_format_is_affine(f) ? fmaf(of.scale, integer, -of.min) : of.scale * integer - of.min;
}
SB_INLINE float sb_quant_weight(samebits_format f, const sb_quant_block *b, int s, int i)
{
    return sb_quant_value(f, sb_quant_factors_of(f, b, s, i), b->q[s * SB_STEP + i]);
}

#endif
