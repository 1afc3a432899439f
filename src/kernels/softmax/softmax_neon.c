#include "kernels/softmax/softmax_simd.h"

void SB_ISA(sb_softmax)(const sb_softmax_args *a) { softmax(a); }
