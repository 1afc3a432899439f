/* Panels of f64 and complex64 weights, whose elements have 8 bytes. f64: [k][8]. complex64: [2k][16] f32, the rows and
 * columns of the real matrix in spec/ops/matmul.md, section complex64. */
#include "formats/formats.h"

/* A strip of k at a time, so that the lines written stay in L1 for all columns. */
enum { STRIP = 128 };

typedef uint64_t u64x2 __attribute__((vector_size(16)));

/* Two columns of step i, at dst. A complex number is two steps: (re, im), then (-im, re). */
SB_INLINE void put(int is_complex, u64x2 pair, int64_t i, uint64_t *dst)
{
    uint64_t *step = dst + (is_complex ? 2 : 1) * i * SB_WIDE_PANEL;
    memcpy(step, &pair, sizeof pair);
    if (!is_complex) return;
    const u64x2 turned = (pair >> 32 | pair << 32) ^ ((u64x2){1, 1} << 31);
    memcpy(step + SB_WIDE_PANEL, &turned, sizeof turned);
}

SB_INLINE u64x2 load(const char *element)
{
    u64x2 pair;
    memcpy(&pair, element, sizeof pair);
    return pair;
}

SB_INLINE uint64_t load_one(const char *element)
{
    uint64_t bits;
    memcpy(&bits, element, sizeof bits);
    return bits;
}

/* Steps i and i + 1 of two columns whose elements lie side by side. */
SB_INLINE void put_square(int is_complex, const char *src, int64_t across, int64_t i, uint64_t *dst)
{
    const u64x2 a = load(src + i * 8), b = load(src + across + i * 8);
    put(is_complex, __builtin_shufflevector(a, b, 0, 2), i, dst);
    put(is_complex, __builtin_shufflevector(a, b, 1, 3), i + 1, dst);
}

/* Steps [begin, end) of two columns; of none, one or both there are weights. */
SB_INLINE void pack_pair(int is_complex, const sb_rows *rows, const char *src, int64_t columns, int64_t begin,
                         int64_t end, uint64_t *dst)
{
    const int64_t across = rows->row_stride * 8, along = rows->col_stride * 8;
    int64_t i = begin;
    if (columns > 1 && across == 8)
        for (; i < end; i++) put(is_complex, load(src + i * along), i, dst);
    if (columns > 1 && along == 8)
        for (; i + 2 <= end; i += 2) put_square(is_complex, src, across, i, dst);
    for (; i < end; i++) {
        const uint64_t a = columns > 0 ? load_one(src + i * along) : 0;
        const uint64_t b = columns > 1 ? load_one(src + across + i * along) : 0;
        put(is_complex, (u64x2){a, b}, i, dst);
    }
}

SB_INLINE void pack(int is_complex, const sb_rows *rows, int64_t panel, uint64_t *dst)
{
    const int64_t columns = rows->n - panel * SB_WIDE_PANEL, across = rows->row_stride * 8;
    const char *src = (const char *)rows->data + panel * SB_WIDE_PANEL * across;
    int64_t begin = 0;
    /* All columns at once are eight streams, which fill the memory bus. */
    if (columns >= SB_WIDE_PANEL && rows->col_stride == 1)
        for (; begin + 2 <= rows->k; begin += 2)
            for (int c = 0; c < SB_WIDE_PANEL; c += 2) put_square(is_complex, src + c * across, across, begin, dst + c);
    for (; begin < rows->k; begin += STRIP)
        for (int64_t c = 0; c < SB_WIDE_PANEL; c += 2)
            pack_pair(is_complex, rows, src + c * across, columns - c, begin, SB_MIN(begin + STRIP, rows->k), dst + c);
}

void sb_pack_panel_wide(const sb_rows *rows, int64_t panel, void *out)
{
    if (rows->format == SB_FORMAT_C64)
        pack(1, rows, panel, out);
    else
        pack(0, rows, panel, out);
}
