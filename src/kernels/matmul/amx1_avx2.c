#include "kernels/matmul/amx1_simd.h"

void sb_matmul_amx1_bf16_avx2(const sb_matmul_args *a) { matmul_amx1(a); }
