#include "kernels/norm/norm.h"

static const sb_norm_row table[] = {
#define SB_NORM_ROW(symbol, order, cpu) {#symbol, symbol, order, cpu},
#include "kernels/norm/norm.inc"
#undef SB_NORM_ROW
};

SB_KERNEL_SELECT(norm)
