#include "quant.h"

#include <math.h>
#include <string.h>

int quant_has_min(samebits_format format)
{
    switch (format) {
    case SAMEBITS_FORMAT_Q4_1:
    case SAMEBITS_FORMAT_Q5_1:
    case SAMEBITS_FORMAT_Q2_K:
    case SAMEBITS_FORMAT_Q4_K:
    case SAMEBITS_FORMAT_Q5_K: return 1;
    default: return 0;
    }
}

int quant_scale_offset(samebits_format format)
{
    switch (format) {
    case SAMEBITS_FORMAT_Q2_K: return 80;
    case SAMEBITS_FORMAT_Q3_K: return 108;
    case SAMEBITS_FORMAT_Q6_K: return 208;
    default: return 0;
    }
}

static size_t block_bytes(samebits_format format)
{
    size_t size = 0;
    cli_check(samebits_format_row_size(format, samebits_format_block(format), &size), "samebits_format_row_size");
    return size;
}

static float half_at(const uint8_t *at) { return bits_to_f32(T_F16, (uint32_t)at[0] | (uint32_t)at[1] << 8); }

/* Blocks of 32: 16 bytes of two nibbles, weight i and weight i + 16; the fifth bits, if any, lie before them. */
static void read_small(const uint8_t *quants, int has_fifth, quant_block *b)
{
    uint32_t high = 0;
    if (has_fifth) memcpy(&high, quants - 4, 4);
    for (int i = 0; i < 32; i++) {
        const int nibble = i < 16 ? quants[i] & 15 : quants[i - 16] >> 4;
        b->q[i] = nibble | (int)(high >> i & 1) << 4;
    }
}

static void subtract(quant_block *b, int count, int offset)
{
    for (int i = 0; i < count; i++) b->q[i] -= offset;
}

static void replace(quant_block *b, const int integers[16])
{
    for (int i = 0; i < 32; i++) b->q[i] = integers[b->q[i]];
}

static const int mxfp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void read_32(samebits_format format, const uint8_t *bytes, quant_block *b)
{
    static const int iq4_nl[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    switch (format) {
    case SAMEBITS_FORMAT_Q4_0:
        read_small(bytes + 2, 0, b);
        subtract(b, 32, 8);
        break;
    case SAMEBITS_FORMAT_Q4_1: read_small(bytes + 4, 0, b); break;
    case SAMEBITS_FORMAT_Q5_0:
        read_small(bytes + 6, 1, b);
        subtract(b, 32, 16);
        break;
    case SAMEBITS_FORMAT_Q5_1: read_small(bytes + 8, 1, b); break;
    case SAMEBITS_FORMAT_IQ4_NL:
        read_small(bytes + 2, 0, b);
        replace(b, iq4_nl);
        break;
    case SAMEBITS_FORMAT_MXFP4:
        read_small(bytes + 1, 0, b);
        replace(b, mxfp4);
        b->d = ldexpf(1.0f, (int)bytes[0] - 128);
        break;
    default:
        for (int i = 0; i < 32; i++) b->q[i] = (int8_t)bytes[2 + i];
    }
    if (quant_has_min(format)) b->dmin = -half_at(bytes + 2); /* these two add it */
}

/* GGUF's NVFP4: four scales, magnitudes of E4M3 that stand for half of it, 0x7F for 0; then 8 bytes a part. */
static void read_nvfp4(const uint8_t *bytes, quant_block *b)
{
    b->d = 1.0f;
    for (int part = 0; part < 4; part++) {
        const int exponent = bytes[part] >> 3 & 15, mantissa = bytes[part] & 7;
        b->half[part] = exponent ? ldexpf((float)(8 + mantissa), exponent - 11) : ldexpf((float)mantissa, -10);
        if (bytes[part] == 0x7F) b->half[part] = 0.0f;
        for (int i = 0; i < 16; i++) {
            const int byte = bytes[4 + 8 * part + i % 8];
            b->q[16 * part + i] = mxfp4[i < 8 ? byte & 15 : byte >> 4];
        }
    }
}

/* Two bits of each weight: weight i + 32 s of a half in bits 2s of byte i. */
static void read_low_2(const uint8_t *low, quant_block *b)
{
    for (int i = 0; i < 256; i++) b->q[i] = low[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

static void read_q2_k(const uint8_t *bytes, quant_block *b)
{
    read_low_2(bytes + 16, b);
    for (int i = 0; i < 16; i++) {
        b->scale[i] = bytes[i] & 15;
        b->min[i] = bytes[i] >> 4;
    }
}

static void read_q3_k(const uint8_t *bytes, quant_block *b)
{
    const uint8_t *packed = bytes + 96;
    read_low_2(bytes + 32, b);
    for (int i = 0; i < 256; i++) b->q[i] += 4 * (bytes[i % 32] >> (i / 32) & 1) - 4;
    for (int i = 0; i < 16; i++) {
        const int low = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4;
        b->scale[i] = low + 16 * (packed[8 + i % 4] >> (2 * (i / 4)) & 3) - 32;
    }
}

/* Q4_K and Q5_K: eight 6-bit scales and minima in 12 bytes, then the quants. */
static void read_k(int five, const uint8_t *bytes, quant_block *b)
{
    const uint8_t *packed = bytes + 4, *high = bytes + 16, *quants = bytes + (five ? 48 : 16);
    for (int s = 0; s < 8; s++) {
        int scale = packed[s] & 63, min = packed[s + 4] & 63;
        if (s >= 4) {
            scale = (packed[s + 4] & 15) | (packed[s - 4] >> 6) << 4;
            min = packed[s + 4] >> 4 | (packed[s] >> 6) << 4;
        }
        b->scale[2 * s] = b->scale[2 * s + 1] = scale;
        b->min[2 * s] = b->min[2 * s + 1] = min;
        for (int i = 0; i < 32; i++) {
            const int byte = quants[s / 2 * 32 + i], nibble = s % 2 ? byte >> 4 : byte & 15;
            b->q[32 * s + i] = nibble | (five ? (high[i] >> s & 1) << 4 : 0);
        }
    }
}

static void read_q6_k(const uint8_t *bytes, quant_block *b)
{
    for (int i = 0; i < 16; i++) b->scale[i] = (int8_t)bytes[192 + i];
    for (int i = 0; i < 256; i++) {
        const int half = i / 128, quarter = i % 128 / 32, lane = i % 32;
        const int low = bytes[64 * half + 32 * (quarter % 2) + lane], high = bytes[128 + 32 * half + lane];
        b->q[i] = ((quarter < 2 ? low & 15 : low >> 4) | (high >> (2 * quarter) & 3) << 4) - 32;
    }
}

void quant_read(samebits_format format, const uint8_t *bytes, quant_block *b)
{
    b->d = half_at(bytes + quant_scale_offset(format));
    b->dmin = quant_has_min(format) ? half_at(bytes + quant_scale_offset(format) + 2) : 0.0f;
    for (int i = 0; i < 16; i++) b->scale[i] = b->min[i] = 1;
    switch (format) {
    case SAMEBITS_FORMAT_Q2_K: read_q2_k(bytes, b); break;
    case SAMEBITS_FORMAT_Q3_K: read_q3_k(bytes, b); break;
    case SAMEBITS_FORMAT_Q4_K: read_k(0, bytes, b); break;
    case SAMEBITS_FORMAT_Q5_K: read_k(1, bytes, b); break;
    case SAMEBITS_FORMAT_Q6_K: read_q6_k(bytes, b); break;
    case SAMEBITS_FORMAT_NVFP4: read_nvfp4(bytes, b); break;
    default: read_32(format, bytes, b);
    }
}

void quant_row(samebits_format format, const uint8_t *bytes, int64_t k, float *out)
{
    const int64_t block = samebits_format_block(format);
    const size_t size = block_bytes(format);
    quant_block b;
    for (int64_t begin = 0; begin < k; begin += block, bytes += size) {
        quant_read(format, bytes, &b);
        for (int64_t i = 0; i < block; i++) {
            const float scale = format == SAMEBITS_FORMAT_NVFP4 ? b.half[i / 16] : (float)b.scale[i / 16];
            const float scaled = b.d * scale * (float)b.q[i];
            out[begin + i] = quant_has_min(format) ? scaled - b.dmin * (float)b.min[i / 16] : scaled;
        }
    }
}

/* A random f16 of either sign: of kind UNIT with an exponent in [-12, -5], so that weights are near 1. */
static void put_scale(uint8_t *at, fill kind, rng *r)
{
    uint64_t bits;
    if (kind == FILL_UNIT) {
        const uint64_t u = rng_next(r);
        bits = (u & 0x83FF) | (3 + (u >> 32 & 7)) << 10;
    } else {
        bits = fill_bits(T_F16, kind, r);
    }
    at[0] = (uint8_t)bits;
    at[1] = (uint8_t)(bits >> 8);
}

void quant_fill(samebits_format format, tensor *w, fill kind, rng *r)
{
    const size_t size = block_bytes(format);
    const int64_t count = tensor_count(w), length = w->shape[w->dl.ndim - 1];
    for (int64_t row = 0; row < count; row += length) {
        uint8_t *bytes = tensor_at(w, row);
        for (int64_t i = 0; i < length; i++) bytes[i] = (uint8_t)(rng_next(r) >> 56);
        for (int64_t i = 0; i < length; i += (int64_t)size) {
            uint8_t *scale = bytes + i + quant_scale_offset(format);
            if (format == SAMEBITS_FORMAT_NVFP4) continue; /* all bytes are moderate */
            if (format == SAMEBITS_FORMAT_MXFP4)
                *scale = (uint8_t)(117 + (rng_next(r) >> 32 & 7)); /* the same range */
            else
                put_scale(scale, kind, r);
            if (quant_has_min(format)) put_scale(scale + 2, kind, r);
        }
    }
}
