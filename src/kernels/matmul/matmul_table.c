#include "kernels/matmul/matmul.h"

static const sb_matmul_row table[] = {
#define SB_MATMUL_ROW(symbol, format, order, cpu, max_tile) {#symbol, symbol, format, order, cpu, max_tile, NULL, 0},
#include "kernels/matmul/matmul.inc"
#undef SB_MATMUL_ROW
};

const sb_matmul_row *sb_matmul_rows(int *count)
{
    *count = (int)(sizeof table / sizeof *table);
    return table;
}

const sb_matmul_row *sb_matmul_select(samebits_format format, unsigned cpu)
{
    const sb_matmul_row *best = NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].format == format && (table[i].cpu & ~cpu) == 0) best = &table[i];
    return best;
}
