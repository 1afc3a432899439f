/* bf16 by VDPBF16PS, where that is the order (spec/ops/matmul.md, section bf16).
 *
 * The instruction computes fma(low, low, fma(high, high, sum)) of the bf16 pairs in a lane, with subnormal inputs and
 * results taken as zero: step k in the high half and k + 1 in the low half are the chain of the order, if nothing is
 * subnormal. Whether that is so is decided for a chunk of k, a group of rows and some panels from the exponents in
 * them; where it may not be so, and where x is not bf16 (f32 activations), the fma body takes the chunk. */
#include "kernels/matmul/matmul_simd.h"

#define GROUP 96             /* rows whose chunk of x is kept as pairs: 48 KiB */
#define PAIRS (SB_CHUNK / 2) /* pairs a chunk */

/* The largest and the smallest nonzero magnitude among bf16 values, as bits without the sign. `least` is kept as
 * 2^16 - magnitude, so that both are maxima and zero, which is then 0, never counts. */
typedef struct range {
    int32_t most, least;
} range;

typedef struct ranges {
    vi most, least;
} ranges;

SB_INLINE void look_at(ranges *r, vi pairs)
{
    const vi low = vi_and(pairs, vi_set1(0x7FFF)), high = vi_and(vi_shr(pairs, 16), vi_set1(0x7FFF));
    r->most = vi_max(r->most, vi_max(low, high));
    r->least = vi_max(r->least, vi_max(vi_and(vi_sub(vi_set1(0), low), vi_set1(0xFFFF)),
                                       vi_and(vi_sub(vi_set1(0), high), vi_set1(0xFFFF))));
}

static range range_of(const ranges *r)
{
    int32_t most[SB_VL], least[SB_VL];
    vi_store(most, r->most);
    vi_store(least, r->least);
    range all = {0, 0};
    for (int i = 0; i < SB_VL; i++) {
        all.most = SB_MAX(all.most, most[i]);
        all.least = SB_MAX(all.least, least[i]);
    }
    return all;
}

/* With biased exponents of at least 1 whose sum is at least 142 each product, and so each sum, is 0 or a multiple of
 * 2^(142 - 254 - 14) = 2^-126: never subnormal. At most 372 keeps 256 products below 2^128. */
static int is_exact(range x, range w)
{
    const int x_least = (0x10000 - x.least) >> 7, w_least = (0x10000 - w.least) >> 7;
    const int x_most = x.most >> 7, w_most = w.most >> 7;
    if (!x.most || !w.most) return x_most < 255 && w_most < 255; /* zeros on one side */
    return x_least >= 1 && w_least >= 1 && x_least + w_least >= 142 && x_most < 255 && w_most < 255 &&
           x_most + w_most <= 372;
}

/* One tile's chunk of x, [length][rows] f32, as pairs [PAIRS][rows]. Returns 0 if some x is not bf16. */
static int pair_rows(const float *x, int64_t rows, int64_t length, int32_t *out, ranges *r)
{
    uint32_t rest = 0;
    for (int64_t i = 0; i < length; i += 2)
        for (int64_t row = 0; row < rows; row++) {
            const uint32_t high = sb_bits(x[i * rows + row]),
                           low = i + 1 < length ? sb_bits(x[(i + 1) * rows + row]) : 0;
            rest |= high | low;
            out[i / 2 * rows + row] = (int32_t)((high & 0xFFFF0000u) | low >> 16);
        }
    if (rest & 0xFFFF) return 0;
    const int64_t count = (length + 1) / 2 * rows;
    int64_t i = 0;
    for (; i + SB_VL <= count; i += SB_VL) look_at(r, vi_load(out + i));
    int32_t tail[SB_VL] = {0};
    memcpy(tail, out + i, (size_t)(count - i) * sizeof *tail);
    look_at(r, vi_load(tail));
    return 1;
}

/* A panel's chunk of w, whose pairs have the first step in the low half, as pairs [PAIRS][16]. */
static void turn_panel(const uint8_t *w, int64_t length, int32_t *out, ranges *r)
{
    for (int64_t i = 0; i < (length + 1) / 2 * SB_PANEL; i += SB_VL) {
        const vi pairs = vi_load(w + i * 4), turned = vi_or(vi_shl(pairs, 16), vi_shr(pairs, 16));
        vi_store(out + i, turned);
        look_at(r, turned);
    }
}

/* One chunk of k for one tile of rows: acc (+)= chain. */
SB_INLINE void pair_chunk(int rows, int panels, int64_t pairs, int first, const int32_t *x,
                          int32_t (*w)[PAIRS * SB_PANEL], float *acc, int64_t acc_stride)
{
    vf sum[MAX_ROWS][TILE_PANELS];
    SB_UNROLL
    for (int r = 0; r < rows; r++) SB_UNROLL
    for (int p = 0; p < panels; p++) sum[r][p] = vf_zero();
    for (int64_t i = 0; i < pairs; i++) {
        vi b[TILE_PANELS];
        SB_UNROLL
        for (int p = 0; p < panels; p++) b[p] = vi_load(w[p] + i * SB_PANEL);
        SB_UNROLL
        for (int r = 0; r < rows; r++) {
            const vi a = vi_set1(x[i * rows + r]);
            SB_UNROLL
            for (int p = 0; p < panels; p++) sum[r][p] = vf_dot_bf16(sum[r][p], a, b[p]);
        }
    }
    SB_UNROLL
    for (int r = 0; r < rows; r++) SB_UNROLL
    for (int p = 0; p < panels; p++) {
        float *out = acc + r * acc_stride + p * SB_PANEL;
        vf_store(out, first ? sum[r][p] : vf_add(vf_load(out), sum[r][p]));
    }
}

static __attribute__((noinline)) void pair_tile(int64_t rows, int panels, int64_t pairs, int first, const int32_t *x,
                                                int32_t (*w)[PAIRS * SB_PANEL], float *acc, int64_t acc_stride)
{
    switch (rows) {
#define CASE(height)                                                                                                   \
    case height:                                                                                                       \
        if (panels == 1)                                                                                               \
            pair_chunk(height, 1, pairs, first, x, w, acc, acc_stride);                                                \
        else                                                                                                           \
            pair_chunk(height, TILE_PANELS, pairs, first, x, w, acc, acc_stride);                                      \
        break;
        SB_CASES(CASE)
#undef CASE
    }
}

/* One chunk of k for a group of rows and all panels. */
static void group_chunk(const sb_matmul_args *a, int64_t begin)
{
    int32_t x[GROUP * PAIRS] __attribute__((aligned(64))),
        w[TILE_PANELS][PAIRS * SB_PANEL] __attribute__((aligned(64)));
    const int64_t length = SB_MIN(SB_CHUNK, a->k - begin);
    ranges seen = {vi_set1(0), vi_set1(0)};
    int is_bf16 = 1;
    for (int64_t r = 0; r < a->rows && is_bf16; r += a->tile) {
        const int64_t height = SB_MIN(a->tile, a->rows - r);
        is_bf16 = pair_rows(a->x + r * a->k + begin * height, height, length, x + r * PAIRS, &seen);
    }
    const range x_range = range_of(&seen);
    for (int64_t p = 0, panels; p < a->panels; p += panels) {
        panels = p + TILE_PANELS <= a->panels ? TILE_PANELS : 1;
        int exact = is_bf16;
        if (exact) {
            seen = (ranges){vi_set1(0), vi_set1(0)};
            for (int64_t i = 0; i < panels; i++)
                turn_panel(a->w + (p + i) * a->panel_size + begin * 2 * SB_PANEL, length, w[i], &seen);
            exact = is_exact(x_range, range_of(&seen));
        }
        if (!exact) {
            panel_rows(SAMEBITS_FORMAT_BF16, panels, a, p, begin);
            continue;
        }
        for (int64_t r = 0; r < a->rows; r += a->tile)
            pair_tile(SB_MIN(a->tile, a->rows - r), (int)panels, (length + 1) / 2, begin == 0, x + r * PAIRS, w,
                      a->acc + r * a->acc_stride + p * SB_PANEL, a->acc_stride);
    }
}

void sb_matmul_bf16_avx512bf16(const sb_matmul_args *a)
{
    /* Fewer rows are bound by reading w, and would not pay for the look at its exponents. */
    if (a->rows <= STREAM_TILES * a->tile || !a->k) {
        sb_matmul_bf16_avx512(a);
        return;
    }
    const int64_t height = GROUP / a->tile * a->tile;
    for (int64_t r = 0; r < a->rows; r += height) {
        sb_matmul_args group = *a;
        group.rows = SB_MIN(height, a->rows - r);
        group.x += r * a->k;
        group.acc += r * a->acc_stride;
        for (int64_t begin = 0; begin < a->k; begin += SB_CHUNK) group_chunk(&group, begin);
    }
}
