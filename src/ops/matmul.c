/* Entry points of the matrix products (samebits/matmul.h): check, describe, run. */
#include <samebits/matmul.h>

#include "base/cpu.h"
#include "ops/mode.h"
#include "ops/product.h"
#include "ops/rows.h"
#include "ops/weights.h"

static samebits_status check_context(const samebits_context *context)
{
    return context ? SAMEBITS_OK : sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
}

/* Of products of floats; in a mode all other numbers are a host's concern. */
enum { PRODUCT_DTYPES = SB_SET_FLOATS | SB_SET_WIDE, CHECKED_DTYPES = PRODUCT_DTYPES | SB_SET_OTHER };

static samebits_status check_out_dtype(const sb_view *x, const sb_view *out)
{
    if (out->dtype == x->dtype) return SAMEBITS_OK;
    if (sb_dtype_is_wide(x->dtype))
        return sb_fail(SAMEBITS_ERR_DTYPE, "out is %s, want the input's %s", sb_dtype_name(out->dtype),
                       sb_dtype_name(x->dtype));
    if (out->dtype == SB_F32) return SAMEBITS_OK;
    return sb_fail(SAMEBITS_ERR_DTYPE, "out is %s, want f32 or the input's %s", sb_dtype_name(out->dtype),
                   sb_dtype_name(x->dtype));
}

/* out must be `batch` dims, then (m, n). */
static samebits_status check_out_shape(const sb_view *out, int batch_dims, const int64_t *batch, int64_t m, int64_t n)
{
    int same = out->ndim == batch_dims + 2;
    for (int i = 0; same && i < batch_dims; i++) same = out->shape[i] == batch[i];
    if (same && out->shape[batch_dims] == m && out->shape[batch_dims + 1] == n) return SAMEBITS_OK;
    sb_view want = {.ndim = batch_dims + 2};
    for (int i = 0; i < batch_dims; i++) want.shape[i] = batch[i];
    want.shape[batch_dims] = m;
    want.shape[batch_dims + 1] = n;
    char have_text[128], want_text[128];
    return sb_fail(SAMEBITS_ERR_SHAPE, "out is %s, want %s", sb_shape_text(out, have_text),
                   sb_shape_text(&want, want_text));
}

/* The batch dims that a and b broadcast to; returns their number, -1 if they do not fit. */
static int batch_shape(const sb_view *a, const sb_view *b, int64_t shape[SB_MAX_DIMS])
{
    const int ndim = SB_MAX(a->ndim, b->ndim) - 2;
    for (int i = 0; i < ndim; i++) {
        const int ia = i - (ndim - (a->ndim - 2)), ib = i - (ndim - (b->ndim - 2));
        const int64_t sa = ia < 0 ? 1 : a->shape[ia], sb = ib < 0 ? 1 : b->shape[ib];
        if (sa != sb && sa != 1 && sb != 1) return -1;
        shape[i] = sa == 1 ? sb : sa;
    }
    return ndim;
}

/* Fills in batches, m, n, k and the broadcast views of a product of x (..., M, K) and w (..., N, K).
 * Without batch dims in w, all leading dims of x count as rows. */
static samebits_status describe(sb_product *p, sb_view *w, int batch_dims, const int64_t *batch)
{
    int64_t shape[SB_MAX_DIMS];
    memcpy(shape, batch, sizeof shape);
    shape[batch_dims] = p->m;
    shape[batch_dims + 1] = p->k;
    samebits_status status = sb_broadcast(&p->x, "a", batch_dims + 2, shape);
    if (status) return status;
    p->batches = 1;
    if (w && w->ndim > 2) {
        shape[batch_dims] = p->n;
        if ((status = sb_broadcast(w, "b", batch_dims + 2, shape))) return status;
        for (int i = 0; i < batch_dims; i++) p->batches *= batch[i];
    } else {
        for (int i = 0; i < batch_dims; i++) p->m *= batch[i];
    }
    if (w) p->w = *w;
    return SAMEBITS_OK;
}

static samebits_status check_dtypes(const sb_view *x, const char *x_name, const sb_view *w, const char *w_name,
                                    const sb_view *out)
{
    samebits_status status;
    if ((status = sb_check_dtype(x, x_name, PRODUCT_DTYPES)) || (status = sb_check_dtype(w, w_name, PRODUCT_DTYPES)) ||
        (status = sb_check_dtype(out, "out", PRODUCT_DTYPES)))
        return status;
    const int wide = sb_dtype_is_wide(x->dtype) || sb_dtype_is_wide(w->dtype);
    if (x->dtype != w->dtype && (wide || out->dtype != SB_F32))
        return sb_fail(SAMEBITS_ERR_DTYPE, "%s is %s and %s is %s: want them alike%s", x_name, sb_dtype_name(x->dtype),
                       w_name, sb_dtype_name(w->dtype), wide ? "" : ", or out f32");
    return check_out_dtype(x, out);
}

/* x (..., M, K) and w (..., N, K) as views, with the names that the caller knows them by. */
static samebits_status float_product(samebits_context *context, sb_product *p, sb_view *w, const char *x_name,
                                     const char *w_name, const samebits_epilogue *epilogue)
{
    char x_text[128], w_text[128];
    const samebits_status dtypes = check_dtypes(&p->x, x_name, w, w_name, &p->out);
    if (dtypes && !sb_mode_is_on()) return dtypes;
    p->m = p->x.shape[p->x.ndim - 2];
    p->k = p->x.shape[p->x.ndim - 1];
    p->n = w->shape[w->ndim - 2];
    int64_t batch[SB_MAX_DIMS] = {0};
    const int batch_dims = batch_shape(&p->x, w, batch);
    if (w->shape[w->ndim - 1] != p->k || batch_dims < 0)
        return sb_fail(SAMEBITS_ERR_SHAPE, "%s %s and %s %s do not fit: want the same K and batch dims that broadcast",
                       x_name, sb_shape_text(&p->x, x_text), w_name, sb_shape_text(w, w_text));
    samebits_status status;
    if ((status = check_out_shape(&p->out, batch_dims, batch, p->m, p->n)) || (status = sb_check_output(&p->out)) ||
        (status = sb_check_overlap(&p->out, &p->x, x_name, 0)) || (status = sb_check_overlap(&p->out, w, w_name, 0)) ||
        (status = describe(p, w, batch_dims, batch)))
        return status;
    if (dtypes) return sb_mode_without_row(context, dtypes, p, epilogue != NULL);
    if ((status = sb_epilogue_of(epilogue, &p->out, &p->epilogue))) return status;
    p->order = SAMEBITS_ORDER_PORTABLE_1;
    p->rows = (sb_rows){.format = sb_format_of(w->dtype),
                        .data = w->data,
                        .n = p->n,
                        .k = p->k,
                        .row_stride = w->stride[w->ndim - 2],
                        .col_stride = w->stride[w->ndim - 1]};
    return sb_mode_offer(context, p) ? SAMEBITS_OK : sb_product_run(context, p);
}

samebits_status samebits_matmul(samebits_context *context, const DLTensor *a, const DLTensor *b,
                                const samebits_epilogue *epilogue, DLTensor *out)
{
    sb_product p = {0};
    sb_view w;
    samebits_status status;
    if ((status = check_context(context)) || (status = sb_view_of(a, "a", CHECKED_DTYPES, 2, SB_MAX_DIMS, &p.x)) ||
        (status = sb_view_of(b, "b", CHECKED_DTYPES, 2, SB_MAX_DIMS, &w)) ||
        (status = sb_view_of(out, "out", CHECKED_DTYPES, 2, SB_MAX_DIMS, &p.out)))
        return status;
    sb_swap_dims(&w, w.ndim - 2, w.ndim - 1);
    return float_product(context, &p, &w, "a", "b", epilogue);
}

/* A vector x becomes one row: the 1-D case of linear. */
static void add_row_dim(sb_view *v)
{
    if (v->ndim != 1) return;
    v->ndim = 2;
    v->shape[1] = v->shape[0];
    v->stride[1] = v->stride[0];
    v->shape[0] = 1;
    v->stride[0] = 0;
}

samebits_status samebits_linear(samebits_context *context, const DLTensor *x, const DLTensor *w,
                                const samebits_epilogue *epilogue, DLTensor *out)
{
    sb_product p = {0};
    sb_view weights;
    samebits_status status;
    if ((status = check_context(context)) || (status = sb_view_of(x, "x", CHECKED_DTYPES, 1, SB_MAX_DIMS, &p.x)) ||
        (status = sb_view_of(w, "w", CHECKED_DTYPES, 2, 2, &weights)) ||
        (status = sb_view_of(out, "out", CHECKED_DTYPES, 1, SB_MAX_DIMS, &p.out)))
        return status;
    add_row_dim(&p.x);
    add_row_dim(&p.out);
    return float_product(context, &p, &weights, "x", "w", epilogue);
}

samebits_status samebits_addmm(samebits_context *context, const DLTensor *c, const DLTensor *a, const DLTensor *b,
                               double alpha, double beta, DLTensor *out)
{
    if (!c) return sb_fail(SAMEBITS_ERR_NULL, "c is NULL: pass a DLTensor, or call samebits_matmul");
    samebits_epilogue e;
    samebits_epilogue_default(&e);
    e.alpha = alpha;
    e.beta = beta;
    e.c = c;
    return samebits_matmul(context, a, b, &e, out);
}

samebits_status sb_weights_product(samebits_context *context, sb_product *p, int64_t n, int64_t k, const DLTensor *x,
                                   const samebits_epilogue *epilogue, const DLTensor *out)
{
    samebits_status status;
    if ((status = sb_view_of(x, "x", SB_SET_FLOATS, 1, SB_MAX_DIMS, &p->x)) ||
        (status = sb_view_of(out, "out", SB_SET_FLOATS, 1, SB_MAX_DIMS, &p->out)))
        return status;
    add_row_dim(&p->x);
    add_row_dim(&p->out);
    const int batch_dims = p->x.ndim - 2;
    p->m = p->x.shape[batch_dims];
    p->k = p->x.shape[batch_dims + 1];
    p->n = n;
    if (p->k != k)
        return sb_fail(SAMEBITS_ERR_SHAPE, "x has %lld columns, want the weights' depth %lld", (long long)p->k,
                       (long long)k);
    if ((status = check_out_dtype(&p->x, &p->out)) ||
        (status = check_out_shape(&p->out, batch_dims, p->x.shape, p->m, p->n)) ||
        (status = sb_check_output(&p->out)) || (status = sb_check_overlap(&p->out, &p->x, "x", 0)) ||
        (!p->weights && (status = sb_check_overlap(&p->out, &p->w, "w", 0))) ||
        (status = sb_epilogue_of(epilogue, &p->out, &p->epilogue)) ||
        (status = describe(p, NULL, batch_dims, p->x.shape)))
        return status;
    return sb_product_run(context, p);
}

samebits_status samebits_linear_prepared(samebits_context *context, const DLTensor *x, const samebits_weights *weights,
                                         samebits_order order, const samebits_epilogue *epilogue, DLTensor *out)
{
    sb_product p = {.weights = weights, .order = order};
    samebits_status status;
    if ((status = check_context(context))) return status;
    if (!weights) return sb_fail(SAMEBITS_ERR_NULL, "weights is NULL: make them with samebits_weights_prepare");
    return sb_weights_product(context, &p, weights->n, weights->k, x, epilogue, out);
}

samebits_order samebits_device_order(const samebits_context *context, samebits_format format)
{
    const int has_unit = context && (context->cpu & SB_CPU_AMX) && format == SAMEBITS_FORMAT_BF16;
    return has_unit ? SAMEBITS_ORDER_AMX_1 : SAMEBITS_ORDER_PORTABLE_1;
}

samebits_status samebits_matmul_quantized(samebits_context *context, const DLTensor *x, const DLTensor *w,
                                          samebits_format format, samebits_order order,
                                          const samebits_epilogue *epilogue, DLTensor *out)
{
    sb_product p = {.order = order};
    samebits_status status;
    if ((status = check_context(context))) return status;
    if (sb_format_info(format) && sb_format_is_float(format))
        return sb_fail(SAMEBITS_ERR_FORMAT, "format %s is not quantised: call samebits_linear",
                       samebits_format_name(format));
    if ((status = sb_rows_of(w, "w", format, &p.rows, &p.w))) return status;
    return sb_weights_product(context, &p, p.rows.n, p.rows.k, x, epilogue, out);
}
