/* samebits verify --fuzz: random calls of every op, at every level, against the order in plain C. A case is a
 * function of its seed and of the op's name: case i of a run has the run's seed + i. */
#include "fuzz.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attention.h"
#include "draw.h"
#include "edge.h"
#include "mlx.h"
#include "table.h"

/* A dtype that c and bias may have. */
static dtype draw_float(const op *o, rng *r) { return dtype_is_wide(o->out) ? o->out : (dtype)rng_below(r, 3); }

static void fill_rows(tensor *t, rng *r)
{
    for (int64_t row = 0; row < t->shape[0]; row++)
        tensor_fill_row(t, row, rng_below(r, 3) ? (fill)rng_below(r, 2) : (fill)rng_below(r, FILL_COUNT), r);
}

/* The same numbers in another layout. */
static void relay(tensor *t, rng *r)
{
    tensor moved;
    tensor_make2(&moved, t->type, draw_layout(r), t->shape[0], t->shape[1]);
    tensor_copy(&moved, t);
    tensor_free(t);
    *t = moved;
    t->dl.shape = t->shape;
    t->dl.strides = t->stride;
}

/* Other weights than problem_make's at times: special values, any bytes at all as blocks; and any layout. */
static void redraw_weights(problem *p, rng *r)
{
    const op *o = p->op;
    const int blocks = op_is_quantised(o), mlx = mlx_form_of(o->format) != NULL, special = !rng_below(r, 4);
    layout l = draw_layout(r);
    if (blocks && (l == LAYOUT_TRANSPOSED || l == LAYOUT_STEPPED)) l = LAYOUT_PADDED;
    tensor w;
    tensor_make2(&w, o->w, l, p->w.shape[0], p->w.shape[1]);
    tensor_copy(&w, &p->w);
    if (special && !blocks) fill_rows(&w, r);
    for (int64_t i = 0; special && blocks && i < tensor_count(&w); i++)
        *(uint8_t *)tensor_at(&w, i) = (uint8_t)(rng_next(r) >> 56);
    if (mlx) {
        relay(&p->scales, r);
        if (p->biases.memory) relay(&p->biases, r);
    }
    if (special && p->scales.type == T_U8) {
        for (int64_t i = 0; i < tensor_count(&p->scales); i++)
            *(uint8_t *)tensor_at(&p->scales, i) = (uint8_t)(rng_next(r) >> 56);
    } else if (special && mlx) {
        fill_rows(&p->scales, r);
        fill_rows(&p->biases, r);
    }
    tensor_free(&p->w);
    p->w = w;
    p->w.dl.shape = p->w.shape;
    p->w.dl.strides = p->w.stride;
    for (int64_t row = 0; row < p->n && p->wide; row++)
        if (mlx)
            mlx_row(p, row, p->wide + row * p->k);
        else if (blocks)
            quant_row(o->format, tensor_at(&p->w, row * p->w.shape[1]), p->k, p->wide + row * p->k);
        else
            tensor_row(&p->w, row, p->wide + row * p->k);
    if (!p->prepared) return;
    samebits_weights_destroy(&p->prepared);
    problem_prepare(p, cli_context(SAMEBITS_CPU_AUTO, 1, 0));
}

static double draw_factor(rng *r)
{
    static const float some[] = {1.0f, 1.0f, 0.0f, -1.0f, 0.7f, -3.25f, 0x1p-130f, 0x1p100f};
    return (double)some[rng_below(r, CLI_COUNT(some))];
}

static void redraw_epilogue(problem *p, rng *r)
{
    samebits_epilogue *e = &p->epilogue;
    const int addmm = !strcmp(p->op->name, "addmm");
    tensor_free(&p->c);
    tensor_free(&p->bias);
    e->c = e->bias = NULL;
    e->alpha = draw_factor(r);
    e->beta = draw_factor(r);
    if (addmm || rng_below(r, 2)) {
        tensor_make2(&p->c, draw_float(p->op, r), draw_layout(r), 1, p->n);
        fill_rows(&p->c, r);
        e->c = &p->c.dl;
    }
    if (addmm) return;
    if (rng_below(r, 2)) {
        tensor_make(&p->bias, draw_float(p->op, r), draw_layout(r), 1, &p->n);
        tensor_fill(&p->bias, (fill)rng_below(r, FILL_COUNT), r);
        e->bias = &p->bias.dl;
    }
    if (p->op->out == T_F64) e->activation = rng_below(r, 2) ? SAMEBITS_ACTIVATION_RELU : SAMEBITS_ACTIVATION_NONE;
    if (!dtype_is_wide(p->op->out)) e->activation = (samebits_activation)rng_below(r, SAMEBITS_ACTIVATION_COUNT);
}

/* A matrix as `batches` matrices of fewer rows. */
static void split(tensor *view, const tensor *t, int64_t batches)
{
    tensor_slice(view, t, 0, 0, t->shape[0]);
    view->dl.ndim = 3;
    for (int i = 2; i > 0; i--) {
        view->shape[i] = t->shape[i - 1];
        view->stride[i] = t->stride[i - 1];
    }
    view->shape[0] = batches;
    view->shape[1] /= batches;
    view->stride[0] = view->shape[1] * t->stride[0];
}

static void run_op(const verify *v, const problem *p, const manner *m, rng *r, const tensor *x, tensor *out)
{
    tensor part_x, part_out;
    const int64_t batches = 1 + rng_below(r, 4);
    if (v->who.plain || x->shape[0] % batches) {
        v->who.run(&v->who, p, m->how, x, out);
        return;
    }
    split(&part_x, x, batches);
    split(&part_out, out, batches);
    v->who.run(&v->who, p, m->how, &part_x, &part_out);
}

static void fuzz_op(const verify *v, const op *o, rng *r, result *found)
{
    const int64_t budget = draw_budget(r);
    const int64_t k = draw_size(r, budget), n = draw_size(r, CLI_MAX(budget / k, (int64_t)1));
    const int64_t m = draw_size(r, CLI_MIN(CLI_MAX(budget / k / (o->flags & OP_HAS_N ? n : 1), (int64_t)1), 300));
    problem p;
    tensor x, want;
    problem_make(&p, o, k, n, r);
    if (o->flags & OP_HAS_N) {
        if (rng_below(r, 2)) redraw_weights(&p, r);
        if (rng_below(r, 2)) redraw_epilogue(&p, r);
    }
    tensor_make2(&x, o->x, draw_layout(r), m, p.k);
    fill_rows(&x, r);
    tensor_make2(&want, o->out, LAYOUT_PLAIN, m, p.n);
    o->plain(&(plain_call){.p = &p, .x = &x, .out = &want});
    for (int i = 0; i < v->level_count; i++) {
        const manner manner = draw_manner(r, v->levels[i]);
        tensor out;
        tensor_make2(&out, o->out, draw_layout(r), m, p.n);
        manner_enter(&manner);
        run_op(v, &p, &manner, r, &x, &out);
        const int kept = manner_leave(&manner);
        compare(found, CHECK_SPEC, &want, &out, "%s, M=%lld K=%lld N=%lld, %d threads", samebits_cpu_name(v->levels[i]),
                (long long)m, (long long)p.k, (long long)p.n, manner.how.threads);
        expect(found, CHECK_LAYOUT, tensor_spilled(&out) == 0, "%s, M=%lld K=%lld N=%lld: wrote outside out",
               samebits_cpu_name(v->levels[i]), (long long)m, (long long)p.k, (long long)p.n);
        expect(found, CHECK_HOST, kept, "%s: the host's settings were lost", samebits_cpu_name(v->levels[i]));
        tensor_free(&out);
    }
    tensor_free(&x);
    tensor_free(&want);
    problem_free(&p);
}

enum { MOST_EXPERTS = 5 };

/* Rows dealt to experts of weights of their own, sorted or not; some experts get none. */
static void fuzz_gather(const verify *v, const op *o, rng *r, result *found)
{
    const int64_t budget = draw_budget(r), k = draw_size(r, budget), n = draw_size(r, CLI_MAX(budget / k, (int64_t)1));
    const int64_t m = draw_size(r, 60), count = 1 + rng_below(r, MOST_EXPERTS), used = 1 + rng_below(r, count);
    const int sorted = rng_below(r, 2) > 0;
    problem p[MOST_EXPERTS];
    const samebits_weights *experts[MOST_EXPERTS];
    tensor x, index, all, want;
    for (int64_t e = 0; e < count; e++) {
        problem_make(&p[e], o, k, n, r);
        if (rng_below(r, 2)) redraw_weights(&p[e], r);
        experts[e] = p[e].prepared;
    }
    tensor_make2(&x, o->x, draw_layout(r), m, p[0].k);
    tensor_make(&index, T_I32, LAYOUT_PLAIN, 1, &m);
    tensor_make2(&all, o->out, LAYOUT_PLAIN, m, p[0].n);
    tensor_make2(&want, o->out, LAYOUT_PLAIN, m, p[0].n);
    fill_rows(&x, r);
    for (int64_t i = 0; i < m; i++)
        *(int32_t *)tensor_at(&index, i) = (int32_t)(sorted ? i * used / m : rng_below(r, used));
    for (int64_t e = 0; e < used; e++) {
        o->plain(&(plain_call){.p = &p[e], .x = &x, .out = &all});
        for (int64_t i = 0; i < m; i++) {
            tensor from, to;
            if (*(int32_t *)tensor_at(&index, i) != e) continue;
            tensor_slice(&from, &all, 0, i, 1);
            tensor_slice(&to, &want, 0, i, 1);
            tensor_copy(&to, &from);
        }
    }
    for (int i = 0; i < v->level_count; i++) {
        const manner manner = draw_manner(r, v->levels[i]);
        samebits_context *context = cli_context(manner.how.cpu, manner.how.threads, manner.how.lent);
        tensor out;
        tensor_make2(&out, o->out, draw_layout(r), m, p[0].n);
        manner_enter(&manner);
        const samebits_status status =
            samebits_gather_prepared(context, &x.dl, experts, count, &index.dl, o->order, NULL, &out.dl);
        const int kept = manner_leave(&manner);
        cli_check(status, "samebits_gather_prepared");
        compare(found, CHECK_SPEC, &want, &out, "%s, M=%lld K=%lld N=%lld, %lld experts",
                samebits_cpu_name(v->levels[i]), (long long)m, (long long)p[0].k, (long long)p[0].n, (long long)count);
        expect(found, CHECK_LAYOUT, tensor_spilled(&out) == 0, "%s: wrote outside out",
               samebits_cpu_name(v->levels[i]));
        expect(found, CHECK_HOST, kept, "%s: the host's settings were lost", samebits_cpu_name(v->levels[i]));
        tensor_free(&out);
    }
    for (int64_t e = 0; e < count; e++) problem_free(&p[e]);
    tensor_free(&x);
    tensor_free(&index);
    tensor_free(&all);
    tensor_free(&want);
}

/* FNV-1a over an op's name, form and order: another op in the table moves no case of this one. */
static uint64_t name_of(const result *r)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (const char *at = r->op; *at; at++) hash = (hash ^ (uint8_t)*at) * 0x100000001B3u;
    for (const char *at = r->form; *at; at++) hash = (hash ^ (uint8_t)*at) * 0x100000001B3u;
    return (hash ^ (uint64_t)r->order) * 0x100000001B3u;
}

/* The command that repeats the case that runs. */
static char again[256];

static void *allocate(void *user, size_t size, size_t alignment)
{
    (void)user;
    return edge_alloc(size, alignment);
}

static void release(void *user, void *block, size_t size)
{
    (void)user;
    (void)size;
    edge_free(block);
}

static void on_fault(int signal)
{
    static const char text[] = "samebits verify: a case reads or writes outside of its tensors\n  again: ";
    (void)signal;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0 || write(STDERR_FILENO, again, strlen(again)) < 0) return;
}

void fuzz_begin(void)
{
    const samebits_allocator allocator = {allocate, release, NULL};
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_RESETHAND}; /* once; then the process ends */
    sigaction(SIGSEGV, &action, NULL);
    cli_set_allocator(&allocator);
}

/* All cases of one op; `o` or `form` is given. Says at once what differs, and how to see it again. */
static void fuzz_line(const verify *v, int64_t cases, const op *o, const attention_form *form, int done, fuzz_result *f)
{
    f->r = o ? (result){.op = o->name, .form = o->form, .order = o->order}
             : (result){.op = "attention", .form = form->form, .order = SAMEBITS_ORDER_PORTABLE_1};
    for (f->cases = 0; f->cases < cases; f->cases++) {
        const uint64_t seed = v->seed + (uint64_t)f->cases;
        const int64_t before = result_differing(&f->r);
        rng r = {seed ^ name_of(&f->r)};
        edge_set(seed % 4 == 0);
        snprintf(again, sizeof again, "samebits verify --fuzz 1 --seed %" PRIu64 " --op %s --form '%s'\n", seed,
                 f->r.op, f->r.form);
        if (!v->json && f->cases % 64 == 0)
            progress(done, op_count + attention_form_count, "fuzz: %s %s, case %lld of %lld", f->r.op, f->r.form,
                     (long long)f->cases, (long long)cases);
        if (o && !strcmp(o->name, "gather_prepared") && !v->who.plain)
            fuzz_gather(v, o, &r, &f->r);
        else if (o)
            fuzz_op(v, o, &r, &f->r);
        else
            fuzz_attention(v, form, &r, &f->r);
        if (result_differing(&f->r) == before || f->failed++) continue;
        f->first_seed = seed;
        progress_end();
        if (v->who.plain) continue;
        cli_warn("%s\n  again: %.*s", f->r.first, (int)strcspn(again, "\n"), again);
    }
    edge_set(0);
    progress_end();
}

int64_t fuzz_control(const verify *v)
{
    verify faulty = *v;
    fuzz_result f = {0};
    faulty.who = engine_plain(FAULT_CHUNK);
    fuzz_line(&faulty, 500, &ops[0], NULL, 0, &f);
    return f.failed;
}

int fuzz_run(const verify *v, int64_t cases, fuzz_result **results)
{
    int count = 0;
    *results = cli_alloc((size_t)(op_count + attention_form_count) * sizeof **results);
    for (int i = 0; i < op_count; i++)
        if (verify_wants(v, ops[i].name, ops[i].form) && op_present(&ops[i]))
            fuzz_line(v, cases, &ops[i], NULL, i, &(*results)[count++]);
    for (int i = 0; i < attention_form_count; i++)
        if (verify_wants(v, "attention", attention_forms[i].form))
            fuzz_line(v, cases, NULL, &attention_forms[i], op_count + i, &(*results)[count++]);
    return count;
}

void fuzz_print(const fuzz_result *results, int count)
{
    table t;
    table_begin(&t, "op|form|order|>cases|>compared|>failed|>values differing|seed of the first");
    for (int i = 0; i < count; i++) {
        const fuzz_result *f = &results[i];
        table_cell(&t, "%s", f->r.op);
        table_cell(&t, "%s", f->r.form);
        table_cell(&t, "%s", samebits_order_name(f->r.order));
        table_cell(&t, "%lld", (long long)f->cases);
        table_cell(&t, "%lld", (long long)f->r.checks[CHECK_SPEC].cases);
        table_cell(&t, "%lld", (long long)f->failed);
        table_cell(&t, "%lld", (long long)result_differing(&f->r));
        if (f->failed)
            table_cell(&t, "%" PRIu64, f->first_seed);
        else
            table_cell(&t, "-");
    }
    table_end(&t, stdout);
}

void fuzz_json(const fuzz_result *results, int count, cJSON *root)
{
    cJSON *list = cJSON_AddArrayToObject(root, "fuzz");
    for (int i = 0; i < count; i++) {
        const fuzz_result *f = &results[i];
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "op", f->r.op);
        cJSON_AddStringToObject(one, "form", f->r.form);
        cJSON_AddStringToObject(one, "order", samebits_order_name(f->r.order));
        cJSON_AddNumberToObject(one, "cases", (double)f->cases);
        cJSON_AddNumberToObject(one, "compared", (double)f->r.checks[CHECK_SPEC].cases);
        cJSON_AddNumberToObject(one, "failed", (double)f->failed);
        cJSON_AddNumberToObject(one, "differing", (double)result_differing(&f->r));
        if (f->failed) {
            char seed[24];
            snprintf(seed, sizeof seed, "%" PRIu64, f->first_seed);
            cJSON_AddStringToObject(one, "seed", seed);
            cJSON_AddStringToObject(one, "first", f->r.first);
        }
        cJSON_AddItemToArray(list, one);
    }
}
