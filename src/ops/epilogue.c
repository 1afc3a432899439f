/* From sums to stored outputs (spec/ops/matmul.md, section epilogue). */
#include "ops/product.h"
#include "ops/rows.h"

void samebits_epilogue_default(samebits_epilogue *epilogue)
{
    if (epilogue) *epilogue = (samebits_epilogue){.struct_size = sizeof *epilogue, .alpha = 1.0f};
}

samebits_status sb_epilogue_of(const samebits_epilogue *e, const sb_view *out, sb_epilogue *checked)
{
    *checked = (sb_epilogue){.alpha = 1.0f};
    if (!e) return SAMEBITS_OK;
    if (e->struct_size != sizeof *e)
        return sb_fail(SAMEBITS_ERR_PARAM,
                       "epilogue.struct_size is %zu, want %zu: call samebits_epilogue_default first", e->struct_size,
                       sizeof *e);
    if ((unsigned)e->activation >= SAMEBITS_ACTIVATION_COUNT)
        return sb_fail(SAMEBITS_ERR_PARAM, "epilogue.activation is %d, want one of samebits_activation",
                       (int)e->activation);
    checked->alpha = e->alpha;
    checked->beta = e->beta;
    checked->activation = e->activation;
    const int wide = sb_dtype_is_wide(out->dtype);
    const unsigned dtypes = wide ? 1u << out->dtype : SB_SET_FLOATS;
    if (wide && e->activation && (out->dtype == SB_C64 || e->activation != SAMEBITS_ACTIVATION_RELU))
        return sb_fail(SAMEBITS_ERR_PARAM, "epilogue.activation is %d, want none%s: out is %s", (int)e->activation,
                       out->dtype == SB_F64 ? " or relu" : "", sb_dtype_name(out->dtype));
    samebits_status status;
    if (e->c) {
        checked->has_c = 1;
        if ((status = sb_view_of(e->c, "c", dtypes, 0, SB_MAX_DIMS, &checked->c)) ||
            (status = sb_broadcast(&checked->c, "c", out->ndim, out->shape)) ||
            (status = sb_check_overlap(out, &checked->c, "c", 1)))
            return status;
    }
    if (e->bias) {
        checked->has_bias = 1;
        if ((status = sb_view_of(e->bias, "bias", dtypes, 1, 1, &checked->bias)) ||
            (status = sb_check_overlap(out, &checked->bias, "bias", 0)))
            return status;
        const int64_t n = out->shape[out->ndim - 1];
        if (checked->bias.shape[0] != n)
            return sb_fail(SAMEBITS_ERR_SHAPE, "bias has %lld elements, want %lld, one a column",
                           (long long)checked->bias.shape[0], (long long)n);
    }
    return SAMEBITS_OK;
}

enum { PIECE = 256 }; /* columns at once, as many as a buffer of floats holds */

/* Elements [offset, offset + n * step) as the kernel wants them: in place where they are contiguous, else
 * gathered into buffer, floats of 16 bits widened. */
static const void *columns(const sb_view *v, int64_t offset, int64_t step, int64_t n, float *buffer,
                           samebits_format *format)
{
    const char *data = v->data + offset * sb_dtype_size(v->dtype);
    *format = sb_format_of(v->dtype);
    if (step == 1 || n == 1) return data;
    if (sb_format_is_wide(*format)) {
        for (int64_t i = 0; i < n; i++) memcpy(buffer + 2 * i, data + i * step * 8, 8);
        return buffer;
    }
    *format = SAMEBITS_FORMAT_F32;
    for (int64_t i = 0; i < n; i++) buffer[i] = sb_load(v, offset + i * step);
    return buffer;
}

static void scatter(const sb_view *out, int64_t offset, int64_t step, int64_t n, const float *values)
{
    char *data = out->data + offset * sb_dtype_size(out->dtype);
    if (sb_dtype_is_wide(out->dtype))
        for (int64_t i = 0; i < n; i++) memcpy(data + i * step * 8, values + 2 * i, 8);
    else
        for (int64_t i = 0; i < n; i++) sb_store(out, offset + i * step, values[i]);
}

static void store_piece(const sb_epilogue_row *kernel, const sb_product *p, int64_t batch_row, int64_t col, int64_t n,
                        const float *acc)
{
    const sb_epilogue *e = &p->epilogue;
    const int last = p->out.ndim - 1, is_complex = p->out.dtype == SB_C64;
    _Alignas(double) float c[PIECE], bias[PIECE], values[PIECE];
    sb_epilogue_args a = {.n = n, .acc = acc, .alpha = e->alpha, .beta = e->beta, .activation = e->activation};
    if (e->has_c) {
        const int64_t step = e->c.stride[last];
        a.c = columns(&e->c, sb_row_offset(&e->c, 1, batch_row) + col * step, step, n, c, &a.c_format);
    }
    if (e->has_bias) {
        const int64_t step = e->bias.stride[0];
        a.bias = columns(&e->bias, col * step, step, n, bias, &a.bias_format);
    }
    const int64_t step = p->out.stride[last], out = sb_row_offset(&p->out, 1, batch_row) + col * step;
    const int contiguous = step == 1 || n == 1;
    a.out = contiguous ? (void *)(p->out.data + out * sb_dtype_size(p->out.dtype)) : values;
    a.out_format = contiguous || p->out.dtype == SB_F64 ? sb_format_of(p->out.dtype) : SAMEBITS_FORMAT_F32;
    if (is_complex) { /* the parts are columns of their own */
        a.n = 2 * n;
        a.c_format = a.bias_format = a.out_format = SAMEBITS_FORMAT_F32;
    }
    kernel->fn(&a);
    if (!contiguous) scatter(&p->out, out, step, n, values);
}

void sb_epilogue_store(const sb_epilogue_row *kernel, const sb_product *p, int64_t batch, int64_t row, int64_t rows,
                       int64_t col, int64_t cols, const float *acc, int64_t acc_stride)
{
    const int width = sb_dtype_is_wide(p->out.dtype) ? 2 : 1, piece = PIECE / width;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < cols; i += piece)
            store_piece(kernel, p, sb_product_row(p, batch, row + r), col + i, SB_MIN(piece, cols - i),
                        acc + r * acc_stride + i * width);
}
