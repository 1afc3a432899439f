#define SB_MATMUL_F64
#include "kernels/matmul/matmul_simd.h"

void SB_ISA(sb_matmul_f64)(const sb_matmul_args *a) { matmul(SB_FORMAT_F64, a); }
