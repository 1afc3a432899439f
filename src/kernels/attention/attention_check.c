/* Every row of attention.inc against the reference row, step by step, on parts of random shape. */
#include "kernels/attention/attention.h"

#include <math.h>
#include <stdio.h>

#include "check/check.h"

typedef struct {
    int64_t rows, keys, memory_rows, k_width, v_width;
    samebits_format k, v;
    float spread; /* of the scores */
    int values;   /* kind of V, see put_value */
    int biased, ranged, capped;
} shape;

enum { PLAIN, HUGE_VALUES, MIXED, SUBNORMAL, ZERO, NOT_FINITE, VALUE_KINDS };

static float uniform(check_rng *rng) { return (float)check_below(rng, 1 << 20) * 0x1p-19f - 1.0f; }

static float value(check_rng *rng, int kind)
{
    switch (kind) {
    case HUGE_VALUES: return check_next(rng) & 1 ? 65504.0f : -65504.0f;
    case MIXED: return uniform(rng) * sb_float((uint32_t)(100 + check_below(rng, 42)) << 23);
    case SUBNORMAL: return uniform(rng) * 0x1p-15f;
    case ZERO: return check_next(rng) & 1 ? 0.0f : -0.0f;
    case NOT_FINITE:
        switch (check_below(rng, 400)) {
        case 0: return INFINITY;
        case 1: return -INFINITY;
        case 2: return sb_float(SB_NAN_F32);
        }
    }
    return uniform(rng) * 4.0f;
}

static int64_t row_bytes(samebits_format f, int64_t width)
{
    const sb_format *info = sb_format_info(f);
    return sb_ceil_div(width, info->block) * info->block_bytes;
}

static void put_row(check_rng *rng, samebits_format f, int64_t width, int kind, float scale, uint8_t *row)
{
    for (int64_t i = 0; i < width; i++) {
        const float x = value(rng, kind) * scale;
        const uint16_t h = f == SAMEBITS_FORMAT_F16 ? sb_to_f16(x) : sb_to_bf16(x);
        if (f == SAMEBITS_FORMAT_F32) memcpy(row + 4 * i, &x, 4);
        if (f == SAMEBITS_FORMAT_F16 || f == SAMEBITS_FORMAT_BF16) memcpy(row + 2 * i, &h, 2);
        if (sb_format_is_float(f) || i % 32) continue;
        const float d = x * (f == SAMEBITS_FORMAT_Q8_0 ? 0x1p-6f : 0x1p-3f), m = value(rng, kind) * scale;
        check_block(rng, f, d, m, row + i / 32 * sb_format_info(f)->block_bytes);
    }
}

/* One row's results of all steps. */
typedef struct {
    float *score, *max, *top, *out, *largest;
    int *bad;
    int64_t *total;
} results;

static results results_alloc(const shape *s, int64_t stride)
{
    return (results){.score = check_alloc((size_t)(s->rows * stride) * 4),
                     .max = check_alloc((size_t)s->rows * 4),
                     .top = check_alloc((size_t)s->rows * 4),
                     .out = check_alloc((size_t)(s->rows * s->v_width) * 4),
                     .largest = check_alloc((size_t)stride * 4),
                     .bad = check_alloc((size_t)s->rows * sizeof(int)),
                     .total = check_alloc((size_t)s->rows * 8)};
}

static void results_free(results *r)
{
    check_free(r->score);
    check_free(r->max);
    check_free(r->top);
    check_free(r->out);
    check_free(r->largest);
    check_free(r->bad);
    check_free(r->total);
}

/* The scores are kept in `keep`, for values replaces them. */
static void run_row(const sb_attention_row *row, const shape *s, sb_attention_part part, const float *bias, results *r,
                    float *keep)
{
    int grid[SB_ATTENTION_ROWS];
    float max[SB_ATTENTION_ROWS];
    part.score = r->score;
    part.largest = sb_value_is_fixed(s->v) ? NULL : r->largest;
    part.total = r->total;
    part.max = max;
    part.grid = grid;
    row->dots(&part);
    for (int64_t i = 0; i < s->rows; i++) {
        sb_attention_line line = {.keys = s->keys,
                                  .score = r->score + i * part.score_stride,
                                  .bias = s->biased ? bias : NULL,
                                  .end = s->keys,
                                  .scale = 0.25f,
                                  .softcap = s->capped ? 3.0f : 0.0f,
                                  .slope = 0.5f,
                                  .largest = part.largest,
                                  .max = -INFINITY};
        if (s->ranged) {
            line.begin = s->keys * i / (2 * s->rows);
            line.end = s->keys - s->keys * i / (3 * s->rows) - 1;
        }
        row->score(&line);
        r->max[i] = line.max + 0.0f; /* either zero will do */
        r->top[i] = line.top;
        r->bad[i] = line.bad;
        max[i] = line.bad ? -INFINITY : line.max;
        grid[i] = sb_value_grid(s->v, line.top);
    }
    memcpy(keep, r->score, (size_t)(s->rows * part.score_stride) * 4);
    row->values(&part);
    for (int64_t i = 0; i < s->rows; i++) {
        const sb_attention_sums sums = {.high = part.high + i * part.sum_stride,
                                        .low = part.low + i * part.sum_stride,
                                        .poison = part.poison + i * part.sum_stride,
                                        .total = r->total[i],
                                        .width = s->v_width,
                                        .grid = grid[i],
                                        .out = r->out + i * s->v_width};
        row->finish(&sums);
    }
}

static void compare(const sb_attention_row *row, const sb_attention_row *ref, const shape *s, check_rng *rng)
{
    const int64_t k_bytes = row_bytes(s->k, s->k_width), v_bytes = row_bytes(s->v, s->v_width);
    const int64_t stride = sb_round_up(s->keys, SB_ATTENTION_PAD), sums = sb_round_up(s->v_width, SB_ATTENTION_PAD);
    uint8_t *k = check_alloc((size_t)(s->memory_rows * k_bytes)), *v = check_alloc((size_t)(s->memory_rows * v_bytes));
    float *q = check_alloc((size_t)(s->rows * s->k_width) * 4), *bias = check_alloc((size_t)stride * 4);
    int32_t *key = check_alloc((size_t)s->keys * 4);
    int64_t *high = check_alloc((size_t)(s->rows * sums) * 8), *low = check_alloc((size_t)(s->rows * sums) * 8);
    uint8_t *poison = check_alloc((size_t)(s->rows * sums));
    void *scratch = check_alloc(sb_attention_scratch(s->k_width, s->v_width));
    for (int64_t i = 0; i < s->rows * s->k_width; i++) q[i] = uniform(rng) * s->spread;
    for (int64_t j = 0; j < s->keys; j++) {
        key[j] = (int32_t)(j * (s->memory_rows - 1) / SB_MAX(1, s->keys - 1));
        put_row(rng, s->k, s->k_width, PLAIN, 1.0f, k + key[j] * k_bytes);
        put_row(rng, s->v, s->v_width, s->values, 1.0f, v + key[j] * v_bytes);
        bias[j] = check_below(rng, 3) ? uniform(rng) : -INFINITY;
    }
    sb_attention_part part = {.rows = s->rows,
                              .keys = s->keys,
                              .q = q,
                              .key = key,
                              .score_stride = stride,
                              .k = {(const char *)k, s->k, k_bytes, k_bytes / SB_MAX(1, s->k_width), s->k_width},
                              .v = {(const char *)v, s->v, v_bytes, v_bytes / SB_MAX(1, s->v_width), s->v_width},
                              .high = high,
                              .low = low,
                              .sum_stride = sums,
                              .poison = poison,
                              .scratch = scratch};
    results want = results_alloc(s, stride), have = results_alloc(s, stride);
    float *want_score = check_alloc((size_t)(s->rows * stride) * 4),
          *have_score = check_alloc((size_t)(s->rows * stride) * 4);
    run_row(ref, s, part, bias, &want, want_score);
    run_row(row, s, part, bias, &have, have_score);
    char what[200];
#define SAME(field, count, size)                                                                                       \
    snprintf(what, sizeof what, "%s " #field " rows %lld keys %lld d %lld dv %lld %s %s values %d", row->name,         \
             (long long)s->rows, (long long)s->keys, (long long)s->k_width, (long long)s->v_width,                     \
             sb_format_info(s->k)->name, sb_format_info(s->v)->name, s->values);                                       \
    check_same(what, want.field, have.field, count, size)
    if (!sb_value_is_fixed(s->v)) {
        SAME(largest, s->keys, 4);
    }
    SAME(max, s->rows, 4);
    SAME(top, s->rows, 4);
    SAME(bad, s->rows, sizeof(int));
    SAME(total, s->rows, 8);
    SAME(out, s->rows * s->v_width, 4);
#undef SAME
    check_same("attention scores", want_score, have_score, s->rows * stride, 4);
    results_free(&want);
    results_free(&have);
    void *all[] = {k, v, q, bias, key, high, low, poison, scratch, want_score, have_score};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_free(all[i]);
}

void check_attention(void)
{
    static const samebits_format formats[] = {SAMEBITS_FORMAT_F16, SAMEBITS_FORMAT_BF16, SAMEBITS_FORMAT_F32,
                                              SAMEBITS_FORMAT_Q8_0};
    static const samebits_format blocks[] = {SAMEBITS_FORMAT_Q4_0, SAMEBITS_FORMAT_Q4_1,   SAMEBITS_FORMAT_Q5_0,
                                             SAMEBITS_FORMAT_Q5_1, SAMEBITS_FORMAT_IQ4_NL, SAMEBITS_FORMAT_Q8_0};
    static const int64_t lengths[] = {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 255, 257};
    static const int64_t widths[] = {1, 31, 64, 72, 80, 96, 128, 192, 256, 257, 576};
    static const float spreads[] = {0.01f, 0.5f, 2.0f, 8.0f};
    int count;
    const sb_attention_row *rows = sb_attention_rows(&count);
    check_rng rng = {3};
    for (int i = 1; i < count; i++) {
        if (rows[i].cpu & ~check_cpu()) continue;
        for (int n = 0; n < 600; n++) {
            shape s = {.rows = 1 + check_below(&rng, n % 4 ? 9 : SB_ATTENTION_ROWS),
                       .keys = lengths[check_below(&rng, sizeof lengths / sizeof *lengths)],
                       .k_width = widths[check_below(&rng, sizeof widths / sizeof *widths)],
                       .v_width = widths[check_below(&rng, sizeof widths / sizeof *widths)],
                       .k = formats[check_below(&rng, 4)],
                       .v = formats[n % 4],
                       .spread = spreads[check_below(&rng, 4)],
                       .values = (int)check_below(&rng, VALUE_KINDS),
                       .biased = (int)check_below(&rng, 2),
                       .ranged = (int)check_below(&rng, 2),
                       .capped = (int)check_below(&rng, 2)};
            s.memory_rows = s.keys + check_below(&rng, 20);
            if (s.k == SAMEBITS_FORMAT_Q8_0) {
                s.k = blocks[check_below(&rng, sizeof blocks / sizeof *blocks)];
                s.k_width = sb_round_up(s.k_width, 32);
            }
            if (s.v == SAMEBITS_FORMAT_Q8_0) {
                s.v = blocks[check_below(&rng, sizeof blocks / sizeof *blocks)];
                s.v_width = sb_round_up(s.v_width, 32);
            }
            if (check_takes()) compare(&rows[i], &rows[0], &s, &rng);
        }
    }
}
