/* Embedding lookup (samebits/embedding.h): check all ids, then widen row by row. */
#include <samebits/embedding.h>

#include "device/cpu/parallel.h"
#include "kernels/elementwise/elementwise.h"
#include "ops/rows.h"
#include "ops/weights.h"

typedef struct {
    const samebits_weights *weights; /* or NULL: */
    sb_rows rows;
    sb_view id, out;
    int64_t n, k; /* of the table */
    int64_t block;
    const sb_elementwise_row *row; /* stores values in out's dtype */
    char *buffers;                 /* two rows for each worker */
    int64_t row_size;
} embedding;

static int32_t id_of(const embedding *e, int64_t index)
{
    return ((const int32_t *)e->id.data)[sb_row_offset(&e->id, 0, index)];
}

/* The values of a row, as a kernel reads them: where they lie, or widened into buffer. */
static const void *values(const embedding *e, int64_t row, void *buffer, samebits_format *format)
{
    const samebits_weights *w = e->weights;
    const sb_rows *rows = &e->rows;
    *format = SAMEBITS_FORMAT_F32;
    if (!w && sb_format_is_float(rows->format) && rows->col_stride == 1) {
        *format = rows->format;
        return (const char *)rows->data + row * rows->row_stride * sb_element_size(rows->format);
    }
    if (!w) {
        sb_row_values(rows, row, buffer);
        return buffer;
    }
    const uint8_t *panel = w->panels + row / SB_PANEL * sb_panel_size(w->format, w->group, w->k);
    sb_panel_values(w->format, w->group, panel, w->k, (int)(row % SB_PANEL), buffer);
    return buffer;
}

static void embedding_task(void *arg, int64_t index, int worker)
{
    const embedding *e = arg;
    char *buffer = e->buffers + worker * 2 * e->row_size;
    for (int64_t r = index * e->block; r < SB_MIN((index + 1) * e->block, e->id.count); r++) {
        samebits_format format;
        const void *x = values(e, id_of(e, r), buffer, &format);
        void *out = sb_row_out(&e->out, r, buffer + e->row_size);
        sb_elementwise_convert(e->row, e->k, format, x, sb_format_of(e->out.dtype), out);
        sb_row_put(&e->out, r, out);
    }
}

static samebits_status check(embedding *e, const DLTensor *id, const DLTensor *out)
{
    samebits_status status;
    if ((status = sb_view_of(id, "id", SB_SET_I32, 0, SB_MAX_DIMS - 1, &e->id)) ||
        (status = sb_view_of(out, "out", SB_SET_FLOATS, 1, SB_MAX_DIMS, &e->out)))
        return status;
    const int dims = e->id.ndim;
    if (e->out.ndim != dims + 1 || e->out.shape[dims] != e->k || !sb_same_sizes(&e->out, &e->id, dims)) {
        char have[128], want[128];
        return sb_fail(SAMEBITS_ERR_SHAPE, "out is %s, want id's %s and table's %lld columns",
                       sb_shape_text(&e->out, have), sb_shape_text(&e->id, want), (long long)e->k);
    }
    if ((status = sb_check_output(&e->out)) || (status = sb_check_overlap(&e->out, &e->id, "id", 0))) return status;
    for (int64_t r = 0; r < e->id.count; r++)
        if (id_of(e, r) < 0 || id_of(e, r) >= e->n)
            return sb_fail(SAMEBITS_ERR_PARAM, "id %lld is %d, want a row of the table: 0 to %lld", (long long)r,
                           (int)id_of(e, r), (long long)e->n - 1);
    return SAMEBITS_OK;
}

static samebits_status run(const samebits_context *context, embedding *e)
{
    if (e->out.count == 0) return SAMEBITS_OK;
    e->block = sb_rows_a_task(e->k);
    const int64_t tasks = sb_ceil_div(e->id.count, e->block);
    int64_t size;
    e->row = sb_elementwise_select(context->cpu);
    e->row_size = sb_round_up(e->k * (int64_t)sizeof(float), SB_ALIGN); /* k fits: out has it */
    if (__builtin_mul_overflow(e->row_size, 2 * (int64_t)sb_workers(context, tasks), &size))
        return sb_fail(SAMEBITS_ERR_OVERFLOW, "the lookup's working memory overflows the address space");
    e->buffers = sb_alloc(context, (size_t)size);
    if (!e->buffers) return sb_fail(SAMEBITS_ERR_MEMORY, "out of memory: a lookup needs %lld bytes", (long long)size);
    sb_parallel(context, tasks, embedding_task, e);
    sb_free(context, e->buffers, (size_t)size);
    return SAMEBITS_OK;
}

samebits_status samebits_embedding(samebits_context *context, const DLTensor *table, samebits_format format,
                                   const DLTensor *id, DLTensor *out)
{
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
    embedding e = {0};
    sb_view view;
    samebits_status status = sb_rows_of(table, "table", format, &e.rows, &view);
    if (status) return status;
    e.n = e.rows.n;
    e.k = e.rows.k;
    if ((status = check(&e, id, out)) || (status = sb_check_overlap(&e.out, &view, "table", 0))) return status;
    return run(context, &e);
}

samebits_status samebits_embedding_prepared(samebits_context *context, const samebits_weights *table,
                                            const DLTensor *id, DLTensor *out)
{
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
    if (!table) return sb_fail(SAMEBITS_ERR_NULL, "table is NULL: make it with samebits_weights_prepare");
    embedding e = {.weights = table, .n = table->n, .k = table->k};
    const samebits_status status = check(&e, id, out);
    return status ? status : run(context, &e);
}
