#include "kernels/reduce/reduce.h"

static const sb_reduce_row table[] = {
#define SB_REDUCE_ROW(symbol, order, cpu) {#symbol, symbol, order, cpu},
#include "kernels/reduce/reduce.inc"
#undef SB_REDUCE_ROW
};

SB_KERNEL_SELECT(reduce)
