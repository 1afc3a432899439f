#include "kernels/elementwise/elementwise.h"

static const sb_elementwise_row table[] = {
#define SB_ELEMENTWISE_ROW(symbol, order, cpu) {#symbol, symbol, order, cpu},
#include "kernels/elementwise/elementwise.inc"
#undef SB_ELEMENTWISE_ROW
};

SB_KERNEL_SELECT(elementwise)
