/* Products with affine weights as they lie, along K or along N (samebits/matmul.h). */
#include <samebits/matmul.h>

#include "ops/product.h"
#include "ops/weights.h"

samebits_status samebits_matmul_affine(samebits_context *context, const DLTensor *x, const DLTensor *w,
                                       const DLTensor *scales, const DLTensor *biases, int bits, int group,
                                       int transpose, samebits_order order, const samebits_epilogue *epilogue,
                                       DLTensor *out)
{
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
    sb_product p = {.order = order};
    sb_view scale, bias, to;
    samebits_status status;
    if ((status = sb_affine_rows_of(w, scales, biases, bits, group, &p.rows, &scale, &bias)) ||
        (status = sb_view_of(w, "w", SB_SET_U32, 2, 2, &p.w)) ||
        (status = sb_view_of(out, "out", SB_SET_FLOATS, 1, SB_MAX_DIMS, &to)) ||
        (status = sb_check_overlap(&to, &scale, "scales", 0)) || (status = sb_check_overlap(&to, &bias, "biases", 0)))
        return status;
    sb_rows *rows = &p.rows;
    if (!transpose) {
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
    }
    return sb_weights_product(context, &p, rows->n, rows->k, x, epilogue, out);
}
