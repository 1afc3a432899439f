/* Random calls of attention. */
#include <math.h>
#include <string.h>

#include "draw.h"
#include "fuzz.h"

/* Tensors of one attention call. */
typedef struct attend {
    tensor q, k, v, sinks, index, length, mask, slopes, want;
    attention_call call;
} attend;

static void make4(tensor *t, dtype type, layout l, int64_t a, int64_t b, int64_t c, int64_t d)
{
    tensor_make(t, type, l, 4, (int64_t[]){a, b, c, d});
}

/* A list of distinct rows for each sequence, or none; and how much of it counts. */
static void draw_lists(attend *a, rng *r)
{
    const int64_t batches = a->q.shape[0], keys = a->k.shape[2], listed = 1 + rng_below(r, keys);
    tensor_make2(&a->index, T_I32, LAYOUT_PLAIN, batches, listed);
    tensor_make(&a->length, T_I32, LAYOUT_PLAIN, 1, &batches);
    for (int64_t b = 0; b < batches; b++) {
        const int64_t first = rng_below(r, keys), step = rng_below(r, 2) ? 1 : keys - 1;
        for (int64_t i = 0; i < listed; i++)
            *(int32_t *)tensor_at(&a->index, b * listed + i) = (int32_t)((first + i * step) % keys);
        *(int32_t *)tensor_at(&a->length, b) = (int32_t)rng_below(r, listed + 1);
    }
    if (!rng_below(r, 3)) a->call.index = &a->index;
    if (!rng_below(r, 3)) a->call.length = &a->length;
}

/* A mask of any dtype that hides some keys, with sizes of 1 that broadcast; and slopes for one that is added. */
static void draw_mask(attend *a, rng *r)
{
    static const dtype types[] = {T_BOOL, T_F32, T_F16, T_BF16};
    const dtype type = types[rng_below(r, CLI_COUNT(types))];
    const int64_t full[4] = {a->q.shape[0], a->q.shape[1], a->q.shape[2], a->k.shape[2]};
    int64_t shape[4];
    for (int i = 0; i < 4; i++) shape[i] = rng_below(r, i < 2 ? 2 : 8) ? full[i] : 1;
    tensor_make(&a->mask, type, draw_layout(r), 4, shape);
    tensor_make(&a->slopes, T_F32, LAYOUT_PLAIN, 1, &full[1]);
    if (type != T_BOOL) tensor_fill(&a->mask, FILL_UNIT, r);
    tensor_fill(&a->slopes, FILL_UNIT, r);
    const int64_t one_in = 1 + rng_below(r, 5);
    for (int64_t i = 0; i < tensor_count(&a->mask); i++) {
        const int hides = rng_below(r, one_in + 1) == 0;
        if (type == T_BOOL)
            *(uint8_t *)tensor_at(&a->mask, i) = !hides;
        else if (hides)
            tensor_set(&a->mask, i, -INFINITY);
    }
    a->call.mask = &a->mask;
    if (type != T_BOOL && rng_below(r, 2)) a->call.slopes = &a->slopes;
}

/* One row of one head of one sequence that holds anything: NaN, Inf. */
static void draw_special(tensor *t, samebits_format format, rng *r)
{
    tensor one = *t;
    for (int dim = 0; dim < 3; dim++) {
        tensor part;
        tensor_slice(&part, &one, dim, rng_below(r, t->shape[dim]), 1);
        tensor_slice(&one, &part, 0, 0, part.shape[0]);
    }
    cache_fill(&one, format, (fill)rng_below(r, FILL_COUNT), r);
}

static void draw_attend(attend *a, const attention_form *form, rng *r)
{
    const int64_t budget = 4 * draw_budget(r), batches = 1 + rng_below(r, 3), groups = draw_size(r, 8);
    const int64_t heads = 1 + rng_below(r, 3), columns = draw_size(r, CLI_MIN(budget, 576));
    const int64_t depth = cache_columns(form->k, columns);
    const int64_t width = cache_columns(form->v, rng_below(r, 3) ? columns : draw_size(r, CLI_MIN(budget, 576)));
    const int64_t keys = draw_size(r, CLI_MAX(budget / CLI_MAX(depth, width), (int64_t)2));
    const int64_t queries = draw_size(r, CLI_MAX(budget / depth / keys / groups, (int64_t)2));
    memset(a, 0, sizeof *a);
    make4(&a->q, form->q, draw_layout(r), batches, heads * groups, queries, depth);
    cache_make(&a->k, form->k, draw_layout(r), (int64_t[]){rng_below(r, 4) ? batches : 1, heads, keys, depth});
    cache_make(&a->v, form->v, draw_layout(r), (int64_t[]){a->k.shape[0], heads, keys, width});
    make4(&a->want, form->out, LAYOUT_PLAIN, batches, heads * groups, queries, width);
    tensor_make(&a->sinks, T_F32, LAYOUT_PLAIN, 1, (int64_t[]){heads * groups});
    static const fill values[] = {FILL_SPREAD, FILL_UNIT, FILL_SUBNORMAL, FILL_ZERO, FILL_HUGE};
    tensor_fill(&a->q, values[rng_below(r, 4)], r);
    cache_fill(&a->k, form->k, values[rng_below(r, 3)], r);
    cache_fill(&a->v, form->v, values[rng_below(r, 5)], r);
    if (!rng_below(r, 4)) draw_special(&a->q, SAMEBITS_FORMAT_F32, r);
    if (!rng_below(r, 4)) draw_special(&a->k, form->k, r);
    if (!rng_below(r, 4)) draw_special(&a->v, form->v, r);
    tensor_fill(&a->sinks, FILL_UNIT, r);
    a->call = (attention_call){.q = &a->q, .k = &a->k, .v = &a->v, .scale = 0.09f, .out = &a->want};
    a->call.k_format = form->k;
    a->call.v_format = form->v;
    draw_lists(a, r);
    a->call.causal = rng_below(r, 2) > 0;
    a->call.window = a->call.causal && !rng_below(r, 3) ? 1 + rng_below(r, keys) : 0;
    a->call.softcap = rng_below(r, 3) ? 0.0f : 30.0f;
    a->call.sinks = rng_below(r, 3) ? NULL : &a->sinks;
    if (!rng_below(r, 3)) draw_mask(a, r);
}

void fuzz_attention(const verify *v, const attention_form *form, rng *r, result *found)
{
    attend a;
    draw_attend(&a, form, r);
    attention_plain(&a.call, (setting){SAMEBITS_CPU_SCALAR, 1, 0}, FAULT_NONE);
    for (int i = 0; i < v->level_count; i++) {
        const manner manner = draw_manner(r, v->levels[i]);
        tensor out;
        attention_call call = a.call;
        tensor_make(&out, form->out, draw_layout(r), 4, a.want.shape);
        call.out = &out;
        manner_enter(&manner);
        attention_run(&call, cli_context(manner.how.cpu, manner.how.threads, manner.how.lent));
        const int kept = manner_leave(&manner);
        compare(found, CHECK_SPEC, &a.want, &out, "%s, %lld heads, %lld queries, %lld keys, D=%lld Dv=%lld, %d threads",
                samebits_cpu_name(v->levels[i]), (long long)a.q.shape[1], (long long)a.q.shape[2],
                (long long)a.k.shape[2], (long long)a.q.shape[3], (long long)a.want.shape[3], manner.how.threads);
        expect(found, CHECK_LAYOUT, tensor_spilled(&out) == 0, "%s: wrote outside out",
               samebits_cpu_name(v->levels[i]));
        expect(found, CHECK_HOST, kept, "%s: the host's settings were lost", samebits_cpu_name(v->levels[i]));
        tensor_free(&out);
    }
    tensor_free(&a.q);
    tensor_free(&a.k);
    tensor_free(&a.v);
    tensor_free(&a.sinks);
    tensor_free(&a.index);
    tensor_free(&a.length);
    tensor_free(&a.mask);
    tensor_free(&a.slopes);
    tensor_free(&a.want);
}
