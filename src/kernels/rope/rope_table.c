#include "kernels/rope/rope.h"

static const sb_rope_row table[] = {
#define SB_ROPE_ROW(suffix, order, cpu) {"sb_rope_" #suffix, sb_rope_angles_##suffix, sb_rope_##suffix, order, cpu},
#include "kernels/rope/rope.inc"
#undef SB_ROPE_ROW
};

const sb_rope_row *sb_rope_rows(int *count)
{
    *count = (int)(sizeof table / sizeof *table);
    return table;
}

const sb_rope_row *sb_rope_select(unsigned cpu)
{
    const sb_rope_row *best = table;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if ((table[i].cpu & ~cpu) == 0) best = &table[i];
    return best;
}
