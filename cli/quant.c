#include "quant.h"

#include <string.h>

int quant_has_min(samebits_format format) { return format == SAMEBITS_FORMAT_Q4_K || format == SAMEBITS_FORMAT_Q5_K; }

static size_t block_bytes(samebits_format format)
{
    size_t size = 0;
    cli_check(samebits_format_row_size(format, samebits_format_block(format), &size), "samebits_format_row_size");
    return size;
}

static float half_at(const uint8_t *at) { return bits_to_f32(T_F16, (uint32_t)at[0] | (uint32_t)at[1] << 8); }

/* Q4_0 and Q5_0: 16 bytes of two nibbles, weight i and weight i + 16; Q5_0 has the fifth bits before them. */
static void read_small(int five, const uint8_t *bytes, quant_block *b)
{
    const uint8_t *quants = bytes + (five ? 6 : 2);
    uint32_t high = 0;
    if (five) memcpy(&high, bytes + 2, 4);
    for (int i = 0; i < 32; i++) {
        const int nibble = i < 16 ? quants[i] & 15 : quants[i - 16] >> 4;
        b->q[i] = five ? (nibble | (int)(high >> i & 1) << 4) - 16 : nibble - 8;
    }
}

/* Q4_K and Q5_K: eight 6-bit scales and minima in 12 bytes, then the quants. */
static void read_k(int five, const uint8_t *bytes, quant_block *b)
{
    const uint8_t *packed = bytes + 4, *high = bytes + 16, *quants = bytes + (five ? 48 : 16);
    b->dmin = half_at(bytes + 2);
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
    b->d = half_at(bytes + 208);
    for (int i = 0; i < 16; i++) b->scale[i] = (int8_t)bytes[192 + i];
    for (int i = 0; i < 256; i++) {
        const int half = i / 128, quarter = i % 128 / 32, lane = i % 32;
        const int low = bytes[64 * half + 32 * (quarter % 2) + lane], high = bytes[128 + 32 * half + lane];
        b->q[i] = ((quarter < 2 ? low & 15 : low >> 4) | (high >> (2 * quarter) & 3) << 4) - 32;
    }
}

void quant_read(samebits_format format, const uint8_t *bytes, quant_block *b)
{
    b->d = half_at(bytes);
    b->dmin = 0.0f;
    for (int i = 0; i < 16; i++) {
        b->scale[i] = 1;
        b->min[i] = 0;
    }
    switch (format) {
    case SAMEBITS_FORMAT_Q8_0:
        for (int i = 0; i < 32; i++) b->q[i] = (int8_t)bytes[2 + i];
        break;
    case SAMEBITS_FORMAT_Q4_K: read_k(0, bytes, b); break;
    case SAMEBITS_FORMAT_Q5_K: read_k(1, bytes, b); break;
    case SAMEBITS_FORMAT_Q6_K: read_q6_k(bytes, b); break;
    default: read_small(format == SAMEBITS_FORMAT_Q5_0, bytes, b);
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
            const float scaled = b.d * (float)b.scale[i / 16] * (float)b.q[i];
            out[begin + i] = quant_has_min(format) ? scaled - b.dmin * (float)b.min[i / 16] : scaled;
        }
    }
}

/* A random f16 of either sign with an exponent in [-12, -5]. */
static void put_scale(uint8_t *at, rng *r)
{
    const uint64_t u = rng_next(r);
    const uint32_t bits = (uint32_t)(u & 0x83FF) | (uint32_t)(3 + (u >> 32 & 7)) << 10;
    at[0] = (uint8_t)bits;
    at[1] = (uint8_t)(bits >> 8);
}

void quant_fill(samebits_format format, tensor *w, rng *r)
{
    const size_t size = block_bytes(format);
    for (int64_t row = 0; row < w->shape[0]; row++) {
        uint8_t *bytes = tensor_at(w, row * w->shape[1]);
        for (int64_t i = 0; i < w->shape[1]; i++) bytes[i] = (uint8_t)(rng_next(r) >> 56);
        for (int64_t i = 0; i < w->shape[1]; i += (int64_t)size) {
            put_scale(bytes + i + (format == SAMEBITS_FORMAT_Q6_K ? 208 : 0), r);
            if (quant_has_min(format)) put_scale(bytes + i + 2, r);
        }
    }
}
