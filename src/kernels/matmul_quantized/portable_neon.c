#include "kernels/matmul_quantized/portable_simd.h"

void sb_matmul_q4_0_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_Q4_0, a); }
void sb_matmul_q4_1_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_Q4_1, a); }
void sb_matmul_q5_0_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_Q5_0, a); }
void sb_matmul_q5_1_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_Q5_1, a); }
void sb_matmul_q8_0_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_Q8_0, a); }
void sb_matmul_iq4_nl_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_IQ4_NL, a); }
void sb_matmul_mxfp4_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_MXFP4, a); }
void sb_matmul_q2_k_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_Q2_K, a); }
void sb_matmul_q3_k_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_Q3_K, a); }
void sb_matmul_q4_k_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_Q4_K, a); }
void sb_matmul_q5_k_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_Q5_K, a); }
void sb_matmul_q6_k_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_Q6_K, a); }
void sb_matmul_affine_2_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_AFFINE_2, a); }
void sb_matmul_affine_3_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_AFFINE_3, a); }
void sb_matmul_affine_4_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_AFFINE_4, a); }
void sb_matmul_affine_5_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_AFFINE_5, a); }
void sb_matmul_affine_6_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_AFFINE_6, a); }
void sb_matmul_affine_8_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_AFFINE_8, a); }
void sb_matmul_mlx_mxfp4_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_MLX_MXFP4, a); }
void sb_matmul_mlx_nvfp4_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_MLX_NVFP4, a); }
void sb_matmul_nvfp4_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_NVFP4, a); }
void sb_matmul_mlx_mxfp8_neon(const sb_matmul_args *a) { matmul_portable(SAMEBITS_FORMAT_MLX_MXFP8, a); }
