#include "kernels/matmul_quantized/matmul_quantized.h"

static const sb_matmul_row table[] = {
#define SB_MATMUL_QUANTIZED_PACK(symbol)
#define SB_MATMUL_QUANTIZED_ROW(symbol, format, order, cpu, max_tile, pack, pack_bytes, min_rows, whole_tiles)         \
    {#symbol, symbol, format, order, cpu, max_tile, min_rows, whole_tiles, pack, pack_bytes},
#include "kernels/matmul_quantized/matmul_quantized.inc"
#undef SB_MATMUL_QUANTIZED_PACK
#undef SB_MATMUL_QUANTIZED_ROW
};

const sb_matmul_row *sb_matmul_quantized_rows(int *count)
{
    *count = (int)(sizeof table / sizeof *table);
    return table;
}

const sb_matmul_row *sb_matmul_quantized_select(samebits_format format, samebits_order order, unsigned cpu,
                                                int64_t rows)
{
    const sb_matmul_row *best = NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].format == format && table[i].order == order && (table[i].cpu & ~cpu) == 0 &&
            table[i].min_rows <= rows)
            best = &table[i];
    return best;
}
