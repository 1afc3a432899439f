/* The checks of the ops that work row by row: same row, same bits. */
#include <fenv.h>
#include <stdlib.h>

#include "attention.h"
#include "table.h"
#include "verify.h"

typedef struct shape {
    int64_t m, k, n;
} shape;

/* One shape of one op at one level: what the single checks share. */
typedef struct row_case {
    const verify *v;
    const problem *p;
    result *r;
    rng random;
    setting how;
    tensor x, base; /* (M, K), and what this level makes of it in one call on one thread */
} row_case;

static void run(const row_case *c, setting how, const tensor *x, tensor *out)
{
    c->v->who.run(&c->v->who, c->p, how, x, out);
}

/* How many terms m rows of the op add up, all outputs together. */
static int64_t terms(const problem *p, int64_t m) { return m * p->k * (p->op->flags & OP_HAS_N ? p->n : 1); }

/* A case in words; `text` says what was changed. */
#define CASE_FORMAT "%s, %s M=%lld K=%lld N=%lld"
#define CASE_ARGS(c, text)                                                                                             \
    (text), samebits_cpu_name((c)->how.cpu), (long long)(c)->x.shape[0], (long long)(c)->p->k, (long long)(c)->p->n

/* The outputs of rows of `x`, into a new tensor. */
static void run_new(const row_case *c, setting how, const tensor *x, layout l, tensor *out)
{
    tensor_make2(out, c->p->op->out, l, x->shape[0], c->p->n);
    run(c, how, x, out);
}

static void compare_row(row_case *c, check kind, int64_t row, const tensor *have, int64_t have_row, const char *how)
{
    tensor want, got;
    tensor_slice(&want, &c->base, 0, row, 1);
    tensor_slice(&got, have, 0, have_row, 1);
    compare(c->r, kind, &want, &got, CASE_FORMAT " row %lld", CASE_ARGS(c, how), (long long)row);
}

/* The library's own threads are dear where there are more of them than cores: without --full they take one
 * turn a shape, and the program's the others. */
static void check_threads(row_case *c)
{
    static const int counts[] = {2, 3, 5, 8, 16, 33, 64};
    const size_t own = (size_t)rng_below(&c->random, 8 * (int64_t)CLI_COUNT(counts));
    for (size_t i = 0; i < CLI_COUNT(counts); i++)
        for (int lent = 0; lent < 2; lent++) {
            if (!lent && !c->v->full && i != own) continue;
            tensor out;
            char how[32];
            snprintf(how, sizeof how, "%d%s threads", counts[i], lent ? " lent" : "");
            run_new(c, (setting){c->how.cpu, counts[i], lent}, &c->x, LAYOUT_PLAIN, &out);
            compare(c->r, CHECK_THREADS, &c->base, &out, CASE_FORMAT, CASE_ARGS(c, how));
            tensor_free(&out);
        }
}

/* The needle keeps its row and its place; everything around it changes. */
static void check_content(row_case *c)
{
    const int64_t m = c->x.shape[0], needle = rng_below(&c->random, m);
    if (m < 2) return;
    for (int kind = 0; kind < FILL_COUNT; kind++) {
        tensor x, out;
        tensor_make2(&x, c->x.type, LAYOUT_PLAIN, m, c->p->k);
        tensor_fill(&x, (fill)kind, &c->random);
        tensor to, from;
        tensor_slice(&to, &x, 0, needle, 1);
        tensor_slice(&from, &c->x, 0, needle, 1);
        tensor_copy(&to, &from);
        run_new(c, c->how, &x, LAYOUT_PLAIN, &out);
        char how[40];
        snprintf(how, sizeof how, "neighbours %s", fill_name((fill)kind));
        compare_row(c, CHECK_CONTENT, needle, &out, needle, how);
        tensor_free(&x);
        tensor_free(&out);
    }
}

/* The needle alone, then at random places among other numbers of other rows. */
static void check_needle(row_case *c)
{
    static const int64_t heights[] = {1, 2, 3, 4, 5, 6, 8, 9, 12, 13, 16, 17, 32, 33, 64, 65};
    const int tries = c->v->full ? (int)CLI_COUNT(heights) : 5;
    for (int i = 0; i < tries; i++) {
        const int64_t m = c->v->full ? heights[i] : i == 0 ? 1 : heights[rng_below(&c->random, CLI_COUNT(heights))];
        const int64_t needle = rng_below(&c->random, c->x.shape[0]), place = rng_below(&c->random, m);
        tensor x, out, to, from;
        tensor_make2(&x, c->x.type, LAYOUT_PLAIN, m, c->p->k);
        tensor_fill(&x, FILL_SPREAD, &c->random);
        tensor_slice(&to, &x, 0, place, 1);
        tensor_slice(&from, &c->x, 0, needle, 1);
        tensor_copy(&to, &from);
        run_new(c, c->how, &x, LAYOUT_PLAIN, &out);
        char how[64];
        snprintf(how, sizeof how, "row %lld of %lld", (long long)place, (long long)m);
        compare_row(c, CHECK_SHAPE, needle, &out, place, how);
        tensor_free(&x);
        tensor_free(&out);
    }
}

/* All rows, a few at a time. */
static void check_chunks(row_case *c)
{
    static const int64_t chunks[] = {1, 7, 16, 64, 512, 2048};
    const int64_t m = c->x.shape[0];
    for (size_t i = 0; i < CLI_COUNT(chunks) && chunks[i] < m; i++) {
        tensor out;
        tensor_make2(&out, c->base.type, LAYOUT_PLAIN, m, c->p->n);
        for (int64_t row = 0; row < m; row += chunks[i]) {
            tensor in, part;
            tensor_slice(&in, &c->x, 0, row, CLI_MIN(chunks[i], m - row));
            tensor_slice(&part, &out, 0, row, CLI_MIN(chunks[i], m - row));
            run(c, c->how, &in, &part);
        }
        char how[40];
        snprintf(how, sizeof how, "%lld rows at a time", (long long)chunks[i]);
        compare(c->r, CHECK_SHAPE, &c->base, &out, CASE_FORMAT, CASE_ARGS(c, how));
        tensor_free(&out);
    }
}

static void check_layout_of_rows(row_case *c)
{
    for (int l = 1; l < LAYOUT_COUNT; l++) {
        tensor x, out;
        tensor_make2(&x, c->x.type, (layout)l, c->x.shape[0], c->p->k);
        tensor_copy(&x, &c->x);
        run_new(c, c->how, &x, LAYOUT_PLAIN, &out);
        compare(c->r, CHECK_LAYOUT, &c->base, &out, CASE_FORMAT " of x", CASE_ARGS(c, layout_name((layout)l)));
        tensor_free(&x);
        tensor_free(&out);
        run_new(c, c->how, &c->x, (layout)l, &out);
        compare(c->r, CHECK_LAYOUT, &c->base, &out, CASE_FORMAT " of out", CASE_ARGS(c, layout_name((layout)l)));
        expect(c->r, CHECK_LAYOUT, tensor_spilled(&out) == 0, CASE_FORMAT ": wrote outside out",
               CASE_ARGS(c, layout_name((layout)l)));
        tensor_free(&out);
    }
}

/* The weights elsewhere in memory; prepared ones are packed again from there. */
static void check_layout_of_weights(row_case *c)
{
    for (int l = 1; l < LAYOUT_COUNT && c->p->w.dl.ndim == 2; l++) {
        if (op_is_quantised(c->p->op) && (l == LAYOUT_TRANSPOSED || l == LAYOUT_STEPPED)) continue;
        problem p = *c->p;
        tensor out;
        tensor_make2(&p.w, c->p->w.type, (layout)l, c->p->w.shape[0], c->p->w.shape[1]);
        tensor_copy(&p.w, &c->p->w);
        /* The plain version's level may be one that this machine does not have. */
        const samebits_cpu cpu = c->v->who.plain ? SAMEBITS_CPU_AUTO : c->how.cpu;
        if (p.prepared) problem_prepare(&p, cli_context(cpu, 1, 0));
        tensor_make2(&out, p.op->out, LAYOUT_PLAIN, c->x.shape[0], p.n);
        c->v->who.run(&c->v->who, &p, c->how, &c->x, &out);
        compare(c->r, CHECK_LAYOUT, &c->base, &out, CASE_FORMAT " of w", CASE_ARGS(c, layout_name((layout)l)));
        tensor_free(&p.w);
        tensor_free(&out);
        if (p.prepared) samebits_weights_destroy(&p.prepared);
    }
}

/* The same rows under two leading dims, and twice through a batch dim of stride 0. */
static void check_batches(row_case *c)
{
    const int64_t m = c->x.shape[0];
    if (c->v->who.plain) return;
    tensor x = c->x, out, half;
    x.dl.shape = x.shape;
    x.dl.strides = x.stride;
    x.dl.ndim = 3;
    const int64_t batches = 2, rows = m % 2 ? m : m / 2, skip = m % 2 ? 0 : rows;
    for (int i = 2; i > 0; i--) {
        x.shape[i] = c->x.shape[i - 1];
        x.stride[i] = c->x.stride[i - 1];
    }
    x.shape[0] = batches;
    x.shape[1] = rows;
    x.stride[0] = skip * c->x.stride[0];
    tensor_make(&out, c->base.type, LAYOUT_PLAIN, 3, (int64_t[]){batches, rows, c->p->n});
    run(c, c->how, &x, &out);
    for (int64_t b = 0; b < batches; b++) {
        tensor want;
        tensor_slice(&half, &out, 0, b, 1);
        tensor_slice(&want, &c->base, 0, b * skip, rows);
        compare(c->r, CHECK_LAYOUT, &want, &half, CASE_FORMAT, CASE_ARGS(c, skip ? "two batches" : "batch stride 0"));
    }
    tensor_free(&out);
}

/* Subnormal rows under a host that flushes, and the case's rows under one that rounds upward. */
static void check_host(row_case *c)
{
    tensor x, want, have;
    tensor_make2(&x, c->x.type, LAYOUT_PLAIN, c->x.shape[0], c->p->k);
    tensor_fill(&x, FILL_SUBNORMAL, &c->random);
    run_new(c, c->how, &x, LAYOUT_PLAIN, &want);
    host_flush(1);
    run_new(c, (setting){c->how.cpu, 2, rng_below(&c->random, 8) > 0}, &x, LAYOUT_PLAIN, &have);
    const int kept = host_flushes();
    host_flush(0);
    compare(c->r, CHECK_HOST, &want, &have, CASE_FORMAT, CASE_ARGS(c, "FTZ and DAZ on"));
    expect(c->r, CHECK_HOST, kept || c->v->who.plain, CASE_FORMAT, CASE_ARGS(c, "the host's FTZ and DAZ were lost"));
    tensor_free(&have);
    fesetround(FE_UPWARD);
    run_new(c, c->how, &c->x, LAYOUT_PLAIN, &have);
    fesetround(FE_TONEAREST);
    compare(c->r, CHECK_HOST, &c->base, &have, CASE_FORMAT, CASE_ARGS(c, "host rounds upward"));
    tensor_free(&x);
    tensor_free(&want);
    tensor_free(&have);
}

/* The whole against plain C, where that is quick. */
static void check_spec(row_case *c)
{
    const int64_t limit = c->v->full ? 1 << 24 : 1 << 21;
    if (terms(c->p, c->x.shape[0]) > limit) return;
    tensor out;
    tensor_make2(&out, c->base.type, LAYOUT_PLAIN, c->x.shape[0], c->p->n);
    const plain_call call = {.p = c->p, .how = c->how, .x = &c->x, .out = &out};
    c->p->op->plain(&call);
    compare(c->r, CHECK_SPEC, &out, &c->base, CASE_FORMAT, CASE_ARGS(c, "plain C"));
    tensor_free(&out);
}

static void check_shape(const verify *v, const op *o, shape s, uint64_t seed, result *r)
{
    row_case c = {.v = v, .r = r, .random = {seed}};
    problem p;
    tensor scalar = {0};
    problem_make(&p, o, s.k, s.n, &c.random);
    c.p = &p;
    tensor_make2(&c.x, o->x, LAYOUT_PLAIN, s.m, p.k);
    tensor_fill(&c.x, FILL_SPREAD, &c.random);
    /* Numbers of one size too: among wide exponents a few terms hide all others. */
    for (int64_t row = 1; row < s.m; row += 2) tensor_fill_row(&c.x, row, FILL_UNIT, &c.random);
    for (int64_t row = 3; row < s.m; row += 7) tensor_fill_row(&c.x, row, FILL_SUBNORMAL, &c.random);
    for (int i = 0; i < v->level_count; i++) {
        c.how = (setting){v->levels[i], 1, 0};
        run_new(&c, c.how, &c.x, LAYOUT_PLAIN, &c.base);
        if (i)
            compare(r, CHECK_LEVELS, &scalar, &c.base, CASE_FORMAT, CASE_ARGS(&c, "against scalar"));
        else
            check_spec(&c);
        /* The scalar level shares all but its kernels with the others: where it is slow, one run is enough. */
        const int64_t work = terms(&p, s.m), limit = v->full ? 1 << 18 : 1 << 13;
        if (!i && v->level_count > 1 && !v->small && work > limit) {
            scalar = c.base;
            continue;
        }
        check_threads(&c);
        check_content(&c);
        check_needle(&c);
        check_chunks(&c);
        check_layout_of_rows(&c);
        check_layout_of_weights(&c);
        check_batches(&c);
        check_host(&c);
        if (i)
            tensor_free(&c.base);
        else
            scalar = c.base;
    }
    tensor_free(&scalar);
    tensor_free(&c.x);
    problem_free(&p);
}

static const int64_t heights[] = {1,  2,   3,   4,   5,   7,   8,   9,   15,  16,  17,  31,   32,   33,   63,  64,
                                  65, 127, 128, 129, 255, 256, 257, 300, 511, 512, 513, 1000, 1024, 2048, 4096};
static const int64_t depths[] = {1,    8,    64,   128,  255,  256,  257,  512,  1000,
                                 1023, 1024, 2880, 4096, 4097, 4104, 7168, 14336};
static const int64_t widths[] = {1, 8, 63, 64, 65, 96, 128, 160, 2112, 4096, 14336, 128256, 151936};

/* An entry of a list, not above `limit` if any is below it. */
static int64_t draw(rng *r, const int64_t *list, size_t count, int64_t limit)
{
    while (count > 1 && list[count - 1] > limit) count--;
    return list[rng_below(r, (int64_t)count)];
}

/* The i-th shape of the sweep, each height, depth and width once, the rest drawn within the budget.
 * Returns 0 past the end. */
static int sweep_shape(const verify *v, const op *o, int i, rng *r, shape *s)
{
    static const shape small[] = {{6, 700, 9}, {11, 1023, 5}, {9, 300, 16}};
    const int64_t budget = v->full ? 1 << 22 : 1 << 17, free_n = (o->flags & OP_HAS_N) != 0;
    const int tall = (int)CLI_COUNT(heights), deep = (int)CLI_COUNT(depths), wide = free_n ? (int)CLI_COUNT(widths) : 0;
    if (v->small) {
        if (i >= (int)CLI_COUNT(small)) return 0;
        *s = small[i];
        /* Another order of a norm's one sum shows in few rows: try many. */
        if (!free_n) s->m *= 16;
        return 1;
    }
    if (i < tall) {
        s->m = heights[i];
        s->k = draw(r, depths, CLI_COUNT(depths), budget / s->m / 8);
        s->n = draw(r, widths, CLI_COUNT(widths), budget / s->m / s->k);
    } else if (i < tall + deep) {
        s->k = depths[i - tall];
        s->n = draw(r, widths, CLI_COUNT(widths), budget / s->k / 2);
        s->m = draw(r, heights, CLI_COUNT(heights), budget / s->k / s->n);
    } else if (i < tall + deep + wide) {
        s->n = widths[i - tall - deep];
        s->k = draw(r, depths, CLI_COUNT(depths), budget / s->n / 2);
        s->m = draw(r, heights, CLI_COUNT(heights), budget / s->k / s->n);
    }
    return i < tall + deep + wide;
}

void verify_rows(const verify *v, const op *o, result *r)
{
    rng random = {v->seed + (uint64_t)(o - ops)};
    shape s = {0};
    for (int i = 0; sweep_shape(v, o, i, &random, &s); i++) {
        const uint64_t seed = rng_next(&random);
        /* Without --full each op takes every third shape, and its neighbours in the table the others. */
        if (!v->full && !v->small && (i + (int)(o - ops)) % 3) continue;
        if (!v->full && !v->small && s.m * s.k * s.n > 1 << 20) continue;
        if (!v->json && !v->small)
            progress((int)(o - ops), op_count + attention_form_count, "%s %s: M=%lld K=%lld N=%lld", o->name, o->form,
                     (long long)s.m, (long long)s.k, (long long)s.n);
        check_shape(v, o, s, seed, r);
    }
    progress_end();
}
