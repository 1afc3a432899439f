/* Every row of norm.inc against the reference row, and the reference against double. */
#include "kernels/norm/norm.h"

#include <math.h>
#include <stdio.h>

#include "check/check.h"
#include "formats/elements.h"

typedef struct {
    samebits_format in, out;
} formats;

static const formats pairs[] = {{SAMEBITS_FORMAT_F32, SAMEBITS_FORMAT_F32},
                                {SAMEBITS_FORMAT_F16, SAMEBITS_FORMAT_F16},
                                {SAMEBITS_FORMAT_F16, SAMEBITS_FORMAT_F32},
                                {SAMEBITS_FORMAT_BF16, SAMEBITS_FORMAT_BF16},
                                {SAMEBITS_FORMAT_BF16, SAMEBITS_FORMAT_F32}};
enum { PAIRS = sizeof pairs / sizeof *pairs };

/* Row 0 is left clean; later rows may hold Inf and NaN, which must stay in their row. */
static void fill(check_rng *rng, samebits_format format, void *x, int64_t rows, int64_t stride, int64_t n)
{
    static const uint32_t special[] = {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFFC12345u, 0x7F000000u};
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++) {
            const int odd = r % 3 == 1 && check_below(rng, n) == 0;
            const float f = odd ? sb_float(special[check_below(rng, 5)]) : check_float(rng);
            sb_set_element(format, x, r * stride + i, f);
        }
}

static void run(const sb_norm_row *row, const sb_norm_row *ref, formats f, int64_t rows, int64_t n, unsigned parts,
                check_rng *rng)
{
    const int64_t stride = n + 3, count = rows * stride, in = sb_element_size(f.in), out = sb_element_size(f.out);
    char *x = check_alloc((size_t)(count * in));
    char *want = check_alloc((size_t)(count * out)), *have = check_alloc((size_t)(count * out));
    float *weight = check_alloc((size_t)n * 4), *bias = check_alloc((size_t)n * 4);
    fill(rng, f.in, x, rows, stride, n);
    check_floats(rng, weight, n);
    check_floats(rng, bias, n);
    sb_norm_args args = {.rows = rows,
                         .n = n,
                         .x = x,
                         .out = want,
                         .x_format = f.in,
                         .out_format = f.out,
                         .x_stride = stride,
                         .out_stride = stride,
                         .weight = parts & 1 ? weight : NULL,
                         .bias = parts & 2 ? bias : NULL,
                         .eps = 1e-6f,
                         .kind = (sb_norm_kind)(parts >> 2)};
    ref->fn(&args);
    args.out = have;
    row->fn(&args);
    char what[160];
    snprintf(what, sizeof what, "%s formats %d %d rows %lld n %lld parts %u", row->name, f.in, f.out, (long long)rows,
             (long long)n, parts);
    check_same(what, want, have, count, (size_t)out);
    if (f.in == f.out) {
        args.out = x;
        row->fn(&args);
        for (int64_t r = 0; r < rows; r++)
            check_same("norm in place", want + r * stride * out, x + r * stride * in, n, (size_t)out);
    }
    check_free(x);
    check_free(want);
    check_free(have);
    check_free(weight);
    check_free(bias);
}

/* The reference's error beside double, in units of 2^-24 of the row's largest |result|. */
static double error_of(int centered, int64_t n, check_rng *rng)
{
    float *x = check_alloc((size_t)n * 4), *y = check_alloc((size_t)n * 4);
    for (int64_t i = 0; i < n; i++) x[i] = (float)((double)check_next(rng) / 0x1p62 - 1.0);
    const sb_norm_args args = {.rows = 1,
                               .n = n,
                               .x = x,
                               .out = y,
                               .x_stride = n,
                               .out_stride = n,
                               .eps = 1e-6f,
                               .x_format = SAMEBITS_FORMAT_F32,
                               .out_format = SAMEBITS_FORMAT_F32,
                               .kind = centered ? SB_NORM_LAYER : SB_NORM_RMS};
    sb_norm_select(SB_CPU_NONE)->fn(&args);
    double mean = 0, square = 0, worst = 0, largest = 0;
    for (int64_t i = 0; i < n && centered; i++) mean += (double)x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double want = (x[i] - mean) / sqrt(square + (double)1e-6f);
        const double error = fabs(want - (double)y[i]), size = fabs(want);
        worst = SB_MAX(error, worst); /* fmax here is more than gcc 12 for aarch64 can compile */
        largest = SB_MAX(size, largest);
    }
    check_free(x);
    check_free(y);
    return worst / largest * 0x1p24;
}

void check_norm(void)
{
    static const int64_t widths[] = {1,   2,   7,   8,    15,   16,    17,    63,    64,   65,
                                     127, 128, 200, 1000, 4096, 16383, 16384, 16385, 33000};
    int count;
    const sb_norm_row *rows = sb_norm_rows(&count);
    check_rng rng = {2};
    for (int i = 1; i < count; i++) {
        if (rows[i].cpu & ~check_cpu()) continue;
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            for (int p = 0; p < PAIRS; p++)
                for (unsigned parts = 0; parts < 12; parts++)
                    if (check_takes()) run(&rows[i], rows, pairs[p], widths[w] > 2000 ? 2 : 5, widths[w], parts, &rng);
    }
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int centered = 0; centered < 2 && widths[w] > 1; centered++) {
            check_rng own = {2}; /* the same inputs whatever cases were drawn before */
            const double error = error_of(centered, widths[w], &own);
            char what[80];
            snprintf(what, sizeof what, "norm n %lld: %.2f units in the last place", (long long)widths[w], error);
            check_true(what, error < 8.0);
        }
}
