/* Rows of weights as f32, by the formulas of spec/formats.md. */
#include "formats/elements.h"
#include "formats/quant.h"

static void block_values(samebits_format format, const sb_quant_block *block, int64_t count, float *out)
{
    for (int i = 0; i < count; i++) out[i] = sb_quant_weight(format, block, i / SB_STEP, i % SB_STEP);
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
        for (int64_t i = 0; i < k; i++) out[i] = sb_element(format, panel, i * SB_PANEL + column);
        return;
    }
    const int64_t size = sb_quant_steps(format) * SB_STEP;
    sb_quant_block block;
    for (int64_t i = 0; i < k / size; i++) {
        sb_quant_get(format, group, panel, k, i, column, &block);
        block_values(format, &block, size, out + i * size);
    }
}
