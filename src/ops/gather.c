/* Products of rows with the weights of one expert each (samebits/gather.h): the rows of an expert are one product. */
#include <samebits/gather.h>

#include "ops/product.h"
#include "ops/rows.h"
#include "ops/weights.h"

typedef struct {
    const samebits_weights *const *prepared; /* or NULL: */
    sb_rows rows;                            /* of expert 0 */
    int64_t expert_bytes;                    /* from an expert's rows to the next one's */
    int64_t count;
    sb_view index;
    int64_t *row;   /* all rows, expert after expert */
    int64_t *begin; /* of each expert's in `row`, and the end */
} experts;

static int32_t expert_of(const experts *e, int64_t row)
{
    return ((const int32_t *)e->index.data)[sb_row_offset(&e->index, 0, row)];
}

/* Counts, then deals the rows out; those of an expert keep their sequence. */
static samebits_status sort_rows(experts *e, int64_t rows)
{
    memset(e->begin, 0, (size_t)(e->count + 1) * sizeof *e->begin);
    for (int64_t r = 0; r < rows; r++) {
        const int32_t expert = expert_of(e, r);
        if (expert < 0 || expert >= e->count)
            return sb_fail(SAMEBITS_ERR_PARAM, "index of row %lld is %d, want an expert: 0 to %lld", (long long)r,
                           (int)expert, (long long)e->count - 1);
        e->begin[expert + 1]++;
    }
    for (int64_t i = 0; i < e->count; i++) e->begin[i + 1] += e->begin[i];
    for (int64_t r = 0; r < rows; r++) e->row[e->begin[expert_of(e, r)]++] = r;
    for (int64_t i = e->count; i > 0; i--) e->begin[i] = e->begin[i - 1];
    e->begin[0] = 0;
    return SAMEBITS_OK;
}

/* The product of expert i's rows; m is 0 if it has none. */
static sb_product product_of(const experts *e, const sb_product *all, int64_t i)
{
    sb_product p = *all;
    p.m = e->begin[i + 1] - e->begin[i];
    p.row_map = e->row + e->begin[i];
    p.weights = e->prepared ? e->prepared[i] : NULL;
    p.rows = e->rows;
    if (!e->prepared) p.rows.data = (const char *)e->rows.data + i * e->expert_bytes;
    return p;
}

static samebits_status run(const samebits_context *context, experts *e, const sb_product *all)
{
    if (all->out.count == 0) return SAMEBITS_OK;
    int64_t cells, size = 0;
    if (__builtin_add_overflow(all->m, e->count + 1, &cells) || cells > INT64_MAX / (int64_t)sizeof *e->row)
        return sb_fail(SAMEBITS_ERR_OVERFLOW, "the lists of %lld rows overflow the address space", (long long)all->m);
    const size_t list_size = (size_t)cells * sizeof *e->row;
    e->row = sb_alloc(context, list_size);
    if (!e->row) return sb_fail(SAMEBITS_ERR_MEMORY, "out of memory: the lists of rows need %zu bytes", list_size);
    e->begin = e->row + all->m;
    samebits_status status = sort_rows(e, all->m);
    for (int64_t i = 0; i < e->count && !status; i++) {
        const sb_product p = product_of(e, all, i);
        int64_t needed = 0;
        if (p.m) status = sb_product_size(context, &p, &needed);
        size = SB_MAX(size, needed);
    }
    char *memory = status ? NULL : sb_alloc(context, (size_t)size);
    if (!status && !memory)
        status = sb_fail(SAMEBITS_ERR_MEMORY, "out of memory: a product needs %lld bytes", (long long)size);
    for (int64_t i = 0; i < e->count && !status; i++) {
        const sb_product p = product_of(e, all, i);
        if (p.m) sb_product_run_in(context, &p, memory);
    }
    if (memory) sb_free(context, memory, (size_t)size);
    sb_free(context, e->row, list_size);
    return status;
}

/* The shapes of x, index and out; n and k are the experts'. */
static samebits_status describe(sb_product *p, experts *e, int64_t n, int64_t k, const DLTensor *x,
                                const DLTensor *index, const samebits_epilogue *epilogue, const DLTensor *out)
{
    samebits_status status;
    if ((status = sb_view_of(x, "x", SB_SET_FLOATS, 2, SB_MAX_DIMS, &p->x)) ||
        (status = sb_view_of(index, "index", SB_SET_I32, 1, SB_MAX_DIMS - 1, &e->index)) ||
        (status = sb_view_of(out, "out", SB_SET_FLOATS, 2, SB_MAX_DIMS, &p->out)))
        return status;
    const int last = p->x.ndim - 1;
    if (p->x.shape[last] != k)
        return sb_fail(SAMEBITS_ERR_SHAPE, "x has %lld columns, want the experts' depth %lld",
                       (long long)p->x.shape[last], (long long)k);
    char have[128], want[128];
    if (e->index.ndim != last || !sb_same_sizes(&e->index, &p->x, last))
        return sb_fail(SAMEBITS_ERR_SHAPE, "index is %s, want x's %s without the last", sb_shape_text(&e->index, have),
                       sb_shape_text(&p->x, want));
    if (p->out.ndim != last + 1 || p->out.shape[last] != n || !sb_same_sizes(&p->out, &p->x, last))
        return sb_fail(SAMEBITS_ERR_SHAPE, "out is %s, want x's %s with %lld columns", sb_shape_text(&p->out, have),
                       sb_shape_text(&p->x, want), (long long)n);
    if (p->out.dtype != SB_F32 && p->out.dtype != p->x.dtype)
        return sb_fail(SAMEBITS_ERR_DTYPE, "out is %s, want f32 or x's %s", sb_dtype_name(p->out.dtype),
                       sb_dtype_name(p->x.dtype));
    p->batches = 1;
    p->n = n;
    p->k = k;
    p->m = e->index.count;
    if ((status = sb_check_output(&p->out)) || (status = sb_check_overlap(&p->out, &p->x, "x", 0)) ||
        (status = sb_check_overlap(&p->out, &e->index, "index", 0)))
        return status;
    return sb_epilogue_of(epilogue, &p->out, &p->epilogue);
}

samebits_status samebits_gather_prepared(samebits_context *context, const DLTensor *x,
                                         const samebits_weights *const *list, int64_t count, const DLTensor *index,
                                         samebits_order order, const samebits_epilogue *epilogue, DLTensor *out)
{
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
    if (!list) return sb_fail(SAMEBITS_ERR_NULL, "experts is NULL: pass a list of prepared weights");
    if (count < 1 || count > INT32_MAX)
        return sb_fail(SAMEBITS_ERR_PARAM, "count is %lld, want 1 to 2^31 - 1 experts", (long long)count);
    for (int64_t i = 0; i < count; i++) {
        if (!list[i])
            return sb_fail(SAMEBITS_ERR_NULL, "experts[%lld] is NULL: make it with samebits_weights_prepare",
                           (long long)i);
        if (list[i]->n != list[0]->n || list[i]->k != list[0]->k)
            return sb_fail(SAMEBITS_ERR_SHAPE, "experts[%lld] is [%lld, %lld], want [%lld, %lld] as experts[0]",
                           (long long)i, (long long)list[i]->n, (long long)list[i]->k, (long long)list[0]->n,
                           (long long)list[0]->k);
    }
    sb_product p = {.order = order};
    experts e = {.prepared = list, .count = count};
    const samebits_status status = describe(&p, &e, list[0]->n, list[0]->k, x, index, epilogue, out);
    return status ? status : run(context, &e, &p);
}

samebits_status samebits_gather_linear(samebits_context *context, const DLTensor *x, const DLTensor *w,
                                       samebits_format format, const DLTensor *index, samebits_order order,
                                       const samebits_epilogue *epilogue, DLTensor *out)
{
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
    sb_product p = {.order = order};
    experts e = {0};
    sb_view all;
    if (sb_format_is_mlx(format))
        return sb_fail(SAMEBITS_ERR_FORMAT,
                       "format %s has scales beside its rows: prepare each expert with samebits_weights_prepare_%s and "
                       "call samebits_gather_prepared",
                       samebits_format_name(format), sb_format_is_affine(format) ? "affine" : "scaled");
    samebits_status status = sb_view_of(w, "w", SB_SET_FLOATS | SB_SET_U8, 3, 3, &all);
    if (status) return status;
    if (all.shape[0] < 1 || all.shape[0] > INT32_MAX)
        return sb_fail(SAMEBITS_ERR_SHAPE, "w has %lld experts, want 1 to 2^31 - 1", (long long)all.shape[0]);
    DLTensor first = *w;
    first.data = all.data;
    first.byte_offset = 0;
    first.ndim = 2;
    first.shape = all.shape + 1;
    first.strides = all.stride + 1;
    if ((status = sb_rows_of(&first, "w", format, &e.rows, &p.w))) return status;
    e.count = all.shape[0];
    e.expert_bytes = all.stride[0] * sb_dtype_size(all.dtype);
    if ((status = describe(&p, &e, e.rows.n, e.rows.k, x, index, epilogue, out)) ||
        (status = sb_check_overlap(&p.out, &all, "w", 0)))
        return status;
    return run(context, &e, &p);
}
