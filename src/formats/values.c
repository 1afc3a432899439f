/* Rows of weights as f32, by the formulas of spec/formats.md. */
#include "formats/elements.h"
#include "formats/quant.h"

/* The format is a constant and the inner loop stays one, so that the compiler makes vectors of it. */
SB_INLINE void values_of(samebits_format f, const sb_quant_block *restrict block, int64_t count, float *restrict out)
{
    const int part = SB_STEP / sb_quant_parts(f);
    for (int begin = 0; begin < count; begin += part) {
        const sb_quant_factors of = sb_quant_factors_of(f, block, begin / SB_STEP, begin % SB_STEP);
        _Pragma("GCC unroll 1") for (int i = begin; i < begin + part; i++) out[i] = sb_quant_value(f, of, block->q[i]);
    }
}

static void block_values(samebits_format format, const sb_quant_block *block, int64_t count, float *out)
{
    switch (format) {
    case SAMEBITS_FORMAT_Q4_0: values_of(SAMEBITS_FORMAT_Q4_0, block, count, out); break;
    case SAMEBITS_FORMAT_Q4_1: values_of(SAMEBITS_FORMAT_Q4_1, block, count, out); break;
    case SAMEBITS_FORMAT_Q5_0: values_of(SAMEBITS_FORMAT_Q5_0, block, count, out); break;
    case SAMEBITS_FORMAT_Q5_1: values_of(SAMEBITS_FORMAT_Q5_1, block, count, out); break;
    case SAMEBITS_FORMAT_Q8_0: values_of(SAMEBITS_FORMAT_Q8_0, block, count, out); break;
    case SAMEBITS_FORMAT_IQ4_NL: values_of(SAMEBITS_FORMAT_IQ4_NL, block, count, out); break;
    case SAMEBITS_FORMAT_Q4_K: values_of(SAMEBITS_FORMAT_Q4_K, block, count, out); break;
    case SAMEBITS_FORMAT_Q5_K: values_of(SAMEBITS_FORMAT_Q5_K, block, count, out); break;
    case SAMEBITS_FORMAT_Q6_K: values_of(SAMEBITS_FORMAT_Q6_K, block, count, out); break;
    default: values_of(format, block, count, out); break;
    }
}

void sb_row_values(const sb_rows *rows, int64_t row, float *out)
{
    if (sb_format_is_float(rows->format)) {
        for (int64_t i = 0; i < rows->k; i++)
            out[i] = sb_element(rows->format, rows->data, row * rows->row_stride + i * rows->col_stride);
        return;
    }
    const sb_format *f = sb_format_info(rows->format);
    const uint8_t *bytes = (const uint8_t *)rows->data + row * rows->row_stride;
    sb_quant_block block;
    for (int64_t i = 0; i < rows->k; i += f->block, bytes += f->block_bytes) {
        sb_quant_read(rows->format, bytes, &block);
        block_values(rows->format, &block, f->block, out + i);
    }
}

void sb_panel_values(samebits_format format, sb_group group, const void *panel, int64_t k, int column, float *out)
{
    if (sb_format_is_float(format)) {
        for (int64_t i = 0; i < k; i++) out[i] = sb_element(format, panel, sb_panel_index(format, i, column));
        return;
    }
    const int64_t size = sb_quant_steps(format) * SB_STEP;
    sb_quant_block block;
    for (int64_t i = 0; i < k / size; i++) {
        sb_quant_get(format, group, panel, k, i, column, &block);
        block_values(format, &block, size, out + i * size);
    }
}
