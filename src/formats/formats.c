#include "formats/formats.h"

/* block and block_bytes are facts of the GGUF formats (ggml's ggml-common.h). */
static const sb_format table[SAMEBITS_FORMAT_COUNT] = {
    [SAMEBITS_FORMAT_F32] = {"f32", 1, 4, 4 * SB_PANEL},
    [SAMEBITS_FORMAT_F16] = {"f16", 1, 2, 2 * SB_PANEL},
    [SAMEBITS_FORMAT_BF16] = {"bf16", 1, 2, 2 * SB_PANEL},
};

const sb_format *sb_format_info(samebits_format format)
{
    const unsigned i = (unsigned)format;
    return i < SAMEBITS_FORMAT_COUNT && table[i].name ? &table[i] : NULL;
}

void sb_pack_panel(const sb_rows *rows, int64_t panel, void *out) { sb_pack_panel_float(rows, panel, out); }

void sb_unpack_panel(samebits_format format, int64_t n, int64_t k, int64_t panel, const void *in, void *rows,
                     int64_t row_stride_bytes)
{
    sb_unpack_panel_float(format, n, k, panel, in, rows, row_stride_bytes);
}
