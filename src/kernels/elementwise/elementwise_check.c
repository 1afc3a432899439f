/* Every row of elementwise.inc against the reference row. */
#include "kernels/elementwise/elementwise.h"

#include <stdio.h>

#include "check/check.h"
#include "formats/elements.h"

/* Any bits, NaN and Inf included; every other time numbers around 1, where activations bend. */
static void *operand(check_rng *rng, samebits_format format, int64_t n)
{
    void *p = check_alloc((size_t)(n * sb_element_size(format)));
    const int near = (int)check_below(rng, 2);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t any = (uint32_t)check_next(rng);
        const float f = (float)((double)(int64_t)check_next(rng) / 0x1p60);
        sb_set_element(format, p, i, near ? f : sb_float(any));
    }
    return p;
}

static void run(const sb_elementwise_row *row, const sb_elementwise_row *ref, sb_elementwise_op op,
                samebits_activation activation, int64_t n, check_rng *rng)
{
    const samebits_format x_format = (samebits_format)check_below(rng, 3);
    const samebits_format y_format = (samebits_format)check_below(rng, 3);
    const samebits_format out_format = (samebits_format)check_below(rng, 3);
    const int has_y = op != SB_ELEMENTWISE_ACTIVATE && op != SB_ELEMENTWISE_SCALE;
    const size_t size = (size_t)sb_element_size(out_format);
    void *x = operand(rng, x_format, n), *y = operand(rng, y_format, n);
    void *want = check_alloc((size_t)n * size), *have = check_alloc((size_t)n * size);
    sb_elementwise_args args = {.n = n,
                                .op = op,
                                .activation = activation,
                                .scale = 1.7f,
                                .bias = check_below(rng, 2) ? -0.3f : -0.0f,
                                .x = x,
                                .y = has_y ? y : NULL,
                                .out = want,
                                .x_format = x_format,
                                .y_format = y_format,
                                .out_format = out_format,
                                .x_step = check_below(rng, 4) > 0,
                                .y_step = check_below(rng, 4) > 0};
    ref->fn(&args);
    args.out = have;
    row->fn(&args);
    char what[120];
    snprintf(what, sizeof what, "%s op %d activation %d n %lld formats %d %d %d", row->name, op, activation,
             (long long)n, x_format, y_format, out_format);
    check_same(what, want, have, n, size);
    if (x_format == out_format && args.x_step) {
        args.out = x;
        row->fn(&args);
        check_same("elementwise in place", want, x, n, size);
    }
    check_free(x);
    check_free(y);
    check_free(want);
    check_free(have);
}

void check_elementwise(void)
{
    static const int64_t widths[] = {1, 7, 8, 9, 15, 16, 17, 31, 48, 100, 1000};
    int count;
    const sb_elementwise_row *rows = sb_elementwise_rows(&count);
    check_rng rng = {6};
    for (int i = 1; i < count; i++) {
        if (rows[i].cpu & ~check_cpu()) continue;
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            for (int op = 0; op < SB_ELEMENTWISE_COUNT; op++)
                for (int activation = 0; activation < SAMEBITS_ACTIVATION_COUNT; activation++)
                    for (int turn = 0; turn < 8; turn++)
                        if (check_takes())
                            run(&rows[i], rows, (sb_elementwise_op)op, (samebits_activation)activation, widths[w],
                                &rng);
    }
}
