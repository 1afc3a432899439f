/* The checks of attention: a sequence gives the same bits wherever its keys lie and whoever shares the call. */
#include <fenv.h>
#include <stdlib.h>

#include "attention.h"
#include "table.h"
#include "verify.h"

/* One sequence, and what a level makes of it in one call on one thread. */
typedef struct sequence {
    const verify *v;
    result *r;
    rng random;
    setting how;
    const attention_form *form;
    tensor q, k, val, base, sinks;
    attention_call call; /* over these tensors */
} sequence;

#define CASE_FORMAT "%s, %s H=%lld/%lld Lq=%lld Lk=%lld D=%lld/%lld%s"
#define CASE_ARGS(s, text)                                                                                             \
    (text), samebits_cpu_name((s)->how.cpu), (long long)(s)->q.shape[1], (long long)(s)->k.shape[1],                   \
        (long long)(s)->q.shape[2], (long long)(s)->k.shape[2], (long long)(s)->q.shape[3],                            \
        (long long)(s)->base.shape[3], (s)->call.causal ? " causal" : ""

static void run(const sequence *s, setting how, const attention_call *call)
{
    if (s->v->who.plain)
        attention_plain(call, how, s->v->who.fault);
    else
        attention_run(call, cli_context(how.cpu, how.threads, how.lent));
}

static void make4(tensor *t, dtype type, layout l, int64_t a, int64_t b, int64_t c, int64_t d)
{
    tensor_make(t, type, l, 4, (int64_t[]){a, b, c, d});
}

/* A cache of K or V with this sequence's heads and columns, all poison. */
static void make_k(const sequence *s, tensor *k, layout l, int64_t batches, int64_t keys)
{
    cache_make(k, s->form->k, l, (int64_t[]){batches, s->k.shape[1], keys, s->q.shape[3]});
}

static void make_v(const sequence *s, tensor *v, layout l, int64_t batches, int64_t keys)
{
    cache_make(v, s->form->v, l, (int64_t[]){batches, s->val.shape[1], keys, s->base.shape[3]});
}

/* Out like the base, all poison. */
static void make_out(const sequence *s, tensor *out) { tensor_make(out, s->base.type, LAYOUT_PLAIN, 4, s->base.shape); }

static void run_and_compare(sequence *s, check kind, setting how, attention_call call, const char *text)
{
    tensor out;
    make_out(s, &out);
    call.out = &out;
    run(s, how, &call);
    compare(s->r, kind, &s->base, &out, CASE_FORMAT, CASE_ARGS(s, text));
    tensor_free(&out);
}

static void check_threads(sequence *s)
{
    static const int counts[] = {2, 3, 5, 8, 16, 33, 64};
    const size_t own = (size_t)rng_below(&s->random, 3 * (int64_t)CLI_COUNT(counts));
    for (size_t i = 0; i < CLI_COUNT(counts); i++)
        for (int lent = 0; lent < 2; lent++) {
            char text[40];
            if (!lent && !s->v->full && i != own) continue;
            snprintf(text, sizeof text, "%d%s threads", counts[i], lent ? " lent" : "");
            run_and_compare(s, CHECK_THREADS, (setting){s->how.cpu, counts[i], lent}, s->call, text);
        }
}

/* The prompt in chunks: the queries of a chunk see the keys up to its own end. */
static void check_chunks(sequence *s)
{
    static const int64_t chunks[] = {1, 7, 16, 64, 512};
    const int64_t queries = s->q.shape[2], keys = s->k.shape[2];
    for (size_t i = 0; i < CLI_COUNT(chunks) && chunks[i] < queries; i++) {
        tensor out;
        make_out(s, &out);
        for (int64_t begin = 0; begin < queries; begin += chunks[i]) {
            const int64_t count = CLI_MIN(chunks[i], queries - begin);
            const int64_t seen = s->call.causal ? CLI_MAX(keys - queries + begin + count, (int64_t)0) : keys;
            tensor q, k, v, part;
            tensor_slice(&q, &s->q, 2, begin, count);
            tensor_slice(&k, &s->k, 2, 0, seen);
            tensor_slice(&v, &s->val, 2, 0, seen);
            tensor_slice(&part, &out, 2, begin, count);
            attention_call call = s->call;
            call.q = &q;
            call.k = &k;
            call.v = &v;
            call.out = &part;
            run(s, s->how, &call);
        }
        char text[40];
        snprintf(text, sizeof text, "%lld queries at a time", (long long)chunks[i]);
        compare(s->r, CHECK_SHAPE, &s->base, &out, CASE_FORMAT, CASE_ARGS(s, text));
        tensor_free(&out);
    }
}

/* Sequence `place` of a tensor of several gets a copy of ours. */
static void put(tensor *all, int64_t place, const tensor *one)
{
    tensor slot, front;
    tensor_slice(&slot, all, 0, place, 1);
    tensor_slice(&front, &slot, 2, 0, one->shape[2]);
    tensor_copy(&front, one);
}

/* Ours among two other sequences, in a cache as long as the longest one: neighbours of any length and
 * content, and rows past the end that hold anything. */
static void with_neighbours(sequence *s, check kind, int64_t other_length, fill content, fill padding, const char *text)
{
    const int64_t place = rng_below(&s->random, 3), keys = s->k.shape[2];
    const int64_t room = CLI_MAX(keys, other_length) + rng_below(&s->random, 9) + 1;
    tensor q, k, v, out, length, got;
    make4(&q, s->q.type, LAYOUT_PLAIN, 3, s->q.shape[1], s->q.shape[2], s->q.shape[3]);
    make_k(s, &k, LAYOUT_PLAIN, 3, room);
    make_v(s, &v, LAYOUT_PLAIN, 3, room);
    make4(&out, s->base.type, LAYOUT_PLAIN, 3, s->base.shape[1], s->base.shape[2], s->base.shape[3]);
    tensor_make(&length, T_I32, LAYOUT_PLAIN, 1, (int64_t[]){3});
    tensor_fill(&q, content, &s->random);
    cache_fill(&k, s->form->k, padding, &s->random);
    cache_fill(&v, s->form->v, padding, &s->random);
    for (int64_t b = 0; b < 3; b++) {
        const int64_t rows = b == place ? keys : other_length;
        tensor slot, front;
        *(int32_t *)tensor_at(&length, b) = (int32_t)rows;
        tensor_slice(&slot, &k, 0, b, 1);
        tensor_slice(&front, &slot, 2, 0, rows);
        cache_fill(&front, s->form->k, content, &s->random);
        tensor_slice(&slot, &v, 0, b, 1);
        tensor_slice(&front, &slot, 2, 0, rows);
        cache_fill(&front, s->form->v, content, &s->random);
    }
    put(&q, place, &s->q);
    put(&k, place, &s->k);
    put(&v, place, &s->val);
    attention_call call = s->call;
    call.q = &q;
    call.k = &k;
    call.v = &v;
    call.length = &length;
    call.out = &out;
    run(s, s->how, &call);
    tensor_slice(&got, &out, 0, place, 1);
    compare(s->r, kind, &s->base, &got, CASE_FORMAT, CASE_ARGS(s, text));
    tensor_free(&q);
    tensor_free(&k);
    tensor_free(&v);
    tensor_free(&out);
    tensor_free(&length);
}

static void check_neighbours(sequence *s)
{
    static const int64_t lengths[] = {1, 10, 129};
    char text[64];
    for (size_t i = 0; i < CLI_COUNT(lengths); i++) {
        snprintf(text, sizeof text, "neighbours of %lld keys", (long long)lengths[i]);
        with_neighbours(s, CHECK_SHAPE, lengths[i], FILL_UNIT, FILL_ZERO, text);
    }
    for (int content = 0; content < FILL_COUNT; content++) {
        snprintf(text, sizeof text, "neighbours %s", fill_name((fill)content));
        with_neighbours(s, CHECK_CONTENT, s->k.shape[2], (fill)content, FILL_ZERO, text);
        snprintf(text, sizeof text, "padding %s", fill_name((fill)content));
        with_neighbours(s, CHECK_CONTENT, s->k.shape[2], FILL_UNIT, (fill)content, text);
    }
}

/* Random places for the keys among `room` rows, in `place`. */
static void scatter(rng *r, int64_t keys, int64_t room, int32_t *place)
{
    for (int64_t i = 0; i < room; i++) place[i] = (int32_t)i;
    for (int64_t i = 0; i < keys; i++) {
        const int64_t j = i + rng_below(r, room - i);
        const int32_t swap = place[i];
        place[i] = place[j];
        place[j] = swap;
    }
}

static void copy_key(tensor *to, int64_t to_row, const tensor *from, int64_t from_row)
{
    tensor a, b;
    tensor_slice(&a, to, 2, to_row, 1);
    tensor_slice(&b, from, 2, from_row, 1);
    tensor_copy(&a, &b);
}

/* Keys anywhere in a larger cache whose other rows are poison: through a list, and through masks. */
static void check_places(sequence *s, int kind)
{
    const int64_t keys = s->k.shape[2], room = keys + rng_below(&s->random, 2 * keys + 8);
    int32_t *place = cli_alloc((size_t)room * sizeof *place), *listed = cli_alloc((size_t)keys * sizeof *listed);
    tensor k, v, index, mask;
    make_k(s, &k, LAYOUT_PLAIN, 1, room);
    make_v(s, &v, LAYOUT_PLAIN, 1, room);
    tensor_make2(&index, T_I32, LAYOUT_PLAIN, 1, keys);
    const dtype mask_type = kind == 2 ? T_BOOL : T_F32;
    make4(&mask, mask_type, LAYOUT_PLAIN, 1, 1, s->q.shape[2], room);
    scatter(&s->random, keys, room, place);
    scatter(&s->random, keys, keys, listed);
    for (int64_t i = 0; i < tensor_count(&mask); i++) {
        if (mask_type == T_F32)
            *(float *)tensor_at(&mask, i) = bits_to_f32(T_F32, 0xFF800000);
        else
            *(uint8_t *)tensor_at(&mask, i) = 0;
    }
    for (int64_t j = 0; j < keys; j++) {
        copy_key(&k, place[j], &s->k, j);
        copy_key(&v, place[j], &s->val, j);
        /* Without causal even the list's order is free. */
        *(int32_t *)tensor_at(&index, s->call.causal ? j : listed[j]) = place[j];
        for (int64_t i = 0; i < s->q.shape[2]; i++) {
            const int64_t last = s->call.causal ? i + keys - s->q.shape[2] : keys - 1;
            if (j > last || (s->call.window && j <= last - s->call.window)) continue;
            void *at = tensor_at(&mask, i * room + place[j]);
            if (mask_type == T_F32)
                *(float *)at = 0.0f;
            else
                *(uint8_t *)at = 1;
        }
    }
    attention_call call = s->call;
    call.k = &k;
    call.v = &v;
    if (kind == 0) {
        call.index = &index;
    } else {
        call.mask = &mask;
        call.causal = 0;
        call.window = 0;
    }
    static const char *const texts[] = {"keys scattered, by list", "keys scattered, by additive mask",
                                        "keys scattered, by bool mask"};
    run_and_compare(s, CHECK_LAYOUT, s->how, call, texts[kind]);
    tensor_free(&k);
    tensor_free(&v);
    tensor_free(&index);
    tensor_free(&mask);
    free(place);
    free(listed);
}

/* K and V with heads inside positions, transposed, off alignment. */
static void check_strides(sequence *s)
{
    for (int l = 1; l < LAYOUT_COUNT; l++) {
        tensor q, k, v;
        tensor_make(&q, s->q.type, (layout)l, 4, s->q.shape);
        make_k(s, &k, (layout)l, 1, s->k.shape[2]);
        make_v(s, &v, (layout)l, 1, s->k.shape[2]);
        tensor_copy(&q, &s->q);
        tensor_copy(&k, &s->k);
        tensor_copy(&v, &s->val);
        attention_call call = s->call;
        call.q = &q;
        call.k = &k;
        call.v = &v;
        run_and_compare(s, CHECK_LAYOUT, s->how, call, layout_name((layout)l));
        tensor_free(&q);
        tensor_free(&k);
        tensor_free(&v);
    }
}

static void check_host(sequence *s)
{
    tensor v, want, have;
    attention_call call = s->call;
    make_v(s, &v, LAYOUT_PLAIN, 1, s->k.shape[2]);
    cache_fill(&v, s->form->v, FILL_SUBNORMAL, &s->random);
    make_out(s, &want);
    make_out(s, &have);
    call.v = &v;
    call.out = &want;
    run(s, s->how, &call);
    call.out = &have;
    host_flush(1);
    run(s, (setting){s->how.cpu, 2, rng_below(&s->random, 4) > 0}, &call);
    const int kept = host_flushes();
    host_flush(0);
    compare(s->r, CHECK_HOST, &want, &have, CASE_FORMAT, CASE_ARGS(s, "FTZ and DAZ on"));
    expect(s->r, CHECK_HOST, kept, CASE_FORMAT, CASE_ARGS(s, "the host's FTZ and DAZ were lost"));
    call = s->call;
    call.out = &have;
    fesetround(FE_UPWARD);
    run(s, s->how, &call);
    fesetround(FE_TONEAREST);
    compare(s->r, CHECK_HOST, &s->base, &have, CASE_FORMAT, CASE_ARGS(s, "host rounds upward"));
    tensor_free(&v);
    tensor_free(&want);
    tensor_free(&have);
}

static void check_all(sequence *s)
{
    check_threads(s);
    check_chunks(s);
    check_neighbours(s);
    for (int kind = 0; kind < (s->v->who.plain ? 1 : 3); kind++) check_places(s, kind);
    check_strides(s);
    check_host(s);
}

static int64_t pick(rng *r, const int64_t *list, size_t count, int64_t limit)
{
    while (count > 1 && list[count - 1] > limit) count--;
    return list[rng_below(r, (int64_t)count)];
}

static void make_sequence(sequence *s, int64_t keys)
{
    static const int64_t depths[] = {64, 72, 80, 96, 128, 192, 256, 576}, groups[] = {1, 2, 4, 7, 8, 16};
    static const int64_t queries[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 63, 64, 65, 127, 128, 129, 130};
    const attention_form *form = s->form;
    rng *r = &s->random;
    const int64_t budget = s->v->full ? 1 << 24 : s->v->small ? 1 << 16 : 1 << 18;
    const int64_t depth = cache_columns(form->k, pick(r, depths, CLI_COUNT(depths), budget / keys / 4));
    const int64_t group = pick(r, groups, CLI_COUNT(groups), budget / keys / depth / 2);
    const int64_t kv_heads = budget / keys / depth / group > 4 ? 1 + rng_below(r, 3) : 1;
    /* More queries than keys too: then the first ones see none. */
    const int64_t length = pick(r, queries, CLI_COUNT(queries), budget / keys / depth / group / kv_heads);
    const int64_t narrow = CLI_MAX(depth - 64 / 2, (int64_t)8);
    const int64_t width = cache_columns(form->v, rng_below(r, 4) ? depth : narrow);
    make4(&s->q, form->q, LAYOUT_PLAIN, 1, group * kv_heads, length, depth);
    cache_make(&s->k, form->k, LAYOUT_PLAIN, (int64_t[]){1, kv_heads, keys, depth});
    cache_make(&s->val, form->v, LAYOUT_PLAIN, (int64_t[]){1, kv_heads, keys, width});
    make4(&s->base, form->out, LAYOUT_PLAIN, 1, group * kv_heads, length, width);
    tensor_make(&s->sinks, T_F32, LAYOUT_PLAIN, 1, (int64_t[]){group * kv_heads});
    tensor_fill(&s->q, FILL_UNIT, r);
    cache_fill(&s->k, form->k, FILL_UNIT, r);
    cache_fill(&s->val, form->v, FILL_SPREAD, r);
    tensor_fill(&s->sinks, FILL_UNIT, r);
    s->call = (attention_call){.q = &s->q, .k = &s->k, .v = &s->val, .scale = 0.09f, .out = &s->base};
    s->call.k_format = form->k;
    s->call.v_format = form->v;
    s->call.causal = s->v->small ? keys > 100 : rng_below(r, 3) > 0;
    s->call.softcap = rng_below(r, 3) ? 0.0f : 30.0f;
    s->call.window = s->call.causal && !rng_below(r, 3) ? 1 + rng_below(r, keys) : 0;
    s->call.sinks = rng_below(r, 3) ? NULL : &s->sinks;
}

static void check_sequence(const verify *v, const attention_form *form, int64_t keys, uint64_t seed, result *r)
{
    sequence s = {.v = v, .r = r, .random = {seed}, .form = form};
    tensor scalar;
    make_sequence(&s, keys);
    const int64_t work = s.q.shape[1] * s.q.shape[2] * keys * s.q.shape[3];
    tensor_make(&scalar, s.base.type, LAYOUT_PLAIN, 4, s.base.shape);
    for (int i = 0; i < v->level_count; i++) {
        s.how = (setting){v->levels[i], 1, 0};
        run(&s, s.how, &s.call);
        if (i)
            compare(r, CHECK_LEVELS, &scalar, &s.base, CASE_FORMAT, CASE_ARGS(&s, "against scalar"));
        else
            tensor_copy(&scalar, &s.base);
        if (i == 0 && (v->full || work < 1 << 19)) {
            tensor out;
            attention_call call = s.call;
            make_out(&s, &out);
            call.out = &out;
            attention_plain(&call, s.how, FAULT_NONE);
            compare(r, CHECK_SPEC, &out, &s.base, CASE_FORMAT, CASE_ARGS(&s, "plain C"));
            tensor_free(&out);
        }
        if (i || v->level_count == 1 || v->small || work < (v->full ? 1 << 18 : 1 << 13)) check_all(&s);
    }
    tensor_free(&s.q);
    tensor_free(&s.k);
    tensor_free(&s.val);
    tensor_free(&s.base);
    tensor_free(&s.sinks);
    tensor_free(&scalar);
}

void verify_attention(const verify *v, int form, result *r)
{
    static const int64_t keys[] = {1,   15,  16,  17,  63,   64,   65,   127,  128,  129,  255,  256,
                                   257, 511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097, 8192, 19802};
    static const int64_t few[] = {5, 40, 130};
    rng random = {v->seed + 1000 + (uint64_t)form};
    const int count = v->small ? (int)CLI_COUNT(few) : v->full ? (int)CLI_COUNT(keys) : 19;
    for (int i = 0; i < count; i++) {
        const uint64_t seed = rng_next(&random);
        if (!v->full && !v->small && (i + form) % 2) continue;
        if (!v->json && !v->small)
            progress(op_count + form, op_count + attention_form_count, "attention %s: %lld keys",
                     attention_forms[form].form, (long long)keys[i]);
        check_sequence(v, &attention_forms[form], v->small ? few[i] : keys[i], seed, r);
    }
    progress_end();
}
