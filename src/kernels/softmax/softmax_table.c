#include "kernels/softmax/softmax.h"

static const sb_softmax_row table[] = {
#define SB_SOFTMAX_ROW(symbol, order, cpu) {#symbol, symbol, order, cpu},
#include "kernels/softmax/softmax.inc"
#undef SB_SOFTMAX_ROW
};

const sb_softmax_row *sb_softmax_rows(int *count)
{
    *count = (int)(sizeof table / sizeof *table);
    return table;
}

const sb_softmax_row *sb_softmax_select(unsigned cpu)
{
    const sb_softmax_row *best = table;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if ((table[i].cpu & ~cpu) == 0) best = &table[i];
    return best;
}
