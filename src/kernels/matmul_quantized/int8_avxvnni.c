#include "kernels/matmul_quantized/int8_simd.h"

void sb_matmul_int8_q4_0_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_Q4_0, a); }
void sb_matmul_int8_q4_1_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_Q4_1, a); }
void sb_matmul_int8_q5_0_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_Q5_0, a); }
void sb_matmul_int8_q5_1_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_Q5_1, a); }
void sb_matmul_int8_q8_0_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_Q8_0, a); }
void sb_matmul_int8_iq4_nl_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_IQ4_NL, a); }
void sb_matmul_int8_mxfp4_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_MXFP4, a); }
void sb_matmul_int8_q2_k_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_Q2_K, a); }
void sb_matmul_int8_q3_k_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_Q3_K, a); }
void sb_matmul_int8_q4_k_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_Q4_K, a); }
void sb_matmul_int8_q5_k_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_Q5_K, a); }
void sb_matmul_int8_q6_k_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_Q6_K, a); }
void sb_matmul_int8_affine_2_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_AFFINE_2, a); }
void sb_matmul_int8_affine_3_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_AFFINE_3, a); }
void sb_matmul_int8_affine_4_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_AFFINE_4, a); }
void sb_matmul_int8_affine_5_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_AFFINE_5, a); }
void sb_matmul_int8_affine_6_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_AFFINE_6, a); }
void sb_matmul_int8_affine_8_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_AFFINE_8, a); }
void sb_matmul_int8_mlx_mxfp4_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_MLX_MXFP4, a); }
void sb_matmul_int8_mlx_nvfp4_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_MLX_NVFP4, a); }
void sb_matmul_int8_nvfp4_avxvnni(const sb_matmul_args *a) { matmul_int8(SAMEBITS_FORMAT_NVFP4, a); }
