#include "kernels/matmul/matmul_simd.h"

void SB_ISA(sb_matmul_f32)(const sb_matmul_args *a) { matmul(SAMEBITS_FORMAT_F32, a); }
void SB_ISA(sb_matmul_f16)(const sb_matmul_args *a) { matmul(SAMEBITS_FORMAT_F16, a); }
void SB_ISA(sb_matmul_bf16)(const sb_matmul_args *a) { matmul(SAMEBITS_FORMAT_BF16, a); }
