#include "rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static samebits_context *context_with(int threads, samebits_cpu cpu)
{
    samebits_options o;
    samebits_context *c;
    samebits_options_default(&o);
    o.threads = threads;
    o.cpu = cpu;
    assert_int_equal(samebits_create(&c, &o), SAMEBITS_OK);
    return c;
}

static size_t row_bytes(const row_op *op) { return (size_t)op->width_out * test_dtype_size(op->out); }

static void make_tiny(test_tensor *t, test_rng *rng)
{
    for (int64_t i = 0; i < test_count(t); i++) {
        const uint32_t u = (uint32_t)test_next(rng) & 0x80FFFFFFu; /* exponent field 0 or 1 */
        memcpy(test_at(t, i), &u, 4);
    }
}

void rows_prepare(row_op *op)
{
    test_rng rng = {1000};
    op->x = TENSOR(op->in, op->max_rows, op->width_in);
    if (op->tiny)
        make_tiny(op->x, &rng);
    else if (op->small)
        test_random_small(op->x, &rng);
    else
        test_random(op->x, &rng);
    samebits_context *c = context_with(1, SAMEBITS_CPU_AUTO);
    op->alone = malloc((size_t)op->max_rows * row_bytes(op));
    for (int64_t r = 0; r < op->max_rows; r++) {
        unsigned char *row = rows_run(op, c, r, 1);
        memcpy(op->alone + (size_t)r * row_bytes(op), row, row_bytes(op));
        free(row);
    }
    samebits_destroy(&c);
}

void rows_release(row_op *op)
{
    free(op->alone);
    samebits_weights_destroy(&op->weights);
    test_free_all(NULL);
}

long rows_differing(const row_op *op, const void *have, int64_t first, int64_t rows)
{
    long differing = 0;
    const size_t size = row_bytes(op);
    for (int64_t r = 0; r < rows; r++)
        differing += memcmp(op->alone + (size_t)(first + r) * size, (const char *)have + (size_t)r * size, size) != 0;
    return differing;
}

typedef struct {
    int64_t offset, gap; /* elements before the first row, and between rows */
    int column_major;
} layout;

static test_tensor *laid_out(test_dtype dtype, int64_t rows, int64_t width, const layout *l)
{
    const int64_t shape[2] = {rows, width};
    int64_t strides[2] = {width + l->gap, 1};
    if (l->column_major) {
        strides[0] = 1 + l->gap;
        strides[1] = rows * (1 + l->gap);
    }
    return test_strided(dtype, 2, shape, strides, l->offset);
}

/* Runs the op in the given layouts; memory between the rows of out must stay as it was. */
static unsigned char *run_in(const row_op *op, samebits_context *c, int64_t first, int64_t rows, const layout *lx,
                             const layout *lo)
{
    test_tensor *x = laid_out(op->in, rows, op->width_in, lx), *out = laid_out(op->out, rows, op->width_out, lo);
    test_scatter(x, (char *)op->x->memory + (size_t)(first * op->width_in) * test_dtype_size(op->in));
    unsigned char *poison = test_gather(out);
    test_save(out);
    const samebits_status status = op->run(op, c, &x->dl, &out->dl);
    if (status) print_error("%s: %s\n", op->name, samebits_last_error());
    assert_int_equal(status, SAMEBITS_OK);
    unsigned char *have = test_gather(out);
    test_scatter(out, poison);
    assert_true(test_unchanged(out));
    free(poison);
    return have;
}

static const layout packed;

unsigned char *rows_run(const row_op *op, samebits_context *context, int64_t first, int64_t rows)
{
    return run_in(op, context, first, rows, &packed, &packed);
}

/* Runs and compares. */
static long compare(const row_op *op, samebits_context *c, int64_t first, int64_t rows, const layout *lx,
                    const layout *lo)
{
    unsigned char *have = run_in(op, c, first, rows, lx, lo);
    const long differing = rows_differing(op, have, first, rows);
    free(have);
    return differing;
}

long rows_batch(const row_op *op)
{
    static const int64_t sweep[] = {1,  2,   3,   4,   5,   7,   8,   9,   15,  16,  17,  31,   32,   33,   63,  64,
                                    65, 127, 128, 129, 255, 256, 257, 300, 511, 512, 513, 1000, 1024, 2048, 4096};
    samebits_context *c = context_with(2, SAMEBITS_CPU_AUTO);
    test_rng rng = {2};
    long differing = 0;
    for (size_t i = 0; i < sizeof sweep / sizeof *sweep && sweep[i] <= op->max_rows; i++) {
        differing += compare(op, c, 0, sweep[i], &packed, &packed);
        const int64_t room = op->max_rows - sweep[i];
        if (room) differing += compare(op, c, test_below(&rng, room + 1), sweep[i], &packed, &packed);
    }
    samebits_destroy(&c);
    return differing;
}

enum { NEIGHBOURS = 17 }; /* more than the rows of any tile */

/* Only the contents of the others change: the needle, in every place of a tile, keeps its bits. */
long rows_neighbours(const row_op *op)
{
    static const float values[] = {NAN, INFINITY, -INFINITY, 60000.0f, -0.0f};
    samebits_context *c = context_with(2, SAMEBITS_CPU_AUTO);
    const size_t size = row_bytes(op), row_in = (size_t)op->width_in * test_dtype_size(op->in);
    long differing = 0;
    test_tensor *x = TENSOR(op->in, NEIGHBOURS, op->width_in), *out = TENSOR(op->out, NEIGHBOURS, op->width_out);
    for (int64_t needle = 0; needle < NEIGHBOURS; needle++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            for (int64_t i = 0; i < test_count(x); i++) test_set(x, i, values[v]);
            memcpy(x->memory + (size_t)needle * row_in, op->x->memory + (size_t)needle * row_in, row_in);
            assert_int_equal(op->run(op, c, &x->dl, &out->dl), SAMEBITS_OK);
            differing += rows_differing(op, out->memory + (size_t)needle * size, needle, 1);
        }
    samebits_destroy(&c);
    return differing;
}

long rows_threads(const row_op *op)
{
    long differing = 0;
    for (int threads = 1; threads <= 64; threads++) {
        samebits_context *c = context_with(threads, SAMEBITS_CPU_AUTO);
        differing += compare(op, c, 0, 1, &packed, &packed);
        differing += compare(op, c, 1, 37, &packed, &packed);
        samebits_destroy(&c);
    }
    return differing;
}

long rows_levels(const row_op *op)
{
    static const int64_t heights[] = {1, 2, 5, 8, 13, 64, 129};
    long differing = 0;
    for (int level = SAMEBITS_CPU_SCALAR; level < SAMEBITS_CPU_COUNT; level++) {
        if (!samebits_cpu_supported((samebits_cpu)level)) continue;
        samebits_context *c = context_with(2, (samebits_cpu)level);
        for (size_t i = 0; i < sizeof heights / sizeof *heights; i++)
            differing += compare(op, c, (int64_t)i, heights[i], &packed, &packed);
        samebits_destroy(&c);
    }
    return differing;
}

long rows_layouts(const row_op *op)
{
    static const layout layouts[] = {{1, 0, 0},  {2, 0, 0}, {4, 0, 0}, {8, 0, 0}, {0, 1, 0}, {3, 5, 0},
                                     {0, 64, 0}, {0, 0, 1}, {1, 0, 1}, {5, 3, 1}, {0, 0, 0}};
    static const int64_t heights[] = {1, 13};
    const size_t count = sizeof layouts / sizeof *layouts;
    samebits_context *c = context_with(2, SAMEBITS_CPU_AUTO);
    long differing = 0;
    for (size_t h = 0; h < sizeof heights / sizeof *heights; h++)
        for (size_t i = 0; i < count; i++) {
            differing += compare(op, c, 2, heights[h], &layouts[i], &packed);
            differing += compare(op, c, 3, heights[h], &packed, &layouts[i]);
            differing += compare(op, c, 5, heights[h], &layouts[i], &layouts[(i + 4) % count]);
        }
    samebits_destroy(&c);
    return differing;
}
