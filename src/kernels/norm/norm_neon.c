#include "kernels/norm/norm_simd.h"

void SB_ISA(sb_norm)(const sb_norm_args *a) { norm(a); }
