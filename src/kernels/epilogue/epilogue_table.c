#include "kernels/epilogue/epilogue.h"

static const sb_epilogue_row table[] = {
#define SB_EPILOGUE_ROW(symbol, order, cpu) {#symbol, symbol, order, cpu},
#include "kernels/epilogue/epilogue.inc"
#undef SB_EPILOGUE_ROW
};

const sb_epilogue_row *sb_epilogue_rows(int *count)
{
    *count = (int)(sizeof table / sizeof *table);
    return table;
}

const sb_epilogue_row *sb_epilogue_select(unsigned cpu)
{
    const sb_epilogue_row *best = table;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if ((table[i].cpu & ~cpu) == 0) best = &table[i];
    return best;
}
