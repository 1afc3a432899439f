/* Products with MLX's weights as they lie, along K or along N (samebits/matmul.h). */
#include <samebits/matmul.h>

#include "ops/product.h"
#include "ops/weights.h"

/* Rows along K become columns along N, whose values are packed as f32. */
static samebits_status turn(sb_rows *rows, samebits_order order)
{
    if (order != SAMEBITS_ORDER_PORTABLE_1)
        return sb_fail(SAMEBITS_ERR_ORDER, "order %d (%s) has no kernel for weights along N: want portable-1",
                       (int)order, samebits_order_name(order));
    const int64_t n = rows->k;
    rows->k = rows->n;
    rows->n = n;
    rows->across = rows->format;
    rows->across_group = rows->group;
    rows->format = SAMEBITS_FORMAT_F32;
    rows->group = (sb_group){0};
    return SAMEBITS_OK;
}

/* p has w and its rows; scale and bias lie beside them, bias of affine weights alone. */
static samebits_status product(samebits_context *context, sb_product *p, const sb_view *scale, const sb_view *bias,
                               int transpose, const DLTensor *x, const samebits_epilogue *epilogue, DLTensor *out)
{
    sb_view to;
    samebits_status status;
    if ((status = sb_view_of(out, "out", SB_SET_FLOATS, 1, SB_MAX_DIMS, &to)) ||
        (status = sb_check_overlap(&to, scale, "scales", 0)) ||
        (bias && (status = sb_check_overlap(&to, bias, "biases", 0))) ||
        (!transpose && (status = turn(&p->rows, p->order))))
        return status;
    return sb_weights_product(context, p, p->rows.n, p->rows.k, x, epilogue, out);
}

samebits_status samebits_matmul_affine(samebits_context *context, const DLTensor *x, const DLTensor *w,
                                       const DLTensor *scales, const DLTensor *biases, int bits, int group,
                                       int transpose, samebits_order order, const samebits_epilogue *epilogue,
                                       DLTensor *out)
{
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
    sb_product p = {.order = order};
    sb_view scale, bias;
    samebits_status status;
    if ((status = sb_affine_rows_of(w, scales, biases, bits, group, &p.rows, &scale, &bias)) ||
        (status = sb_view_of(w, "w", SB_SET_U32, 2, 2, &p.w)))
        return status;
    return product(context, &p, &scale, &bias, transpose, x, epilogue, out);
}

samebits_status samebits_matmul_scaled(samebits_context *context, const DLTensor *x, const DLTensor *w,
                                       const DLTensor *scales, samebits_format format, int transpose,
                                       samebits_order order, const samebits_epilogue *epilogue, DLTensor *out)
{
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
    sb_product p = {.order = order};
    sb_view scale;
    samebits_status status;
    if ((status = sb_scaled_rows_of(w, scales, format, &p.rows, &scale)) ||
        (status = sb_view_of(w, "w", SB_SET_U32 | SB_SET_U8, 2, 2, &p.w)))
        return status;
    return product(context, &p, &scale, NULL, transpose, x, epilogue, out);
}
