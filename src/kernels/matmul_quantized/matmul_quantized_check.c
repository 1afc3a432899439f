/* Every row of matmul_quantized.inc against the reference row of its format and order; panels and back. */
#include "kernels/matmul_quantized/matmul_quantized.h"

#include <stdio.h>

#include "base/float16.h"
#include "check/check.h"
#include "check/product.h"
#include "formats/elements.h"
#include "formats/quant.h"

/* What the scales of the weights and the activations are made of. TINY is for scales in f32, which affine formats alone
 * have: where a factor of 2^-12 is exact, and where it is not. */
enum { ORDINARY, EXTREME, POISONED, TINY, KINDS };

/* Random blocks, of which every byte is valid. Scales: finite of ordinary size, or any bits: subnormal, Inf, NaN. */
static void random_rows(samebits_format format, int kind, int64_t blocks, uint8_t *bytes, check_rng *rng)
{
    const sb_format *f = sb_format_info(format);
    check_bytes(rng, bytes, blocks * f->block_bytes);
    if (sb_quant_has_e4m3(format)) return; /* all scales are finite */
    /* Where d lies, and dmin behind it: as ggml-common.h has them. */
    const int offset = format == SAMEBITS_FORMAT_Q2_K   ? 80
                       : format == SAMEBITS_FORMAT_Q3_K ? 108
                       : format == SAMEBITS_FORMAT_Q6_K ? 208
                                                        : 0;
    for (int64_t b = 0; b < blocks; b++)
        for (int i = 0; i <= sb_quant_has_min(format); i++) {
            uint16_t h = (uint16_t)check_next(rng);
            const int rare = kind == EXTREME ? 2 : 400; /* one in so many keeps its random bits */
            if (kind == ORDINARY || check_below(rng, rare)) h = (uint16_t)((h & 0x83FF) | (10 + h % 8) << 10);
            if (kind != POISONED && (h & 0x7C00) == 0x7C00) h &= 0x83FF; /* subnormal instead of Inf and NaN */
            if (format == SAMEBITS_FORMAT_MXFP4 && kind == ORDINARY) h = (uint16_t)(120 + h % 16);
            memcpy(bytes + b * f->block_bytes + offset + 2 * i, &h, format == SAMEBITS_FORMAT_MXFP4 ? 1 : 2);
        }
}

/* Scales and biases of an affine format. */
static void random_scales(samebits_format type, int kind, int64_t count, uint8_t *scales, check_rng *rng)
{
    const uint32_t least = check_below(rng, 2) ? 13 : 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)check_next(rng);
        if (kind == TINY) {
            const uint32_t exponent = least + (uint32_t)check_below(rng, 13);
            sb_set_element(type, scales, i, sb_float((bits & 0x807FFFFF) | exponent << 23));
            continue;
        }
        const float ordinary = (float)((int)(bits % 4001) - 2000) * 0x1p-9f;
        if (kind == ORDINARY || check_below(rng, kind == EXTREME ? 2 : 400)) {
            sb_set_element(type, scales, i, ordinary);
            continue;
        }
        const int special = type == SAMEBITS_FORMAT_F16 ? 0x7C00 : type == SAMEBITS_FORMAT_BF16 ? 0x7F80 : 0x7F800000;
        if (kind != POISONED && (bits & (uint32_t)special) == (uint32_t)special) bits &= ~(uint32_t)special;
        memcpy(scales + i * sb_element_size(type), &bits, (size_t)sb_element_size(type));
    }
}

/* Scales of a byte beside MLX's floats, and no NaN among those if they are not to be special. */
static void random_bytes(samebits_format format, int kind, int64_t weights, uint8_t *w, int64_t count, uint8_t *scales,
                         check_rng *rng)
{
    check_bytes(rng, scales, count);
    for (int64_t i = 0; kind != POISONED && i < count; i++) {
        if (sb_quant_has_e4m3(format))
            scales[i] &= 0xFE;
        else
            scales[i] = kind == ORDINARY ? (uint8_t)(120 + scales[i] % 16) : (uint8_t)SB_MIN(scales[i], 247);
    }
    for (int64_t i = 0; format == SAMEBITS_FORMAT_MLX_MXFP8 && i < weights; i++)
        if (kind != POISONED || check_below(rng, 400)) w[i] &= 0xFE;
}

static void random_x(int kind, int64_t rows, int64_t k, float *x, check_rng *rng)
{
    check_floats(rng, x, rows * k);
    for (int64_t i = 0; i < rows * k; i += 32) {
        const int64_t what = check_below(rng, 8), n = SB_MIN(32, rows * k - i);
        const float scale = kind == EXTREME || kind == TINY ? 0x1p90f : what == 0 ? 0x1p-90f : 1.0f;
        for (int64_t j = 0; j < n; j++) {
            if (kind == ORDINARY && what < 4) x[i + j] = (float)(check_below(rng, 255) - 127) * 0.5f; /* ties */
            if (what == 1) x[i + j] = x[i + j] < 0.0f ? -3.0f : 3.0f;                                 /* all at 127 */
            if (kind == EXTREME && what == 2) x[i + j] = sb_float((uint32_t)check_next(rng) & 0x807FFFFFu);
            if (kind == EXTREME && what == 3) x[i + j] = sb_float((uint32_t)check_next(rng) & 0x80000000u);
            x[i + j] *= scale;
        }
        if (kind == POISONED && check_below(rng, 40) == 0)
            x[i + check_below(rng, n)] = sb_float(check_next(rng) & 1 ? 0x7F800000u : 0xFFC12345u);
    }
}

typedef struct {
    const sb_matmul_row *ref;
    int kind;
    int64_t rows, panels, k;
    sb_group group;
} test;

static void run_row(const sb_matmul_row *row, const test *t, const float *x, const uint8_t *w, float *acc,
                    int64_t stride)
{
    const sb_matmul_args args = {.rows = t->rows,
                                 .k = t->k,
                                 .panels = t->panels,
                                 .x = x,
                                 .w = w,
                                 .panel_size = sb_panel_size(row->format, t->group, t->k),
                                 .group = t->group,
                                 .acc = acc,
                                 .acc_stride = stride};
    check_run_product(row, args);
}

/* Every row of the reference's format and order that this machine has. */
static void run_rows(const test *t, const float *x, const uint8_t *w)
{
    const int64_t stride = t->panels * SB_PANEL + 16;
    const size_t size = (size_t)(t->rows * stride) * 4;
    float *want = check_alloc(size);
    run_row(t->ref, t, x, w, want, stride);
    int count;
    const sb_matmul_row *rows = sb_matmul_quantized_rows(&count);
    for (const sb_matmul_row *row = rows; row < rows + count; row++) {
        if (row == t->ref || row->format != t->ref->format || row->order != t->ref->order) continue;
        if (row->cpu & ~check_cpu()) continue;
        float *have = check_alloc(size);
        run_row(row, t, x, w, have, stride);
        char what[160];
        snprintf(what, sizeof what, "%s kind %d rows %lld panels %lld k %lld", row->name, t->kind, (long long)t->rows,
                 (long long)t->panels, (long long)t->k);
        check_same(what, want, have, t->rows * stride, 4);
        check_free(have);
    }
    check_free(want);
}

static void run(const test *t, check_rng *rng)
{
    const samebits_format format = t->ref->format;
    const sb_format *f = sb_format_info(format);
    const int64_t n = t->panels * SB_PANEL, blocks = t->k / f->block;
    const int64_t panel_size = sb_panel_size(format, t->group, t->k), row_size = blocks * f->block_bytes;
    float *x = check_alloc((size_t)(t->rows * t->k) * 4);
    uint8_t *bytes = check_alloc((size_t)(n * row_size)), *w = check_alloc((size_t)(t->panels * panel_size));
    const int is_scaled = sb_format_is_scaled(format);
    const int64_t groups = t->group.steps ? t->k / 32 / t->group.steps
                           : is_scaled    ? t->k / 32 * sb_quant_parts(format)
                                          : 0;
    uint8_t *scales = check_alloc((size_t)(2 * n * groups * 4));
    if (is_scaled) {
        check_bytes(rng, bytes, n * row_size);
        random_bytes(format, t->kind, n * t->k, bytes, n * groups, scales, rng);
    } else if (groups) {
        check_bytes(rng, bytes, n * row_size);
        random_scales(t->group.scales, t->kind, 2 * n * groups, scales, rng);
    } else {
        random_rows(format, t->kind, n * blocks, bytes, rng);
    }
    random_x(t->kind, t->rows, t->k, x, rng);
    const sb_rows rows = {.format = format,
                          .data = bytes,
                          .n = n,
                          .k = t->k,
                          .row_stride = row_size,
                          .group = t->group,
                          .scales = scales,
                          .biases = scales + n * groups * sb_element_size(t->group.scales),
                          .scale_stride = {groups, 1},
                          .bias_stride = {groups, 1}};
    for (int64_t p = 0; p < t->panels; p++) sb_pack_panel(&rows, p, w + p * panel_size);
    run_rows(t, x, w);
    check_free(x);
    check_free(bytes);
    check_free(scales);
    check_free(w);
}

/* Any bytes come back from a panel, and no byte is written outside it. */
static void check_round_trip(samebits_format format, check_rng *rng)
{
    const sb_format *f = sb_format_info(format);
    for (int64_t n = 1; n <= 35; n += 17)
        for (int64_t blocks = 0; blocks <= 9; blocks += 3) {
            const int64_t k = blocks * f->block, size = blocks * f->block_bytes, stride = size + 3;
            const int64_t panel_size = sb_panel_size(format, (sb_group){0}, k);
            uint8_t *want = check_alloc((size_t)(n * stride)), *have = check_alloc((size_t)(n * stride));
            uint8_t *w = check_alloc((size_t)(sb_panels(n) * panel_size));
            for (int64_t i = 0; i < n; i++) check_bytes(rng, want + i * stride, size);
            const sb_rows rows = {.format = format, .data = want, .n = n, .k = k, .row_stride = stride};
            for (int64_t p = 0; p < sb_panels(n); p++) sb_pack_panel(&rows, p, w + p * panel_size);
            for (int64_t p = 0; p < sb_panels(n); p++)
                sb_unpack_panel(format, k, w + p * panel_size, 0, (int)SB_MIN(SB_PANEL, n - p * SB_PANEL),
                                have + p * SB_PANEL * stride, stride);
            char what[80];
            snprintf(what, sizeof what, "round trip %s n %lld k %lld", f->name, (long long)n, (long long)k);
            check_same(what, want, have, n * stride, 1);
            check_free(want);
            check_free(have);
            check_free(w);
        }
}

void check_matmul_quantized(void)
{
    static const int64_t depths[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 33}; /* blocks of 32, or superblocks / 8 */
    static const int64_t heights[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 25, 37};
    int count;
    const sb_matmul_row *rows = sb_matmul_quantized_rows(&count);
    check_rng rng = {7};
    for (samebits_format f = SAMEBITS_FORMAT_Q4_0; f < SAMEBITS_FORMAT_COUNT; f++)
        if (!sb_format_is_mlx(f)) check_round_trip(f, &rng);
    for (int i = 0; i < count; i++) {
        const sb_matmul_row *ref = &rows[i];
        if (ref != sb_matmul_quantized_select(ref->format, ref->order, SB_CPU_NONE, 1)) continue;
        const int block = sb_format_info(ref->format)->block;
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
            for (size_t h = 0; h < sizeof heights / sizeof *heights; h++)
                for (int kind = 0; kind < (sb_format_is_affine(ref->format) ? KINDS : TINY); kind++) {
                    const int64_t blocks = sb_ceil_div(depths[d], block / 32);
                    sb_group group = {0};
                    if (sb_format_is_affine(ref->format))
                        group = (sb_group){1 << check_below(&rng, 3),
                                           kind == TINY ? SAMEBITS_FORMAT_F32 : (samebits_format)check_below(&rng, 3)};
                    const test t = {.ref = ref,
                                    .kind = kind,
                                    .rows = heights[h],
                                    .panels = 1 + check_below(&rng, 5),
                                    .k = sb_round_up(blocks, group.steps ? group.steps : 1) * block,
                                    .group = group};
                    if (check_takes()) run(&t, &rng);
                }
    }
}
