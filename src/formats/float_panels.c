/* Panels of float weights: [k][16] in the weights' own dtype. */
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

/* Four steps of four columns, `stride` elements apart. */
SB_INLINE void square_4(const uint32_t *src, int64_t stride, uint32_t *dst)
{
    u32x4 c[4];
    for (int i = 0; i < 4; i++) memcpy(&c[i], src + i * stride, sizeof *c);
    const u32x4 a = low32(c[0], c[1]), b = low32(c[2], c[3]), d = high32(c[0], c[1]), e = high32(c[2], c[3]);
    const u64x2 step[4] = {low64(a, b), high64(a, b), low64(d, e), high64(d, e)};
    for (int i = 0; i < 4; i++) memcpy(dst + i * SB_PANEL, &step[i], sizeof *step);
}

/* Eight steps of eight columns. */
SB_INLINE void square_8(const uint16_t *src, int64_t stride, uint16_t *dst)
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
        for (int i = 0; i < 4; i++) memcpy(dst + (4 * half + i) * SB_PANEL, &step[i], sizeof *step);
    }
}

/* [begin, end) of the steps, with any strides; columns past N are zero. */
#define PACK_ANY(type, begin, end)                                                                                     \
    for (int64_t c = 0; c < SB_PANEL; c++)                                                                             \
        for (int64_t i = begin; i < (end); i++)                                                                        \
            dst[i * SB_PANEL + c] = c < columns ? src[c * rows->row_stride + i * rows->col_stride] : (type)0;

#define PACK(type, square, side)                                                                                       \
    do {                                                                                                               \
        const type *src = (const type *)rows->data + panel * SB_PANEL * rows->row_stride;                              \
        type *dst = out;                                                                                               \
        const int64_t columns = SB_MIN(SB_PANEL, rows->n - panel * SB_PANEL);                                          \
        const int whole = columns == SB_PANEL;                                                                         \
        for (int64_t begin = 0; begin < rows->k; begin += STRIP) {                                                     \
            const int64_t end = SB_MIN(begin + STRIP, rows->k);                                                        \
            int64_t done = begin;                                                                                      \
            if (whole && rows->row_stride == 1)                                                                        \
                for (; done < end; done++)                                                                             \
                    memcpy(dst + done * SB_PANEL, src + done * rows->col_stride, SB_PANEL * sizeof(type));             \
            else if (whole && rows->col_stride == 1) {                                                                 \
                done = begin + (end - begin) / (side) * (side);                                                        \
                for (int64_t c = 0; c < SB_PANEL; c += (side))                                                         \
                    for (int64_t i = begin; i < done; i += (side))                                                     \
                        square(src + c * rows->row_stride + i, rows->row_stride, dst + i * SB_PANEL + c);              \
            }                                                                                                          \
            PACK_ANY(type, done, end)                                                                                  \
        }                                                                                                              \
    } while (0)

void sb_pack_panel_float(const sb_rows *rows, int64_t panel, void *out)
{
    if (rows->format == SAMEBITS_FORMAT_F32)
        PACK(uint32_t, square_4, 4);
    else
        PACK(uint16_t, square_8, 8);
}

#define UNPACK(type)                                                                                                   \
    do {                                                                                                               \
        const type *src = in;                                                                                          \
        for (int c = 0; c < count; c++) {                                                                              \
            char *row = (char *)rows + c * row_stride_bytes;                                                           \
            for (int64_t i = 0; i < k; i++)                                                                            \
                memcpy(row + i * (int64_t)sizeof(type), &src[i * SB_PANEL + column + c], sizeof(type));                \
        }                                                                                                              \
    } while (0)

void sb_unpack_panel_float(samebits_format format, int64_t k, const void *in, int column, int count, void *rows,
                           int64_t row_stride_bytes)
{
    if (format == SAMEBITS_FORMAT_F32)
        UNPACK(uint32_t);
    else
        UNPACK(uint16_t);
}
