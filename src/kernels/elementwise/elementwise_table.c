#include "kernels/elementwise/elementwise.h"

static const sb_elementwise_row table[] = {
#define SB_ELEMENTWISE_ROW(symbol, order, cpu) {#symbol, symbol, order, cpu},
#include "kernels/elementwise/elementwise.inc"
#undef SB_ELEMENTWISE_ROW
};

const sb_elementwise_row *sb_elementwise_rows(int *count)
{
    *count = (int)(sizeof table / sizeof *table);
    return table;
}

const sb_elementwise_row *sb_elementwise_select(unsigned cpu)
{
    const sb_elementwise_row *best = table;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if ((table[i].cpu & ~cpu) == 0) best = &table[i];
    return best;
}
