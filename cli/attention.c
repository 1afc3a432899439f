#include "attention.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>

#include "fingerprint.h"
#include "plain_math.h"

#define F32    SAMEBITS_FORMAT_F32
#define F16    SAMEBITS_FORMAT_F16
#define BF16   SAMEBITS_FORMAT_BF16
#define Q4_0   SAMEBITS_FORMAT_Q4_0
#define Q4_1   SAMEBITS_FORMAT_Q4_1
#define Q5_0   SAMEBITS_FORMAT_Q5_0
#define Q5_1   SAMEBITS_FORMAT_Q5_1
#define Q8_0   SAMEBITS_FORMAT_Q8_0
#define IQ4_NL SAMEBITS_FORMAT_IQ4_NL

/* Named after the dtypes of q, of K and of V where they differ, and after out's. */
const attention_form attention_forms[] = {
    {"f32", T_F32, F32, F32, T_F32},           {"f16", T_F16, F16, F16, T_F16},
    {"bf16", T_BF16, BF16, BF16, T_BF16},      {"f32*f16", T_F32, F16, F16, T_F32},
    {"f32*bf16", T_F32, BF16, BF16, T_F32},    {"f16-f32", T_F16, F16, F16, T_F32},
    {"f32*q8_0", T_F32, Q8_0, Q8_0, T_F32},    {"f32*q4_0", T_F32, Q4_0, Q4_0, T_F32},
    {"f32*q4_1", T_F32, Q4_1, Q4_1, T_F32},    {"f32*q5_0", T_F32, Q5_0, Q5_0, T_F32},
    {"f32*q5_1", T_F32, Q5_1, Q5_1, T_F32},    {"f32*iq4_nl", T_F32, IQ4_NL, IQ4_NL, T_F32},
    {"f16*q8_0*f16", T_F16, Q8_0, F16, T_F16}, {"bf16*f32*q4_0", T_BF16, F32, Q4_0, T_BF16},
};
const int attention_form_count = CLI_COUNT(attention_forms);

/* The API takes inputs as const, but DLTensor's own pointers are not. */
static const DLTensor *dl(const tensor *t) { return t ? &t->dl : NULL; }

void attention_run(const attention_call *c, samebits_context *context)
{
    samebits_attention_params p;
    samebits_attention_params_default(&p);
    p.scale = c->scale;
    p.softcap = c->softcap;
    p.causal = c->causal;
    p.window = c->window;
    p.k_format = c->k_format;
    p.v_format = c->v_format;
    p.key_index = dl(c->index);
    p.key_length = dl(c->length);
    p.sinks = dl(c->sinks);
    p.mask = dl(c->mask);
    p.slopes = dl(c->slopes);
    cli_check(samebits_attention(context, &c->q->dl, &c->k->dl, &c->v->dl, &p, &c->out->dl), "samebits_attention");
}

/* One query row of one head, against the keys of its list. */
typedef struct line {
    const attention_call *call;
    setting how;
    fault_id fault;
    int64_t batch, head, query;
    int64_t first, end; /* visible places of the list */
    float *q, *row;     /* D and max(D, Dv) numbers */
    float *score;       /* by place, */
    char *hidden;       /* and whether the mask hides it */
    float max;
    int bad; /* a score is NaN or +Inf */
} line;

static int64_t list_length(const attention_call *c, int64_t batch)
{
    if (c->length) return *(int32_t *)tensor_at(c->length, batch);
    return c->index ? c->index->shape[1] : c->k->shape[2];
}

/* The row of K and V at a place of the list, row-major among all rows of the tensor. */
static int64_t key_row(const line *l, const tensor *t, int64_t place)
{
    const attention_call *c = l->call;
    const int64_t key = c->index ? *(int32_t *)tensor_at(c->index, l->batch * c->index->shape[1] + place) : place;
    const int64_t group = c->q->shape[1] / t->shape[1], batch = t->shape[0] == 1 ? 0 : l->batch;
    return (batch * t->shape[1] + l->head / group) * t->shape[2] + key;
}

static void read_key(const line *l, int64_t place)
{
    const attention_call *c = l->call;
    cache_row(c->k, c->k_format, key_row(l, c->k, place), c->q->shape[3], l->row);
}

static void read_value(const line *l, int64_t place)
{
    const attention_call *c = l->call;
    cache_row(c->v, c->v_format, key_row(l, c->v, place), c->out->shape[3], l->row);
}

/* Where in the mask the key at a place stands for this query; sizes of 1 broadcast. */
static int64_t mask_at(const line *l, int64_t place)
{
    const tensor *m = l->call->mask, *index = l->call->index;
    const int64_t key = index ? *(int32_t *)tensor_at(index, l->batch * index->shape[1] + place) : place;
    const int64_t at[4] = {l->batch, l->head, l->query, key};
    int64_t element = 0;
    for (int i = 0; i < 4; i++) element = element * m->shape[i] + (m->shape[i] == 1 ? 0 : at[i]);
    return element;
}

/* Adds the mask to a score; returns whether it hides the key. */
static int apply_mask(const line *l, int64_t place, float *score)
{
    const attention_call *c = l->call;
    if (!c->mask) return 0;
    if (c->mask->type == T_BOOL) return !*(uint8_t *)tensor_at(c->mask, mask_at(l, place));
    const float mask = tensor_get(c->mask, mask_at(l, place));
    *score += (c->slopes ? tensor_get(c->slopes, l->head) : 1.0f) * mask;
    return mask == -INFINITY;
}

static float chain(const float *x, const float *w, int64_t k)
{
    float total = 0.0f;
    for (int64_t begin = 0; begin < k; begin += 256) {
        float sum = 0.0f;
        for (int64_t i = begin; i < CLI_MIN(begin + 256, k); i++) sum = fmaf(x[i], w[i], sum);
        total = begin ? total + sum : sum;
    }
    return total;
}

static void scores(line *l)
{
    const attention_call *c = l->call;
    l->max = c->sinks ? tensor_get(c->sinks, l->head) : -INFINITY;
    l->bad = !(l->max < INFINITY);
    for (int64_t j = l->first; j < l->end; j++) {
        read_key(l, j);
        float s = chain(l->q, l->row, c->q->shape[3]) * c->scale;
        if (c->softcap > 0.0f) s = c->softcap * plain_tanh(s / c->softcap);
        l->hidden[j] = (char)apply_mask(l, j, &s);
        l->score[j] = s;
        if (l->hidden[j]) continue;
        if (s > l->max) l->max = s;
        if (!(s < INFINITY)) l->bad = 1;
    }
}

/* The power of two that turns this row's values into integers. */
static int value_grid(const line *l)
{
    const attention_call *c = l->call;
    float largest = 0.0f;
    if (c->v->type == T_F16 || c->v->type == T_U8) return 24;
    for (int64_t j = l->first; j < l->end; j++) {
        if (l->hidden[j]) continue;
        read_value(l, j);
        for (int64_t d = 0; d < c->out->shape[3]; d++)
            if (isfinite(l->row[d])) largest = fmaxf(largest, fabsf(l->row[d]));
    }
    return 25 - (largest < 0x1p-126f ? -126 : ilogbf(largest));
}

/* Exact sums; a value that is NaN or infinite and has a weight makes NaN. With FAULT_ROUNDED every term is rounded to
 * f32 on the way, as a flash attention does. */
static void weigh(line *l, float *out)
{
    const attention_call *c = l->call;
    const int64_t width = c->out->shape[3];
    const int grid = value_grid(l);
    const int parts = l->fault == FAULT_SPLIT ? l->how.threads : 1;
    __int128 *sum = cli_alloc((size_t)width * sizeof *sum);
    float *rounded = cli_alloc((size_t)(width * parts) * sizeof *rounded);
    char *spoilt = cli_alloc((size_t)width);
    int64_t total = c->sinks ? plain_exp_weight(tensor_get(c->sinks, l->head) - l->max) : 0;
    for (int64_t j = l->first; j < l->end; j++) {
        if (l->hidden[j]) continue;
        const int64_t weight = plain_exp_weight(l->score[j] - l->max);
        total += weight;
        read_value(l, j);
        for (int64_t d = 0; d < width && weight; d++) {
            if (!isfinite(l->row[d])) {
                spoilt[d] = 1;
                continue;
            }
            sum[d] += (__int128)weight * llrint(ldexp((double)l->row[d], grid));
            rounded[j % parts * width + d] = fmaf((float)weight, l->row[d], rounded[j % parts * width + d]);
        }
    }
    for (int64_t d = 0; d < width; d++) {
        for (int i = 1; i < parts; i++) rounded[d] += rounded[i * width + d];
        const double exact = (double)sum[d] / (double)total * ldexp(1.0, -grid);
        out[d] = l->fault == FAULT_ROUNDED || l->fault == FAULT_SPLIT ? rounded[d] / (float)total : (float)exact;
        if (spoilt[d]) out[d] = NAN;
    }
    free(sum);
    free(rounded);
    free(spoilt);
}

/* A masked key multiplied by a weight of zero instead of left out. */
static void touch_hidden(const line *l, float *out)
{
    const attention_call *c = l->call;
    const int64_t hidden = c->v->shape[2] - 1;
    if (c->index || list_length(c, l->batch) > hidden) return;
    read_value(l, hidden);
    for (int64_t d = 0; d < c->out->shape[3]; d++) out[d] += 0.0f * l->row[d];
}

static void find_visible(line *l)
{
    const attention_call *c = l->call;
    const int64_t length = list_length(c, l->batch);
    l->first = 0;
    l->end = length;
    if (!c->causal) return;
    l->end = CLI_MAX(CLI_MIN(l->query + 1 + length - c->q->shape[2], length), (int64_t)0);
    if (c->window) l->first = CLI_MAX(l->query + 1 + length - c->q->shape[2] - c->window, (int64_t)0);
}

static __attribute__((noinline)) void all_lines(line *l)
{
    const attention_call *c = l->call;
    const int64_t heads = c->q->shape[1], queries = c->q->shape[2], width = c->out->shape[3];
    float *out = cli_alloc((size_t)width * sizeof *out);
    for (int64_t i = 0; i < c->q->shape[0] * heads * queries; i++) {
        l->batch = i / (heads * queries);
        l->head = i / queries % heads;
        l->query = i % queries;
        tensor_row(c->q, i, l->q);
        find_visible(l);
        scores(l);
        if (!l->bad && l->max > -INFINITY)
            weigh(l, out);
        else
            for (int64_t d = 0; d < width; d++) out[d] = l->bad ? NAN : 0.0f;
        if (l->fault == FAULT_HIDDEN) touch_hidden(l, out);
        for (int64_t d = 0; d < width; d++) tensor_set(c->out, i * width + d, out[d]);
    }
    free(out);
}

void attention_plain(const attention_call *c, setting how, fault_id fault)
{
    const int64_t places = c->index ? c->index->shape[1] : c->k->shape[2];
    line l = {.call = c, .how = how, .fault = fault};
    l.q = cli_alloc((size_t)c->q->shape[3] * sizeof(float));
    l.row = cli_alloc((size_t)CLI_MAX(c->q->shape[3], c->out->shape[3]) * sizeof(float));
    l.score = cli_alloc((size_t)places * sizeof(float));
    l.hidden = cli_alloc((size_t)places);
    fenv_t host;
    fegetenv(&host);
    if (fault != FAULT_FLUSH) fesetenv(FE_DFL_ENV);
    all_lines(&l);
    fesetenv(&host);
    free(l.q);
    free(l.row);
    free(l.score);
    free(l.hidden);
}

uint64_t attention_fingerprint(const attention_form *form, samebits_context *context)
{
    static const struct {
        int64_t heads, kv_heads, queries, keys, depth, width;
        float softcap;
        int causal, sinks;
        int64_t window;
    } shapes[] = {
        {1, 1, 1, 1, 64, 64, 0, 0, 0, 0},    {4, 2, 5, 65, 128, 128, 0, 1, 0, 0},
        {7, 1, 3, 257, 80, 80, 30, 1, 1, 0}, {8, 2, 17, 129, 192, 128, 0, 1, 0, 40},
        {2, 2, 4, 515, 72, 96, 0, 0, 1, 0},  {1, 1, 2, 40, 576, 512, 5, 1, 0, 0},
    };
    uint64_t hash = FINGERPRINT_START;
    for (size_t i = 0; i < CLI_COUNT(shapes); i++) {
        rng r = {1 + i};
        tensor q, k, v, sinks, out;
        const int64_t depth = cache_columns(form->k, shapes[i].depth), width = cache_columns(form->v, shapes[i].width);
        tensor_make(&q, form->q, LAYOUT_PLAIN, 4, (int64_t[]){1, shapes[i].heads, shapes[i].queries, depth});
        cache_make(&k, form->k, LAYOUT_PLAIN, (int64_t[]){1, shapes[i].kv_heads, shapes[i].keys, depth});
        cache_make(&v, form->v, LAYOUT_PLAIN, (int64_t[]){1, shapes[i].kv_heads, shapes[i].keys, width});
        tensor_make(&sinks, T_F32, LAYOUT_PLAIN, 1, &shapes[i].heads);
        tensor_make(&out, form->out, LAYOUT_PLAIN, 4, (int64_t[]){1, shapes[i].heads, shapes[i].queries, width});
        tensor_fill(&q, FILL_UNIT, &r);
        cache_fill(&k, form->k, FILL_UNIT, &r);
        cache_fill(&v, form->v, FILL_SPREAD, &r);
        tensor_fill(&sinks, FILL_UNIT, &r);
        const attention_call call = {.q = &q,
                                     .k = &k,
                                     .v = &v,
                                     .k_format = form->k,
                                     .v_format = form->v,
                                     .sinks = shapes[i].sinks ? &sinks : NULL,
                                     .scale = 0.125f,
                                     .softcap = shapes[i].softcap,
                                     .causal = shapes[i].causal,
                                     .window = shapes[i].window,
                                     .out = &out};
        attention_run(&call, context);
        fingerprint_add(&hash, &out);
        tensor_free(&q);
        tensor_free(&k);
        tensor_free(&v);
        tensor_free(&sinks);
        tensor_free(&out);
    }
    return hash;
}
