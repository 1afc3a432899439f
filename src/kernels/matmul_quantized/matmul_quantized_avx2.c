#include "kernels/matmul_quantized/int8_simd.h"

#define DEFINE(name, format)                                                                      \
    void sb_matmul_int8_##name##_avx2(const sb_matmul_args *a) { matmul_int8(format, a); }        \
    void sb_pack_int8_##name##_avx2(const float *const *x, int rows, int64_t k, void *out)        \
    {                                                                                             \
        pack_int8(format, x, rows, k, out);                                                       \
    }

DEFINE(q4_0, SAMEBITS_FORMAT_Q4_0)
DEFINE(q5_0, SAMEBITS_FORMAT_Q5_0)
DEFINE(q8_0, SAMEBITS_FORMAT_Q8_0)
DEFINE(q4_k, SAMEBITS_FORMAT_Q4_K)
DEFINE(q5_k, SAMEBITS_FORMAT_Q5_K)
DEFINE(q6_k, SAMEBITS_FORMAT_Q6_K)
