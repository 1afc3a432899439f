/* MLX's weights: rows, and scales that are tensors of their own (samebits/weights.h). */
#include <samebits/weights.h>

#include "formats/elements.h"
#include "ops/rows.h"
#include "ops/weights.h"

static const int bits_of[] = {2, 3, 4, 5, 6, 8};

/* SAMEBITS_FORMAT_COUNT if there is none. */
static samebits_format format_of(int bits)
{
    for (int i = 0; i < (int)(sizeof bits_of / sizeof *bits_of); i++)
        if (bits_of[i] == bits) return (samebits_format)(SAMEBITS_FORMAT_AFFINE_2 + i);
    return SAMEBITS_FORMAT_COUNT;
}

/* Weights a scale, of a format of floats. */
static int64_t group_of(samebits_format format) { return format == SAMEBITS_FORMAT_MLX_NVFP4 ? 16 : 32; }

/* Checks bits, group and the scales' dtype, and that groups divide k. */
static samebits_status describe(int bits, int group, samebits_format scales, int64_t k, samebits_format *format,
                                sb_group *described)
{
    *format = format_of(bits);
    if (*format == SAMEBITS_FORMAT_COUNT)
        return sb_fail(SAMEBITS_ERR_PARAM, "bits is %d, want 2, 3, 4, 5, 6 or 8", bits);
    if (group != 32 && group != 64 && group != 128)
        return sb_fail(SAMEBITS_ERR_PARAM, "group is %d, want 32, 64 or 128", group);
    if (!sb_format_info(scales) || !sb_format_is_float(scales))
        return sb_fail(SAMEBITS_ERR_PARAM, "scales is %d, want the format F32, F16 or BF16", (int)scales);
    if (k >= 0 && k % group) /* sb_weights_bytes refuses k < 0 */
        return sb_fail(SAMEBITS_ERR_FORMAT, "K is %lld, want a multiple of the group, %d", (long long)k, group);
    *described = (sb_group){group / 32, scales};
    return SAMEBITS_OK;
}

samebits_status samebits_weights_size_affine(const samebits_affine *affine, int64_t n, int64_t k, size_t *bytes)
{
    if (!affine || !bytes) return sb_fail(SAMEBITS_ERR_NULL, "%s is NULL", affine ? "bytes" : "affine");
    samebits_format format;
    sb_group group;
    const samebits_status status = describe(affine->bits, affine->group, affine->scales, k, &format, &group);
    return status ? status : sb_weights_bytes(format, group, n, k, bytes);
}

/* scales or biases, for n rows of `groups`. */
static samebits_status check_scales(const DLTensor *tensor, const char *name, unsigned dtypes, int64_t n,
                                    int64_t groups, sb_view *view)
{
    const samebits_status status = sb_view_of(tensor, name, dtypes, 2, 2, view);
    if (status || (view->shape[0] == n && view->shape[1] == groups)) return status;
    return sb_fail(SAMEBITS_ERR_SHAPE, "%s is [%lld, %lld], want [%lld, %lld]: a number for each group of w's rows",
                   name, (long long)view->shape[0], (long long)view->shape[1], (long long)n, (long long)groups);
}

/* w as rows of weights, whose 32-bit words or bytes are contiguous. */
static samebits_status check_words(const DLTensor *w, unsigned dtypes, int bits, sb_rows *rows)
{
    sb_view view;
    const samebits_status status = sb_view_of(w, "w", dtypes, 2, 2, &view);
    if (status) return status;
    const int size = sb_dtype_size(view.dtype), block = 4 * bits / size; /* of 32 weights */
    const char *unit = size == 4 ? "words" : "bytes";
    if (view.shape[1] % block)
        return sb_fail(SAMEBITS_ERR_FORMAT, "a row of w has %lld %s, want a multiple of %d: 32 weights of %d bits",
                       (long long)view.shape[1], unit, block, bits);
    rows->data = view.data;
    rows->n = view.shape[0];
    rows->k = view.shape[1] / block * 32;
    rows->row_stride = view.stride[0] * size;
    return sb_check_side_by_side(&view, "w", unit);
}

samebits_status sb_affine_rows_of(const DLTensor *w, const DLTensor *scales, const DLTensor *biases, int bits,
                                  int group, sb_rows *rows, sb_view *scale, sb_view *bias)
{
    samebits_status status = describe(bits, group, SAMEBITS_FORMAT_F32, 0, &rows->format, &rows->group);
    if (status || (status = check_words(w, SB_SET_U32, bits, rows)) ||
        (status = describe(bits, group, SAMEBITS_FORMAT_F32, rows->k, &rows->format, &rows->group)) ||
        (status = check_scales(scales, "scales", SB_SET_FLOATS, rows->n, rows->k / group, scale)) ||
        (status = check_scales(biases, "biases", SB_SET_FLOATS, rows->n, rows->k / group, bias)))
        return status;
    if (scale->dtype != bias->dtype)
        return sb_fail(SAMEBITS_ERR_DTYPE, "biases is %s, want %s as scales has", sb_dtype_name(bias->dtype),
                       sb_dtype_name(scale->dtype));
    rows->group.scales = sb_format_of(scale->dtype);
    rows->scales = scale->data;
    rows->biases = bias->data;
    for (int i = 0; i < 2; i++) {
        rows->scale_stride[i] = scale->stride[i];
        rows->bias_stride[i] = bias->stride[i];
    }
    return SAMEBITS_OK;
}

samebits_status samebits_weights_prepare_affine(samebits_context *context, const DLTensor *w, const DLTensor *scales,
                                                const DLTensor *biases, int bits, int group, void *storage,
                                                samebits_weights **weights)
{
    if (!weights) return sb_fail(SAMEBITS_ERR_NULL, "weights is NULL: pass the address of a samebits_weights *");
    *weights = NULL;
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
    sb_rows rows = {0};
    sb_view scale, bias;
    const samebits_status status = sb_affine_rows_of(w, scales, biases, bits, group, &rows, &scale, &bias);
    return status ? status : sb_weights_make(context, &rows, storage, weights);
}

static samebits_status check_affine(const samebits_weights *weights)
{
    if (!weights) return sb_fail(SAMEBITS_ERR_NULL, "weights is NULL");
    if (sb_format_is_affine(weights->format)) return SAMEBITS_OK;
    return sb_fail(SAMEBITS_ERR_FORMAT, "weights are %s, want an affine format", samebits_format_name(weights->format));
}

samebits_status samebits_weights_affine(const samebits_weights *weights, samebits_affine *affine)
{
    const samebits_status status = check_affine(weights);
    if (status) return status;
    if (!affine) return sb_fail(SAMEBITS_ERR_NULL, "affine is NULL");
    *affine = (samebits_affine){.bits = bits_of[weights->format - SAMEBITS_FORMAT_AFFINE_2],
                                .group = weights->group.steps * 32,
                                .scales = weights->group.scales};
    return SAMEBITS_OK;
}

/* All panels; biases of an affine format alone. */
static void restore(const samebits_weights *weights, char *w, char *scales, char *biases)
{
    const int64_t k = weights->k, panel_size = sb_panel_size(weights->format, weights->group, k);
    const int64_t row_size = k / 32 * sb_format_info(weights->format)->block_bytes;
    const int64_t scale_size = weights->group.steps
                                   ? k / 32 / weights->group.steps * sb_element_size(weights->group.scales)
                                   : k / group_of(weights->format);
    for (int64_t row = 0; row < weights->n; row += SB_PANEL)
        sb_unpack_panel_mlx(weights->format, weights->group, k, weights->panels + row / SB_PANEL * panel_size, 0,
                            (int)SB_MIN(SB_PANEL, weights->n - row), w + row * row_size, scales + row * scale_size,
                            biases ? biases + row * scale_size : NULL);
}

samebits_status samebits_weights_restore_affine(const samebits_weights *weights, void *w, void *scales, void *biases)
{
    const samebits_status status = check_affine(weights);
    if (status) return status;
    if (!w || !scales || !biases)
        return sb_fail(SAMEBITS_ERR_NULL, "%s is NULL", !w ? "w" : !scales ? "scales" : "biases");
    restore(weights, w, scales, biases);
    return SAMEBITS_OK;
}

static samebits_status check_scaled(samebits_format format)
{
    if (sb_format_is_scaled(format)) return SAMEBITS_OK;
    return sb_fail(SAMEBITS_ERR_FORMAT, "format %d (%s) is not one of MLX_MXFP4, MLX_MXFP8 and MLX_NVFP4", (int)format,
                   samebits_format_name(format));
}

samebits_status samebits_weights_size_scaled(samebits_format format, int64_t n, int64_t k, size_t *bytes)
{
    if (!bytes) return sb_fail(SAMEBITS_ERR_NULL, "bytes is NULL: pass the address of a size_t");
    const samebits_status status = check_scaled(format);
    return status ? status : sb_weights_bytes(format, (sb_group){0}, n, k, bytes);
}

samebits_status sb_scaled_rows_of(const DLTensor *w, const DLTensor *scales, samebits_format format, sb_rows *rows,
                                  sb_view *scale)
{
    samebits_status status = check_scaled(format);
    if (status || (status = check_words(w, SB_SET_U32 | SB_SET_U8, sb_format_info(format)->block_bytes / 4, rows)) ||
        (status = check_scales(scales, "scales", SB_SET_U8, rows->n, rows->k / group_of(format), scale)))
        return status;
    rows->format = format;
    rows->scales = scale->data;
    for (int i = 0; i < 2; i++) rows->scale_stride[i] = scale->stride[i];
    return SAMEBITS_OK;
}

samebits_status samebits_weights_prepare_scaled(samebits_context *context, const DLTensor *w, const DLTensor *scales,
                                                samebits_format format, void *storage, samebits_weights **weights)
{
    if (!weights) return sb_fail(SAMEBITS_ERR_NULL, "weights is NULL: pass the address of a samebits_weights *");
    *weights = NULL;
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
    sb_rows rows = {0};
    sb_view scale;
    const samebits_status status = sb_scaled_rows_of(w, scales, format, &rows, &scale);
    return status ? status : sb_weights_make(context, &rows, storage, weights);
}

samebits_status samebits_weights_restore_scaled(const samebits_weights *weights, void *w, void *scales)
{
    if (!weights || !w || !scales)
        return sb_fail(SAMEBITS_ERR_NULL, "%s is NULL", !weights ? "weights" : !w ? "w" : "scales");
    const samebits_status status = check_scaled(weights->format);
    if (status) return status;
    restore(weights, w, scales, NULL);
    return SAMEBITS_OK;
}
