#include "kernels/softmax/softmax.h"

static const sb_softmax_row table[] = {
#define SB_SOFTMAX_ROW(symbol, order, cpu) {#symbol, symbol, order, cpu},
#include "kernels/softmax/softmax.inc"
#undef SB_SOFTMAX_ROW
};

SB_KERNEL_SELECT(softmax)
