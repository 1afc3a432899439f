#include "kernels/norm/norm.h"

static const sb_norm_row table[] = {
#define SB_NORM_ROW(symbol, order, cpu) {#symbol, symbol, order, cpu},
#include "kernels/norm/norm.inc"
#undef SB_NORM_ROW
};

const sb_norm_row *sb_norm_rows(int *count)
{
    *count = (int)(sizeof table / sizeof *table);
    return table;
}

const sb_norm_row *sb_norm_select(unsigned cpu)
{
    const sb_norm_row *best = table;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if ((table[i].cpu & ~cpu) == 0) best = &table[i];
    return best;
}
