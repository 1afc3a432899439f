/* samebits_attention over everything that may not move a bit: CPU level, threads, splits, where keys lie, their
 * order, masked instead of absent, the other queries of the call. The scalar level on plain memory is the measure. */
#include <math.h>
#include <stdio.h>

#include <samebits/attention.h>

#include "base/float16.h"
#include "check/check.h"
#include "formats/formats.h"

typedef enum { F32, F16, BF16, BLOCKS } kind;
typedef enum { SEE_ALL, CAUSAL, WINDOW, MASK_BOOL, MASK_ADD } hiding;

typedef struct {
    int64_t batches, heads, kv_heads, queries, keys, width, v_width;
    kind q, k, v, out;
    samebits_format blocks; /* of k and v, where they are */
    hiding hide;
    float softcap, spread, value_scale;
    int sinks, slopes, head_mask;
} op_case;

typedef struct {
    float *q;       /* [batch][head][query][width], representable in q's dtype */
    uint8_t *k, *v; /* rows as stored, [batch][kv head][key] */
    float *bias;    /* [head][query][key]: -inf hides */
    float *sinks, *slopes;
} op_data;

/* How the same problem is handed over. */
typedef struct {
    samebits_cpu cpu;
    int threads;
    int64_t capacity;       /* rows of the cache; those without a key are NaN */
    const int32_t *place;   /* [batch][key]: its row */
    const int32_t *list;    /* NULL: the first `keys` rows; else [key]: the list's order */
    int masked;             /* no list: a mask over the whole cache says what is visible */
    int both;               /* the mask says again what causal and window say */
    int interleaved;        /* heads beside each other in a row of the cache */
    int64_t query, queries; /* which of the queries */
} layout;

static const int64_t window_length = 37;
static const int element_bytes[] = {4, 2, 2, 1};

static int64_t row_bytes(const op_case *c, kind k, int64_t width)
{
    return k == BLOCKS ? width / 32 * sb_format_info(c->blocks)->block_bytes : width * element_bytes[k];
}

static float uniform(check_rng *rng) { return (float)check_below(rng, 1 << 20) * 0x1p-19f - 1.0f; }

static void put(kind k, void *out, int64_t i, float x)
{
    const uint16_t h = k == F16 ? sb_to_f16(x) : sb_to_bf16(x);
    if (k == F32)
        memcpy((char *)out + 4 * i, &x, 4);
    else
        memcpy((char *)out + 2 * i, &h, 2);
}

static float as_stored(kind k, float x)
{
    return k == F32 ? x : k == F16 ? sb_from_f16(sb_to_f16(x)) : sb_from_bf16(sb_to_bf16(x));
}

static void put_row(check_rng *rng, const op_case *c, kind k, int64_t width, float scale, uint8_t *row)
{
    const sb_format *blocks = sb_format_info(c->blocks);
    for (int64_t i = 0; i < width; i++) {
        if (k != BLOCKS) {
            put(k, row, i, uniform(rng) * scale);
        } else if (i % blocks->block == 0) {
            const float d = uniform(rng) * scale * 0x1p-6f, m = uniform(rng) * scale;
            check_block(rng, c->blocks, d, m, row + i / blocks->block * blocks->block_bytes);
        }
    }
}

static op_data make_data(const op_case *c, check_rng *rng)
{
    const int64_t kb = row_bytes(c, c->k, c->width), vb = row_bytes(c, c->v, c->v_width),
                  rows = c->batches * c->kv_heads * c->keys;
    const int64_t q = c->batches * c->heads * c->queries * c->width;
    op_data d = {.q = check_alloc((size_t)q * 4),
                 .k = check_alloc((size_t)(rows * kb)),
                 .v = check_alloc((size_t)(rows * vb)),
                 .bias = check_alloc((size_t)(c->heads * c->queries * c->keys) * 4),
                 .sinks = check_alloc((size_t)c->heads * 4),
                 .slopes = check_alloc((size_t)c->heads * 4)};
    for (int64_t i = 0; i < q; i++) d.q[i] = as_stored(c->q, uniform(rng) * c->spread);
    for (int64_t i = 0; i < rows; i++) {
        put_row(rng, c, c->k, c->width, 1.0f, d.k + i * kb);
        put_row(rng, c, c->v, c->v_width, c->value_scale, d.v + i * vb);
    }
    for (int64_t h = 0; h < c->heads; h++) {
        d.sinks[h] = uniform(rng) * 3.0f;
        d.slopes[h] = uniform(rng);
        for (int64_t i = 0; i < c->queries * c->keys; i++) {
            float *b = d.bias + h * c->queries * c->keys;
            const int64_t limit = i / c->keys + c->keys - c->queries, j = i % c->keys;
            if (c->hide == SEE_ALL) b[i] = 0.0f;
            if (c->hide == CAUSAL) b[i] = j <= limit ? 0.0f : -INFINITY;
            if (c->hide == WINDOW) b[i] = j <= limit && j > limit - window_length ? 0.0f : -INFINITY;
            if (c->hide < MASK_BOOL) continue;
            if (h && !c->head_mask)
                b[i] = d.bias[i];
            else
                b[i] = check_below(rng, 4) == 0 ? -INFINITY
                       : c->hide == MASK_BOOL   ? 0.0f
                                                : as_stored(F16, uniform(rng));
        }
    }
    return d;
}

static void free_data(op_data *d)
{
    check_free(d->q);
    check_free(d->k);
    check_free(d->v);
    check_free(d->bias);
    check_free(d->sinks);
    check_free(d->slopes);
}

static DLTensor tensor(void *data, int code, int bits, int ndim, int64_t *shape, int64_t *strides)
{
    return (DLTensor){.data = data,
                      .device = {kDLCPU, 0},
                      .ndim = ndim,
                      .dtype = {(uint8_t)code, (uint8_t)bits, 1},
                      .shape = shape,
                      .strides = strides};
}

static int code_of(kind k) { return k == BF16 ? kDLBfloat : k == BLOCKS ? kDLUInt : kDLFloat; }

/* A cache of K or V: rows where the layout wants them, NaN elsewhere. */
static uint8_t *make_cache(const op_case *c, const layout *l, kind k, int64_t width, const uint8_t *rows,
                           int64_t stride[4])
{
    const int64_t bytes = row_bytes(c, k, width), elements = bytes / element_bytes[k];
    uint8_t *cache = check_alloc((size_t)(c->batches * c->kv_heads * l->capacity * bytes));
    stride[0] = c->kv_heads * l->capacity * elements;
    stride[1] = l->interleaved ? elements : l->capacity * elements;
    stride[2] = l->interleaved ? c->kv_heads * elements : elements;
    stride[3] = 1;
    for (int64_t i = 0; i < c->batches * c->kv_heads * c->keys; i++) {
        const int64_t b = i / c->keys / c->kv_heads, h = i / c->keys % c->kv_heads,
                      row = l->place[b * c->keys + i % c->keys];
        memcpy(cache + (b * stride[0] + h * stride[1] + row * stride[2]) * element_bytes[k], rows + i * bytes,
               (size_t)bytes);
    }
    return cache;
}

/* (B, H, queries, capacity): the bias where keys are, -inf elsewhere; a bool mask if that says it all. */
static void *make_mask(const op_case *c, const op_data *d, const layout *l, int is_bool)
{
    const int64_t count = c->batches * c->heads * l->queries * l->capacity;
    float *mask = check_alloc((size_t)count * 4);
    for (int64_t i = 0; i < count; i++) mask[i] = -INFINITY;
    for (int64_t b = 0; b < c->batches; b++)
        for (int64_t h = 0; h < c->heads; h++)
            for (int64_t i = 0; i < l->queries; i++)
                for (int64_t j = 0; j < c->keys; j++)
                    mask[((b * c->heads + h) * l->queries + i) * l->capacity + l->place[b * c->keys + j]] =
                        d->bias[(h * c->queries + l->query + i) * c->keys + j];
    for (int64_t i = 0; i < count; i++) {
        if (is_bool)
            ((uint8_t *)mask)[i] = mask[i] == 0.0f;
        else
            put(F16, mask, i, mask[i]);
    }
    return mask;
}

/* out, [batch][head][query][v_width] in its dtype. */
static void *run(const op_case *c, const op_data *d, const layout *l)
{
    int64_t ks[4], vs[4],
        k_shape[4] = {c->batches, c->kv_heads, l->capacity, row_bytes(c, c->k, c->width) / element_bytes[c->k]};
    int64_t v_shape[4] = {c->batches, c->kv_heads, l->capacity, row_bytes(c, c->v, c->v_width) / element_bytes[c->v]};
    uint8_t *k = make_cache(c, l, c->k, c->width, d->k, ks), *v = make_cache(c, l, c->v, c->v_width, d->v, vs);
    const int64_t rows = c->batches * c->heads * l->queries;
    void *q = check_alloc((size_t)(rows * c->width) * 4), *out = check_alloc((size_t)(rows * c->v_width) * 4);
    for (int64_t i = 0; i < rows * c->width; i++) {
        const int64_t row = i / c->width, from = row / l->queries * c->queries + l->query + row % l->queries;
        put(c->q, q, i, d->q[from * c->width + i % c->width]);
    }
    int64_t q_shape[4] = {c->batches, c->heads, l->queries, c->width},
            out_shape[4] = {c->batches, c->heads, l->queries, c->v_width};
    int64_t m_shape[4] = {c->batches, c->heads, l->queries, l->capacity}, h_shape[1] = {c->heads};
    int64_t i_shape[2] = {c->batches, c->keys}, n_shape[1] = {c->batches};
    const int causal = !l->masked && (c->hide == CAUSAL || c->hide == WINDOW), is_bool = c->hide == MASK_BOOL;
    const int with_mask = l->masked || l->both || c->hide >= MASK_BOOL;
    void *mask = with_mask ? make_mask(c, d, l, is_bool) : NULL;
    int32_t *index = check_alloc((size_t)(c->batches * c->keys) * 4), *length = check_alloc((size_t)c->batches * 4);
    for (int64_t b = 0; b < c->batches; b++) {
        length[b] = (int32_t)(causal ? SB_MAX(0, c->keys - (c->queries - l->query - l->queries)) : c->keys);
        for (int64_t j = 0; j < c->keys; j++)
            index[b * c->keys + j] = l->place[b * c->keys + (l->list ? l->list[j] : j)];
    }
    DLTensor tq = tensor(q, code_of(c->q), 8 * element_bytes[c->q], 4, q_shape, NULL);
    DLTensor tk = tensor(k, code_of(c->k), 8 * element_bytes[c->k], 4, k_shape, ks);
    DLTensor tv = tensor(v, code_of(c->v), 8 * element_bytes[c->v], 4, v_shape, vs);
    DLTensor to = tensor(out, code_of(c->out), 8 * element_bytes[c->out], 4, out_shape, NULL);
    DLTensor tm = tensor(mask, is_bool ? 6 : kDLFloat, is_bool ? 8 : 16, 4, m_shape, NULL);
    DLTensor tsinks = tensor(d->sinks, kDLFloat, 32, 1, h_shape, NULL),
             tslopes = tensor(d->slopes, kDLFloat, 32, 1, h_shape, NULL);
    DLTensor ti = tensor(index, kDLInt, 32, 2, i_shape, NULL), tn = tensor(length, kDLInt, 32, 1, n_shape, NULL);
    samebits_attention_params p;
    samebits_attention_params_default(&p);
    p.scale = 0.125f;
    p.softcap = c->softcap;
    p.k_format = p.v_format = c->blocks;
    p.causal = causal;
    p.window = causal && c->hide == WINDOW ? window_length : 0;
    p.mask = with_mask ? &tm : NULL;
    p.sinks = c->sinks ? &tsinks : NULL;
    p.slopes = c->slopes && c->hide == MASK_ADD ? &tslopes : NULL;
    p.key_index = l->masked || !l->list ? NULL : &ti;
    p.key_length = l->masked ? NULL : &tn;
    samebits_options o;
    samebits_options_default(&o);
    o.cpu = l->cpu;
    o.threads = l->threads;
    samebits_context *context;
    const int ok = !samebits_create(&context, &o) && !samebits_attention(context, &tq, &tk, &tv, &p, &to);
    check_true(ok ? "attention ran" : samebits_last_error(), ok);
    samebits_destroy(&context);
    void *all[] = {k, v, q, mask, index, length};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_free(all[i]);
    return out;
}

static void shuffle(check_rng *rng, int32_t *a, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = check_below(rng, i + 1);
        const int32_t t = a[i];
        a[i] = a[j];
        a[j] = t;
    }
}

static void expect(const op_case *c, const op_data *d, const layout *l, const uint8_t *want, const char *how)
{
    char what[240];
    snprintf(what, sizeof what,
             "attention %s, cpu %d, threads %d: B %d H %d/%d Lq %d Lk %d D %d/%d q %d k %d v %d hide %d", how,
             (int)l->cpu, l->threads, (int)c->batches, (int)c->heads, (int)c->kv_heads, (int)c->queries, (int)c->keys,
             (int)c->width, (int)c->v_width, (int)c->q, (int)c->k, (int)c->v, (int)c->hide);
    uint8_t *have = run(c, d, l);
    const int64_t size = element_bytes[c->out], row = c->v_width * size;
    for (int64_t h = 0; h < c->batches * c->heads; h++)
        check_same(what, want + (h * c->queries + l->query) * row, have + h * l->queries * row, l->queries * c->v_width,
                   (size_t)size);
    check_free(have);
}

/* One problem, handed over in every way. */
static void vary(const op_case *c, check_rng *rng)
{
    static const int threads[] = {1, 2, 3, 8};
    op_data d = make_data(c, rng);
    const int64_t wide = c->keys * 3 / 2 + 5;
    int32_t *straight = check_alloc((size_t)(c->batches * c->keys) * 4),
            *spread = check_alloc((size_t)(c->batches * wide) * 4);
    int32_t *places = check_alloc((size_t)(c->batches * c->keys) * 4), *order = check_alloc((size_t)c->keys * 4);
    for (int64_t b = 0; b < c->batches; b++) {
        for (int64_t j = 0; j < wide; j++) spread[j] = (int32_t)j;
        shuffle(rng, spread, wide);
        for (int64_t j = 0; j < c->keys; j++) {
            straight[b * c->keys + j] = (int32_t)j;
            places[b * c->keys + j] = spread[j];
        }
    }
    for (int64_t j = 0; j < c->keys; j++) order[j] = (int32_t)j;
    const layout plain = {
        .cpu = SAMEBITS_CPU_SCALAR, .threads = 1, .capacity = c->keys, .place = straight, .queries = c->queries};
    uint8_t *want = run(c, &d, &plain);
    for (int level = SAMEBITS_CPU_SCALAR; level < SAMEBITS_CPU_COUNT; level++) {
        if (!samebits_cpu_supported((samebits_cpu)level)) continue;
        layout l = plain;
        l.cpu = (samebits_cpu)level;
        l.threads = threads[check_below(rng, 4)];
        expect(c, &d, &l, want, "level");
        l.capacity = wide;
        l.place = places;
        l.list = order;
        l.interleaved = (int)check_below(rng, 2);
        l.threads = threads[check_below(rng, 4)];
        l.both = (int)check_below(rng, 2);
        expect(c, &d, &l, want, "listed");
        l.masked = 1;
        expect(c, &d, &l, want, "masked");
        l.masked = 0;
        l.query = check_below(rng, c->queries);
        l.queries = 1;
        expect(c, &d, &l, want, "one query");
        if (c->hide == CAUSAL || c->hide == WINDOW) continue;
        shuffle(rng, order, c->keys);
        l.query = 0;
        l.queries = c->queries;
        expect(c, &d, &l, want, "shuffled");
        for (int64_t j = 0; j < c->keys; j++) order[j] = (int32_t)j;
    }
    void *all[] = {straight, spread, places, order, want};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_free(all[i]);
    free_data(&d);
}

/* Sequences of different lengths in one call, and each alone. */
static void lengths(check_rng *rng, int threads)
{
    enum { BATCHES = 4, HEADS = 2, QUERIES = 3, KEYS = 1100, WIDTH = 64, COUNT = BATCHES * HEADS * KEYS * WIDTH };
    enum { ROWS = HEADS * QUERIES * WIDTH };
    int32_t length[BATCHES] = {5, 1025, 0, 64};
    int64_t q_shape[4] = {BATCHES, HEADS, QUERIES, WIDTH}, k_shape[4] = {BATCHES, HEADS, KEYS, WIDTH},
            n_shape[1] = {BATCHES};
    float *q = check_alloc(BATCHES * ROWS * 4), *out = check_alloc(BATCHES * ROWS * 4),
          *alone = check_alloc(BATCHES * ROWS * 4);
    uint16_t *k = check_alloc(COUNT * 2), *v = check_alloc(COUNT * 2);
    for (int i = 0; i < BATCHES * ROWS; i++) q[i] = uniform(rng);
    for (int i = 0; i < COUNT; i++) {
        k[i] = sb_to_f16(uniform(rng));
        v[i] = sb_to_f16(uniform(rng));
    }
    samebits_options o;
    samebits_options_default(&o);
    o.threads = threads;
    samebits_context *context = NULL;
    samebits_attention_params p;
    samebits_attention_params_default(&p);
    p.causal = 1;
    int ok = !samebits_create(&context, &o);
    DLTensor tn = tensor(length, kDLInt, 32, 1, n_shape, NULL), tq = tensor(q, kDLFloat, 32, 4, q_shape, NULL);
    DLTensor tk = tensor(k, kDLFloat, 16, 4, k_shape, NULL), tv = tensor(v, kDLFloat, 16, 4, k_shape, NULL);
    DLTensor to = tensor(out, kDLFloat, 32, 4, q_shape, NULL);
    p.key_length = &tn;
    ok = ok && !samebits_attention(context, &tq, &tk, &tv, &p, &to);
    q_shape[0] = k_shape[0] = n_shape[0] = 1;
    for (int b = 0; b < BATCHES; b++) {
        tn.data = &length[b];
        tq.data = q + b * ROWS;
        tk.data = k + b * (COUNT / BATCHES);
        tv.data = v + b * (COUNT / BATCHES);
        to.data = alone + b * ROWS;
        ok = ok && !samebits_attention(context, &tq, &tk, &tv, &p, &to);
    }
    check_true("attention of sequences of different lengths ran", ok);
    check_same("attention: sequences together and alone", alone, out, BATCHES * ROWS, 4);
    samebits_destroy(&context);
    void *all[] = {q, out, alone, k, v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_free(all[i]);
}

/* The check can fail: sums in f32, as flash attention makes them, move when the keys are shuffled. */
static void control(check_rng *rng)
{
    enum { KEYS = 300 };
    float weight[KEYS], value[KEYS];
    int32_t order[KEYS];
    int moved = 0;
    for (int n = 0; n < 50; n++) {
        float sum[2] = {0.0f, 0.0f};
        for (int j = 0; j < KEYS; j++) {
            weight[j] = uniform(rng) * 0.5f + 0.5f;
            value[j] = uniform(rng);
            order[j] = j;
            sum[0] = fmaf(weight[j], value[j], sum[0]);
        }
        shuffle(rng, order, KEYS);
        for (int j = 0; j < KEYS; j++) sum[1] = fmaf(weight[order[j]], value[order[j]], sum[1]);
        moved += sum[0] != sum[1];
    }
    check_true("sums in f32 move when keys are shuffled", moved > 25);
}

void check_attention_op(void)
{
    static const int64_t queries[] = {1, 1, 2, 3, 5, 8, 13, 17, 63, 64, 65};
    static const int64_t keys[] = {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1023, 1025, 4095, 4097};
    static const int64_t groups[] = {1, 2, 4, 7, 8};
    static const int64_t widths[][2] = {{64, 64},   {72, 72},   {80, 80},   {96, 96},
                                        {128, 128}, {192, 128}, {256, 256}, {576, 512}};
    static const float spreads[] = {0.01f, 1.0f, 4.0f, 20.0f}, scales[] = {1.0f, 60000.0f, 1e-6f, 3.0f};
    check_rng rng = {4};
    for (int n = 0; n < 120; n++) {
        const int64_t *width = widths[check_below(&rng, 8)];
        op_case c = {.batches = 1 + check_below(&rng, 2),
                     .kv_heads = 1 + check_below(&rng, 2),
                     .queries = queries[check_below(&rng, 11)],
                     .keys = keys[check_below(&rng, 17)],
                     .width = width[0],
                     .v_width = width[1],
                     .q = (kind)check_below(&rng, 3),
                     .k = (kind)check_below(&rng, 4),
                     .v = (kind)check_below(&rng, 4),
                     .blocks = (samebits_format)(SAMEBITS_FORMAT_Q4_0 + check_below(&rng, 6)),
                     .hide = (hiding)check_below(&rng, 5),
                     .softcap = check_below(&rng, 2) ? 5.0f : 0.0f,
                     .spread = spreads[check_below(&rng, 4)],
                     .value_scale = scales[check_below(&rng, 4)],
                     .sinks = (int)check_below(&rng, 2),
                     .slopes = (int)check_below(&rng, 2),
                     .head_mask = (int)check_below(&rng, 2)};
        c.heads = c.kv_heads * groups[check_below(&rng, 5)];
        c.out = check_below(&rng, 2) ? F32 : c.q;
        if (c.k == BLOCKS) c.width = c.width / 32 * 32;
        if (c.v == BLOCKS) c.v_width = c.v_width / 32 * 32;
        /* The scalar level is slow: few queries where there are many keys. */
        while (c.queries > 1 && c.batches * c.heads * c.queries * c.keys * c.width > 4000000)
            c.queries = (c.queries + 1) / 2;
        if (check_takes()) vary(&c, &rng);
    }
    lengths(&rng, 1);
    lengths(&rng, 3);
    control(&rng);
}
