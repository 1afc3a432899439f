/* Every row of matmul.inc against the reference row of its format. */
#include "kernels/matmul/matmul.h"

#include <stdio.h>

#include "check/check.h"
#include "check/product.h"

/* What x and w of a bf16 product are made of: biased exponents of x and of w from `first`, `spread` of them. */
typedef struct fill {
    const char *name;
    int x_is_bf16, x_first, x_spread, w_first, w_spread;
} fill;

static const fill bf16_fills[] = {
    {"normal", 1, 100, 40, 100, 40},      {"f32 x", 0, 100, 40, 100, 40},    {"at the bound", 1, 71, 2, 71, 2},
    {"below the bound", 1, 66, 2, 66, 2}, /* sums that cancel are subnormal */
    {"subnormal x", 1, 0, 1, 143, 10},    {"subnormal w", 1, 143, 10, 0, 1}, {"infinite products", 1, 170, 40, 170, 40},
    {"infinite x", 1, 200, 56, 10, 20},
};

/* 1 of 32 is zero. No NaN: which of several comes through is for the epilogue to settle. */
static uint16_t random_bf16(check_rng *rng, int first, int spread)
{
    const uint64_t r = check_next(rng), exponent = (uint64_t)first + (r >> 16) % (unsigned)spread;
    if ((r >> 48) % 32 == 0) return (uint16_t)(r & 0x8000);
    return (uint16_t)((r & (exponent == 255 ? 0x8000 : 0x807F)) | exponent << 7);
}

static void fill_operands(check_rng *rng, const sb_matmul_row *row, const fill *how, float *x, int64_t x_count, void *w,
                          int64_t w_count)
{
    uint16_t *h = w;
    if (how) {
        for (int64_t i = 0; i < x_count; i++) {
            const uint32_t low = how->x_is_bf16 ? 0 : (uint32_t)check_next(rng) & 0xFFFFu;
            x[i] = sb_float((uint32_t)random_bf16(rng, how->x_first, how->x_spread) << 16 | low);
        }
        for (int64_t i = 0; i < w_count; i++) h[i] = random_bf16(rng, how->w_first, how->w_spread);
        return;
    }
    if (row->format == SB_FORMAT_F64) {
        check_doubles(rng, (double *)x, x_count);
        check_doubles(rng, w, w_count);
        return;
    }
    check_floats(rng, x, x_count);
    if (row->format == SAMEBITS_FORMAT_F32) {
        check_floats(rng, w, w_count);
        return;
    }
    const uint16_t limit = row->format == SAMEBITS_FORMAT_F16 ? 0x7BFF : 0x4FFF; /* finite, no overflow */
    for (int64_t i = 0; i < w_count; i++) {
        h[i] = (uint16_t)check_next(rng);
        if ((h[i] & 0x7FFF) > limit) h[i] &= 0xBFFF;
    }
}

static int64_t element_size(samebits_format format) { return format == SB_FORMAT_F64 ? 8 : sb_element_size(format); }

/* One product: packed random x and w, so that strides, tails and layouts stay the op's business. */
static void run(const sb_matmul_row *row, const sb_matmul_row *ref, const fill *how, int64_t rows, int64_t panels,
                int64_t k, check_rng *rng)
{
    const int64_t stride = panels * SB_PANEL + 16, panel_size = sb_panel_size(row->format, (sb_group){0}, k);
    const int64_t tile = sb_ceil_div(rows, sb_ceil_div(rows, row->max_tile));
    float *x = check_alloc((size_t)(rows * sb_matmul_x_bytes(row, k)));
    uint8_t *w = check_alloc((size_t)(panels * panel_size));
    float *want = check_alloc((size_t)(rows * stride) * 4), *have = check_alloc((size_t)(rows * stride) * 4);
    fill_operands(rng, row, how, x, rows * k, w, panels * panel_size / element_size(row->format));
    check_end_panels(row->format, k, panels, w);
    sb_matmul_args args = {.rows = rows,
                           .k = k,
                           .panels = panels,
                           .x = x,
                           .tile = tile,
                           .w = w,
                           .panel_size = panel_size,
                           .acc = want,
                           .acc_stride = stride};
    ref->fn(&args);
    args.acc = have;
    row->fn(&args);
    char what[160];
    snprintf(what, sizeof what, "%s rows %lld panels %lld k %lld, %s", row->name, (long long)rows, (long long)panels,
             (long long)k, how ? how->name : "any");
    check_same(what, want, have, rows * stride, 4); /* the padding too: rows must leave it alone */
    check_free(x);
    check_free(w);
    check_free(want);
    check_free(have);
}

static void check_bf16(const sb_matmul_row *row, const sb_matmul_row *ref, check_rng *rng)
{
    static const int64_t depths[] = {1, 2, 255, 256, 257, 700}, heights[] = {1, 12, 49, 96, 97, 150};
    for (size_t f = 0; f < sizeof bf16_fills / sizeof *bf16_fills; f++)
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
            for (size_t h = 0; h < sizeof heights / sizeof *heights; h++)
                if (check_takes()) run(row, ref, &bf16_fills[f], heights[h], 1 + check_below(rng, 4), depths[d], rng);
}

void check_matmul(void)
{
    static const int64_t depths[] = {0, 1, 7, 255, 256, 257, 511, 513, 1000};
    static const int64_t heights[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 25, 37};
    int count;
    const sb_matmul_row *rows = sb_matmul_rows(&count);
    check_rng rng = {1};
    for (int i = 0; i < count; i++) {
        const sb_matmul_row *ref = sb_matmul_select(rows[i].format, SAMEBITS_ORDER_PORTABLE_1, SB_CPU_NONE);
        if (rows[i].order != SAMEBITS_ORDER_PORTABLE_1) continue;
        if (rows[i].cpu & ~check_cpu() || &rows[i] == ref) continue;
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
            for (size_t h = 0; h < sizeof heights / sizeof *heights; h++)
                if (check_takes()) run(&rows[i], ref, NULL, heights[h], 1 + check_below(&rng, 6), depths[d], &rng);
        if (rows[i].format == SAMEBITS_FORMAT_BF16) check_bf16(&rows[i], ref, &rng);
    }
}
