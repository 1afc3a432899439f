/* MLX's affine weights: three tensors (samebits/weights.h). */
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
    if (k % group)
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
static samebits_status check_scales(const DLTensor *tensor, const char *name, int64_t n, int64_t groups, sb_view *view)
{
    const samebits_status status = sb_view_of(tensor, name, SB_SET_FLOATS, 2, 2, view);
    if (status || (view->shape[0] == n && view->shape[1] == groups)) return status;
    return sb_fail(SAMEBITS_ERR_SHAPE, "%s is [%lld, %lld], want [%lld, %lld]: a number for each group of w's rows",
                   name, (long long)view->shape[0], (long long)view->shape[1], (long long)n, (long long)groups);
}

/* The words of w as rows of k weights. */
static samebits_status check_words(const DLTensor *w, int bits, sb_view *view, int64_t *k)
{
    const samebits_status status = sb_view_of(w, "w", SB_SET_U32, 2, 2, view);
    if (status) return status;
    if (view->shape[1] % bits)
        return sb_fail(SAMEBITS_ERR_FORMAT, "a row of w has %lld words, want a multiple of %d, its bits",
                       (long long)view->shape[1], bits);
    if (view->shape[1] > 1 && view->stride[1] != 1)
        return sb_fail(SAMEBITS_ERR_STRIDE, "w has stride %lld between words of a row, want 1",
                       (long long)view->stride[1]);
    *k = view->shape[1] / bits * 32;
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
    sb_view words, scale, bias;
    samebits_status status = describe(bits, group, SAMEBITS_FORMAT_F32, 0, &rows.format, &rows.group);
    if (status || (status = check_words(w, bits, &words, &rows.k)) ||
        (status = describe(bits, group, SAMEBITS_FORMAT_F32, rows.k, &rows.format, &rows.group)) ||
        (status = check_scales(scales, "scales", words.shape[0], rows.k / group, &scale)) ||
        (status = check_scales(biases, "biases", words.shape[0], rows.k / group, &bias)))
        return status;
    if (scale.dtype != bias.dtype)
        return sb_fail(SAMEBITS_ERR_DTYPE, "biases is %s, want %s as scales has", sb_dtype_name(bias.dtype),
                       sb_dtype_name(scale.dtype));
    rows.data = words.data;
    rows.n = words.shape[0];
    rows.row_stride = words.stride[0] * 4;
    rows.group.scales = sb_format_of(scale.dtype);
    rows.scales = scale.data;
    rows.biases = bias.data;
    for (int i = 0; i < 2; i++) {
        rows.scale_stride[i] = scale.stride[i];
        rows.bias_stride[i] = bias.stride[i];
    }
    return sb_weights_make(context, &rows, storage, weights);
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

samebits_status samebits_weights_restore_affine(const samebits_weights *weights, void *w, void *scales, void *biases)
{
    const samebits_status status = check_affine(weights);
    if (status) return status;
    if (!w || !scales || !biases)
        return sb_fail(SAMEBITS_ERR_NULL, "%s is NULL", !w ? "w" : !scales ? "scales" : "biases");
    const int64_t k = weights->k, panel_size = sb_panel_size(weights->format, weights->group, k);
    const int64_t row_size = k / 32 * sb_format_info(weights->format)->block_bytes;
    const int64_t scale_size = k / 32 / weights->group.steps * sb_element_size(weights->group.scales);
    for (int64_t row = 0; row < weights->n; row += SB_PANEL)
        sb_unpack_panel_affine(weights->format, weights->group, k, weights->panels + row / SB_PANEL * panel_size, 0,
                               (int)SB_MIN(SB_PANEL, weights->n - row), (char *)w + row * row_size,
                               (char *)scales + row * scale_size, (char *)biases + row * scale_size);
    return SAMEBITS_OK;
}
