/* Every row of reduce.inc against the reference row. */
#include "kernels/reduce/reduce.h"

#include <math.h>
#include <stdio.h>

#include "check/check.h"
#include "formats/elements.h"

/* What a row of numbers is made of. */
enum { ORDINARY, FEW_VALUES, ZEROS, SPECIAL, KINDS };

static float number(int kind, check_rng *rng)
{
    static const float special[] = {INFINITY, -INFINITY, NAN, -NAN, 0.0f, -0.0f, 3e38f, -3e38f};
    switch (kind) {
    case FEW_VALUES: return (float)(check_below(rng, 5) - 3);
    case ZEROS: return check_next(rng) & 1 ? -0.0f : check_below(rng, 3) ? 0.0f : -1.0f;
    case SPECIAL: return check_below(rng, 20) ? check_float(rng) : special[check_below(rng, 8)];
    default: return check_float(rng);
    }
}

static void run(const sb_reduce_row *row, const sb_reduce_row *ref, samebits_format format, int64_t n, int kind,
                check_rng *rng)
{
    void *x = check_alloc((size_t)(n * sb_element_size(format)));
    for (int64_t i = 0; i < n; i++) sb_set_element(format, x, i, number(kind, rng));
    for (int op = 0; op < SB_REDUCE_COUNT; op++) {
        if (!n && op == SB_REDUCE_ARGMAX) continue;
        sb_reduce_args want = {.op = (sb_reduce_op)op, .n = n, .x = x, .x_format = format}, have = want;
        ref->fn(&want);
        row->fn(&have);
        want.value = sb_canonical(want.value);
        have.value = sb_canonical(have.value);
        char what[120];
        snprintf(what, sizeof what, "%s op %d format %d n %lld kind %d", row->name, op, format, (long long)n, kind);
        check_same(what, &want.value, &have.value, 1, sizeof want.value);
        check_same(what, &want.index, &have.index, 1, sizeof want.index);
    }
    check_free(x);
}

void check_reduce(void)
{
    static const int64_t widths[] = {0,  1,  2,  7,   8,    9,    15,    16,    17,    31,   33,
                                     63, 64, 65, 127, 1000, 4096, 16383, 16384, 16385, 33000};
    int count;
    const sb_reduce_row *rows = sb_reduce_rows(&count);
    check_rng rng = {12};
    for (int i = 1; i < count; i++) {
        if (rows[i].cpu & ~check_cpu()) continue;
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            for (int format = SAMEBITS_FORMAT_F32; format <= SAMEBITS_FORMAT_BF16; format++)
                for (int kind = 0; kind < KINDS; kind++)
                    if (check_takes()) run(&rows[i], rows, (samebits_format)format, widths[w], kind, &rng);
    }
}
