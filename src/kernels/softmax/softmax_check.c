/* Every row of softmax.inc against the reference row; padding and order of the entries; double. */
#include "kernels/softmax/softmax.h"

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

static float near(check_rng *rng) { return (float)((double)(int64_t)check_next(rng) / 0x1p61); }

/* Logits as models have them: a few units wide, some far below, some hidden. */
static float logit(check_rng *rng)
{
    const float f = near(rng);
    switch (check_below(rng, 16)) {
    case 0: return -INFINITY;
    case 1: return f * 30.0f;
    case 2: return 0.0f;
    default: return f;
    }
}

/* kind 1: NaN or Inf somewhere; kind 2: all entries -Inf; kind 3: none far below. */
static void fill(check_rng *rng, samebits_format format, void *x, int64_t n, int kind)
{
    static const float special[] = {INFINITY, NAN, -NAN};
    for (int64_t i = 0; i < n; i++)
        sb_set_element(format, x, i, kind == 2 ? -INFINITY : kind == 3 ? near(rng) : logit(rng));
    if (kind == 1) sb_set_element(format, x, check_below(rng, n), special[check_below(rng, 3)]);
}

static void run(const sb_softmax_row *row, const sb_softmax_row *ref, formats f, int64_t n, unsigned parts, int kind,
                check_rng *rng)
{
    const size_t in = (size_t)sb_element_size(f.in), out = (size_t)sb_element_size(f.out), count = (size_t)n;
    const samebits_format mask_format = (samebits_format)check_below(rng, 3);
    char *x = check_alloc(count * in), *mask = check_alloc(count * (size_t)sb_element_size(mask_format));
    char *want = check_alloc(count * out), *have = check_alloc(count * out);
    float *scratch = check_alloc((size_t)sb_round_up(n, 16) * 4);
    fill(rng, f.in, x, n, kind);
    fill(rng, mask_format, mask, n, kind == 3 ? 3 : 0);
    const int log = parts >> 2 & 1;
    sb_softmax_args args = {.n = n,
                            .x = x,
                            .mask = parts & 1 && !log ? mask : NULL,
                            .out = want,
                            .x_format = f.in,
                            .mask_format = mask_format,
                            .out_format = f.out,
                            .scale = log || kind == 3 ? 1.0f : 0.7f,
                            .slope = 0.3f,
                            .has_sink = parts & 2 && !log,
                            .sink = logit(rng),
                            .log = log,
                            .scratch = scratch};
    ref->fn(&args);
    args.out = have;
    row->fn(&args);
    char what[160];
    snprintf(what, sizeof what, "%s formats %d %d n %lld parts %u kind %d", row->name, f.in, f.out, (long long)n, parts,
             kind);
    check_same(what, want, have, n, out);
    if (f.in == f.out) {
        args.out = x;
        row->fn(&args);
        check_same("softmax in place", want, x, n, out);
    }
    check_free(x);
    check_free(mask);
    check_free(want);
    check_free(have);
    check_free(scratch);
}

/* Hidden entries anywhere between the others, and another order of them, must not move a bit of the rest. */
static void check_padding(const sb_softmax_row *row, int64_t n, int64_t padded, int log, check_rng *rng)
{
    float *x = check_alloc((size_t)n * 4), *wide = check_alloc((size_t)padded * 4);
    float *want = check_alloc((size_t)n * 4), *have = check_alloc((size_t)n * 4);
    float *scratch = check_alloc((size_t)sb_round_up(padded, 16) * 4);
    int64_t *place = check_alloc((size_t)padded * 8);
    for (int64_t i = 0; i < n; i++) x[i] = logit(rng);
    for (int64_t i = 0; i < padded; i++) {
        const int64_t j = check_below(rng, i + 1);
        place[i] = place[j];
        place[j] = i;
        wide[i] = -INFINITY;
    }
    for (int64_t i = 0; i < n; i++) wide[place[i]] = x[i];
    sb_softmax_args args = {.n = n,
                            .x = x,
                            .out = want,
                            .x_format = SAMEBITS_FORMAT_F32,
                            .out_format = SAMEBITS_FORMAT_F32,
                            .scale = 1.0f,
                            .log = log,
                            .scratch = scratch};
    row->fn(&args);
    args.n = padded;
    args.x = args.out = wide;
    row->fn(&args);
    for (int64_t i = 0; i < n; i++) have[i] = wide[place[i]];
    char what[100];
    snprintf(what, sizeof what, "%s n %lld among %lld entries", row->name, (long long)n, (long long)padded);
    check_same(what, want, have, n, 4);
    check_free(x);
    check_free(wide);
    check_free(want);
    check_free(have);
    check_free(scratch);
    check_free(place);
}

/* The largest error beside double: of a probability in units of its last place, of a log in units of 2^-24
 * of max(1, its size). */
static double error_of(int64_t n, int log, check_rng *rng)
{
    float *x = check_alloc((size_t)n * 4), *y = check_alloc((size_t)n * 4);
    float *scratch = check_alloc((size_t)sb_round_up(n, 16) * 4);
    double max = -INFINITY, sum = 0, worst = 0;
    for (int64_t i = 0; i < n; i++) {
        x[i] = near(rng);
        max = fmax(max, (double)x[i]);
    }
    for (int64_t i = 0; i < n; i++) sum += exp((double)x[i] - max);
    const sb_softmax_args args = {.n = n,
                                  .x = x,
                                  .out = y,
                                  .x_format = SAMEBITS_FORMAT_F32,
                                  .out_format = SAMEBITS_FORMAT_F32,
                                  .scale = 1.0f,
                                  .log = log,
                                  .scratch = scratch};
    sb_softmax_select(SB_CPU_NONE)->fn(&args);
    for (int64_t i = 0; i < n; i++) {
        const double l = (double)x[i] - max - log1p(sum - 1.0), want = log ? l : exp(l);
        const double unit = log ? fmax(1.0, fabs(l)) * 0x1p-24 : ldexp(1.0, ilogb(want) - 23);
        worst = fmax(worst, fabs(want - (double)y[i]) / unit);
    }
    check_free(x);
    check_free(y);
    check_free(scratch);
    return worst;
}

static void check_accuracy(void)
{
    check_rng rng = {3}; /* the same inputs whatever cases were drawn before */
    static const int64_t widths[] = {1, 2, 100, 1000, 32768, 262144};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int log = 0; log < 2; log++) {
            const double error = error_of(widths[w], log, &rng);
            char what[80];
            snprintf(what, sizeof what, "softmax n %lld log %d: error %.2f", (long long)widths[w], log, error);
            check_true(what, error < (log ? 3.0 : 6.0));
        }
}

void check_softmax(void)
{
    static const int64_t widths[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 200, 257, 1000, 5000};
    int count;
    const sb_softmax_row *rows = sb_softmax_rows(&count);
    check_rng rng = {3};
    for (int i = 0; i < count; i++) {
        if (rows[i].cpu & ~check_cpu()) continue;
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            for (int p = 0; p < PAIRS && i; p++)
                for (unsigned parts = 0; parts < 8; parts++)
                    for (int kind = 0; kind < 4; kind++)
                        if (check_takes()) run(&rows[i], rows, pairs[p], widths[w], parts, kind, &rng);
            for (int log = 0; log < 2; log++)
                check_padding(&rows[i], widths[w], widths[w] + 1 + check_below(&rng, 500), log, &rng);
        }
    }
    check_accuracy();
}
