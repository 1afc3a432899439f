/* GGUF's blocks to panels and back. Every bit of a block is a bit of the panel, so any bytes come back as they were. */
#include "formats/quant.h"

/* Four weights at a time, as the bytes of a word. */
SB_INLINE uint32_t load_word(const uint8_t *p)
{
    uint32_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

SB_INLINE void store_word(uint8_t *p, uint32_t w) { memcpy(p, &w, sizeof w); }

/* Bits 0..3 as the lowest bits of four bytes. */
SB_INLINE uint32_t spread_bits(uint32_t bits) { return (bits & 15) * 0x00204081u & 0x01010101u; }

/* --- a block's bytes <-> its integers ------------------------------------------------------------- */

/* The 6-bit scales and minima of Q4_K and Q5_K: 16 numbers in 12 bytes. */
static void read_scales(const uint8_t *p, sb_quant_block *b)
{
    for (int j = 0; j < 4; j++) {
        b->scale[j] = p[j] & 63;
        b->min[j] = p[j + 4] & 63;
        b->scale[j + 4] = (uint8_t)((p[j + 8] & 15) | (p[j] >> 6 << 4));
        b->min[j + 4] = (uint8_t)(p[j + 8] >> 4 | (p[j + 4] >> 6 << 4));
    }
}

static void write_scales(const sb_quant_block *b, uint8_t *p)
{
    for (int j = 0; j < 4; j++) {
        p[j] = (uint8_t)(b->scale[j] | (b->scale[j + 4] >> 4 << 6));
        p[j + 4] = (uint8_t)(b->min[j] | (b->min[j + 4] >> 4 << 6));
        p[j + 8] = (uint8_t)((b->scale[j + 4] & 15) | (b->min[j + 4] & 15) << 4);
    }
}

/* Blocks of 32 with 4 or 5 bits: byte i has weights i and 16 + i; bit i of high is bit 4 of weight i. */
static void read_32(const uint8_t *low, const uint8_t *high, uint8_t *q)
{
    const uint32_t bits = high ? load_word(high) : 0;
    for (int y = 0; y < 8; y++) {
        const uint32_t nibbles = load_word(low + y % 4 * 4) >> y / 4 * 4 & 0x0F0F0F0Fu;
        store_word(q + 4 * y, nibbles | spread_bits(bits >> 4 * y) << 4);
    }
}

static void write_32(const uint8_t *q, uint8_t *low, uint8_t *high)
{
    uint32_t bits = 0;
    for (int i = 0; i < 32; i++) bits |= (uint32_t)(q[i] >> 4 & 1) << i;
    for (int i = 0; i < 16; i++) low[i] = (uint8_t)((q[i] & 15) | (q[16 + i] & 15) << 4);
    if (high) memcpy(high, &bits, sizeof bits);
}

/* Q4_K, Q5_K: 32 bytes have steps 2g and 2g + 1 in their nibbles; bit s of high[i] is bit 4 of weight i of step s. */
static void read_256(const uint8_t *low, const uint8_t *high, uint8_t *q)
{
    for (int s = 0; s < 8; s++)
        for (int i = 0; i < 32; i += 4) {
            const uint32_t nibbles = load_word(low + s / 2 * 32 + i) >> s % 2 * 4 & 0x0F0F0F0Fu;
            const uint32_t above = high ? load_word(high + i) >> s & 0x01010101u : 0;
            store_word(q + s * 32 + i, nibbles | above << 4);
        }
}

static void write_256(const uint8_t *q, uint8_t *low, uint8_t *high)
{
    for (int g = 0; g < 4; g++)
        for (int i = 0; i < 32; i++) low[g * 32 + i] = (uint8_t)((q[g * 64 + i] & 15) | (q[g * 64 + 32 + i] & 15) << 4);
    for (int i = 0; high && i < 32; i++) {
        high[i] = 0;
        for (int s = 0; s < 8; s++) high[i] |= (uint8_t)((q[s * 32 + i] >> 4 & 1) << s);
    }
}

/* Q6_K: halves of 4 steps; steps 0 and 2 share bytes 0..31 of low, 1 and 3 the next 32; high has 2 bits a step. */
static void read_q6(const uint8_t *low, const uint8_t *high, uint8_t *q)
{
    for (int s = 0; s < 8; s++) {
        const uint8_t *l = low + s / 4 * 64 + s % 2 * 32, *h = high + s / 4 * 32;
        for (int i = 0; i < 32; i += 4) {
            const uint32_t nibbles = load_word(l + i) >> s % 4 / 2 * 4 & 0x0F0F0F0Fu;
            store_word(q + s * 32 + i, nibbles | (load_word(h + i) >> s % 4 * 2 & 0x03030303u) << 4);
        }
    }
}

static void write_q6(const uint8_t *q, uint8_t *low, uint8_t *high)
{
    for (int half = 0; half < 2; half++, q += 128)
        for (int i = 0; i < 32; i++) {
            low[half * 64 + i] = (uint8_t)((q[i] & 15) | (q[64 + i] & 15) << 4);
            low[half * 64 + 32 + i] = (uint8_t)((q[32 + i] & 15) | (q[96 + i] & 15) << 4);
            high[half * 32 + i] =
                (uint8_t)(q[i] >> 4 | q[32 + i] >> 4 << 2 | q[64 + i] >> 4 << 4 | q[96 + i] >> 4 << 6);
        }
}

/* Q2_K, Q3_K: halves of 4 steps, a step in two bits of 32 bytes; bit s of high[i] is bit 2 of weight i of step s. */
static void read_q2(const uint8_t *low, const uint8_t *high, uint8_t *q)
{
    for (int s = 0; s < 8; s++)
        for (int i = 0; i < 32; i += 4) {
            const uint32_t above = high ? load_word(high + i) >> s & 0x01010101u : 0;
            store_word(q + s * 32 + i, (load_word(low + s / 4 * 32 + i) >> s % 4 * 2 & 0x03030303u) | above << 2);
        }
}

static void write_q2(const uint8_t *q, uint8_t *low, uint8_t *high)
{
    memset(low, 0, 64);
    if (high) memset(high, 0, 32);
    for (int s = 0; s < 8; s++, q += 32)
        for (int i = 0; i < 32; i++) {
            low[s / 4 * 32 + i] |= (uint8_t)((q[i] & 3) << s % 4 * 2);
            if (high) high[i] |= (uint8_t)(q[i] >> 2 << s);
        }
}

/* Q2_K: a scale and a minimum of 4 bits each a byte. */
static void read_nibble_scales(const uint8_t *p, sb_quant_block *b)
{
    for (int j = 0; j < 16; j++) {
        b->scale[j] = p[j] & 15;
        b->min[j] = p[j] >> 4;
    }
}

static void write_nibble_scales(const sb_quant_block *b, uint8_t *p)
{
    for (int j = 0; j < 16; j++) p[j] = (uint8_t)(b->scale[j] | b->min[j] << 4);
}

/* Q3_K: 16 scales of 6 bits, 32 added, in 12 bytes: 4 low bits in 8 of them, 2 high bits in the others. */
static void read_q3_scales(const uint8_t *p, sb_quant_block *b)
{
    for (int j = 0; j < 16; j++) {
        const int low = p[j % 8] >> j / 8 * 4 & 15, high = p[8 + j % 4] >> j / 4 * 2 & 3;
        b->scale[j] = (uint8_t)((low | high << 4) - 32);
    }
}

static void write_q3_scales(const sb_quant_block *b, uint8_t *p)
{
    memset(p, 0, 12);
    for (int j = 0; j < 16; j++) {
        const int scale = (b->scale[j] + 32) & 63;
        p[j % 8] |= (uint8_t)((scale & 15) << j / 8 * 4);
        p[8 + j % 4] |= (uint8_t)(scale >> 4 << j / 4 * 2);
    }
}

/* NVFP4: 4 scales, then 8 bytes for each 16 weights: byte i has weights i and 8 + i. */
static void read_nvfp4(const uint8_t *p, sb_quant_block *b)
{
    memcpy(b->scale, p, 4);
    for (int part = 0; part < 4; part++)
        for (int i = 0; i < 8; i++) {
            const uint8_t byte = p[4 + part * 8 + i];
            b->q[part * 16 + i] = byte & 15;
            b->q[part * 16 + 8 + i] = byte >> 4;
        }
}

static void write_nvfp4(const sb_quant_block *b, uint8_t *p)
{
    memcpy(p, b->scale, 4);
    for (int part = 0; part < 4; part++)
        for (int i = 0; i < 8; i++) p[4 + part * 8 + i] = (uint8_t)(b->q[part * 16 + i] | b->q[part * 16 + 8 + i] << 4);
}

/* Where d lies in a block: a fact of the formats (ggml's ggml-common.h), as are the offsets below. */
static int d_offset(samebits_format format)
{
    switch (format) {
    case SAMEBITS_FORMAT_Q2_K: return 80;
    case SAMEBITS_FORMAT_Q3_K: return 108;
    case SAMEBITS_FORMAT_Q6_K: return 208;
    default: return 0;
    }
}
static int d_size(samebits_format format) { return sb_quant_has_e8m0(format) ? 1 : 2; }
/* Q4_1 and Q5_1 add their m, the others subtract their minimum. */
static int adds_min(samebits_format format) { return sb_quant_has_min(format) && !sb_quant_is_k(format); }

void sb_quant_read(samebits_format format, const uint8_t *p, sb_quant_block *b)
{
    b->d = b->dmin = 0;
    memcpy(&b->d, p + d_offset(format), (size_t)d_size(format));
    if (sb_quant_has_min(format)) memcpy(&b->dmin, p + d_offset(format) + 2, 2);
    if (adds_min(format)) b->dmin ^= 0x8000;
    if (!sb_quant_is_k(format)) b->scale[0] = b->min[0] = 1;
    switch (format) {
    case SAMEBITS_FORMAT_Q4_1: read_32(p + 4, NULL, b->q); break;
    case SAMEBITS_FORMAT_Q5_0: read_32(p + 6, p + 2, b->q); break;
    case SAMEBITS_FORMAT_Q5_1: read_32(p + 8, p + 4, b->q); break;
    case SAMEBITS_FORMAT_Q8_0:
        for (int i = 0; i < 32; i += 4) store_word(b->q + i, load_word(p + 2 + i) ^ 0x80808080u);
        break;
    case SAMEBITS_FORMAT_Q2_K:
        read_nibble_scales(p, b);
        read_q2(p + 16, NULL, b->q);
        break;
    case SAMEBITS_FORMAT_Q3_K:
        read_q3_scales(p + 96, b);
        read_q2(p + 32, p, b->q);
        break;
    case SAMEBITS_FORMAT_Q4_K:
        read_scales(p + 4, b);
        read_256(p + 16, NULL, b->q);
        break;
    case SAMEBITS_FORMAT_Q5_K:
        read_scales(p + 4, b);
        read_256(p + 48, p + 16, b->q);
        break;
    case SAMEBITS_FORMAT_Q6_K:
        memcpy(b->scale, p + 192, 16);
        read_q6(p, p + 128, b->q);
        break;
    case SAMEBITS_FORMAT_NVFP4: read_nvfp4(p, b); break;
    default: read_32(p + d_size(format), NULL, b->q); /* 4 bits behind d */
    }
}

static void write_block(samebits_format format, const sb_quant_block *b, uint8_t *p)
{
    const uint16_t dmin = (uint16_t)(adds_min(format) ? b->dmin ^ 0x8000 : b->dmin);
    if (!sb_quant_has_e4m3(format)) memcpy(p + d_offset(format), &b->d, (size_t)d_size(format));
    if (sb_quant_has_min(format)) memcpy(p + d_offset(format) + 2, &dmin, 2);
    switch (format) {
    case SAMEBITS_FORMAT_Q4_1: write_32(b->q, p + 4, NULL); break;
    case SAMEBITS_FORMAT_Q5_0: write_32(b->q, p + 6, p + 2); break;
    case SAMEBITS_FORMAT_Q5_1: write_32(b->q, p + 8, p + 4); break;
    case SAMEBITS_FORMAT_Q8_0:
        for (int i = 0; i < 32; i++) p[2 + i] = b->q[i] ^ 128;
        break;
    case SAMEBITS_FORMAT_Q2_K:
        write_nibble_scales(b, p);
        write_q2(b->q, p + 16, NULL);
        break;
    case SAMEBITS_FORMAT_Q3_K:
        write_q3_scales(b, p + 96);
        write_q2(b->q, p + 32, p);
        break;
    case SAMEBITS_FORMAT_Q4_K:
        write_scales(b, p + 4);
        write_256(b->q, p + 16, NULL);
        break;
    case SAMEBITS_FORMAT_Q5_K:
        write_scales(b, p + 4);
        write_256(b->q, p + 48, p + 16);
        break;
    case SAMEBITS_FORMAT_Q6_K:
        memcpy(p + 192, b->scale, 16);
        write_q6(b->q, p, p + 128);
        break;
    case SAMEBITS_FORMAT_NVFP4: write_nvfp4(b, p); break;
    default: write_32(b->q, p + d_size(format), NULL);
    }
}

/* --- integers <-> one column of a panel ----------------------------------------------------------- */

void sb_quant_put_step(samebits_format format, const uint8_t *q, int column, uint8_t *step)
{
    const int low = sb_quant_low_bits(format), high = sb_quant_high_bits(format);
    uint32_t plane[8] = {0};
    for (int y = 0; y < 8; y++) {
        const int h = y / 4, z = y % 4;
        const uint32_t w = load_word(q + 4 * y), above = w >> low;
        if (low == 8) plane[y] = w;
        if (low == 4) plane[z] |= (w & 0x0F0F0F0Fu) << 4 * h;
        if (low == 2) plane[h] |= (w & 0x03030303u) << 2 * z;
        if (high == 1) plane[low] |= (above & 0x01010101u) << y;
        if (high == 2) plane[low + h] |= (above & 0x03030303u) << 2 * z;
    }
    for (int i = 0; i < low + high; i++) store_word(step + 4 * column + i * SB_PLANE, plane[i]);
}

void sb_quant_get_step(samebits_format format, const uint8_t *step, int column, uint8_t *q)
{
    const int low = sb_quant_low_bits(format), high = sb_quant_high_bits(format);
    const uint8_t *in = step + 4 * column;
    for (int y = 0; y < 8; y++) {
        const int h = y / 4, z = y % 4;
        uint32_t w = load_word(in + (low == 8 ? y : low == 4 ? z : h) * SB_PLANE);
        if (low == 4) w = w >> 4 * h & 0x0F0F0F0Fu;
        if (low == 2) w = w >> 2 * z & 0x03030303u;
        if (high == 1) w |= (load_word(in + low * SB_PLANE) >> y & 0x01010101u) << low;
        if (high == 2) w |= (load_word(in + (low + h) * SB_PLANE) >> 2 * z & 0x03030303u) << low;
        store_word(q + 4 * y, w);
    }
}

/* Bytes of scales a block has behind d and dmin. */
static int scale_bytes(samebits_format format)
{
    return (sb_quant_scale_bytes(format) - sb_quant_d_bytes(format)) / SB_PANEL;
}

/* These bytes, for the byte's place. */
static uint8_t scale_byte(samebits_format format, const sb_quant_block *b, int i)
{
    if (format == SAMEBITS_FORMAT_Q2_K) return (uint8_t)(b->scale[i] | b->min[i] << 4);
    if (sb_quant_parts(format) == 2) return b->scale[i];
    return i % 2 ? b->min[i / 2] : b->scale[i / 2];
}

static void set_scale_byte(samebits_format format, sb_quant_block *b, int i, uint8_t byte)
{
    if (format == SAMEBITS_FORMAT_Q2_K) {
        b->scale[i] = byte & 15;
        b->min[i] = byte >> 4;
    } else if (sb_quant_parts(format) == 2) {
        b->scale[i] = byte;
    } else if (i % 2) {
        b->min[i / 2] = byte;
    } else {
        b->scale[i / 2] = byte;
    }
}

static void put_block(samebits_format format, const sb_quant_block *b, int64_t k, int64_t index, int column,
                      uint8_t *panel)
{
    const int steps = sb_quant_steps(format), size = d_size(format);
    uint8_t *quants = panel + index * steps * sb_quant_step_bytes(format);
    uint8_t *scales = panel + k / SB_STEP * sb_quant_step_bytes(format) + index * sb_quant_scale_bytes(format);
    for (int s = 0; s < steps; s++)
        sb_quant_put_step(format, b->q + s * SB_STEP, column, quants + s * sb_quant_step_bytes(format));
    if (!sb_quant_has_e4m3(format)) memcpy(scales + size * column, &b->d, (size_t)size);
    if (sb_quant_has_min(format)) memcpy(scales + 2 * SB_PANEL + 2 * column, &b->dmin, 2);
    scales += sb_quant_d_bytes(format);
    for (int i = 0; i < scale_bytes(format); i++) scales[i * SB_PANEL + column] = scale_byte(format, b, i);
}

void sb_quant_get(samebits_format format, sb_group group, const uint8_t *panel, int64_t k, int64_t index, int column,
                  sb_quant_block *b)
{
    const int steps = sb_quant_steps(format), size = d_size(format);
    const uint8_t *quants = panel + index * steps * sb_quant_step_bytes(format);
    const uint8_t *scales = sb_quant_scales(format, panel, k) + index * sb_quant_scale_bytes(format);
    for (int s = 0; s < steps; s++)
        sb_quant_get_step(format, quants + s * sb_quant_step_bytes(format), column, b->q + s * SB_STEP);
    if (!sb_quant_is_k(format)) b->scale[0] = b->min[0] = 1;
    if (sb_format_is_affine(format)) {
        sb_affine_get_scales(format, group, panel, k, index / group.steps, column, b);
        return;
    }
    b->d = b->dmin = 0;
    if (!sb_quant_has_e4m3(format)) memcpy(&b->d, scales + size * column, (size_t)size);
    if (sb_quant_has_min(format)) memcpy(&b->dmin, scales + 2 * SB_PANEL + 2 * column, 2);
    scales += sb_quant_d_bytes(format);
    for (int i = 0; i < scale_bytes(format); i++) set_scale_byte(format, b, i, scales[i * SB_PANEL + column]);
}

void sb_pack_panel_gguf(const sb_rows *rows, int64_t panel, void *out)
{
    const sb_format *f = sb_format_info(rows->format);
    sb_quant_block block;
    for (int c = 0; c < SB_PANEL; c++) {
        const int64_t col = panel * SB_PANEL + c;
        const uint8_t *row = (const uint8_t *)rows->data + col * rows->row_stride;
        for (int64_t i = 0; i < rows->k / f->block; i++) {
            if (col < rows->n)
                sb_quant_read(rows->format, row + i * f->block_bytes, &block);
            else
                memset(&block, 0, sizeof block);
            put_block(rows->format, &block, rows->k, i, c, out);
        }
    }
}

void sb_unpack_panel_gguf(samebits_format format, int64_t k, const void *in, int column, int count, void *rows,
                          int64_t row_stride_bytes)
{
    const sb_format *f = sb_format_info(format);
    sb_quant_block block;
    for (int c = 0; c < count; c++) {
        uint8_t *row = (uint8_t *)rows + c * row_stride_bytes;
        for (int64_t i = 0; i < k / f->block; i++) {
            sb_quant_get(format, (sb_group){0}, in, k, i, column + c, &block);
            write_block(format, &block, row + i * f->block_bytes);
        }
    }
}
