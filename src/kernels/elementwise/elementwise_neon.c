#include "kernels/elementwise/elementwise_simd.h"

void SB_ISA(sb_elementwise)(const sb_elementwise_args *a) { elementwise(a); }
