/* GGUF's blocks to panels and back. Every bit of a block is a bit of the panel, so any bytes come back as they were. */
#include "formats/gguf.h"

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
static void read_scales(const uint8_t *p, sb_gguf_block *b)
{
    for (int j = 0; j < 4; j++) {
        b->scale[j] = p[j] & 63;
        b->min[j] = p[j + 4] & 63;
        b->scale[j + 4] = (uint8_t)((p[j + 8] & 15) | (p[j] >> 6 << 4));
        b->min[j + 4] = (uint8_t)(p[j + 8] >> 4 | (p[j + 4] >> 6 << 4));
    }
}

static void write_scales(const sb_gguf_block *b, uint8_t *p)
{
    for (int j = 0; j < 4; j++) {
        p[j] = (uint8_t)(b->scale[j] | (b->scale[j + 4] >> 4 << 6));
        p[j + 4] = (uint8_t)(b->min[j] | (b->min[j + 4] >> 4 << 6));
        p[j + 8] = (uint8_t)((b->scale[j + 4] & 15) | (b->min[j + 4] & 15) << 4);
    }
}

/* Q4_0, Q5_0: byte i has weights i and 16 + i; bit i of high is bit 4 of weight i. */
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

/* Offsets of the parts are facts of the formats (ggml's ggml-common.h). */
static void read_block(samebits_format format, const uint8_t *p, sb_gguf_block *b)
{
    const int has_d_last = format == SAMEBITS_FORMAT_Q6_K;
    memcpy(&b->d, p + (has_d_last ? 208 : 0), 2);
    if (sb_gguf_has_min(format)) {
        memcpy(&b->dmin, p + 2, 2);
        read_scales(p + 4, b);
    }
    switch (format) {
    case SAMEBITS_FORMAT_Q4_0: read_32(p + 2, NULL, b->q); break;
    case SAMEBITS_FORMAT_Q5_0: read_32(p + 6, p + 2, b->q); break;
    case SAMEBITS_FORMAT_Q8_0:
        for (int i = 0; i < 32; i += 4) store_word(b->q + i, load_word(p + 2 + i) ^ 0x80808080u);
        break;
    case SAMEBITS_FORMAT_Q4_K: read_256(p + 16, NULL, b->q); break;
    case SAMEBITS_FORMAT_Q5_K: read_256(p + 48, p + 16, b->q); break;
    default: memcpy(b->scale, p + 192, 16); read_q6(p, p + 128, b->q);
    }
}

static void write_block(samebits_format format, const sb_gguf_block *b, uint8_t *p)
{
    const int has_d_last = format == SAMEBITS_FORMAT_Q6_K;
    memcpy(p + (has_d_last ? 208 : 0), &b->d, 2);
    if (sb_gguf_has_min(format)) {
        memcpy(p + 2, &b->dmin, 2);
        write_scales(b, p + 4);
    }
    switch (format) {
    case SAMEBITS_FORMAT_Q4_0: write_32(b->q, p + 2, NULL); break;
    case SAMEBITS_FORMAT_Q5_0: write_32(b->q, p + 6, p + 2); break;
    case SAMEBITS_FORMAT_Q8_0:
        for (int i = 0; i < 32; i++) p[2 + i] = b->q[i] ^ 128;
        break;
    case SAMEBITS_FORMAT_Q4_K: write_256(b->q, p + 16, NULL); break;
    case SAMEBITS_FORMAT_Q5_K: write_256(b->q, p + 48, p + 16); break;
    default: memcpy(p + 192, b->scale, 16); write_q6(b->q, p, p + 128);
    }
}

/* --- integers <-> one column of a panel ----------------------------------------------------------- */

static void put_step(samebits_format format, const uint8_t *q, int column, uint8_t *step)
{
    uint8_t *out = step + 4 * column;
    if (format == SAMEBITS_FORMAT_Q8_0) {
        for (int z = 0; z < 8; z++) store_word(out + z * SB_PLANE, load_word(q + 4 * z));
        return;
    }
    const int bits = sb_gguf_high_bits(format);
    uint32_t high[2] = {0, 0};
    for (int z = 0; z < 4; z++) {
        const uint32_t first = load_word(q + 4 * z), second = load_word(q + 16 + 4 * z);
        store_word(out + z * SB_PLANE, (first & 0x0F0F0F0Fu) | (second & 0x0F0F0F0Fu) << 4);
        if (bits == 1) high[0] |= (first >> 4 & 0x01010101u) << z | (second >> 4 & 0x01010101u) << (4 + z);
        if (bits == 2) {
            high[0] |= (first >> 4 & 0x03030303u) << 2 * z;
            high[1] |= (second >> 4 & 0x03030303u) << 2 * z;
        }
    }
    for (int h = 0; h < bits; h++) store_word(out + (4 + h) * SB_PLANE, high[h]);
}

static void get_step(samebits_format format, const uint8_t *step, int column, uint8_t *q)
{
    const uint8_t *in = step + 4 * column;
    if (format == SAMEBITS_FORMAT_Q8_0) {
        for (int z = 0; z < 8; z++) store_word(q + 4 * z, load_word(in + z * SB_PLANE));
        return;
    }
    const int bits = sb_gguf_high_bits(format);
    for (int y = 0; y < 8; y++) {
        uint32_t w = load_word(in + y % 4 * SB_PLANE) >> y / 4 * 4 & 0x0F0F0F0Fu;
        if (bits == 1) w |= (load_word(in + 4 * SB_PLANE) >> y & 0x01010101u) << 4;
        if (bits == 2) w |= (load_word(in + (4 + y / 4) * SB_PLANE) >> y % 4 * 2 & 0x03030303u) << 4;
        store_word(q + 4 * y, w);
    }
}

static void put_block(samebits_format format, const sb_gguf_block *b, int64_t k, int64_t index, int column,
                      uint8_t *panel)
{
    const int steps = sb_gguf_steps(format);
    uint8_t *quants = panel + index * steps * sb_gguf_step_bytes(format);
    uint8_t *scales = panel + k / SB_STEP * sb_gguf_step_bytes(format) + index * sb_gguf_scale_bytes(format);
    for (int s = 0; s < steps; s++)
        put_step(format, b->q + s * SB_STEP, column, quants + s * sb_gguf_step_bytes(format));
    memcpy(scales + 2 * column, &b->d, 2);
    scales += 2 * SB_PANEL;
    if (!sb_gguf_is_k(format)) return;
    if (sb_gguf_has_min(format)) {
        memcpy(scales + 2 * column, &b->dmin, 2);
        scales += 2 * SB_PANEL;
    }
    for (int s = 0; s < 8; s++) {
        scales[2 * s * SB_PANEL + column] = sb_gguf_has_min(format) ? b->scale[s] : b->scale[2 * s];
        scales[(2 * s + 1) * SB_PANEL + column] = sb_gguf_has_min(format) ? b->min[s] : b->scale[2 * s + 1];
    }
}

void sb_gguf_get(samebits_format format, const uint8_t *panel, int64_t k, int64_t index, int column, sb_gguf_block *b)
{
    const int steps = sb_gguf_steps(format);
    const uint8_t *quants = panel + index * steps * sb_gguf_step_bytes(format);
    const uint8_t *scales = sb_gguf_scales(format, panel, k) + index * sb_gguf_scale_bytes(format);
    for (int s = 0; s < steps; s++)
        get_step(format, quants + s * sb_gguf_step_bytes(format), column, b->q + s * SB_STEP);
    memcpy(&b->d, scales + 2 * column, 2);
    scales += 2 * SB_PANEL;
    if (!sb_gguf_is_k(format)) return;
    if (sb_gguf_has_min(format)) {
        memcpy(&b->dmin, scales + 2 * column, 2);
        scales += 2 * SB_PANEL;
    }
    for (int s = 0; s < 8; s++) {
        const uint8_t first = scales[2 * s * SB_PANEL + column], second = scales[(2 * s + 1) * SB_PANEL + column];
        b->scale[sb_gguf_has_min(format) ? s : 2 * s] = first;
        if (sb_gguf_has_min(format))
            b->min[s] = second;
        else
            b->scale[2 * s + 1] = second;
    }
}

void sb_pack_panel_gguf(const sb_rows *rows, int64_t panel, void *out)
{
    const sb_format *f = sb_format_info(rows->format);
    sb_gguf_block block;
    for (int c = 0; c < SB_PANEL; c++) {
        const int64_t col = panel * SB_PANEL + c;
        const uint8_t *row = (const uint8_t *)rows->data + col * rows->row_stride;
        for (int64_t i = 0; i < rows->k / f->block; i++) {
            if (col < rows->n)
                read_block(rows->format, row + i * f->block_bytes, &block);
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
    sb_gguf_block block;
    for (int c = 0; c < count; c++) {
        uint8_t *row = (uint8_t *)rows + c * row_stride_bytes;
        for (int64_t i = 0; i < k / f->block; i++) {
            sb_gguf_get(format, in, k, i, column + c, &block);
            write_block(format, &block, row + i * f->block_bytes);
        }
    }
}
