/* The engine of attention. A group is a tile of query rows of one KV head; its keys may be cut into parts, so that
 * a few rows over many keys keep all workers busy. Sums are exact: neither tiles nor parts can move a bit. */
#include "device/cpu/parallel.h"
#include "kernels/attention/attention.h"
#include "ops/attention.h"
#include "ops/attention_mask.h"

/* What a part keeps between the steps, and its scratch memory. */
typedef struct {
    int64_t rows, keys;
    float *q;                      /* [rows][k_width] */
    int32_t *key;                  /* [keys]: memory row */
    int32_t *position;             /* [keys]: list position; key itself without a key_index */
    int run;                       /* the keys are consecutive rows */
    uint16_t *seen;                /* [keys] */
    float *score, *bias, *largest; /* [rows][padded], [padded], [padded] */
    float *max, *top;              /* [rows] of this part */
    int32_t *bad;                  /* [rows] */
    float *row_max;                /* [rows], of all parts */
    int *grid;                     /* [rows] */
    int64_t *total;                /* [rows] */
    int64_t *kept;                 /* [1]: keys, for the next step */
    int64_t *high, *low;           /* [rows][sum_stride] */
    uint8_t *poison;
    float *out; /* [v_width] */
    void *scratch;
} slot;

/* Sizes of a run; how it is cut never moves a bit. */
typedef struct {
    const samebits_context *context;
    const sb_attention *a;
    const sb_attention_row *row;
    int64_t heads_per_kv;
    int64_t tile_rows, tiles, groups;
    int64_t parts;
    int64_t part_keys; /* the most keys a part has */
    int64_t sum_stride;
    int64_t slot_size;
    char *memory; /* a slot for each worker, or for each part of each group if there are several parts */
} plan;

/* A group's place. */
typedef struct {
    int64_t batch, kv_head, first_row, rows;
    int64_t begin, end; /* list positions that a query of the tile may see */
} group;

static void *take(char *base, int64_t *offset, int64_t count, int64_t size)
{
    char *p = base ? base + *offset : NULL;
    *offset += sb_round_up(count * size, SB_ALIGN);
    return p;
}

/* Cuts a slot out of memory at base; returns its size. base NULL: the size only. */
static int64_t cut_slot(const plan *p, char *base, slot *s)
{
    const sb_attention *a = p->a;
    const int64_t rows = p->tile_rows, padded = sb_round_up(p->part_keys, SB_ATTENTION_PAD);
    int64_t n = 0;
    s->q = take(base, &n, rows * a->k_width, sizeof *s->q);
    s->key = take(base, &n, padded, sizeof *s->key);
    s->position = a->has_index ? take(base, &n, padded, sizeof *s->position) : s->key;
    s->seen = take(base, &n, a->has_mask ? padded : 0, sizeof *s->seen);
    s->score = take(base, &n, rows * padded, sizeof *s->score);
    s->bias = take(base, &n, a->has_mask ? padded : 0, sizeof *s->bias);
    s->largest = take(base, &n, sb_value_is_fixed(a->v_format) ? 0 : padded, sizeof *s->largest);
    s->max = take(base, &n, rows, sizeof *s->max);
    s->top = take(base, &n, rows, sizeof *s->top);
    s->bad = take(base, &n, rows, sizeof *s->bad);
    s->row_max = take(base, &n, rows, sizeof *s->row_max);
    s->grid = take(base, &n, rows, sizeof *s->grid);
    s->total = take(base, &n, rows, sizeof *s->total);
    s->kept = take(base, &n, 1, sizeof *s->kept);
    s->high = take(base, &n, rows * p->sum_stride, sizeof *s->high);
    s->low = take(base, &n, rows * p->sum_stride, sizeof *s->low);
    s->poison = take(base, &n, rows * p->sum_stride, sizeof *s->poison);
    s->out = take(base, &n, a->v_width, sizeof *s->out);
    s->scratch = take(base, &n, 1, (int64_t)sb_attention_scratch(a->k_width, a->v_width));
    return n;
}

/* List positions that query i of sequence b may see, masks aside. */
static void visible_range(const sb_attention *a, int64_t length, int64_t i, int64_t *begin, int64_t *end)
{
    const int64_t limit = i + length - a->queries + 1;
    *begin = 0;
    *end = length;
    if (!a->causal) return;
    *end = SB_MAX(0, SB_MIN(limit, length));
    if (a->window) *begin = SB_MAX(0, SB_MIN(limit - a->window, length));
}

static group group_at(const plan *p, int64_t index)
{
    const sb_attention *a = p->a;
    group g;
    g.first_row = index % p->tiles * p->tile_rows;
    g.rows = SB_MIN(p->tile_rows, a->queries * p->heads_per_kv - g.first_row);
    g.kv_head = index / p->tiles % a->kv_heads;
    g.batch = index / p->tiles / a->kv_heads;
    int64_t unused;
    const int64_t length = sb_attention_length(a, g.batch);
    visible_range(a, length, g.first_row / p->heads_per_kv, &g.begin, &unused);
    visible_range(a, length, (g.first_row + g.rows - 1) / p->heads_per_kv, &unused, &g.end);
    g.end = SB_MAX(g.begin, g.end);
    return g;
}

/* Row r of a group is query r / heads_per_kv and a head of its KV head. */
static int64_t query_of(const plan *p, const group *g, int64_t r) { return (g->first_row + r) / p->heads_per_kv; }
static int64_t head_of(const plan *p, const group *g, int64_t r)
{
    return g->kv_head * p->heads_per_kv + (g->first_row + r) % p->heads_per_kv;
}

static int64_t mask_offset(const plan *p, const group *g, int64_t r)
{
    const sb_view *m = &p->a->mask;
    return g->batch * m->stride[0] + head_of(p, g, r) * m->stride[1] + query_of(p, g, r) * m->stride[2];
}

/* Whether rows r - 1 and r read the same row of the mask. */
static int same_mask(const plan *p, const group *g, int64_t r)
{
    return r > 0 && mask_offset(p, g, r - 1) == mask_offset(p, g, r);
}

static sb_mask_row mask_row(const plan *p, const group *g, int64_t r)
{
    const sb_view *m = &p->a->mask;
    return (sb_mask_row){m->data + mask_offset(p, g, r) * sb_dtype_size(m->dtype), m->dtype, m->stride[3]};
}

/* Which of the list positions [begin, begin + count) some row of the group sees. Returns whether it is all. */
static int find_seen(const plan *p, const group *g, int64_t begin, int64_t count, slot *s)
{
    memset(s->seen, 0, (size_t)count * sizeof *s->seen);
    for (int64_t r = 0; r < g->rows; r++) {
        if (same_mask(p, g, r)) continue;
        const sb_mask_row row = mask_row(p, g, r);
        sb_mask_seen(&row, p->a->has_index ? s->key : NULL, begin, count, s->seen);
    }
    uint16_t hidden = 0;
    for (int64_t j = 0; j < count; j++) hidden |= s->seen[j] == 0;
    return !hidden;
}

/* The keys of list positions [begin, end) that some row of the group sees. */
static void list_keys(const plan *p, const group *g, int64_t begin, int64_t end, slot *s)
{
    const sb_attention *a = p->a;
    const int64_t count = end - begin;
    for (int64_t j = 0; j < count; j++) s->position[j] = (int32_t)(begin + j);
    for (int64_t j = 0; j < count && a->has_index; j++) s->key[j] = (int32_t)sb_attention_key(a, g->batch, begin + j);
    s->keys = count;
    if (a->has_mask && !find_seen(p, g, begin, count, s)) {
        s->keys = 0;
        for (int64_t j = 0; j < count; j++) {
            s->key[s->keys] = s->key[j];
            s->position[s->keys] = s->position[j];
            s->keys += s->seen[j] != 0;
        }
    }
    s->run = !a->has_index && s->keys && s->key[s->keys - 1] - s->key[0] == s->keys - 1;
}

static void widen_q(const plan *p, const group *g, slot *s)
{
    const sb_view *q = &p->a->q;
    for (int64_t r = 0; r < g->rows; r++) {
        const int64_t offset =
            g->batch * q->stride[0] + head_of(p, g, r) * q->stride[1] + query_of(p, g, r) * q->stride[2];
        float *out = s->q + r * p->a->k_width;
        if (q->dtype == SB_F32 && q->stride[3] == 1)
            memcpy(out, (const float *)(const void *)q->data + offset, (size_t)p->a->k_width * sizeof *out);
        else
            for (int64_t i = 0; i < p->a->k_width; i++) out[i] = sb_load(q, offset + i * q->stride[3]);
    }
}

static sb_kv kv_of(const sb_view *view, samebits_format format, int64_t width, const group *g)
{
    const int64_t size = sb_dtype_size(view->dtype), batch = view->shape[0] == 1 ? 0 : g->batch;
    return (sb_kv){.data = view->data + (batch * view->stride[0] + g->kv_head * view->stride[1]) * size,
                   .format = format,
                   .row_stride = view->stride[2] * size,
                   .col_stride = view->stride[3] * size,
                   .width = width};
}

static sb_attention_part part_of(const plan *p, const group *g, const slot *s)
{
    const sb_attention *a = p->a;
    return (sb_attention_part){.rows = g->rows,
                               .keys = s->keys,
                               .k = kv_of(&a->k, a->k_format, a->k_width, g),
                               .v = kv_of(&a->v, a->v_format, a->v_width, g),
                               .q = s->q,
                               .key = s->key,
                               .score = s->score,
                               .score_stride = sb_round_up(p->part_keys, SB_ATTENTION_PAD),
                               .largest = sb_value_is_fixed(a->v_format) ? NULL : s->largest,
                               .max = s->row_max,
                               .grid = s->grid,
                               .total = s->total,
                               .high = s->high,
                               .low = s->low,
                               .sum_stride = p->sum_stride,
                               .poison = s->poison,
                               .scratch = s->scratch};
}

/* How many of the list's keys lie before a list position. */
static int64_t keys_before(const slot *s, int64_t position)
{
    int64_t low = 0, high = s->keys;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (s->position[middle] < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* First step: the scores of part `index` of a group. */
static void score_part(const plan *p, const group *g, int64_t index, slot *s)
{
    const sb_attention *a = p->a;
    const int64_t begin = SB_MIN(g->begin + index * p->part_keys, g->end), end = SB_MIN(begin + p->part_keys, g->end);
    list_keys(p, g, begin, end, s);
    widen_q(p, g, s);
    const sb_attention_part part = part_of(p, g, s);
    p->row->dots(&part);
    const int64_t length = sb_attention_length(a, g->batch);
    for (int64_t r = 0; r < g->rows; r++) {
        if (a->has_mask && !same_mask(p, g, r)) {
            const sb_mask_row row = mask_row(p, g, r);
            sb_mask_bias(&row, s->key, s->run, s->keys, s->bias);
        }
        sb_attention_line line = {.keys = s->keys,
                                  .score = s->score + r * part.score_stride,
                                  .bias = a->has_mask ? s->bias : NULL,
                                  .scale = a->scale,
                                  .softcap = a->softcap,
                                  .slope = 1.0f,
                                  .largest = part.largest,
                                  .max = -INFINITY};
        if (a->has_slopes) line.slope = sb_load(&a->slopes, head_of(p, g, r) * a->slopes.stride[0]);
        int64_t first, last;
        visible_range(a, length, query_of(p, g, r), &first, &last);
        line.begin = a->causal ? keys_before(s, first) : 0;
        line.end = a->causal ? keys_before(s, last) : s->keys;
        p->row->score(&line);
        s->max[r] = line.max;
        s->top[r] = line.top;
        s->bad[r] = line.bad;
    }
}

/* A row's maximum over all parts and its sink. Returns 0 if the row is NaN. */
static int row_max(const plan *p, const group *g, const slot *slots, int64_t parts, int64_t r, float *max, float *top)
{
    const sb_attention *a = p->a;
    int good = 1;
    *max = -INFINITY;
    *top = 0.0f;
    for (int64_t i = 0; i < parts; i++) {
        good &= !slots[i].bad[r];
        *max = slots[i].max[r] > *max ? slots[i].max[r] : *max;
        *top = slots[i].top[r] > *top ? slots[i].top[r] : *top;
    }
    if (!a->has_sinks) return good;
    const float sink = sb_load(&a->sinks, head_of(p, g, r) * a->sinks.stride[0]);
    *max = sink > *max ? sink : *max;
    return good && sink < INFINITY;
}

/* Second step: weights and sums of one part, once all parts have their scores. */
static void sum_part(const plan *p, const group *g, const slot *slots, int64_t parts, slot *s)
{
    for (int64_t r = 0; r < g->rows; r++) {
        float top;
        if (!row_max(p, g, slots, parts, r, &s->row_max[r], &top)) s->row_max[r] = -INFINITY;
        s->grid[r] = sb_value_grid(p->a->v_format, top);
    }
    const sb_attention_part part = part_of(p, g, s);
    p->row->values(&part);
}

static void store_row(const plan *p, const group *g, int64_t r, const float *row)
{
    const sb_view *out = &p->a->out;
    const int64_t offset =
        g->batch * out->stride[0] + head_of(p, g, r) * out->stride[1] + query_of(p, g, r) * out->stride[2];
    if (out->dtype == SB_F32 && out->stride[3] == 1) /* NaN is canonical already */
        memcpy((float *)(void *)out->data + offset, row, (size_t)p->a->v_width * sizeof *row);
    else
        for (int64_t c = 0; c < p->a->v_width; c++) sb_store(out, offset + c * out->stride[3], row[c]);
}

/* Last step: adds the parts up in the first one and writes the rows. */
static void finish_group(const plan *p, const group *g, slot *slots, int64_t parts)
{
    const sb_attention *a = p->a;
    slot *s = slots;
    for (int64_t r = 0; r < g->rows; r++) {
        const int64_t first = r * p->sum_stride;
        for (int64_t i = 1; i < parts; i++) {
            s->total[r] += slots[i].total[r];
            for (int64_t c = 0; c < p->sum_stride; c++) {
                s->high[first + c] += slots[i].high[first + c];
                s->low[first + c] += slots[i].low[first + c];
                s->poison[first + c] |= slots[i].poison[first + c];
            }
        }
        float max, top;
        const int good = row_max(p, g, slots, parts, r, &max, &top);
        if (a->has_sinks && max > -INFINITY)
            s->total[r] += sb_exp_weight(sb_load(&a->sinks, head_of(p, g, r) * a->sinks.stride[0]) - max);
        const sb_attention_sums sums = {.high = s->high + first,
                                        .low = s->low + first,
                                        .poison = s->poison + first,
                                        .total = s->total[r],
                                        .width = a->v_width,
                                        .grid = s->grid[r],
                                        .out = s->out};
        if (good)
            p->row->finish(&sums);
        else
            for (int64_t c = 0; c < a->v_width; c++) s->out[c] = sb_float(SB_NAN_F32);
        store_row(p, g, r, s->out);
    }
}

static void whole_task(void *arg, int64_t index, int worker)
{
    const plan *p = arg;
    const group g = group_at(p, index);
    slot s = {0};
    cut_slot(p, p->memory + worker * p->slot_size, &s);
    score_part(p, &g, 0, &s);
    sum_part(p, &g, &s, 1, &s);
    finish_group(p, &g, &s, 1);
}

/* A part is worth its share of two more joins of the workers from about this many multiplications on. */
enum { MAX_PARTS = 64, MIN_PART_KEYS = 64, MIN_PART_PRODUCTS = 100000 };

/* The slots of a group's parts as they were left by the last step. */
static void group_slots(const plan *p, int64_t index, slot slots[MAX_PARTS])
{
    for (int64_t i = 0; i < p->parts; i++) cut_slot(p, p->memory + (index * p->parts + i) * p->slot_size, &slots[i]);
}

static void score_task(void *arg, int64_t index, int worker)
{
    (void)worker;
    const plan *p = arg;
    const group g = group_at(p, index / p->parts);
    slot s = {0};
    cut_slot(p, p->memory + index * p->slot_size, &s);
    score_part(p, &g, index % p->parts, &s);
    *s.kept = s.keys;
}

static void sum_task(void *arg, int64_t index, int worker)
{
    (void)worker;
    const plan *p = arg;
    const group g = group_at(p, index / p->parts);
    slot slots[MAX_PARTS];
    group_slots(p, index / p->parts, slots);
    slot *s = &slots[index % p->parts];
    s->keys = *s->kept;
    sum_part(p, &g, slots, p->parts, s);
}

static void finish_task(void *arg, int64_t index, int worker)
{
    (void)worker;
    const plan *p = arg;
    const group g = group_at(p, index);
    slot slots[MAX_PARTS];
    group_slots(p, index, slots);
    finish_group(p, &g, slots, p->parts);
}

static int64_t longest_list(const sb_attention *a)
{
    int64_t longest = 0;
    for (int64_t b = 0; b < a->batches; b++) longest = SB_MAX(longest, sb_attention_length(a, b));
    return longest;
}

enum { SCORE_BYTES = 8 << 20 /* of a tile's scores, so that they stay near the core */ };

static void plan_tiles(plan *p)
{
    const sb_attention *a = p->a;
    const int64_t all = a->queries * p->heads_per_kv, keys = SB_MAX(1, longest_list(a)),
                  workers = p->context->options.threads;
    int64_t most = SB_MAX(1, SB_MIN(SB_ATTENTION_ROWS, SCORE_BYTES / 4 / keys));
    if (most > p->heads_per_kv) most -= most % p->heads_per_kv; /* whole queries, which share a row of the mask */
    p->tile_rows = SB_MIN(all, most);
    p->tiles = sb_ceil_div(all, p->tile_rows);
    p->groups = a->batches * a->kv_heads * p->tiles;
    const int64_t wanted = workers > 1 && p->groups < 2 * workers ? sb_ceil_div(2 * workers, p->groups) : 1;
    const int64_t worth = p->tile_rows * keys * (a->k_width + a->v_width) / MIN_PART_PRODUCTS;
    p->parts = SB_MAX(1, SB_MIN(SB_MIN(wanted, MAX_PARTS), SB_MIN(keys / MIN_PART_KEYS, worth)));
    p->part_keys = sb_round_up(sb_ceil_div(keys, p->parts), SB_ATTENTION_BLOCK);
    p->sum_stride = sb_round_up(a->v_width, SB_ATTENTION_PAD);
}

samebits_status sb_attention_run(const samebits_context *context, const sb_attention *a)
{
    plan p = {
        .context = context, .a = a, .row = sb_attention_select(context->cpu), .heads_per_kv = a->heads / a->kv_heads};
    plan_tiles(&p);
    slot unused;
    p.slot_size = cut_slot(&p, NULL, &unused);
    const int64_t slots = p.parts == 1 ? sb_workers(context, p.groups) : p.groups * p.parts;
    int64_t size;
    if (__builtin_mul_overflow(slots, p.slot_size, &size))
        return sb_fail(SAMEBITS_ERR_OVERFLOW, "attention's working memory overflows the address space");
    p.memory = sb_alloc(context, (size_t)size);
    if (!p.memory) return sb_fail(SAMEBITS_ERR_MEMORY, "out of memory: attention needs %lld bytes", (long long)size);
    if (p.parts == 1) {
        sb_parallel(context, p.groups, whole_task, &p);
    } else {
        sb_parallel(context, p.groups * p.parts, score_task, &p);
        sb_parallel(context, p.groups * p.parts, sum_task, &p);
        sb_parallel(context, p.groups, finish_task, &p);
    }
    sb_free(context, p.memory, (size_t)size);
    return SAMEBITS_OK;
}
