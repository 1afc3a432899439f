#include "draw.h"

#include <fenv.h>

int64_t draw_budget(rng *r) { return (int64_t)1 << (4 + rng_below(r, rng_below(r, 8) ? 10 : 14)); }

int64_t draw_size(rng *r, int64_t most)
{
    static const int64_t steps[] = {4, 8, 16, 64, 256};
    int bits = 0;
    while (bits < 12 && (int64_t)2 << bits <= most) bits++;
    int64_t size = 1 + rng_below(r, (int64_t)1 << rng_below(r, bits + 1));
    if (!rng_below(r, 3)) {
        const int64_t step = steps[rng_below(r, CLI_COUNT(steps))];
        size = (size + step - 1) / step * step + rng_below(r, 3) - 1;
    }
    return CLI_MAX((int64_t)1, CLI_MIN(size, most));
}

layout draw_layout(rng *r) { return rng_below(r, 2) ? LAYOUT_PLAIN : (layout)rng_below(r, LAYOUT_COUNT); }

manner draw_manner(rng *r, samebits_cpu cpu)
{
    static const int counts[] = {1, 1, 2, 3, 5, 8, 16},
                     rounds[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    manner m = {.how = {cpu, counts[rng_below(r, CLI_COUNT(counts))], 1}};
    if (!rng_below(r, 32)) m.how = (setting){cpu, 2, 0};
    m.flush = !rng_below(r, 4);
    m.round = rounds[rng_below(r, 4) ? 0 : rng_below(r, CLI_COUNT(rounds))];
    return m;
}

void manner_enter(const manner *m)
{
    host_flush(m->flush);
    fesetround(m->round);
}

int manner_leave(const manner *m)
{
    const int kept = fegetround() == m->round && (!m->flush || host_flushes());
    fesetround(FE_TONEAREST);
    host_flush(0);
    return kept;
}
