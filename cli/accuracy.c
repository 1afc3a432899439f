#include "accuracy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "op.h"
#include "op_rows.h"
#include "plain.h"
#include "table.h"

enum { ROWS = 8, DEPTH = 4096, WIDTH = 64 };

typedef struct error {
    double rms, largest;
} error;

/* Over the RMS of the exact values, so that ops of any scale compare. */
typedef struct spread {
    double square, size, largest;
} spread;

static void add_error(spread *s, double error, double exact)
{
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

static double exact_activation(samebits_activation activation, double t)
{
    switch (activation) {
    case SAMEBITS_ACTIVATION_RELU: return t > 0.0 ? t : 0.0;
    case SAMEBITS_ACTIVATION_SILU: return t / (1.0 + exp(-t));
    case SAMEBITS_ACTIVATION_GELU: return 0.5 * t * (1.0 + erf(t / sqrt(2.0)));
    case SAMEBITS_ACTIVATION_GELU_TANH:
        return 0.5 * t * (1.0 + tanh(sqrt(2.0 / 3.14159265358979323846) * (t + 0.044715 * t * t * t)));
    case SAMEBITS_ACTIVATION_GELU_QUICK: return t / (1.0 + exp(-1.702 * t));
    case SAMEBITS_ACTIVATION_SIGMOID: return 1.0 / (1.0 + exp(-t));
    case SAMEBITS_ACTIVATION_TANH: return tanh(t);
    case SAMEBITS_ACTIVATION_EXP: return exp(t);
    default: return t;
    }
}

static void exact_product(const problem *p, const float *x, double *out)
{
    const samebits_epilogue *e = &p->epilogue;
    for (int64_t col = 0; col < p->n; col++) {
        double t = 0.0;
        for (int64_t i = 0; i < p->k; i++) t += (double)x[i] * (double)p->wide[col * p->k + i];
        t *= e->alpha;
        if (e->c) t += e->beta * (double)tensor_get(&p->c, col);
        if (e->bias) t += (double)tensor_get(&p->bias, col);
        out[col] = exact_activation(e->activation, t);
    }
}

/* Returns 0 if the op does not work element by element. */
static int exact_elements(const problem *p, const float *x, double *out)
{
    for (int64_t i = 0; i < p->k; i++) {
        const double d = (double)x[i], w = p->op->flags & OP_COLUMNS ? (double)tensor_get(&p->w, i) : 0.0;
        const double f = exact_activation(p->op->activation, d);
        if (p->op->plain == plain_activate)
            out[i] = f;
        else if (p->op->plain == plain_gated)
            out[i] = f * w;
        else if (p->op->plain == plain_add)
            out[i] = d + w;
        else if (p->op->plain == plain_sub)
            out[i] = d - w;
        else if (p->op->plain == plain_mul)
            out[i] = d * w;
        else if (p->op->plain == plain_div)
            out[i] = d / w;
        else if (p->op->plain == plain_scale)
            out[i] = d * (double)SCALE_FACTOR + (double)SCALE_BIAS;
        else
            return 0;
    }
    return 1;
}

static void exact_rope(const problem *p, const float *x, double *out)
{
    samebits_rope_params params;
    rope_params_of(p, &params);
    const int64_t pairs = (p->k - params.first) / 2;
    const int halves = params.layout == SAMEBITS_ROPE_HALVES;
    for (int64_t i = 0; i < params.first; i++) out[i] = (double)x[i];
    for (int64_t i = 0; i < pairs; i++) {
        const int64_t a = params.first + (halves ? i : 2 * i), b = a + (halves ? pairs : 1);
        const double angle = rope_position_of(p) * pow((double)params.base, -(double)i / (double)pairs);
        out[a] = (double)x[a] * cos(angle) - (double)x[b] * sin(angle);
        out[b] = (double)x[b] * cos(angle) + (double)x[a] * sin(angle);
    }
}

/* From the maximum and the sum of exponentials: one number a row. */
static double exact_number(const problem *p, const float *x, double max, double total)
{
    double sum = 0.0;
    if (!strcmp(p->op->name, "logsumexp")) return max + log(total);
    if (!strcmp(p->op->name, "log_likelihood")) return (double)x[token_of(p)] - max - log(total);
    for (int64_t i = 0; i < p->k; i++) sum += (double)x[i];
    return sum;
}

static void exact_row(const problem *p, const float *x, double *out)
{
    const char *name = p->op->name;
    const int64_t n = p->k;
    double max = (double)x[0], mean = 0.0, square = 0.0, total = 0.0;
    for (int64_t i = 0; i < n; i++) {
        max = fmax(max, (double)x[i]);
        mean += (double)x[i] / (double)n;
    }
    if (!strcmp(name, "rms_norm")) mean = 0.0;
    for (int64_t i = 0; i < n; i++) {
        square += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
        total += exp((double)x[i] - max);
    }
    if (p->op->flags & OP_ONE) {
        *out = exact_number(p, x, max, total);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)x[i];
        if (!strcmp(name, "softmax"))
            out[i] = exp(d - max) / total;
        else if (!strcmp(name, "log_softmax"))
            out[i] = d - max - log(total);
        else
            out[i] = (d - mean) / sqrt(square + (double)NORM_EPS) * (double)tensor_get(&p->w, i) +
                     (p->op->plain == plain_layer_norm ? (double)tensor_get(&p->bias, i) : 0.0);
    }
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

static void exact_wide(const problem *p, const tensor *x, long double *out)
{
    const int complex = x->type == T_C64;
    for (int64_t row = 0; row < x->shape[0]; row++)
        for (int64_t col = 0; col < p->n; col++) {
            const double *xd = tensor_at(x, row * p->k), *wd = tensor_at(&p->w, col * p->k);
            const float *xc = tensor_at(x, row * p->k), *wc = tensor_at(&p->w, col * p->k);
            long double re = 0.0L, im = 0.0L;
            for (int64_t i = 0; i < p->k && !complex; i++) re += (long double)xd[i] * (long double)wd[i];
            for (int64_t i = 0; i < 2 * p->k && complex; i += 2) {
                re += (long double)xc[i] * (long double)wc[i] - (long double)xc[i + 1] * (long double)wc[i + 1];
                im += (long double)xc[i] * (long double)wc[i + 1] + (long double)xc[i + 1] * (long double)wc[i];
            }
            *out++ = re;
            if (complex) *out++ = im;
        }
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
        if (o->flags & OP_HAS_N)
            exact_product(&p, row, exact + i * p.n);
        else if (o->plain == plain_rope)
            exact_rope(&p, row, exact + i * p.n);
        else if (!exact_elements(&p, row, exact + i * p.n))
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
    const int64_t heads = c->q->shape[1], keys = c->k->shape[2], depth = c->q->shape[3], width = c->v->shape[3];
    float *q = cli_alloc((size_t)depth * sizeof *q), *k = cli_alloc((size_t)depth * sizeof *k);
    float *v = cli_alloc((size_t)width * sizeof *v);
    double *p = cli_alloc((size_t)keys * sizeof *p);
    for (int64_t h = 0; h < heads; h++) {
        const int64_t base = h / (heads / c->k->shape[1]) * keys;
        double max = -INFINITY, total = 0.0;
        tensor_row(c->q, h, q);
        for (int64_t j = 0; j < keys; j++) {
            tensor_row(c->k, base + j, k);
            p[j] = 0.0;
            for (int64_t i = 0; i < depth; i++) p[j] += (double)q[i] * (double)k[i];
            p[j] *= (double)c->scale;
            max = fmax(max, p[j]);
        }
        for (int64_t j = 0; j < keys; j++) total += p[j] = exp(p[j] - max);
        for (int64_t j = 0; j < keys; j++) {
            tensor_row(c->v, base + j, v);
            for (int64_t d = 0; d < width; d++) out[h * width + d] += p[j] / total * (double)v[d];
        }
    }
    free(q);
    free(k);
    free(v);
    free(p);
}

static void measure_attention(const attention_form *form, ggml_library *ggml, accuracy_line *line)
{
    enum { HEADS = 8, KEYS = 4096, COLUMNS = 128 };
    rng r = {13};
    tensor q, k, v, out;
    tensor_make(&q, form->q, LAYOUT_PLAIN, 4, (int64_t[]){1, HEADS, 1, COLUMNS});
    tensor_make(&k, form->kv, LAYOUT_PLAIN, 4, (int64_t[]){1, 2, KEYS, COLUMNS});
    tensor_make(&v, form->kv, LAYOUT_PLAIN, 4, (int64_t[]){1, 2, KEYS, COLUMNS});
    tensor_make(&out, form->out, LAYOUT_PLAIN, 4, (int64_t[]){1, HEADS, 1, COLUMNS});
    fill_normal(&q, &r);
    fill_normal(&k, &r);
    fill_normal(&v, &r);
    const attention_call call = {.q = &q, .k = &k, .v = &v, .scale = 0.125f, .out = &out};
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
    if (ggml && form->q == T_F32 && form->kv == T_F16) {
        ggml_op *op = ggml_attention(ggml, &q, &k, &v, call.scale);
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

static int has_exact(const op *o)
{
    static const char *const none[] = {"l2_norm", "group_norm", "add_rms_norm", "max",   "argmax",
                                       "mean",    "embedding",  "top_k",        "sample"};
    for (size_t i = 0; i < CLI_COUNT(none); i++)
        if (!strcmp(o->name, none[i])) return 0;
    if (dtype_is_wide(o->x) && o->flags & OP_EPILOGUE) return 0;
    return !(o->flags & OP_YARN);
}

int accuracy_measure(const char *only, const stock *stocks, int stock_count, ggml_library *ggml, accuracy_line **lines)
{
    int count = 0;
    *lines = cli_alloc((size_t)(op_count + attention_form_count) * sizeof **lines);
    for (int i = 0; i < op_count; i++) {
        /* matmul_quantized has the bits of linear_prepared, and so its errors. */
        /* YaRN's own angles are a definition, not an approximation. */
        /* The other reductions and norms are made of the same sums. */
        if (!has_exact(&ops[i]) || (only && strcmp(only, ops[i].name)) ||
            (!only && !strcmp(ops[i].name, "matmul_quantized")))
            continue;
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
