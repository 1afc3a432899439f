#include "formats/formats.h"

/* block and block_bytes are facts of the GGUF formats (ggml's ggml-common.h). */
static const sb_format table[SAMEBITS_FORMAT_COUNT] = {
    [SAMEBITS_FORMAT_F32] = {"f32", 1, 4, 4 * SB_PANEL},
    [SAMEBITS_FORMAT_F16] = {"f16", 1, 2, 2 * SB_PANEL},
    [SAMEBITS_FORMAT_BF16] = {"bf16", 1, 2, 2 * SB_PANEL},
    [SAMEBITS_FORMAT_Q4_0] = {"q4_0", 32, 18, 18 * SB_PANEL},
    [SAMEBITS_FORMAT_Q4_1] = {"q4_1", 32, 20, 20 * SB_PANEL},
    [SAMEBITS_FORMAT_Q5_0] = {"q5_0", 32, 22, 22 * SB_PANEL},
    [SAMEBITS_FORMAT_Q5_1] = {"q5_1", 32, 24, 24 * SB_PANEL},
    [SAMEBITS_FORMAT_Q8_0] = {"q8_0", 32, 34, 34 * SB_PANEL},
    [SAMEBITS_FORMAT_IQ4_NL] = {"iq4_nl", 32, 18, 18 * SB_PANEL},
    [SAMEBITS_FORMAT_MXFP4] = {"mxfp4", 32, 17, 17 * SB_PANEL},
    [SAMEBITS_FORMAT_Q2_K] = {"q2_k", 256, 84, 84 * SB_PANEL},
    [SAMEBITS_FORMAT_Q3_K] = {"q3_k", 256, 110, 114 * SB_PANEL}, /* 6-bit scales as bytes: 4 more a column */
    [SAMEBITS_FORMAT_Q4_K] = {"q4_k", 256, 144, 148 * SB_PANEL}, /* the same */
    [SAMEBITS_FORMAT_Q5_K] = {"q5_k", 256, 176, 180 * SB_PANEL},
    [SAMEBITS_FORMAT_Q6_K] = {"q6_k", 256, 210, 210 * SB_PANEL},
    /* The integers alone. */
    [SAMEBITS_FORMAT_AFFINE_2] = {"affine_2", 32, 8, 8 * SB_PANEL},
    [SAMEBITS_FORMAT_AFFINE_3] = {"affine_3", 32, 12, 12 * SB_PANEL},
    [SAMEBITS_FORMAT_AFFINE_4] = {"affine_4", 32, 16, 16 * SB_PANEL},
    [SAMEBITS_FORMAT_AFFINE_5] = {"affine_5", 32, 20, 20 * SB_PANEL},
    [SAMEBITS_FORMAT_AFFINE_6] = {"affine_6", 32, 24, 24 * SB_PANEL},
    [SAMEBITS_FORMAT_AFFINE_8] = {"affine_8", 32, 32, 32 * SB_PANEL},
    /* The floats alone; the scales are in the panels. */
    [SAMEBITS_FORMAT_MLX_MXFP4] = {"mlx_mxfp4", 32, 16, 17 * SB_PANEL},
    [SAMEBITS_FORMAT_MLX_MXFP8] = {"mlx_mxfp8", 32, 32, 33 * SB_PANEL},
    [SAMEBITS_FORMAT_MLX_NVFP4] = {"mlx_nvfp4", 32, 16, 18 * SB_PANEL},
    [SAMEBITS_FORMAT_NVFP4] = {"nvfp4", 64, 36, 36 * SB_PANEL},
};

const sb_format *sb_format_info(samebits_format format)
{
    const unsigned i = (unsigned)format;
    return i < SAMEBITS_FORMAT_COUNT && table[i].name ? &table[i] : NULL;
}

void sb_pack_panel(const sb_rows *rows, int64_t panel, void *out)
{
    if (!rows->k) return; /* no bytes, and the tensor's memory may be NULL */
    if (sb_format_is_mlx(rows->across))
        sb_pack_panel_across(rows, panel, out);
    else if (sb_format_is_wide(rows->format))
        sb_pack_panel_wide(rows, panel, out);
    else if (sb_format_is_float(rows->format))
        sb_pack_panel_float(rows, panel, out);
    else if (sb_format_is_mlx(rows->format))
        sb_pack_panel_mlx(rows, panel, out);
    else
        sb_pack_panel_gguf(rows, panel, out);
}

void sb_unpack_panel(samebits_format format, int64_t k, const void *in, int column, int count, void *rows,
                     int64_t row_stride_bytes)
{
    if (sb_format_is_float(format))
        sb_unpack_panel_float(format, k, in, column, count, rows, row_stride_bytes);
    else
        sb_unpack_panel_gguf(format, k, in, column, count, rows, row_stride_bytes);
}
