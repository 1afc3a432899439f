/* Attention: how queries are batched, chunked and padded, and where and in what sequence keys lie, moves no bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <samebits/samebits.h>

#include "invariance.h"
#include "support/tensor.h"

enum { HEADS = 6, KV_HEADS = 2, WIDTH = 40, VALUE_WIDTH = 24 };

/* One sequence: its queries, keys and values, and the output of all queries at once. */
typedef struct {
    samebits_context *context;
    int64_t queries, keys;
    int causal;
    int64_t window;
    test_tensor *q, *k, *v, *out;
} sequence;

static samebits_attention_params params_of(const sequence *s)
{
    samebits_attention_params p;
    samebits_attention_params_default(&p);
    p.scale = 0.2f;
    p.softcap = 30.0f;
    p.causal = s->causal;
    p.window = s->window;
    return p;
}

static void run(samebits_context *c, const DLTensor *q, const DLTensor *k, const DLTensor *v,
                const samebits_attention_params *p, DLTensor *out)
{
    const samebits_status status = samebits_attention(c, q, k, v, p, out);
    if (status) print_error("%s\n", samebits_last_error());
    assert_int_equal(status, SAMEBITS_OK);
}

static sequence make(int64_t queries, int64_t keys, test_dtype kv, int causal, int64_t window, uint64_t seed)
{
    test_rng rng = {seed};
    sequence s = {.queries = queries, .keys = keys, .causal = causal, .window = window};
    samebits_options o;
    samebits_options_default(&o);
    o.threads = 2;
    assert_int_equal(samebits_create(&s.context, &o), SAMEBITS_OK);
    s.q = TENSOR(TEST_F32, 1, HEADS, queries, WIDTH);
    s.k = TENSOR(kv, 1, KV_HEADS, keys, WIDTH);
    s.v = TENSOR(kv, 1, KV_HEADS, keys, VALUE_WIDTH);
    s.out = TENSOR(TEST_F32, 1, HEADS, queries, VALUE_WIDTH);
    test_random_small(s.q, &rng);
    test_random_small(s.k, &rng);
    test_random_small(s.v, &rng);
    const samebits_attention_params p = params_of(&s);
    run(s.context, &s.q->dl, &s.k->dl, &s.v->dl, &p, &s.out->dl);
    return s;
}

/* Copies element rows [first, first + count) of dimension 2 of `from` (1, X, L, W) to rows `at` of sequence b. */
static void copy_rows(test_tensor *to, int64_t b, int64_t at, const test_tensor *from, int64_t first, int64_t count)
{
    const int64_t heads = from->shape[1], width = from->shape[3];
    const size_t size = test_dtype_size(from->dtype);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < count; i++)
            memcpy(test_at(to, ((b * heads + h) * to->shape[2] + at + i) * width),
                   test_at(from, (h * from->shape[2] + first + i) * width), (size_t)width * size);
}

/* Query rows [first, first + count) of the whole against rows `at` of sequence b: how many differ. */
static long differing(const sequence *s, int64_t first, int64_t count, const test_tensor *out, int64_t b, int64_t at)
{
    long moved = 0;
    for (int64_t h = 0; h < HEADS; h++)
        for (int64_t i = 0; i < count; i++)
            moved += memcmp(test_at(s->out, (h * s->queries + first + i) * VALUE_WIDTH),
                            test_at(out, ((b * HEADS + h) * out->shape[2] + at + i) * VALUE_WIDTH),
                            VALUE_WIDTH * sizeof(float)) != 0;
    return moved;
}

static void finish(sequence *s)
{
    samebits_destroy(&s->context);
    test_free_all(NULL);
}

/* The prompt in chunks against the whole. `late` leaves out the newest key, which must show. */
static long chunked(const sequence *s, int64_t chunk, int64_t late)
{
    const samebits_attention_params p = params_of(s);
    long moved = 0;
    for (int64_t first = 0; first < s->queries; first += chunk) {
        const int64_t count = s->queries - first < chunk ? s->queries - first : chunk;
        const int64_t keys = s->keys - s->queries + first + count - late;
        test_tensor *q = TENSOR(TEST_F32, 1, HEADS, count, WIDTH),
                    *out = TENSOR(TEST_F32, 1, HEADS, count, VALUE_WIDTH);
        copy_rows(q, 0, 0, s->q, first, count);
        DLTensor k = s->k->dl, v = s->v->dl; /* the cache as it stands: views of its first keys */
        int64_t k_shape[4] = {1, KV_HEADS, keys, WIDTH}, v_shape[4] = {1, KV_HEADS, keys, VALUE_WIDTH};
        k.shape = k_shape;
        v.shape = v_shape;
        run(s->context, &q->dl, &k, &v, &p, &out->dl);
        moved += differing(s, first, count, out, 0, 0);
    }
    return moved;
}

void test_attention_chunks(void **state)
{
    (void)state;
    static const int64_t chunks[] = {1, 7, 16, 64, 512};
    static const test_dtype dtypes[] = {TEST_F32, TEST_F16, TEST_BF16};
    for (int d = 0; d < 3; d++)
        for (int64_t window = 0; window <= 33; window += 33) {
            sequence s = make(131, 200, dtypes[d], 1, window, 100 + (uint64_t)d);
            for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) assert_int_equal(chunked(&s, chunks[i], 0), 0);
            assert_true(chunked(&s, 16, 1) > 0);
            finish(&s);
        }
}

/* Keys in other places: cells[i] is where key i lies in a cache of `capacity` cells whose other cells hold NaN;
 * the list names the cells in the order given by `listed`. */
static long placed(const sequence *s, int64_t capacity, const int64_t *cells, const int64_t *listed)
{
    samebits_attention_params p = params_of(s);
    test_tensor *k = TENSOR(s->k->dtype, 1, KV_HEADS, capacity, WIDTH);
    test_tensor *v = TENSOR(s->v->dtype, 1, KV_HEADS, capacity, VALUE_WIDTH);
    test_tensor *list = TENSOR(TEST_I32, 1, s->keys), *out = TENSOR(TEST_F32, 1, HEADS, s->queries, VALUE_WIDTH);
    for (int64_t i = 0; i < s->keys; i++) {
        copy_rows(k, 0, cells[i], s->k, i, 1);
        copy_rows(v, 0, cells[i], s->v, i, 1);
        const int32_t cell = (int32_t)cells[listed[i]];
        memcpy(test_at(list, i), &cell, 4);
    }
    p.key_index = &list->dl;
    run(s->context, &s->q->dl, &k->dl, &v->dl, &p, &out->dl);
    return differing(s, 0, s->queries, out, 0, 0);
}

static void shuffle(int64_t *values, int64_t count, test_rng *rng)
{
    for (int64_t i = count - 1; i > 0; i--) {
        const int64_t j = test_below(rng, i + 1), t = values[i];
        values[i] = values[j];
        values[j] = t;
    }
}

/* Without causal, no order over keys: their places and the list's order are free. */
void test_attention_permuted(void **state)
{
    (void)state;
    static const test_dtype dtypes[] = {TEST_F32, TEST_F16, TEST_BF16};
    static const int64_t lengths[] = {1, 15, 17, 64, 127, 257, 513};
    test_rng rng = {7};
    int64_t cells[2048], listed[2048];
    for (int d = 0; d < 3; d++)
        for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
            const int64_t keys = lengths[n], capacity = 2 * keys + 5;
            sequence s = make(5, keys, dtypes[d], 0, 0, 200 + n);
            for (int repeat = 0; repeat < 4; repeat++) {
                for (int64_t i = 0; i < capacity; i++) cells[i] = i;
                for (int64_t i = 0; i < keys; i++) listed[i] = i;
                shuffle(cells, capacity, &rng);
                shuffle(listed, keys, &rng);
                assert_int_equal(placed(&s, capacity, cells, listed), 0);
            }
            for (int64_t i = 0; i < keys; i++) listed[i] = 0; /* control: the first key, again and again */
            if (keys > 1) assert_true(placed(&s, capacity, cells, listed) > 0);
            finish(&s);
        }
}

/* With causal, the list's order is that of the positions, the places stay free: pages, holes, rings that wrapped. */
void test_attention_places(void **state)
{
    (void)state;
    test_rng rng = {8};
    int64_t cells[1024], listed[1024];
    sequence s = make(31, 190, TEST_F16, 1, 70, 300);
    for (int64_t i = 0; i < s.keys; i++) listed[i] = i;
    for (int64_t i = 0; i < s.keys; i++) cells[i] = (i + 77) % s.keys; /* a ring */
    assert_int_equal(placed(&s, s.keys, cells, listed), 0);
    for (int64_t i = 0; i < s.keys; i++) cells[i] = (i / 16 * 5 % 13) * 16 + i % 16; /* pages of 16 */
    assert_int_equal(placed(&s, 13 * 16, cells, listed), 0);
    for (int64_t i = 0; i < 1000; i++) cells[i] = i;
    shuffle(cells, 1000, &rng);
    assert_int_equal(placed(&s, 1000, cells, listed), 0);
    listed[0] = 1; /* control: two positions swapped, one of them hidden from some queries */
    listed[1] = 0;
    listed[100] = 180;
    listed[180] = 100;
    assert_true(placed(&s, 1000, cells, listed) > 0);
    finish(&s);
}

/* Beside other sequences, in any place of the batch, with room behind its keys: `leak` counts a key too many. */
static long beside(const sequence *s, const sequence *other, int64_t b, int64_t batches, int64_t room, int32_t leak)
{
    samebits_attention_params p = params_of(s);
    const int64_t capacity = s->keys + room;
    test_tensor *q = TENSOR(TEST_F32, batches, HEADS, s->queries, WIDTH);
    test_tensor *k = TENSOR(s->k->dtype, batches, KV_HEADS, capacity, WIDTH);
    test_tensor *v = TENSOR(s->v->dtype, batches, KV_HEADS, capacity, VALUE_WIDTH);
    test_tensor *out = TENSOR(TEST_F32, batches, HEADS, s->queries, VALUE_WIDTH), *length = TENSOR(TEST_I32, batches);
    for (int64_t i = 0; i < batches; i++) {
        const sequence *from = i == b ? s : other;
        const int64_t keys = from->keys < capacity ? from->keys : capacity;
        copy_rows(q, i, 0, from->q, 0, s->queries);
        copy_rows(k, i, 0, from->k, 0, keys);
        copy_rows(v, i, 0, from->v, 0, keys);
        const int32_t count = (int32_t)keys + (i == b ? leak : 0);
        memcpy(test_at(length, i), &count, 4);
    }
    p.key_length = &length->dl;
    run(s->context, &q->dl, &k->dl, &v->dl, &p, &out->dl);
    return differing(s, 0, s->queries, out, b, 0);
}

void test_attention_batch(void **state)
{
    (void)state;
    static const int64_t neighbour_keys[] = {9, 64, 257};
    for (int causal = 0; causal < 2; causal++) {
        sequence s = make(9, 100, TEST_F16, causal, 0, 400);
        for (size_t n = 0; n < 3; n++) {
            sequence other = make(9, neighbour_keys[n], TEST_F16, causal, 0, 500 + n);
            for (int64_t b = 0; b < 4; b++) assert_int_equal(beside(&s, &other, b, 4, 64 * b + 3, 0), 0);
            assert_true(beside(&s, &other, 1, 4, 10, 1) > 0); /* the key too many is NaN: poison */
            samebits_destroy(&other.context);
        }
        finish(&s);
    }
}

/* Padding in front, hidden by a mask, in either form of it. `leak` shows one cell of the padding. */
static long padded(const sequence *s, int64_t pad, test_dtype mask_dtype, int leak)
{
    samebits_attention_params p = params_of(s);
    const int64_t keys = s->keys + pad;
    test_tensor *k = TENSOR(s->k->dtype, 1, KV_HEADS, keys, WIDTH),
                *v = TENSOR(s->v->dtype, 1, KV_HEADS, keys, VALUE_WIDTH);
    test_tensor *mask = TENSOR(mask_dtype, 1, 1, s->queries, keys),
                *out = TENSOR(TEST_F32, 1, HEADS, s->queries, VALUE_WIDTH);
    copy_rows(k, 0, pad, s->k, 0, s->keys);
    copy_rows(v, 0, pad, s->v, 0, s->keys);
    for (int64_t i = 0; i < test_count(mask); i++) {
        const int hidden = i % keys < pad - leak;
        if (mask_dtype == TEST_BOOL)
            *(unsigned char *)test_at(mask, i) = !hidden;
        else
            test_set(mask, i, hidden ? -INFINITY : 0.0f);
    }
    p.mask = &mask->dl;
    run(s->context, &s->q->dl, &k->dl, &v->dl, &p, &out->dl);
    return differing(s, 0, s->queries, out, 0, 0);
}

void test_attention_padding(void **state)
{
    (void)state;
    static const test_dtype masks[] = {TEST_BOOL, TEST_F32, TEST_F16, TEST_BF16};
    for (int causal = 0; causal < 2; causal++) {
        sequence s = make(17, 50, TEST_F32, causal, 0, 600);
        for (int m = 0; m < 4; m++) {
            for (int64_t pad = 0; pad <= 64; pad += 13) assert_int_equal(padded(&s, pad, masks[m], 0), 0);
            assert_true(padded(&s, 13, masks[m], 1) > 0);
        }
        finish(&s);
    }
}

/* Threads and CPU levels, in prefill and in decode over many keys. */
void test_attention_machines(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 3, 5, 8, 14, 15, 16, 33, 64};
    static const int64_t sizes[][2] = {{1, 1025}, {40, 300}};
    for (int i = 0; i < 2; i++) {
        sequence s = make(sizes[i][0], sizes[i][1], TEST_F16, 1, 0, 700);
        const samebits_attention_params p = params_of(&s);
        test_tensor *out = TENSOR(TEST_F32, 1, HEADS, s.queries, VALUE_WIDTH);
        for (int level = SAMEBITS_CPU_SCALAR; level < SAMEBITS_CPU_COUNT; level++)
            for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
                if (!samebits_cpu_supported((samebits_cpu)level)) continue;
                samebits_options o;
                samebits_context *c;
                samebits_options_default(&o);
                o.threads = threads[t];
                o.cpu = (samebits_cpu)level;
                assert_int_equal(samebits_create(&c, &o), SAMEBITS_OK);
                test_poison(out);
                run(c, &s.q->dl, &s.k->dl, &s.v->dl, &p, &out->dl);
                assert_int_equal(differing(&s, 0, s.queries, out, 0, 0), 0);
                samebits_destroy(&c);
            }
        samebits_attention_params other = p;
        other.scale = nextafterf(p.scale, 1.0f); /* control: one bit of the scale */
        run(s.context, &s.q->dl, &s.k->dl, &s.v->dl, &other, &out->dl);
        assert_true(differing(&s, 0, s.queries, out, 0, 0) > 0);
        finish(&s);
    }
}
