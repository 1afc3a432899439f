/* Every row of order amx-1 against its reference: products that are ordinary, subnormal, at the border of that,
 * infinite or NaN. */
#include <stdio.h>

#include "base/float16.h"
#include "check/check.h"
#include "check/product.h"
#include "kernels/matmul/matmul.h"

/* Biased exponents of x and of w: from `first`, `spread` of them. */
typedef struct {
    const char *name;
    int x_first, x_spread, w_first, w_spread;
    int mantissas; /* 0: powers of two */
} fill;

static const fill fills[] = {
    {"ordinary", 107, 41, 107, 41, 1}, {"subnormal products", 60, 8, 60, 8, 1}, {"any", 0, 256, 0, 256, 1},
    {"subnormal", 0, 2, 250, 4, 1},    {"infinite sums", 180, 16, 180, 16, 1},  {"at the border", 52, 13, 52, 13, 0},
};

static uint16_t random_bf16(check_rng *rng, int first, int spread, int mantissas)
{
    const uint64_t r = check_next(rng);
    /* Powers of two whose products are 2^-126, 2^-138 or 2^-150: sums that round to 2^-126 from below. */
    const int exponent = mantissas ? first + (int)((r >> 16) % (unsigned)spread) : first + (r >> 16 & 1 ? 12 : 0);
    if ((r >> 48) % 16 == 0) return (uint16_t)(r & 0x8000);
    return (uint16_t)((r & (mantissas ? 0x807Fu : 0x8000u)) | (unsigned)exponent << 7);
}

static void run(const sb_matmul_row *row, const sb_matmul_row *ref, const fill *how, int64_t rows, int64_t k,
                check_rng *rng)
{
    const int64_t panels = 1 + check_below(rng, 9), stride = panels * SB_PANEL + 16;
    const int64_t panel_size = sb_panel_size(row->format, (sb_group){0}, k), count = panels * panel_size / 2;
    float *x = check_alloc((size_t)(rows * k) * sizeof *x);
    uint16_t *w = check_alloc((size_t)count * sizeof *w);
    float *want = check_alloc((size_t)(rows * stride) * 4), *have = check_alloc((size_t)(rows * stride) * 4);
    for (int64_t i = 0; i < rows * k; i++)
        x[i] = sb_from_bf16(random_bf16(rng, how->x_first, how->x_spread, how->mantissas));
    for (int64_t i = 0; i < count; i++) w[i] = random_bf16(rng, how->w_first, how->w_spread, how->mantissas);
    check_end_panels(row->format, k, panels, w);
    sb_matmul_args args = {.rows = rows,
                           .k = k,
                           .panels = panels,
                           .x = x,
                           .w = (const uint8_t *)w,
                           .panel_size = panel_size,
                           .acc = want,
                           .acc_stride = stride};
    check_run_product(ref, args);
    args.acc = have;
    check_run_product(row, args);
    char what[160];
    snprintf(what, sizeof what, "%s rows %lld panels %lld k %lld, %s", row->name, (long long)rows, (long long)panels,
             (long long)k, how->name);
    check_same(what, want, have, rows * stride, 4);
    check_free(x);
    check_free(w);
    check_free(want);
    check_free(have);
}

void check_matmul_amx1(void)
{
    static const int64_t depths[] = {0, 1, 2, 31, 32, 33, 63, 100, 1024, 1025, 1500};
    static const int64_t heights[] = {1, 3, 4, 5, 8, 15, 16, 17, 32, 33, 48, 50};
    const sb_matmul_row *ref = sb_matmul_select(SAMEBITS_FORMAT_BF16, SAMEBITS_ORDER_AMX_1, SB_CPU_NONE);
    int count;
    const sb_matmul_row *rows = sb_matmul_rows(&count);
    check_rng rng = {3};
    for (int i = 0; i < count; i++) {
        if (rows[i].order != SAMEBITS_ORDER_AMX_1 || rows[i].cpu & ~check_cpu() || &rows[i] == ref) continue;
        for (size_t f = 0; f < sizeof fills / sizeof *fills; f++)
            for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
                for (size_t h = 0; h < sizeof heights / sizeof *heights; h++) /* The reference is slow. */
                    if (heights[h] * depths[d] < 20000 && check_takes())
                        run(&rows[i], ref, &fills[f], heights[h], depths[d], &rng);
    }
}
