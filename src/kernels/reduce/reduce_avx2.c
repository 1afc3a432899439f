#include "kernels/reduce/reduce_simd.h"

void SB_ISA(sb_reduce)(sb_reduce_args *a) { reduce(a); }
