#include "kernels/rope/rope.h"

static const sb_rope_row table[] = {
#define SB_ROPE_ROW(suffix, order, cpu) {"sb_rope_" #suffix, sb_rope_angles_##suffix, sb_rope_##suffix, order, cpu},
#include "kernels/rope/rope.inc"
#undef SB_ROPE_ROW
};

SB_KERNEL_SELECT(rope)
