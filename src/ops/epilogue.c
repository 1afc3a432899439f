/* From sums to stored outputs (spec/ops/matmul.md, section epilogue). */
#include "order/epilogue.h"

#include "ops/product.h"

void samebits_epilogue_default(samebits_epilogue *epilogue)
{
    if (epilogue) *epilogue = (samebits_epilogue){.struct_size = sizeof *epilogue, .alpha = 1.0f};
}

samebits_status sb_epilogue_of(const samebits_epilogue *e, const sb_view *out, sb_epilogue *checked)
{
    *checked = (sb_epilogue){.alpha = 1.0f};
    if (!e) return SAMEBITS_OK;
    if (e->struct_size != sizeof *e)
        return sb_fail(SAMEBITS_ERR_PARAM, "epilogue.struct_size is %zu, want %zu: call samebits_epilogue_default first",
                       e->struct_size, sizeof *e);
    if ((unsigned)e->activation >= SAMEBITS_ACTIVATION_COUNT)
        return sb_fail(SAMEBITS_ERR_PARAM, "epilogue.activation is %d, want one of samebits_activation",
                       (int)e->activation);
    checked->alpha = e->alpha;
    checked->beta = e->beta;
    checked->activation = e->activation;
    samebits_status status;
    if (e->c) {
        checked->has_c = 1;
        if ((status = sb_view_of(e->c, "c", SB_SET_FLOATS, 0, SB_MAX_DIMS, &checked->c)) ||
            (status = sb_broadcast(&checked->c, "c", out->ndim, out->shape)) ||
            (status = sb_check_overlap(out, &checked->c, "c", 1)))
            return status;
    }
    if (e->bias) {
        checked->has_bias = 1;
        if ((status = sb_view_of(e->bias, "bias", SB_SET_FLOATS, 1, 1, &checked->bias)) ||
            (status = sb_check_overlap(out, &checked->bias, "bias", 0)))
            return status;
        const int64_t n = out->shape[out->ndim - 1];
        if (checked->bias.shape[0] != n)
            return sb_fail(SAMEBITS_ERR_SHAPE, "bias has %lld elements, want %lld, one a column",
                           (long long)checked->bias.shape[0], (long long)n);
    }
    return SAMEBITS_OK;
}

static void store_row(const sb_product *p, int64_t batch_row, int64_t col, int64_t cols, const float *acc)
{
    const sb_epilogue *e = &p->epilogue;
    const int last = p->out.ndim - 1;
    const int64_t out = sb_row_offset(&p->out, 1, batch_row), step = p->out.stride[last];
    const int64_t c = e->has_c ? sb_row_offset(&e->c, 1, batch_row) : 0, c_step = e->has_c ? e->c.stride[last] : 0;
    for (int64_t i = 0; i < cols; i++) {
        float t = e->alpha * acc[i];
        if (e->has_c) t = fmaf(e->beta, sb_load(&e->c, c + (col + i) * c_step), t);
        if (e->has_bias) t = t + sb_load(&e->bias, (col + i) * e->bias.stride[0]);
        if (e->activation) t = sb_activation(e->activation, t);
        sb_store(&p->out, out + (col + i) * step, t);
    }
}

void sb_epilogue_store(const sb_product *p, int64_t batch, int64_t row, int64_t rows, int64_t col, int64_t cols,
                       const float *acc, int64_t acc_stride)
{
    const sb_epilogue *e = &p->epilogue;
    const int plain = e->alpha == 1.0f && !e->has_c && !e->has_bias && !e->activation && p->out.dtype == SB_F32 &&
                      (p->out.stride[p->out.ndim - 1] == 1 || p->n == 1);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t batch_row = batch * p->m + row + r;
        const float *sums = acc + r * acc_stride;
        if (!plain) {
            store_row(p, batch_row, col, cols, sums);
            continue;
        }
        float *out = (float *)p->out.data + sb_row_offset(&p->out, 1, batch_row) + col;
        for (int64_t i = 0; i < cols; i++) out[i] = sb_canonical(sums[i]);
    }
}
