/* MLX's rows to panels and back (quant.h): a bit stream of integers or of small floats, and scales beside it. */
#include "formats/elements.h"
#include "formats/quant.h"

SB_INLINE int bits_of(samebits_format format) { return sb_quant_low_bits(format) + sb_quant_high_bits(format); }

/* Element i is bits [i * bits, (i + 1) * bits) of the row, from the lowest. 8 elements are whole bytes. */
SB_INLINE void read_stream(int bits, const uint8_t *in, int count, uint8_t *q)
{
    uint32_t held = 0;
    for (int i = 0, have = 0; i < count; i++, have -= bits) {
        for (; have < bits; have += 8) held |= (uint32_t)*in++ << have;
        q[i] = (uint8_t)(held & ((1u << bits) - 1));
        held >>= bits;
    }
}

static void write_stream(int bits, const uint8_t *q, uint8_t *out)
{
    uint32_t held = 0;
    for (int i = 0, have = 0; i < SB_STEP; i++) {
        held |= (uint32_t)q[i] << have;
        for (have += bits; have >= 8; have -= 8, held >>= 8) *out++ = (uint8_t)held;
    }
}

/* The scales of a group of an affine format; the minima, which are minus the biases, follow them. */
static uint8_t *group_scales(samebits_format format, sb_group group, const uint8_t *panel, int64_t k, int64_t index)
{
    return (uint8_t *)sb_quant_scales(format, panel, k) + index * 2 * SB_PANEL * sb_element_size(group.scales);
}

static void negate(samebits_format type, void *bits) { ((uint8_t *)bits)[sb_element_size(type) - 1] ^= 0x80; }

static void pack_affine_scales(const sb_rows *rows, int64_t col, int column, uint8_t *panel)
{
    const size_t size = (size_t)sb_element_size(rows->group.scales);
    for (int64_t g = 0; g < rows->k / SB_STEP / rows->group.steps; g++) {
        uint8_t *scales = group_scales(rows->format, rows->group, panel, rows->k, g) + size * (size_t)column;
        uint8_t *minima = scales + size * SB_PANEL;
        memset(scales, 0, size);
        memset(minima, 0, size);
        if (col >= rows->n) continue;
        const int64_t scale = col * rows->scale_stride[0] + g * rows->scale_stride[1];
        const int64_t bias = col * rows->bias_stride[0] + g * rows->bias_stride[1];
        memcpy(scales, (const char *)rows->scales + scale * (int64_t)size, size);
        memcpy(minima, (const char *)rows->biases + bias * (int64_t)size, size);
        negate(rows->group.scales, minima);
    }
}

static void unpack_affine_scales(samebits_format format, sb_group group, int64_t k, const void *panel, int column,
                                 char *scales, char *biases)
{
    const size_t size = (size_t)sb_element_size(group.scales);
    for (int64_t g = 0; g < k / SB_STEP / group.steps; g++) {
        const uint8_t *at = group_scales(format, group, panel, k, g) + size * (size_t)column;
        memcpy(scales + (size_t)g * size, at, size);
        memcpy(biases + (size_t)g * size, at + size * SB_PANEL, size);
        negate(group.scales, biases + (size_t)g * size);
    }
}

void sb_pack_panel_mlx(const sb_rows *rows, int64_t panel, void *out)
{
    const sb_format *f = sb_format_info(rows->format);
    const int64_t steps = rows->k / SB_STEP, groups = steps * sb_quant_parts(rows->format);
    uint8_t *scales = (uint8_t *)sb_quant_scales(rows->format, out, rows->k);
    for (int c = 0; c < SB_PANEL; c++) {
        const int64_t col = panel * SB_PANEL + c;
        const uint8_t *row = (const uint8_t *)rows->data + col * rows->row_stride;
        uint8_t q[SB_STEP] = {0};
        for (int64_t s = 0; s < steps; s++) {
            if (col < rows->n) read_stream(bits_of(rows->format), row + s * f->block_bytes, SB_STEP, q);
            sb_quant_put_step(rows->format, q, c, (uint8_t *)out + s * sb_quant_step_bytes(rows->format));
        }
        if (rows->group.steps) {
            pack_affine_scales(rows, col, c, out);
            continue;
        }
        const uint8_t *from = (const uint8_t *)rows->scales + col * rows->scale_stride[0];
        for (int64_t g = 0; g < groups; g++)
            scales[g * SB_PANEL + c] = col < rows->n ? from[g * rows->scale_stride[1]] : 0;
    }
}

/* Of group `group` of row i, whose weights lie along N. */
SB_INLINE sb_quant_factors factors_across(samebits_format f, const sb_rows *rows, int64_t i, int64_t group)
{
    const int64_t scale = i * rows->scale_stride[0] + group * rows->scale_stride[1];
    if (sb_format_is_affine(f)) {
        const samebits_format type = rows->across_group.scales;
        const int64_t bias = i * rows->bias_stride[0] + group * rows->bias_stride[1];
        return (sb_quant_factors){sb_element(type, rows->scales, scale), -sb_element(type, rows->biases, bias)};
    }
    const uint8_t byte = ((const uint8_t *)rows->scales)[scale];
    const sb_quant_block block = {.d = byte, .scale = {byte}};
    return sb_quant_factors_of(f, &block, 0, 0);
}

/* The format is a constant. A panel's columns are in one group. */
SB_INLINE void pack_across(samebits_format f, const sb_rows *rows, int64_t panel, float *out)
{
    const int64_t first = panel * SB_PANEL;
    const int64_t size = sb_format_is_affine(f) ? rows->across_group.steps * SB_STEP : SB_STEP / sb_quant_parts(f);
    for (int64_t i = 0; i < rows->k; i++, out += SB_PANEL) {
        const uint8_t *row = (const uint8_t *)rows->data + i * rows->row_stride + first * bits_of(f) / 8;
        const sb_quant_factors factors = factors_across(f, rows, i, first / size);
        uint8_t q[SB_PANEL];
        read_stream(bits_of(f), row, SB_PANEL, q);
        for (int c = 0; c < SB_PANEL; c++) out[c] = sb_quant_value(f, factors, q[c]);
    }
}

void sb_pack_panel_across(const sb_rows *rows, int64_t panel, void *out)
{
    switch (rows->across) {
    case SAMEBITS_FORMAT_AFFINE_4: pack_across(SAMEBITS_FORMAT_AFFINE_4, rows, panel, out); break;
    case SAMEBITS_FORMAT_AFFINE_8: pack_across(SAMEBITS_FORMAT_AFFINE_8, rows, panel, out); break;
    case SAMEBITS_FORMAT_MLX_MXFP4: pack_across(SAMEBITS_FORMAT_MLX_MXFP4, rows, panel, out); break;
    case SAMEBITS_FORMAT_MLX_MXFP8: pack_across(SAMEBITS_FORMAT_MLX_MXFP8, rows, panel, out); break;
    case SAMEBITS_FORMAT_MLX_NVFP4: pack_across(SAMEBITS_FORMAT_MLX_NVFP4, rows, panel, out); break;
    default: pack_across(rows->across, rows, panel, out); break;
    }
}

void sb_unpack_panel_mlx(samebits_format format, sb_group group, int64_t k, const void *in, int column, int count,
                         void *w, void *scales, void *biases)
{
    const sb_format *f = sb_format_info(format);
    const int64_t steps = k / SB_STEP, groups = group.steps ? steps / group.steps : steps * sb_quant_parts(format);
    for (int c = 0; c < count; c++) {
        uint8_t q[SB_STEP];
        for (int64_t s = 0; s < steps; s++) {
            sb_quant_get_step(format, (const uint8_t *)in + s * sb_quant_step_bytes(format), column + c, q);
            write_stream(bits_of(format), q, (uint8_t *)w + (c * steps + s) * f->block_bytes);
        }
        if (group.steps) {
            const int64_t row = c * groups * sb_element_size(group.scales);
            unpack_affine_scales(format, group, k, in, column + c, (char *)scales + row, (char *)biases + row);
            continue;
        }
        const uint8_t *from = sb_quant_scales(format, in, k) + column + c;
        for (int64_t g = 0; g < groups; g++) ((uint8_t *)scales)[c * groups + g] = from[g * SB_PANEL];
    }
}

void sb_affine_get_scales(samebits_format format, sb_group group, const uint8_t *panel, int64_t k, int64_t index,
                          int column, sb_quant_block *block)
{
    const uint8_t *scales = group_scales(format, group, panel, k, index);
    block->d = sb_bits(sb_element(group.scales, scales, column));
    block->dmin = sb_bits(sb_element(group.scales, scales, SB_PANEL + column));
}
