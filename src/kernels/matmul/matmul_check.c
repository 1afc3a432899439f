/* Every row of matmul.inc against the reference row of its format. */
#include "kernels/matmul/matmul.h"

#include <stdio.h>

#include "check/check.h"

/* One product: packed random x and w, so that strides, tails and layouts stay the op's business. */
static void run(const sb_matmul_row *row, const sb_matmul_row *ref, int64_t rows, int64_t panels, int64_t k,
                int64_t tile, check_rng *rng)
{
    const int64_t stride = panels * SB_PANEL + 16, panel_size = sb_panel_size(row->format, k);
    float *x = check_alloc((size_t)(rows * k) * 4);
    uint8_t *w = check_alloc((size_t)(panels * panel_size));
    float *want = check_alloc((size_t)(rows * stride) * 4), *have = check_alloc((size_t)(rows * stride) * 4);
    check_floats(rng, x, rows * k);
    if (row->format == SAMEBITS_FORMAT_F32) {
        check_floats(rng, (float *)w, panels * panel_size / 4);
    } else {
        uint16_t *h = (uint16_t *)w;
        const uint16_t limit = row->format == SAMEBITS_FORMAT_F16 ? 0x7BFF : 0x4FFF; /* finite, no overflow */
        for (int64_t i = 0; i < panels * panel_size / 2; i++) h[i] = (uint16_t)check_next(rng);
        for (int64_t i = 0; i < panels * panel_size / 2; i++)
            if ((h[i] & 0x7FFF) > limit) h[i] &= 0xBFFF;
    }
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
    snprintf(what, sizeof what, "%s rows %lld panels %lld k %lld", row->name, (long long)rows, (long long)panels,
             (long long)k);
    check_same(what, want, have, rows * stride, 4); /* the padding too: rows must leave it alone */
    check_free(x);
    check_free(w);
    check_free(want);
    check_free(have);
}

void check_matmul(void)
{
    static const int64_t depths[] = {0, 1, 7, 255, 256, 257, 511, 513, 1000};
    static const int64_t heights[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 25, 37};
    int count;
    const sb_matmul_row *rows = sb_matmul_rows(&count);
    check_rng rng = {1};
    for (int i = 0; i < count; i++) {
        const sb_matmul_row *ref = sb_matmul_select(rows[i].format, SB_CPU_NONE);
        if (rows[i].cpu & ~check_cpu() || &rows[i] == ref) continue;
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
            for (size_t h = 0; h < sizeof heights / sizeof *heights; h++) {
                const int64_t tiles = sb_ceil_div(heights[h], rows[i].max_tile);
                run(&rows[i], ref, heights[h], 1 + check_below(&rng, 6), depths[d], sb_ceil_div(heights[h], tiles),
                    &rng);
            }
    }
}
