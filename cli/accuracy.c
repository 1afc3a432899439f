#include "accuracy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "exact.h"
#include "table.h"

enum { ROWS = 8, DEPTH = 4096, WIDTH = 64 };

typedef struct error {
    double rms, largest;
} error;

/* Over the RMS of the exact values, so that ops of any scale compare. */
typedef struct spread {
    double square, size, largest;
} spread;

/* Infinities, of divisions by zero, are left out. */
static void add_error(spread *s, double error, double exact)
{
    if (!isfinite(exact)) return;
    s->square += error * error;
    s->size += exact * exact;
    s->largest = fmax(s->largest, fabs(error));
}

static error finish(const spread *s, int64_t count)
{
    return (error){sqrt(s->square / s->size), s->largest / sqrt(s->size / (double)count)};
}

static error error_of(const double *exact, const float *have, int64_t count)
{
    spread s = {0};
    for (int64_t i = 0; i < count; i++) add_error(&s, (double)have[i] - exact[i], exact[i]);
    return finish(&s, count);
}

/* Of f64, whose exact values are those of long double, or of the parts of complex64. */
static error error_of_wide(dtype type, const long double *exact, const void *have, int64_t count)
{
    spread s = {0};
    for (int64_t i = 0; i < count; i++) {
        const long double value =
            type == T_F64 ? (long double)((const double *)have)[i] : (long double)((const float *)have)[i];
        add_error(&s, (double)(value - exact[i]), (double)exact[i]);
    }
    return finish(&s, count);
}

/* Sums of twelve bytes of noise: close to a normal distribution, made with integers alone. */
static void fill_normal(tensor *t, rng *r)
{
    for (int64_t i = 0; i < tensor_count(t); i++) {
        int sum = 0;
        for (int k = 0; k < 12; k++) sum += (int)(rng_next(r) >> 48 & 0xFFFF);
        tensor_set(t, i, (float)(sum - 6 * 65535) * (1.0f / 65536));
    }
}

/* The same in both parts of complex64, and with all bits of f64. */
static void fill_normal_wide(tensor *t, rng *r)
{
    tensor floats;
    const int64_t count = tensor_count(t);
    tensor_make2(&floats, T_F32, LAYOUT_PLAIN, 1, 2 * count);
    fill_normal(&floats, r);
    for (int64_t i = 0; i < count; i++) {
        const double d = (double)tensor_get(&floats, 2 * i) + 0x1p-24 * (double)tensor_get(&floats, 2 * i + 1);
        memcpy(tensor_at(t, i), t->type == T_F64 ? (const void *)&d : tensor_at(&floats, 2 * i), 8);
    }
    tensor_free(&floats);
}

/* The peer of a product: sgemm for f32, ggml for the formats it has. */
static void measure_peer(const problem *p, const tensor *x, const double *exact, const stock *stocks, int stock_count,
                         ggml_library *ggml, accuracy_line *line)
{
    const int64_t m = x->shape[0];
    error e = {0};
    if (p->op->flags & OP_EPILOGUE || !(p->op->flags & OP_HAS_N) || p->op->x != T_F32) return;
    if (p->op->w == T_F32 && stock_count) {
        float *out = cli_alloc((size_t)(m * p->n) * sizeof *out);
        stocks[0].linear(&stocks[0], m, p->n, p->k, tensor_at(x, 0), p->wide, out);
        e = error_of(exact, out, m * p->n);
        line->peer = stocks[0].name;
        free(out);
    } else if (ggml && ggml_type_of(p->op->format) >= 0) {
        ggml_op *op = ggml_linear(ggml, p->op->format, &p->w, p->k, x);
        ggml_compute(op, 1);
        e = error_of(exact, ggml_result(op), m * p->n);
        line->peer = (char *)ggml_name(ggml);
        ggml_op_free(op);
    }
    line->peer_rms = e.rms;
    line->peer_largest = e.largest;
}

/* Products of f64 and complex64 without an epilogue. */
static void measure_wide(const op *o, const stock *stocks, int stock_count, accuracy_line *line)
{
    rng r = {11};
    problem p;
    tensor x, out;
    problem_make(&p, o, DEPTH, WIDTH, &r);
    fill_normal_wide(&p.w, &r);
    tensor_make2(&x, o->x, LAYOUT_PLAIN, ROWS, p.k);
    tensor_make2(&out, o->out, LAYOUT_PLAIN, ROWS, p.n);
    fill_normal_wide(&x, &r);
    cli_check(o->run(&p, cli_context(SAMEBITS_CPU_AUTO, 0, 0), &x.dl, &out.dl), o->name);
    const int64_t count = ROWS * p.n * (o->x == T_C64 ? 2 : 1);
    long double *exact = cli_alloc((size_t)count * sizeof *exact);
    exact_wide(&p, &x, exact);
    error e = error_of_wide(o->x, exact, tensor_at(&out, 0), count);
    *line = (accuracy_line){
        .op = o->name, .form = o->form, .order = samebits_order_name(o->order), .rms = e.rms, .largest = e.largest};
    if (stock_count && stocks[0].linear_wide) {
        stocks[0].linear_wide(&stocks[0], o->x, ROWS, p.n, p.k, tensor_at(&x, 0), tensor_at(&p.w, 0),
                              tensor_at(&out, 0));
        e = error_of_wide(o->x, exact, tensor_at(&out, 0), count);
        line->peer = stocks[0].name;
        line->peer_rms = e.rms;
        line->peer_largest = e.largest;
    }
    free(exact);
    tensor_free(&x);
    tensor_free(&out);
    problem_free(&p);
}

static void measure_op(const op *o, const stock *stocks, int stock_count, ggml_library *ggml, accuracy_line *line)
{
    rng r = {11};
    problem p;
    tensor x, out;
    problem_make(&p, o, DEPTH, WIDTH, &r);
    if (!op_is_quantised(o) && o->flags & OP_HAS_N) {
        fill_normal(&p.w, &r);
        for (int64_t row = 0; row < p.n; row++) tensor_row(&p.w, row, p.wide + row * p.k);
        if (p.prepared) {
            samebits_weights_destroy(&p.prepared);
            problem_prepare(&p, cli_context(SAMEBITS_CPU_AUTO, 1, 0));
        }
    }
    tensor_make2(&x, o->x, LAYOUT_PLAIN, ROWS, p.k);
    tensor_make2(&out, o->out, LAYOUT_PLAIN, ROWS, p.n);
    fill_normal(&x, &r);
    cli_check(o->run(&p, cli_context(SAMEBITS_CPU_AUTO, 0, 0), &x.dl, &out.dl), o->name);
    double *exact = cli_alloc((size_t)(ROWS * p.n) * sizeof *exact);
    float *have = cli_alloc((size_t)(ROWS * p.n) * sizeof *have), *row = cli_alloc((size_t)p.k * sizeof *row);
    for (int64_t i = 0; i < ROWS; i++) {
        tensor_row(&x, i, row);
        tensor_row(&out, i, have + i * p.n);
        exact_row(&p, row, exact + i * p.n);
    }
    const error e = error_of(exact, have, ROWS * p.n);
    *line = (accuracy_line){
        .op = o->name, .form = o->form, .order = samebits_order_name(o->order), .rms = e.rms, .largest = e.largest};
    measure_peer(&p, &x, exact, stocks, stock_count, ggml, line);
    free(exact);
    free(have);
    free(row);
    tensor_free(&x);
    tensor_free(&out);
    problem_free(&p);
}

/* One query of one head after another, in double. */
static void exact_attention(const attention_call *c, double *out)
{
    const int64_t heads = c->q->shape[1], keys = c->k->shape[2], depth = c->q->shape[3], width = c->out->shape[3];
    float *q = cli_alloc((size_t)depth * sizeof *q), *k = cli_alloc((size_t)depth * sizeof *k);
    float *v = cli_alloc((size_t)width * sizeof *v);
    double *p = cli_alloc((size_t)keys * sizeof *p);
    for (int64_t h = 0; h < heads; h++) {
        const int64_t base = h / (heads / c->k->shape[1]) * keys;
        double max = -INFINITY, total = 0.0;
        tensor_row(c->q, h, q);
        for (int64_t j = 0; j < keys; j++) {
            cache_row(c->k, c->k_format, base + j, depth, k);
            p[j] = 0.0;
            for (int64_t i = 0; i < depth; i++) p[j] += (double)q[i] * (double)k[i];
            p[j] *= (double)c->scale;
            max = fmax(max, p[j]);
        }
        for (int64_t j = 0; j < keys; j++) total += p[j] = exp(p[j] - max);
        for (int64_t j = 0; j < keys; j++) {
            cache_row(c->v, c->v_format, base + j, width, v);
            for (int64_t d = 0; d < width; d++) out[h * width + d] += p[j] / total * (double)v[d];
        }
    }
    free(q);
    free(k);
    free(v);
    free(p);
}

static void fill_cache(tensor *t, samebits_format format, rng *r)
{
    if (t->type == T_U8)
        cache_fill(t, format, FILL_UNIT, r);
    else
        fill_normal(t, r);
}

static void measure_attention(const attention_form *form, ggml_library *ggml, accuracy_line *line)
{
    enum { HEADS = 8, KEYS = 4096, COLUMNS = 128 };
    rng r = {13};
    tensor q, k, v, out;
    tensor_make(&q, form->q, LAYOUT_PLAIN, 4, (int64_t[]){1, HEADS, 1, COLUMNS});
    cache_make(&k, form->k, LAYOUT_PLAIN, (int64_t[]){1, 2, KEYS, COLUMNS});
    cache_make(&v, form->v, LAYOUT_PLAIN, (int64_t[]){1, 2, KEYS, COLUMNS});
    tensor_make(&out, form->out, LAYOUT_PLAIN, 4, (int64_t[]){1, HEADS, 1, COLUMNS});
    fill_normal(&q, &r);
    fill_cache(&k, form->k, &r);
    fill_cache(&v, form->v, &r);
    const attention_call call = {
        .q = &q, .k = &k, .v = &v, .k_format = form->k, .v_format = form->v, .scale = 0.125f, .out = &out};
    attention_run(&call, cli_context(SAMEBITS_CPU_AUTO, 0, 0));
    double *exact = cli_alloc(HEADS * COLUMNS * sizeof *exact);
    float have[HEADS * COLUMNS];
    exact_attention(&call, exact);
    for (int64_t i = 0; i < HEADS; i++) tensor_row(&out, i, have + i * COLUMNS);
    const error e = error_of(exact, have, HEADS * COLUMNS);
    *line = (accuracy_line){.op = "attention",
                            .form = form->form,
                            .order = samebits_order_name(SAMEBITS_ORDER_PORTABLE_1),
                            .rms = e.rms,
                            .largest = e.largest};
    if (ggml && form->q == T_F32 && (k.type == T_F16 || k.type == T_U8)) {
        ggml_op *op = ggml_attention(ggml, &call);
        ggml_compute(op, 1);
        const error peer = error_of(exact, ggml_result(op), HEADS * COLUMNS);
        line->peer = (char *)ggml_name(ggml);
        line->peer_rms = peer.rms;
        line->peer_largest = peer.largest;
        ggml_op_free(op);
    }
    free(exact);
    tensor_free(&q);
    tensor_free(&k);
    tensor_free(&v);
    tensor_free(&out);
}

int accuracy_measure(const char *only, const stock *stocks, int stock_count, ggml_library *ggml, accuracy_line **lines)
{
    int count = 0;
    *lines = cli_alloc((size_t)(op_count + attention_form_count) * sizeof **lines);
    for (int i = 0; i < op_count; i++) {
        /* Weights as they lie give the bits of prepared ones. */
        const int repeats = !strcmp(ops[i].name, "matmul_quantized") || !strcmp(ops[i].name, "matmul_affine") ||
                            !strcmp(ops[i].name, "matmul_scaled");
        if (!has_exact(&ops[i]) || (only ? strcmp(only, ops[i].name) != 0 : repeats)) continue;
        progress(i, op_count, "accuracy: %s %s", ops[i].name, ops[i].form);
        accuracy_line *line = &(*lines)[count++];
        if (dtype_is_wide(ops[i].x))
            measure_wide(&ops[i], stocks, stock_count, line);
        else
            measure_op(&ops[i], stocks, stock_count, ggml, line);
    }
    for (int i = 0; i < attention_form_count && (!only || !strcmp(only, "attention")); i++)
        measure_attention(&attention_forms[i], ggml, &(*lines)[count++]);
    progress_end();
    return count;
}

void accuracy_print(const accuracy_line *lines, int count)
{
    table t;
    table_begin(&t, "op|form|order|>rms error|>largest|>peer's rms|>largest|peer");
    for (int i = 0; i < count; i++) {
        const accuracy_line *l = &lines[i];
        table_cell(&t, "%s", l->op);
        table_cell(&t, "%s", l->form);
        table_cell(&t, "%s", l->order);
        table_cell(&t, "%.1e", l->rms);
        table_cell(&t, "%.1e", l->largest);
        table_cell(&t, l->peer ? "%.1e" : "-", l->peer_rms);
        table_cell(&t, l->peer ? "%.1e" : "-", l->peer_largest);
        table_cell(&t, "%s", l->peer ? l->peer : "-");
    }
    table_end(&t, stdout);
    printf(
        "\nErrors against float64, over the RMS of the exact outputs; %d rows, K = %d; quantised weights are taken as "
        "exact.\n",
        ROWS, DEPTH);
}

void accuracy_json(const accuracy_line *lines, int count, cJSON *root)
{
    cJSON *list = cJSON_AddArrayToObject(root, "accuracy");
    for (int i = 0; i < count; i++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "op", lines[i].op);
        cJSON_AddStringToObject(one, "form", lines[i].form);
        cJSON_AddStringToObject(one, "order", lines[i].order);
        cJSON_AddNumberToObject(one, "rms", lines[i].rms);
        cJSON_AddNumberToObject(one, "largest", lines[i].largest);
        if (lines[i].peer) {
            cJSON_AddStringToObject(one, "library", lines[i].peer);
            cJSON_AddNumberToObject(one, "library_rms", lines[i].peer_rms);
            cJSON_AddNumberToObject(one, "library_largest", lines[i].peer_largest);
        }
        cJSON_AddItemToArray(list, one);
    }
}
