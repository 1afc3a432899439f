/* Every row of rope.inc against the reference row, and the reference's cos and sin against the C library's. */
#include "kernels/rope/rope.h"

#include <math.h>
#include <stdio.h>

#include "check/check.h"
#include "formats/elements.h"

static int32_t any_position(check_rng *rng)
{
    return (int32_t)(check_next(rng) >> (32 + check_below(rng, 32))) * (check_below(rng, 4) ? 1 : -1);
}

static void fill_angles(sb_rope_angles *a, double *frequency, uint8_t *section, check_rng *rng)
{
    for (int64_t i = 0; i < a->pairs; i++) {
        frequency[i] = pow(10000.0, -(double)i / (double)a->pairs) / (check_below(rng, 3) ? 1.0 : 1e-3);
        section[i] = (uint8_t)check_below(rng, 4);
        if (check_below(rng, 200) == 0) frequency[i] = check_below(rng, 2) ? (double)INFINITY : (double)NAN;
    }
    a->frequency = frequency;
    a->section = check_below(rng, 2) ? section : NULL;
    a->magnitude = check_below(rng, 2) ? 1.0 : 1.1386;
    a->inverse = (int)check_below(rng, 2);
}

/* The tables of a few positions, from the row and from the reference. */
typedef struct {
    float *cos, *sin;
} tables;

static tables tables_of(const sb_rope_row *row, sb_rope_angles *angles, int64_t positions, const int32_t *position)
{
    const int64_t stride = 2 * angles->pairs;
    const size_t size = (size_t)(positions * stride) * sizeof(float);
    const tables t = {check_alloc(size), check_alloc(size)};
    for (int64_t i = 0; i < positions; i++) {
        memcpy(angles->position, position + i, sizeof angles->position);
        angles->cos = t.cos + i * stride;
        angles->sin = t.sin + i * stride;
        row->angles(angles);
    }
    for (int64_t i = 0; i < positions * stride; i++) {
        t.cos[i] = sb_canonical(t.cos[i]);
        t.sin[i] = sb_canonical(t.sin[i]);
    }
    return t;
}

static void run(const sb_rope_row *row, const sb_rope_row *ref, samebits_rope_layout layout, int64_t pairs,
                samebits_format in, samebits_format out, check_rng *rng)
{
    enum { ROWS = 3 };
    const int64_t first = check_below(rng, 10), n = first + 2 * pairs + check_below(rng, 20);
    const int64_t positions = check_below(rng, 2) ? ROWS : 1, stride = n + check_below(rng, 3), count = ROWS * stride;
    const size_t in_size = (size_t)sb_element_size(in), out_size = (size_t)sb_element_size(out);
    double *frequency = check_alloc((size_t)pairs * sizeof *frequency);
    uint8_t *section = check_alloc((size_t)pairs);
    void *x = check_alloc((size_t)count * in_size);
    void *want = check_alloc((size_t)count * out_size), *have = check_alloc((size_t)count * out_size);
    for (int64_t i = 0; i < count; i++) sb_set_element(in, x, i, check_below(rng, 50) ? check_float(rng) : NAN);
    sb_rope_angles angles = {.pairs = pairs, .layout = layout};
    int32_t position[ROWS + 3];
    fill_angles(&angles, frequency, section, rng);
    for (int i = 0; i < ROWS + 3; i++) position[i] = any_position(rng);
    const tables expected = tables_of(ref, &angles, positions, position);
    const tables got = tables_of(row, &angles, positions, position);
    char what[120];
    snprintf(what, sizeof what, "%s layout %d pairs %lld formats %d %d", row->name, layout, (long long)pairs, in, out);
    check_same(what, expected.cos, got.cos, positions * 2 * pairs, sizeof(float));
    check_same(what, expected.sin, got.sin, positions * 2 * pairs, sizeof(float));
    sb_rope_args args = {.rows = ROWS,
                         .n = n,
                         .first = first,
                         .pairs = pairs,
                         .layout = layout,
                         .cos = expected.cos,
                         .sin = expected.sin,
                         .angle_stride = positions > 1 ? 2 * pairs : 0,
                         .x = x,
                         .out = want,
                         .x_stride = stride,
                         .out_stride = stride,
                         .x_format = in,
                         .out_format = out};
    ref->turn(&args);
    args.out = have;
    row->turn(&args);
    check_same(what, want, have, count, out_size);
    if (in == out) {
        args.out = x;
        row->turn(&args);
        for (int64_t r = 0; r < ROWS; r++)
            check_same("rope in place", (char *)want + (size_t)(r * stride) * out_size,
                       (char *)x + (size_t)(r * stride) * out_size, n, out_size);
    }
    check_free(expected.cos);
    check_free(expected.sin);
    check_free(got.cos);
    check_free(got.sin);
    check_free(frequency);
    check_free(section);
    check_free(x);
    check_free(want);
    check_free(have);
}

/* Positions of 31 bits by frequencies of 53: the library's own angle is exact enough to 2^-20 only there. */
static void check_error(check_rng *rng)
{
    enum { PAIRS = 64, TRIES = 20000 };
    double frequency[PAIRS], worst = 0.0;
    float c[PAIRS], s[PAIRS];
    for (int i = 0; i < PAIRS; i++) frequency[i] = pow(500000.0, -(double)i / PAIRS);
    for (int t = 0; t < TRIES; t++) {
        sb_rope_angles a = {.pairs = PAIRS,
                            .frequency = frequency,
                            .magnitude = 1.0,
                            .layout = SAMEBITS_ROPE_HALVES,
                            .cos = c,
                            .sin = s};
        a.position[0] = any_position(rng);
        sb_rope_rows(&(int){0})->angles(&a);
        for (int i = 0; i < PAIRS; i++) {
            const double angle = a.position[0] * frequency[i];
            worst = fmax(worst, fabs(cos(angle) - (double)c[i]));
            worst = fmax(worst, fabs(sin(angle) - (double)s[i]));
        }
    }
    char what[80];
    snprintf(what, sizeof what, "rope: cos and sin within %.4f * 2^-25", worst * 0x1p25);
    check_true(what, worst * 0x1p25 < 1.001);
}

void check_rope(void)
{
    static const int64_t widths[] = {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 32, 40, 64, 65, 130};
    int count;
    const sb_rope_row *rows = sb_rope_rows(&count);
    check_rng rng = {9};
    for (int i = 1; i < count; i++) {
        if (rows[i].cpu & ~check_cpu()) continue;
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            for (int layout = 0; layout < SAMEBITS_ROPE_LAYOUT_COUNT; layout++)
                for (int in = 0; in < 3; in++)
                    for (int turn = 0; turn < 10; turn++)
                        if (check_takes())
                            run(&rows[i], rows, (samebits_rope_layout)layout, widths[w], (samebits_format)in,
                                turn % 2 ? SAMEBITS_FORMAT_F32 : (samebits_format)in, &rng);
    }
    check_error(&rng);
}
