/* Ops element by element (samebits/elementwise.h): check, bring all operands into one shape of few dims, run pieces. */
#include <samebits/elementwise.h>

#include "device/cpu/parallel.h"
#include "kernels/elementwise/elementwise.h"
#include "ops/rows.h"

typedef struct {
    sb_view x, y, out; /* y.data NULL: one operand */
    sb_elementwise_args args;
    const sb_elementwise_row *row;
    int64_t rows, n;           /* of out: rows of its last dim */
    int64_t row_pieces, block; /* tasks a row; or, where that is 1, rows a task */
} elementwise;

enum { TASK_ELEMENTS = 16384, GATHER = 256 /* elements at once where they are not contiguous */ };

/* Where a kernel reads n elements from: in place, or widened into buffer. */
static const void *read_from(const sb_view *v, int64_t offset, int64_t n, float *buffer, samebits_format *format,
                             int *step)
{
    const int64_t stride = v->stride[v->ndim - 1];
    *format = sb_format_of(v->dtype);
    *step = stride != 0;
    if (stride <= 1) return v->data + offset * sb_dtype_size(v->dtype);
    *format = SAMEBITS_FORMAT_F32;
    for (int64_t i = 0; i < n; i++) buffer[i] = sb_load(v, offset + i * stride);
    return buffer;
}

/* Elements [begin, begin + n) of one row. */
static void run_piece(const elementwise *e, int64_t row, int64_t begin, int64_t n)
{
    float x[GATHER], y[GATHER], out[GATHER];
    sb_elementwise_args a = e->args;
    const int last = e->out.ndim - 1;
    const int64_t x_at = sb_row_offset(&e->x, 1, row) + begin * e->x.stride[last];
    const int64_t y_at = e->y.data ? sb_row_offset(&e->y, 1, row) + begin * e->y.stride[last] : 0;
    const int64_t step = e->out.stride[last], out_at = sb_row_offset(&e->out, 1, row) + begin * step;
    const int plain = e->x.stride[last] <= 1 && (!e->y.data || e->y.stride[last] <= 1) && step == 1;
    for (int64_t i = 0; i < n; i += a.n) {
        a.n = plain ? n : SB_MIN(GATHER, n - i);
        a.x = read_from(&e->x, x_at + i * e->x.stride[last], a.n, x, &a.x_format, &a.x_step);
        if (e->y.data) a.y = read_from(&e->y, y_at + i * e->y.stride[last], a.n, y, &a.y_format, &a.y_step);
        a.out_format = step == 1 ? sb_format_of(e->out.dtype) : SAMEBITS_FORMAT_F32;
        a.out = step == 1 ? (void *)(e->out.data + (out_at + i) * sb_dtype_size(e->out.dtype)) : out;
        e->row->fn(&a);
        for (int64_t k = 0; k < a.n && step != 1; k++) sb_store(&e->out, out_at + (i + k) * step, out[k]);
    }
}

static void piece_task(void *arg, int64_t index, int worker)
{
    (void)worker;
    const elementwise *e = arg;
    if (e->row_pieces > 1) {
        const int64_t begin = index % e->row_pieces * TASK_ELEMENTS;
        run_piece(e, index / e->row_pieces, begin, SB_MIN(TASK_ELEMENTS, e->n - begin));
        return;
    }
    for (int64_t r = index * e->block; r < SB_MIN((index + 1) * e->block, e->rows); r++) run_piece(e, r, 0, e->n);
}

static void move_dim(sb_view *v, int from, int to)
{
    v->shape[to] = v->shape[from];
    v->stride[to] = v->stride[from];
}

/* No element knows its place: the dims may go in any sequence, and neighbours that are steps of one stride become one.
 * The views have one shape; out's longest stride comes first. */
static void simplify(sb_view *views[], int count)
{
    sb_view *out = views[0];
    for (int i = 1; i < out->ndim; i++)
        for (int j = i; j > 0 && out->stride[j] > out->stride[j - 1]; j--)
            for (int v = 0; v < count; v++) sb_swap_dims(views[v], j, j - 1);
    int kept = 0;
    for (int i = 0; i < out->ndim; i++) {
        if (out->shape[i] == 1) continue;
        int one = kept > 0;
        for (int v = 0; v < count && one; v++)
            one = views[v]->stride[kept - 1] == views[v]->stride[i] * views[v]->shape[i];
        for (int v = 0; v < count; v++) {
            const int64_t before = one ? views[v]->shape[kept - 1] : 1;
            move_dim(views[v], i, one ? kept - 1 : kept);
            views[v]->shape[one ? kept - 1 : kept] *= before;
        }
        kept += !one;
    }
    for (int v = 0; v < count; v++) {
        if (!kept) views[v]->shape[0] = views[v]->stride[0] = 1;
        views[v]->ndim = SB_MAX(kept, 1);
    }
}

static samebits_status run(const samebits_context *context, elementwise *e)
{
    if (e->out.count == 0) return SAMEBITS_OK;
    sb_view *views[] = {&e->out, &e->x, &e->y};
    simplify(views, e->y.data ? 3 : 2);
    e->n = e->out.shape[e->out.ndim - 1];
    e->rows = e->out.count / e->n;
    e->row_pieces = sb_ceil_div(e->n, TASK_ELEMENTS);
    e->block = sb_rows_a_task(e->n);
    e->row = sb_elementwise_select(context->cpu);
    sb_parallel(context, e->row_pieces > 1 ? e->rows * e->row_pieces : sb_ceil_div(e->rows, e->block), piece_task, e);
    return SAMEBITS_OK;
}

/* Every size of out must be that of an operand. */
static samebits_status check_out_shape(const elementwise *e, const char *x_name, const char *y_name)
{
    const sb_view *in[] = {&e->x, &e->y};
    for (int i = 0; i < e->out.ndim; i++) {
        int64_t want = 1;
        for (int v = 0; v < 2; v++) {
            const int at = i - (e->out.ndim - in[v]->ndim);
            if (at >= 0 && in[v]->shape[at] != 1) want = in[v]->shape[at];
        }
        if (want != e->out.shape[i])
            return sb_fail(SAMEBITS_ERR_SHAPE, "out has size %lld in dimension %d, %s and %s broadcast to %lld",
                           (long long)e->out.shape[i], i, x_name, y_name, (long long)want);
    }
    return SAMEBITS_OK;
}

/* Two operands that broadcast to out. */
static samebits_status run_two(const samebits_context *context, elementwise *e, const DLTensor *x, const char *x_name,
                               const DLTensor *y, const char *y_name, const DLTensor *out)
{
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
    samebits_status status;
    if ((status = sb_view_of(x, x_name, SB_SET_FLOATS, 0, SB_MAX_DIMS, &e->x)) ||
        (status = sb_view_of(y, y_name, SB_SET_FLOATS, 0, SB_MAX_DIMS, &e->y)) ||
        (status = sb_view_of(out, "out", SB_SET_FLOATS, 0, SB_MAX_DIMS, &e->out)) ||
        (status = sb_check_output(&e->out)))
        return status;
    if (e->out.dtype != SB_F32 && e->out.dtype != e->x.dtype && e->out.dtype != e->y.dtype)
        return sb_fail(SAMEBITS_ERR_DTYPE, "out is %s, want f32, %s's %s or %s's %s", sb_dtype_name(e->out.dtype),
                       x_name, sb_dtype_name(e->x.dtype), y_name, sb_dtype_name(e->y.dtype));
    const elementwise given = *e;
    if ((status = sb_broadcast(&e->x, x_name, e->out.ndim, e->out.shape)) ||
        (status = sb_broadcast(&e->y, y_name, e->out.ndim, e->out.shape)) ||
        (status = check_out_shape(&given, x_name, y_name)) ||
        (status = sb_check_overlap(&e->out, &given.x, x_name, 1)) ||
        (status = sb_check_overlap(&e->out, &given.y, y_name, 1)))
        return status;
    return run(context, e);
}

static samebits_status run_one(const samebits_context *context, elementwise *e, const DLTensor *x, const DLTensor *out)
{
    const samebits_status status = sb_check_rows(context, x, out, &e->x, &e->out);
    return status ? status : run(context, e);
}

static samebits_status check_activation(samebits_activation activation)
{
    if ((unsigned)activation < SAMEBITS_ACTIVATION_COUNT) return SAMEBITS_OK;
    return sb_fail(SAMEBITS_ERR_PARAM, "activation is %d, want one of samebits_activation", (int)activation);
}

samebits_status samebits_activate(samebits_context *context, const DLTensor *x, samebits_activation activation,
                                  DLTensor *out)
{
    elementwise e = {.args = {.op = SB_ELEMENTWISE_ACTIVATE, .activation = activation}};
    const samebits_status status = check_activation(activation);
    return status ? status : run_one(context, &e, x, out);
}

samebits_status samebits_gated(samebits_context *context, const DLTensor *x, const DLTensor *y,
                               samebits_activation activation, DLTensor *out)
{
    elementwise e = {.args = {.op = SB_ELEMENTWISE_GATED, .activation = activation}};
    const samebits_status status = check_activation(activation);
    return status ? status : run_two(context, &e, x, "x", y, "y", out);
}

samebits_status samebits_add(samebits_context *context, const DLTensor *a, const DLTensor *b, DLTensor *out)
{
    elementwise e = {.args = {.op = SB_ELEMENTWISE_ADD}};
    return run_two(context, &e, a, "a", b, "b", out);
}

samebits_status samebits_sub(samebits_context *context, const DLTensor *a, const DLTensor *b, DLTensor *out)
{
    elementwise e = {.args = {.op = SB_ELEMENTWISE_SUB}};
    return run_two(context, &e, a, "a", b, "b", out);
}

samebits_status samebits_mul(samebits_context *context, const DLTensor *a, const DLTensor *b, DLTensor *out)
{
    elementwise e = {.args = {.op = SB_ELEMENTWISE_MUL}};
    return run_two(context, &e, a, "a", b, "b", out);
}

samebits_status samebits_div(samebits_context *context, const DLTensor *a, const DLTensor *b, DLTensor *out)
{
    elementwise e = {.args = {.op = SB_ELEMENTWISE_DIV}};
    return run_two(context, &e, a, "a", b, "b", out);
}

samebits_status samebits_scale(samebits_context *context, const DLTensor *x, float scale, float bias, DLTensor *out)
{
    elementwise e = {.args = {.op = SB_ELEMENTWISE_SCALE, .scale = scale, .bias = bias}};
    return run_one(context, &e, x, out);
}
