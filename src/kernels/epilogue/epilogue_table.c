#include "kernels/epilogue/epilogue.h"

static const sb_epilogue_row table[] = {
#define SB_EPILOGUE_ROW(symbol, order, cpu) {#symbol, symbol, order, cpu},
#include "kernels/epilogue/epilogue.inc"
#undef SB_EPILOGUE_ROW
};

SB_KERNEL_SELECT(epilogue)
