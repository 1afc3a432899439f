/* Every row of epilogue.inc against the reference row. */
#include "kernels/epilogue/epilogue.h"

#include <stdio.h>

#include "check/check.h"
#include "formats/elements.h"

/* Any bits, NaN and Inf included; every other time numbers around 1, where activations bend. */
static void fill(check_rng *rng, samebits_format format, void *p, int64_t n)
{
    const int near = (int)check_below(rng, 2);
    if (format == SB_FORMAT_F64) {
        double *d = p;
        for (int64_t i = 0; i < n; i++) d[i] = sb_double(check_next(rng));
        if (near) check_doubles(rng, d, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const uint32_t any = (uint32_t)check_next(rng);
        const float f = (float)((double)(int64_t)check_next(rng) / 0x1p60);
        sb_set_element(format, p, i, near ? f : sb_float(any));
    }
}

static void run(const sb_epilogue_row *row, const sb_epilogue_row *ref, samebits_format format, int64_t n,
                samebits_activation activation, check_rng *rng)
{
    const int is_f64 = format == SB_FORMAT_F64;
    const samebits_format c_format = is_f64 ? format : (samebits_format)check_below(rng, 3);
    const samebits_format bias_format = is_f64 ? format : (samebits_format)check_below(rng, 3);
    const size_t size = is_f64 ? 8 : (size_t)sb_element_size(format), count = (size_t)n;
    void *acc = check_alloc(count * 8), *c = check_alloc(count * 8), *bias = check_alloc(count * 8);
    void *want = check_alloc(count * size), *have = check_alloc(count * size);
    fill(rng, is_f64 ? format : SAMEBITS_FORMAT_F32, acc, n);
    fill(rng, c_format, c, n);
    fill(rng, bias_format, bias, n);
    sb_epilogue_args args = {.n = n,
                             .acc = acc,
                             .alpha = check_below(rng, 2) ? 1.0 : 0.7,
                             .beta = 1.3,
                             .c = check_below(rng, 2) ? c : NULL,
                             .bias = check_below(rng, 2) ? bias : NULL,
                             .out = want,
                             .c_format = c_format,
                             .bias_format = bias_format,
                             .out_format = format,
                             .activation = activation};
    ref->fn(&args);
    args.out = have;
    row->fn(&args);
    char what[120];
    snprintf(what, sizeof what, "%s format %d n %lld activation %d", row->name, format, (long long)n, activation);
    check_same(what, want, have, n, size);
    check_free(acc);
    check_free(c);
    check_free(bias);
    check_free(want);
    check_free(have);
}

void check_epilogue(void)
{
    static const samebits_activation f64_activations[] = {SAMEBITS_ACTIVATION_NONE, SAMEBITS_ACTIVATION_RELU};
    static const int64_t widths[] = {1, 7, 8, 9, 15, 16, 17, 31, 48, 100, 256, 1000};
    int count;
    const sb_epilogue_row *rows = sb_epilogue_rows(&count);
    check_rng rng = {4};
    for (int i = 1; i < count; i++) {
        if (rows[i].cpu & ~check_cpu()) continue;
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            for (int turn = 0; turn < 16; turn++)
                if (check_takes()) run(&rows[i], rows, SB_FORMAT_F64, widths[w], f64_activations[turn % 2], &rng);
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            for (int format = 0; format < 3; format++)
                for (int activation = 0; activation < SAMEBITS_ACTIVATION_COUNT; activation++)
                    for (int turn = 0; turn < 8; turn++)
                        if (check_takes())
                            run(&rows[i], rows, (samebits_format)format, widths[w], (samebits_activation)activation,
                                &rng);
    }
}
