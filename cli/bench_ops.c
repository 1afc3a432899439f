/* The lines of samebits bench. */
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "bench.h"
#include "op.h"
#include "plain.h"
#include "table.h"

static const op *find(const char *name, const char *form, samebits_order order)
{
    for (int i = 0; i < op_count; i++)
        if (!strcmp(ops[i].name, name) && !strcmp(ops[i].form, form) && ops[i].order == order) return &ops[i];
    cli_die("there is no op %s %s", name, form);
}

/* A call of ours. */
typedef struct ours {
    const problem *p;
    samebits_context *context;
    const tensor *x;
    tensor *out;
} ours;

static void run_ours(void *arg)
{
    const ours *o = arg;
    cli_check(o->p->op->run(o->p, o->context, &o->x->dl, &o->out->dl), o->p->op->name);
}

/* A call of a stock library. */
typedef struct theirs {
    const stock *s;
    dtype type;
    int64_t m, n, k;
    const void *x, *w;
    void *out;
} theirs;

static void run_theirs(void *arg)
{
    const theirs *t = arg;
    if (dtype_is_wide(t->type))
        t->s->linear_wide(t->s, t->type, t->m, t->n, t->k, t->x, t->w, t->out);
    else if (t->type == T_BF16)
        t->s->linear_bf16(t->s, t->m, t->n, t->k, t->x, t->w, t->out);
    else
        t->s->linear(t->s, t->m, t->n, t->k, t->x, t->w, t->out);
}

static int multiplies(const stock *s, const op *o)
{
    if (dtype_is_wide(o->w)) return s->linear_wide != NULL;
    return o->x == o->w && (o->w == T_F32 || (o->w == T_BF16 && s->linear_bf16));
}

typedef struct ggml_call {
    ggml_op *op;
    int threads;
} ggml_call;

static void run_ggml(void *arg) { ggml_compute(((ggml_call *)arg)->op, ((ggml_call *)arg)->threads); }

/* Everybody else who computes a product. */
typedef struct peers {
    theirs plain[BENCH_PEERS];
    onednn_op *packed[BENCH_PEERS];
    int packed_count;
    ggml_call ggml;
    tensor out; /* as wide as the widest wants */
} peers;

static void peers_join(peers *all, bench *b, bench_line *line, const problem *p, const tensor *x)
{
    const op *o = p->op;
    const int64_t m = x->shape[0];
    *all = (peers){.ggml = {NULL, b->threads}};
    tensor_make2(&all->out, dtype_is_wide(o->w) ? T_C64 : T_F32, LAYOUT_PLAIN, m, p->n);
    for (int i = 0; i < b->stock_count && line->count < BENCH_PEERS - 2; i++) {
        const stock *s = &b->stocks[i];
        if (s->set_threads) s->set_threads(s, b->threads);
        if (multiplies(s, o)) {
            all->plain[i] =
                (theirs){s, o->w, m, p->n, p->k, tensor_at(x, 0), tensor_at(&p->w, 0), tensor_at(&all->out, 0)};
            bench_join(line, s->name, run_theirs, &all->plain[i]);
        }
        onednn_op *packed = o->flags & OP_PREPARED ? onednn_linear(b->onednn[i], x, &p->w, &all->out) : NULL;
        if (!packed) continue;
        all->packed[all->packed_count++] = packed;
        bench_join(line, cli_text("%s packed", s->name), onednn_run, packed);
    }
    if (b->ggml && !dtype_is_wide(o->w) && o->x == T_F32 && ggml_type_of(o->format) >= 0) {
        all->ggml.op = ggml_linear(b->ggml, o->format, &p->w, p->k, x);
        bench_join(line, ggml_name(b->ggml), run_ggml, &all->ggml);
    }
}

static void peers_free(peers *all)
{
    for (int i = 0; i < all->packed_count; i++) onednn_free(all->packed[i]);
    ggml_op_free(all->ggml.op);
    tensor_free(&all->out);
}

/* One product at one height, beside who else computes it. */
static void product_line(bench *b, const problem *p, int64_t m, double *one_row)
{
    const op *o = p->op;
    bench_line *line = bench_add(b, o->name, o->form, o->order,
                                 cli_text("%lld x %lld x %lld", (long long)m, (long long)p->k, (long long)p->n));
    rng r = {7};
    tensor x, out;
    tensor_make2(&x, o->x, LAYOUT_PLAIN, m, p->k);
    tensor_make2(&out, o->out, LAYOUT_PLAIN, m, p->n);
    tensor_fill(&x, FILL_UNIT, &r);
    ours mine = {p, cli_context(SAMEBITS_CPU_AUTO, b->threads, 0), &x, &out};
    bench_join(line, "samebits", run_ours, &mine);
    peers others;
    peers_join(&others, b, line, p, &x);
    line->flops = (o->w == T_C64 ? 8.0 : 2.0) * (double)(m * p->k * p->n);
    line->bytes = (double)tensor_count(&p->w) * (double)dtype_size(p->w.type);
    if (o->w == T_U32) line->bytes += (double)tensor_count(&p->scales) * (double)dtype_size(p->scales.type);
    if (p->biases.memory) line->bytes += (double)tensor_count(&p->biases) * (double)dtype_size(p->biases.type);
    bench_time(b, line);
    if (m == 1) *one_row = line->all[0].seconds;
    line->one_row = *one_row;
    peers_free(&others);
    tensor_free(&x);
    tensor_free(&out);
}

/* One op with weights of one shape, at growing heights. */
static void op_lines(bench *b, const op *o, int64_t k, int64_t n)
{
    static const int64_t usual[] = {1, 2, 4, 8, 64, 512}, quick[] = {1, 8, 64},
                         sweep[] = {1, 2, 4, 8, 16, 32, 64, 128, 512, 2048};
    const int64_t *heights = b->sweep ? sweep : b->quick ? quick : usual;
    const size_t count = b->sweep ? CLI_COUNT(sweep) : b->quick ? CLI_COUNT(quick) : CLI_COUNT(usual);
    rng r = {1};
    problem p;
    double one_row = 0.0;
    if (!bench_wants(b, o->form)) return;
    problem_make(&p, o, k, n, &r);
    for (size_t i = 0; i < count; i++) product_line(b, &p, heights[i], &one_row);
    problem_free(&p);
}

static void square_lines(bench *b, const op *o)
{
    const int64_t size = b->quick ? 2048 : 4096;
    op_lines(b, o, size, size);
}

static void product_lines(bench *b, const char *name, const char *form, samebits_order order)
{
    square_lines(b, find(name, form, order));
}

/* Weights (N, K) of Gemma 3 270M, of 1B to 8B models, and an output head. */
static void sweep_products(bench *b)
{
    static const struct {
        const char *form;
        samebits_order order;
    } forms[] = {{"f32", SAMEBITS_ORDER_PORTABLE_1},
                 {"bf16", SAMEBITS_ORDER_PORTABLE_1},
                 {"f16", SAMEBITS_ORDER_PORTABLE_1},
                 {"bf16", SAMEBITS_ORDER_AMX_1}};
    static const int64_t shapes[][2] = {{1024, 640},  {2048, 640},   {640, 2048},   {2048, 2048},
                                        {4096, 4096}, {11008, 4096}, {4096, 11008}, {32000, 2048}};
    for (size_t f = 0; f < CLI_COUNT(forms); f++)
        for (size_t s = 0; s < CLI_COUNT(shapes); s++)
            op_lines(b, find("linear_prepared", forms[f].form, forms[f].order), shapes[s][1], shapes[s][0]);
}

void bench_products(bench *b)
{
    if (b->sweep) {
        sweep_products(b);
        return;
    }
    product_lines(b, "linear_prepared", "f32", SAMEBITS_ORDER_PORTABLE_1);
    product_lines(b, "linear", "f32", SAMEBITS_ORDER_PORTABLE_1);
    product_lines(b, "linear_prepared", "f32*f16", SAMEBITS_ORDER_PORTABLE_1);
    product_lines(b, "linear_prepared", "f32*bf16", SAMEBITS_ORDER_PORTABLE_1);
    product_lines(b, "linear_prepared", "bf16", SAMEBITS_ORDER_PORTABLE_1);
    product_lines(b, "linear_prepared", "bf16", SAMEBITS_ORDER_AMX_1);
    product_lines(b, "linear", "f64", SAMEBITS_ORDER_PORTABLE_1);
    product_lines(b, "linear", "complex64", SAMEBITS_ORDER_PORTABLE_1);
}

void bench_quantized(bench *b)
{
    for (int i = 0; i < op_count; i++)
        if (op_is_quantised(&ops[i]) && !strcmp(ops[i].name, "linear_prepared")) square_lines(b, &ops[i]);
    product_lines(b, "matmul_affine", "affine_4:64:bf16", SAMEBITS_ORDER_PORTABLE_1);
    product_lines(b, "matmul_affine", "affine_4:64:bf16", SAMEBITS_ORDER_INT8_1);
    product_lines(b, "matmul_affine", "affine_4:64:bf16+along-n", SAMEBITS_ORDER_PORTABLE_1);
    product_lines(b, "matmul_scaled", "mlx_mxfp4+along-n", SAMEBITS_ORDER_PORTABLE_1);
}

typedef struct attend {
    attention_call call;
    samebits_context *context;
} attend;

static void run_attention(void *arg) { attention_run(&((attend *)arg)->call, ((attend *)arg)->context); }

/* `queries` queries of `group` heads to one KV head, against `keys` keys. */
static void attention_line(bench *b, const char *name, int64_t queries, int64_t group, int64_t keys)
{
    enum { DEPTH = 128 };
    const attention_form *form = attention_forms;
    while (strcmp(form->form, name)) form++;
    if (!bench_wants(b, name)) return;
    bench_line *line = bench_add(
        b, "attention", name, SAMEBITS_ORDER_PORTABLE_1,
        cli_text("%lld q, %lld heads a KV head, %lld keys", (long long)queries, (long long)group, (long long)keys));
    rng r = {3};
    tensor q, k, v, out;
    tensor_make(&q, form->q, LAYOUT_PLAIN, 4, (int64_t[]){1, group, queries, DEPTH});
    cache_make(&k, form->k, LAYOUT_PLAIN, (int64_t[]){1, 1, keys, DEPTH});
    cache_make(&v, form->v, LAYOUT_PLAIN, (int64_t[]){1, 1, keys, DEPTH});
    tensor_make(&out, form->out, LAYOUT_PLAIN, 4, (int64_t[]){1, group, queries, DEPTH});
    tensor_fill(&q, FILL_UNIT, &r);
    cache_fill(&k, form->k, FILL_UNIT, &r);
    cache_fill(&v, form->v, FILL_UNIT, &r);
    attend mine = {{.q = &q, .k = &k, .v = &v, .k_format = form->k, .v_format = form->v, .scale = 0.02f, .out = &out},
                   cli_context(SAMEBITS_CPU_AUTO, b->threads, 0)};
    bench_join(line, "samebits", run_attention, &mine);
    ggml_call g = {NULL, b->threads};
    if (b->ggml) {
        g.op = ggml_attention(b->ggml, &mine.call);
        bench_join(line, ggml_name(b->ggml), run_ggml, &g);
    }
    line->flops = 4.0 * (double)(queries * group * keys * DEPTH);
    line->bytes = (double)tensor_count(&k) * (double)dtype_size(k.type);
    line->bytes += (double)tensor_count(&v) * (double)dtype_size(v.type);
    bench_time(b, line);
    ggml_op_free(g.op);
    tensor_free(&q);
    tensor_free(&k);
    tensor_free(&v);
    tensor_free(&out);
}

void bench_attention(bench *b)
{
    static const int64_t groups[] = {1, 4, 8};
    static const char *const blocks[] = {"f32*q8_0", "f32*q4_0"};
    for (int64_t keys = 4096; keys <= (b->quick ? 4096 : 32768); keys *= 8)
        for (size_t i = 0; i < CLI_COUNT(groups); i++) attention_line(b, "f32*f16", 1, groups[i], keys);
    attention_line(b, "f32*f16", b->quick ? 64 : 512, 4, 4096);
    for (size_t i = 0; i < CLI_COUNT(blocks); i++) attention_line(b, blocks[i], 1, 4, 4096);
}

/* add_rms_norm of tensors of one shape: every other op has no second operand or output of x's size. */
typedef struct add_norm {
    ours call;
    tensor residual, sum;
} add_norm;

static void run_add_norm(void *arg)
{
    add_norm *a = arg;
    const ours *o = &a->call;
    cli_check(
        samebits_add_rms_norm(o->context, &o->x->dl, &a->residual.dl, &o->p->w.dl, NORM_EPS, &a->sum.dl, &o->out->dl),
        "add_rms_norm");
}

/* Rows of `heads` heads as a tensor (heads, rows, numbers of a head), all heads of a row at one position. */
static void split_heads(tensor *t, int64_t heads)
{
    const int64_t rows = t->shape[0], row = t->shape[1], head = row / heads;
    const int64_t shape[] = {heads, rows, head}, stride[] = {head, row, 1};
    memcpy(t->shape, shape, sizeof shape);
    memcpy(t->stride, stride, sizeof stride);
    t->dl.ndim = 3;
}

/* What a row op is timed on. */
typedef struct row_case {
    int64_t rows, n;
    int64_t columns; /* of out, or 0: the op's own */
    int64_t heads;   /* or 0: rows are not split */
} row_case;

/* A row op, beside a copy that moves as many bytes if it writes a tensor. */
static void row_line(bench *b, const char *name, const char *form, row_case c)
{
    const op *o = find(name, form, SAMEBITS_ORDER_PORTABLE_1);
    if (!bench_wants(b, form)) return;
    char *shape =
        c.heads ? cli_text("%lld x %lld x %lld", (long long)c.rows, (long long)c.heads, (long long)(c.n / c.heads))
                : cli_text("%lld x %lld", (long long)c.rows, (long long)c.n);
    bench_line *line = bench_add(b, o->name, o->form, o->order, shape);
    const int64_t k = c.heads ? c.n / c.heads : c.n;
    rng r = {5};
    problem p;
    tensor x, out;
    problem_make(&p, o, k, k, &r);
    tensor_make2(&x, o->x, LAYOUT_PLAIN, c.rows, c.n);
    tensor_make2(&out, o->out, LAYOUT_PLAIN, c.rows, c.columns ? c.columns : c.heads ? c.n : p.n);
    tensor_fill(&x, FILL_UNIT, &r);
    const int writes = out.shape[1] == c.n, adds = !strcmp(name, "add_rms_norm");
    if (c.heads) {
        split_heads(&x, c.heads);
        split_heads(&out, c.heads);
    }
    add_norm mine = {.call = {&p, cli_context(SAMEBITS_CPU_AUTO, b->threads, 0), &x, &out}};
    if (adds) {
        tensor_make2(&mine.residual, o->x, LAYOUT_PLAIN, c.rows, c.n);
        tensor_make2(&mine.sum, o->x, LAYOUT_PLAIN, c.rows, c.n);
        tensor_fill(&mine.residual, FILL_UNIT, &r);
        bench_join(line, "samebits", run_add_norm, &mine);
    } else {
        bench_join(line, "samebits", run_ours, &mine.call);
    }
    const double written = (double)(c.rows * c.n) * (double)dtype_size(o->out);
    line->bytes = (double)(c.rows * c.n) * (double)dtype_size(o->x);
    if (o->flags & OP_TABLE) line->bytes = (double)c.rows * (double)p.w.shape[1] * (double)dtype_size(p.w.type);
    copier *copies = writes ? machine_copier(adds ? 2.0 * written : (line->bytes + written) / 2.0, b->threads) : NULL;
    if (copies) bench_join(line, "copy", machine_copy, copies);
    bench_time(b, line);
    if (copies) machine_copier_free(copies);
    problem_free(&p);
    tensor_free(&x);
    tensor_free(&out);
    tensor_free(&mine.residual);
    tensor_free(&mine.sum);
}

enum { VOCABULARY = 128256, TOP = 40 };

void bench_rows(bench *b)
{
    static const char *const names[] = {"softmax", "log_softmax", "rms_norm", "layer_norm", "add_rms_norm",
                                        "silu",    "gelu",        "swiglu",   "add",        "sum",
                                        "mean",    "max",         "argmax"};
    static const char *const tables[] = {"bf16-f32", "q4_0", "q6_k"}, *const logits[] = {"logsumexp", "log_likelihood",
                                                                                         "cross_entropy", "sample"};
    const row_case rows = {.rows = b->quick ? 64 : 512, .n = 4096}, heads = {.rows = rows.rows, .n = 4096, .heads = 32};
    const row_case tokens = {.rows = b->quick ? 4 : 32, .n = VOCABULARY};
    const row_case best = {.rows = tokens.rows, .n = VOCABULARY, .columns = TOP};
    for (size_t i = 0; i < CLI_COUNT(names); i++) row_line(b, names[i], "f32", rows);
    row_line(b, "rope", "f32", heads);
    row_line(b, "rope", "f32+interleaved", heads);
    for (size_t i = 0; i < CLI_COUNT(tables); i++) row_line(b, "embedding", tables[i], rows);
    for (size_t i = 0; i < CLI_COUNT(logits); i++) row_line(b, logits[i], "f32", tokens);
    row_line(b, "sample", "f32+filters", tokens);
    row_line(b, "top_k", "f32", best);
}
