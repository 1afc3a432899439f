#include "kernels/reduce/reduce.h"

static const sb_reduce_row table[] = {
#define SB_REDUCE_ROW(symbol, order, cpu) {#symbol, symbol, order, cpu},
#include "kernels/reduce/reduce.inc"
#undef SB_REDUCE_ROW
};

const sb_reduce_row *sb_reduce_rows(int *count)
{
    *count = (int)(sizeof table / sizeof *table);
    return table;
}

const sb_reduce_row *sb_reduce_select(unsigned cpu)
{
    const sb_reduce_row *best = table;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if ((table[i].cpu & ~cpu) == 0) best = &table[i];
    return best;
}
