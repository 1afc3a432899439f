/* rope (samebits/rope.h): check, the frequency of each pair once, then positions as independent tasks. */
#include <samebits/rope.h>

#include "device/cpu/parallel.h"
#include "kernels/rope/rope.h"
#include "ops/rope_frequency.h"
#include "ops/rows.h"

typedef struct {
    sb_view x, out, position; /* position (B or 1, L), or (4, L) with sections */
    const samebits_rope_params *params;
    const sb_rope_row *row;
    sb_rope_angles angles;
    sb_rope_args args;
    int per_batch;                 /* positions differ between the batches, x's first dim */
    int64_t batches, length, rows; /* of positions of its own; places; rows that share one */
    int64_t block;                 /* places a task */
    int even;      /* rows that share a position lie at one distance, args.x_stride and args.out_stride */
    char *buffers; /* of each worker: cos and sin of a block, two rows */
    int64_t table_size, row_size;
} rope;

/* Rows of the usual 128 elements want longer runs in memory than a task's usual work. */
enum { BLOCK_TASKS = 4 };

void samebits_rope_params_default(samebits_rope_params *params)
{
    if (!params) return;
    *params = (samebits_rope_params){.struct_size = sizeof *params,
                                     .base = 10000.0f,
                                     .scale = 1.0f,
                                     .magnitude = 1.0f,
                                     .beta_fast = 32.0f,
                                     .beta_slow = 1.0f};
}

static int32_t position_at(const rope *p, int64_t batch, int64_t place)
{
    return ((const int32_t *)p->position.data)[batch * p->position.stride[0] + place * p->position.stride[1]];
}

/* The row of `place` that has this index among those that share its position. */
static int64_t row_index(const rope *p, int64_t batch, int64_t index, int64_t place)
{
    return ((p->per_batch ? batch * p->rows : 0) + index) * p->length + place;
}

/* Row by row: the elements of a row, or the rows that share a position, are at no one distance. */
static void turn_rows(const rope *p, sb_rope_args *a, int64_t batch, int64_t place, char *in, char *out)
{
    a->rows = 1;
    for (int64_t i = 0; i < p->rows; i++) {
        const int64_t r = row_index(p, batch, i, place);
        a->x = sb_row_in(&p->x, r, in);
        a->out = sb_row_out(&p->out, r, out);
        p->row->turn(a);
        sb_row_put(&p->out, r, a->out);
    }
}

/* One call for each of the rows that share positions, over all places; or one for each place, over its rows: along what
 * lies nearer together. */
static void turn_even(const rope *p, const sb_rope_args *args, int64_t batch, int64_t begin, int64_t places)
{
    const int dim = p->x.ndim - 2, places_inside = p->rows == 1 || p->x.stride[dim] <= args->x_stride;
    const int64_t first = row_index(p, batch, 0, begin), calls = places_inside ? p->rows : places;
    const int64_t x_step = places_inside ? args->x_stride : p->x.stride[dim];
    const int64_t out_step = places_inside ? args->out_stride : p->out.stride[dim];
    const int64_t angle_step = places_inside ? 0 : args->angle_stride;
    sb_rope_args a = *args;
    a.x = sb_row_in(&p->x, first, NULL);
    a.out = sb_row_out(&p->out, first, NULL);
    a.rows = places_inside ? places : p->rows;
    if (places_inside) {
        a.x_stride = p->x.stride[dim];
        a.out_stride = p->out.stride[dim];
    } else {
        a.angle_stride = 0;
    }
    for (int64_t i = 0; i < calls; i++) {
        p->row->turn(&a);
        a.x = (const char *)a.x + x_step * sb_dtype_size(p->x.dtype);
        a.out = (char *)a.out + out_step * sb_dtype_size(p->out.dtype);
        a.cos += angle_step;
        a.sin += angle_step;
    }
}

static void place_task(void *arg, int64_t index, int worker)
{
    const rope *p = arg;
    const int64_t blocks = sb_ceil_div(p->length, p->block), batch = index / blocks, begin = index % blocks * p->block;
    const int64_t places = SB_MIN(p->block, p->length - begin);
    char *buffer = p->buffers + worker * 2 * (p->table_size + p->row_size);
    char *in = buffer + 2 * p->table_size, *out = in + p->row_size;
    sb_rope_angles angles = p->angles;
    sb_rope_args a = p->args;
    a.cos = (float *)buffer;
    a.sin = (float *)(buffer + p->table_size);
    for (int64_t i = 0; i < places; i++) {
        for (int j = 0; j < (p->params->sections ? 4 : 1); j++)
            angles.position[j] = position_at(p, p->params->sections ? j : batch, begin + i);
        angles.cos = (float *)buffer + i * a.angle_stride;
        angles.sin = (float *)(buffer + p->table_size) + i * a.angle_stride;
        p->row->angles(&angles);
    }
    if (p->even) {
        turn_even(p, &a, batch, begin, places);
        return;
    }
    for (int64_t i = 0; i < places; i++, a.cos += a.angle_stride, a.sin += a.angle_stride)
        turn_rows(p, &a, batch, begin + i, in, out);
}

/* Whether the rows that share a position lie at one distance; *stride gets it. */
static int rows_are_even(const rope *p, const sb_view *v, int64_t *stride)
{
    sb_view rows = *v;
    const int last = v->ndim - 1;
    rows.shape[last - 1] = 1;
    if (p->per_batch) rows.shape[0] = 1;
    return sb_rows_are_even(&rows, stride);
}

static samebits_status run(const samebits_context *context, rope *p, const sb_view *factor)
{
    const int64_t pairs = p->args.pairs, tasks = p->batches * sb_ceil_div(p->length, p->block);
    const int64_t workers = sb_workers(context, tasks);
    p->args.angle_stride = 2 * pairs;
    p->table_size = sb_round_up(p->block * p->args.angle_stride * (int64_t)sizeof(float), SB_ALIGN);
    p->row_size = sb_round_up(p->args.n * (int64_t)sizeof(float), SB_ALIGN);
    const int64_t frequency_size = sb_round_up(pairs * (int64_t)sizeof(double), SB_ALIGN);
    int64_t size;
    if (__builtin_mul_overflow(2 * (p->table_size + p->row_size), workers, &size) ||
        __builtin_add_overflow(size, frequency_size + pairs, &size))
        return sb_fail(SAMEBITS_ERR_OVERFLOW, "rope's working memory overflows the address space");
    char *memory = sb_alloc(context, (size_t)size);
    if (!memory) return sb_fail(SAMEBITS_ERR_MEMORY, "out of memory: rope needs %lld bytes", (long long)size);
    double *frequency = (double *)memory;
    uint8_t *section = (uint8_t *)memory + (size - pairs);
    p->buffers = memory + frequency_size;
    p->angles = (sb_rope_angles){.pairs = pairs,
                                 .frequency = frequency,
                                 .section = p->params->sections ? section : NULL,
                                 .layout = p->params->layout,
                                 .inverse = p->params->inverse};
    sb_rope_frequencies(p->params, pairs, factor, frequency, &p->angles.magnitude);
    sb_rope_sections_of(p->params, pairs, section);
    sb_parallel(context, tasks, place_task, p);
    sb_free(context, memory, (size_t)size);
    return SAMEBITS_OK;
}

static samebits_status check_position(rope *p, const DLTensor *position)
{
    const samebits_status status = sb_view_of(position, "position", SB_SET_I32, 1, 2, &p->position);
    if (status) return status;
    sb_view *v = &p->position;
    const int64_t length = p->x.shape[p->x.ndim - 2];
    const int64_t sets = p->params->sections ? 4 : v->ndim == 1 ? 1 : p->x.ndim > 2 ? p->x.shape[0] : 1;
    if (v->ndim != 2 && p->params->sections)
        return sb_fail(SAMEBITS_ERR_SHAPE, "position has 1 dimension, want [4, %lld] with sections", (long long)length);
    if (v->shape[v->ndim - 1] != length || (v->ndim == 2 && v->shape[0] != sets)) {
        char have[128];
        return sb_fail(SAMEBITS_ERR_SHAPE, "position is %s, want [%lld] or [%lld, %lld] for x's rows",
                       sb_shape_text(v, have), (long long)length, (long long)sets, (long long)length);
    }
    p->per_batch = v->ndim == 2 && !p->params->sections && p->x.ndim > 2;
    if (v->ndim == 1) {
        v->ndim = 2;
        v->shape[1] = v->shape[0];
        v->stride[1] = v->stride[0];
        v->shape[0] = 1;
        v->stride[0] = 0;
    }
    return sb_check_overlap(&p->out, v, "position", 0);
}

samebits_status samebits_rope(samebits_context *context, const DLTensor *x, const DLTensor *position,
                              const samebits_rope_params *params, DLTensor *out)
{
    samebits_rope_params defaults;
    samebits_rope_params_default(&defaults);
    rope p = {.params = params ? params : &defaults};
    sb_view factor = {0};
    samebits_status status;
    if (x && x->ndim == 1)
        return sb_fail(SAMEBITS_ERR_RANK, "x has 1 dimension, want 2 to %d: (..., L, D)", SB_MAX_DIMS);
    if ((status = sb_check_rows(context, x, out, &p.x, &p.out))) return status;
    const int64_t n = p.x.shape[p.x.ndim - 1];
    int64_t pairs;
    if ((status = sb_rope_check(p.params, n, &pairs)) || (status = check_position(&p, position))) return status;
    if (p.params->factor) {
        if ((status = sb_view_of(p.params->factor, "factor", SB_SET_F32, 1, 1, &factor)) ||
            (status = sb_check_overlap(&p.out, &factor, "factor", 0)))
            return status;
        if (factor.shape[0] != pairs)
            return sb_fail(SAMEBITS_ERR_SHAPE, "factor has %lld elements, want %lld, one a pair",
                           (long long)factor.shape[0], (long long)pairs);
    }
    if (p.out.count == 0) return SAMEBITS_OK;
    p.length = p.x.shape[p.x.ndim - 2];
    p.batches = p.per_batch ? p.x.shape[0] : 1;
    p.rows = p.x.count / n / p.length / p.batches;
    p.block = SB_MIN(p.length, SB_MAX(1, BLOCK_TASKS * sb_rows_a_task(n) / p.rows));
    p.args = (sb_rope_args){.n = n,
                            .first = p.params->first,
                            .pairs = pairs,
                            .layout = p.params->layout,
                            .x_format = sb_format_of(p.x.dtype),
                            .out_format = sb_format_of(p.out.dtype)};
    p.even = rows_are_even(&p, &p.x, &p.args.x_stride) && rows_are_even(&p, &p.out, &p.args.out_stride);
    p.row = sb_rope_select(context->cpu);
    return run(context, &p, &factor);
}
