#include "kernels/matmul/matmul.h"

static const sb_matmul_row table[] = {
#define SB_MATMUL_ROW(symbol, format, order, cpu, max_tile, pack, pack_bytes)                                          \
    {#symbol, symbol, format, order, cpu, max_tile, 0, pack_bytes != 0, pack, pack_bytes},
#include "kernels/matmul/matmul.inc"
#undef SB_MATMUL_ROW
};

const sb_matmul_row *sb_matmul_rows(int *count)
{
    *count = (int)(sizeof table / sizeof *table);
    return table;
}

const sb_matmul_row *sb_matmul_select(samebits_format format, samebits_order order, unsigned cpu)
{
    const sb_matmul_row *best = NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].format == format && table[i].order == order && (table[i].cpu & ~cpu) == 0) best = &table[i];
    return best;
}
