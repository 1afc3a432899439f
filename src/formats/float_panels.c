/* Panels of float weights: [k][16] in the weights' own dtype; of bf16 [k / 2][16][2]. */
#include "formats/formats.h"

/* A strip of k at a time: a line or two of each column, so that all 16 columns are streams, which fill the memory bus,
 * and the lines written stay in L1. */
enum { STRIP = 32 };

/* Vectors that every 64-bit CPU has: a transposed square of elements is the body of packing. Element by element a
 * product whose weights are not prepared would spend most of its time here. */
typedef uint16_t u16x8 __attribute__((vector_size(16)));
typedef uint32_t u32x4 __attribute__((vector_size(16)));
typedef uint64_t u64x2 __attribute__((vector_size(16)));

SB_INLINE u16x8 low16(u16x8 a, u16x8 b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
SB_INLINE u16x8 high16(u16x8 a, u16x8 b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
SB_INLINE u32x4 low32(u32x4 a, u32x4 b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
SB_INLINE u32x4 high32(u32x4 a, u32x4 b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
SB_INLINE u64x2 low64(u32x4 a, u32x4 b) { return __builtin_shufflevector((u64x2)a, (u64x2)b, 0, 2); }
SB_INLINE u64x2 high64(u32x4 a, u32x4 b) { return __builtin_shufflevector((u64x2)a, (u64x2)b, 1, 3); }

/* Four words of four columns. Strides are in bytes. */
SB_INLINE void square_4(const char *src, int64_t stride, char *dst)
{
    u32x4 c[4];
    for (int i = 0; i < 4; i++) memcpy(&c[i], src + i * stride, sizeof *c);
    const u32x4 a = low32(c[0], c[1]), b = low32(c[2], c[3]), d = high32(c[0], c[1]), e = high32(c[2], c[3]);
    const u64x2 words[4] = {low64(a, b), high64(a, b), low64(d, e), high64(d, e)};
    for (int i = 0; i < 4; i++) memcpy(dst + i * 4 * SB_PANEL, &words[i], sizeof *words);
}

/* Eight steps of eight columns of 16 bits. */
SB_INLINE void square_8(const char *src, int64_t stride, char *dst)
{
    u16x8 c[8];
    for (int i = 0; i < 8; i++) memcpy(&c[i], src + i * stride, sizeof *c);
    for (int half = 0; half < 2; half++) {
        u32x4 pair[4];
        for (int i = 0; i < 4; i++)
            pair[i] = (u32x4)(half ? high16(c[2 * i], c[2 * i + 1]) : low16(c[2 * i], c[2 * i + 1]));
        const u32x4 a = low32(pair[0], pair[1]), b = low32(pair[2], pair[3]);
        const u32x4 d = high32(pair[0], pair[1]), e = high32(pair[2], pair[3]);
        const u64x2 step[4] = {low64(a, b), high64(a, b), low64(d, e), high64(d, e)};
        for (int i = 0; i < 4; i++) memcpy(dst + (4 * half + i) * 2 * SB_PANEL, &step[i], sizeof *step);
    }
}

/* Two steps of all columns, which lie side by side in src. */
SB_INLINE void pair_steps(const char *src, int64_t stride, char *dst)
{
    for (int c = 0; c < SB_PANEL; c += 8) {
        u16x8 even, odd;
        memcpy(&even, src + 2 * c, sizeof even);
        memcpy(&odd, src + stride + 2 * c, sizeof odd);
        const u16x8 pairs[2] = {low16(even, odd), high16(even, odd)};
        memcpy(dst + 4 * c, pairs, sizeof pairs);
    }
}

/* The format is a constant. What lies side by side of a column is a word: one step, of bf16 two. */
SB_INLINE void pack(samebits_format f, const sb_rows *rows, int64_t panel, char *out)
{
    const int size = sb_element_size(f), steps = sb_format_is_paired(f) ? 2 : 1, side = size * steps == 4 ? 4 : 8;
    const int64_t row = rows->row_stride * size, col = rows->col_stride * size, word = size * steps * SB_PANEL;
    const int64_t columns = SB_MIN(SB_PANEL, rows->n - panel * SB_PANEL);
    const char *src = (const char *)rows->data + panel * SB_PANEL * row;
    for (int64_t begin = 0; begin < rows->k; begin += STRIP) {
        const int64_t end = SB_MIN(begin + STRIP, rows->k);
        int64_t done = begin;
        if (columns == SB_PANEL && row == size)
            for (; done + steps <= end; done += steps) {
                if (steps == 2)
                    pair_steps(src + done * col, col, out + done / steps * word);
                else
                    memcpy(out + done * word, src + done * col, (size_t)word);
            }
        else if (columns == SB_PANEL && col == size) {
            done = begin + (end - begin) / (side * steps) * (side * steps);
            for (int64_t c = 0; c < SB_PANEL; c += side)
                for (int64_t i = begin; i < done; i += side * steps) {
                    char *to = out + i / steps * word + c * size * steps;
                    side == 4 ? square_4(src + c * row + i * col, row, to) : square_8(src + c * row + i * col, row, to);
                }
        }
        for (int64_t c = 0; c < SB_PANEL; c++)
            for (int64_t i = done; i < sb_round_up(end, steps); i++) {
                char *to = out + sb_panel_index(f, i, c) * size;
                if (c < columns && i < end)
                    memcpy(to, src + c * row + i * col, (size_t)size);
                else
                    memset(to, 0, (size_t)size);
            }
    }
}

void sb_pack_panel_float(const sb_rows *rows, int64_t panel, void *out)
{
    switch (rows->format) {
    case SAMEBITS_FORMAT_F32: pack(SAMEBITS_FORMAT_F32, rows, panel, out); break;
    case SAMEBITS_FORMAT_F16: pack(SAMEBITS_FORMAT_F16, rows, panel, out); break;
    default: pack(SAMEBITS_FORMAT_BF16, rows, panel, out);
    }
}

SB_INLINE void unpack(samebits_format f, int64_t k, const char *in, int column, int count, char *rows, int64_t stride)
{
    const int size = sb_element_size(f);
    for (int c = 0; c < count; c++)
        for (int64_t i = 0; i < k; i++)
            memcpy(rows + c * stride + i * size, in + sb_panel_index(f, i, column + c) * size, (size_t)size);
}

void sb_unpack_panel_float(samebits_format format, int64_t k, const void *in, int column, int count, void *rows,
                           int64_t row_stride_bytes)
{
    switch (format) {
    case SAMEBITS_FORMAT_F32: unpack(SAMEBITS_FORMAT_F32, k, in, column, count, rows, row_stride_bytes); break;
    case SAMEBITS_FORMAT_F16: unpack(SAMEBITS_FORMAT_F16, k, in, column, count, rows, row_stride_bytes); break;
    default: unpack(SAMEBITS_FORMAT_BF16, k, in, column, count, rows, row_stride_bytes);
    }
}
