/* Any bytes are weights: each format packs them, gives them back byte for byte, and multiplies them with the same bits
 * at every CPU level, packed or not. Input: format, rows, order, then the blocks. */
#include "fuzz.h"

enum { ROWS = 5, MOST = 1 << 13 };

static samebits_status product(samebits_context *context, const samebits_weights *packed, const DLTensor *w,
                               samebits_format format, samebits_order order, int64_t k, float *out)
{
    static float x[ROWS * MOST];
    int64_t x_shape[2] = {ROWS, k}, out_shape[2] = {ROWS, w->shape[0]};
    for (int64_t i = 0; i < ROWS * k; i++) x[i] = (float)(i * 7919 % 2003 - 1001) * 0x1p-9f;
    const DLTensor in = {.data = x, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = x_shape};
    DLTensor result = in;
    result.data = out;
    result.shape = out_shape;
    if (packed) return samebits_linear_prepared(context, &in, packed, order, NULL, &result);
    return samebits_matmul_quantized(context, &in, w, format, order, NULL, &result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const samebits_cpu levels[] = {SAMEBITS_CPU_SCALAR, SAMEBITS_CPU_AVX2, SAMEBITS_CPU_AVX512};
    static uint8_t blocks[MOST], back[MOST];
    static float want[ROWS * MOST], have[ROWS * MOST];
    bytes b = {data, data + size};
    fuzz_memory memory = {.limit = 64u << 20, .fail_at = -1};
    const samebits_format format = (samebits_format)choose(&b, SAMEBITS_FORMAT_COUNT + 1);
    const int64_t rows = 1 + choose(&b, 20);
    const samebits_order order = (samebits_order)choose(&b, 4);
    size_t row_size = 0;
    const int64_t block = samebits_format_block(format);
    if (samebits_format_row_size(format, block, &row_size)) {
        REQUIRE(block == 0 && *samebits_last_error());
        return 0;
    }
    const int64_t count = (b.end - b.at) / (int64_t)row_size / rows; /* blocks a row */
    const int64_t bytes_a_row = count * (int64_t)row_size, k = count * block;
    if (rows * bytes_a_row > MOST || k > MOST) return 0;
    memcpy(blocks, b.at, (size_t)(rows * bytes_a_row));
    static const DLDataType types[] = {{kDLFloat, 32, 1}, {kDLFloat, 16, 1}, {kDLBfloat, 16, 1}, {kDLUInt, 8, 1}};
    const int quantised = format >= SAMEBITS_FORMAT_Q4_0;
    int64_t shape[2] = {rows, quantised ? bytes_a_row : k};
    const DLTensor w = {
        .data = blocks, .device = {kDLCPU, 0}, .ndim = 2, .dtype = types[quantised ? 3 : format], .shape = shape};
    samebits_weights *packed = NULL;
    samebits_context *context = fuzz_context(&memory, SAMEBITS_CPU_AUTO);
    const samebits_status status = samebits_weights_prepare(context, &w, format, NULL, &packed);
    if (format >= SAMEBITS_FORMAT_AFFINE_2 && format <= SAMEBITS_FORMAT_MLX_NVFP4) { /* scales beside the blocks */
        REQUIRE(status == SAMEBITS_ERR_FORMAT && !packed);
        samebits_destroy(&context);
        return 0;
    }
    REQUIRE(status == SAMEBITS_OK && packed);
    REQUIRE(samebits_weights_restore(packed, back, (size_t)bytes_a_row) == SAMEBITS_OK);
    REQUIRE(!memcmp(blocks, back, (size_t)(rows * bytes_a_row)));
    int products = 0;
    for (int i = 0; i < 6; i++) {
        samebits_context *level = fuzz_context(&memory, levels[i / 2]);
        memset(have, 0xA5, sizeof have);
        const samebits_status done = product(level, i % 2 && quantised ? NULL : packed, &w, format, order, k, have);
        if (done) REQUIRE(*samebits_last_error() && (uint8_t) * (char *)have == 0xA5);
        if (!done && products++) REQUIRE(!memcmp(want, have, (size_t)(ROWS * rows) * sizeof *have));
        memcpy(want, have, sizeof want);
        samebits_destroy(&level);
    }
    REQUIRE(products == 0 || products == 6);
    samebits_weights_destroy(&packed);
    samebits_destroy(&context);
    REQUIRE(memory.live == 0);
    return 0;
}
