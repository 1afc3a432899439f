/* Right calls with up to three fields spoilt: whatever a tensor's fields say, a call gives OK, or a status with a
 * message and its output untouched, and a stock product sees only what fits. Input: the level, which allocation fails,
 * then calls. */
#include "calls.h"

enum { BUFFER = 1 << 16, DIMS = 9 };

/* Memory that is as large as any tensor that passes the checks: its sizes are below 8, or a row of one block; its
 * strides below 33; or they are so large that the checks must see it. */
typedef struct hostile {
    DLTensor dl;
    int64_t shape[DIMS], stride[DIMS];
    _Alignas(64) uint8_t memory[BUFFER], saved[BUFFER];
} hostile;

int64_t hostile_size(bytes *b)
{
    static const int64_t odd[] = {-1, INT64_MIN, INT64_MAX, (int64_t)1 << 62};
    const unsigned c = choose(b, 64);
    return c < 60 ? c % 8 : odd[c - 60];
}

static int64_t hostile_stride(bytes *b)
{
    static const int64_t odd[] = {-1, INT64_MIN, INT64_MAX, (int64_t)1 << 62};
    const unsigned c = choose(b, 37);
    return c < 33 ? c : odd[c - 33];
}

static DLDataType hostile_dtype(bytes *b)
{
    static const DLDataType known[] = {{kDLFloat, 32, 1}, {kDLFloat, 16, 1}, {kDLBfloat, 16, 1},
                                       {kDLUInt, 8, 1},   {kDLInt, 32, 1},   {6, 8, 1}};
    const unsigned c = choose(b, 24);
    if (c < 12) return known[0];
    if (c < 22) return known[c % 6];
    const uint8_t code = (uint8_t)choose(b, 8), bits = (uint8_t)choose(b, 129);
    return (DLDataType){code, bits, (uint16_t)choose(b, 3)};
}

/* Random bytes, small integers or small floats. */
static void fill(hostile *t, bytes *b)
{
    enum { KINDS = 3, EXTRA = 1024 };
    static uint32_t pattern[KINDS][BUFFER / 4 + EXTRA];
    uint32_t state = 1;
    for (size_t i = 0; i < BUFFER / 4 + EXTRA && !pattern[0][0]; i++) {
        state = state * 1664525u + 1013904223u;
        const float number = (float)(state >> 24) - 100.0f;
        pattern[1][i] = state >> 29 & state >> 26; /* small ones more often: they are ids, too */
        memcpy(&pattern[2][i], &number, 4);
        if (i) pattern[0][i] = state;
    }
    pattern[0][0] = 1; /* made */
    memcpy(t->memory, pattern[choose(b, KINDS)] + 4 * choose(b, 256), BUFFER);
    memcpy(t->saved, t->memory, BUFFER);
}

/* A right tensor: row-major, of this shape. */
static void right(hostile *t, bytes *b, DLDataType dtype, int ndim, const int64_t *shape)
{
    t->dl = (DLTensor){.data = t->memory, .device = {kDLCPU, 0}, .ndim = ndim, .dtype = dtype, .shape = t->shape};
    int64_t step = 1;
    for (int i = 0; i < DIMS; i++) t->shape[i] = i < ndim ? shape[i] : 1;
    for (int i = DIMS - 1; i >= 0; step *= t->shape[i--]) t->stride[i] = step;
    if (choose(b, 2)) t->dl.strides = t->stride;
    fill(t, b);
}

/* One field of a tensor made something else. */
static void spoil(hostile *t, bytes *b, DLTensor **pointer)
{
    const unsigned dim = choose(b, 4);
    switch (choose(b, 12)) {
    case 0: *pointer = NULL; break;
    case 1: t->dl.data = NULL; break;
    case 2: t->dl.shape = NULL; break;
    case 3: t->dl.byte_offset = choose(b, 200); break;
    case 4: t->dl.device.device_type = (DLDeviceType)choose(b, 16); break;
    case 5: t->dl.dtype = hostile_dtype(b); break;
    case 6:
        t->dl.ndim = (int)choose(b, DIMS + 2) - 1;
        for (int i = 0; i < DIMS && t->dl.ndim > 4; i++) t->shape[i] = 1 + t->shape[i] % 2;
        break;
    case 7:
    case 8: t->shape[dim] = hostile_size(b); break;
    default: t->dl.strides = t->stride; t->stride[dim] = hostile_stride(b);
    }
}

float hostile_float(bytes *b)
{
    static const float some[] = {1.0f, 0.0f, -1.0f, 1e-5f, 3e38f};
    const unsigned c = choose(b, 7);
    const uint32_t bits[] = {0x7FC00000, 0xFF800000};
    float value = some[c % 5];
    if (c > 4) memcpy(&value, &bits[c - 5], 4);
    return value;
}

size_t hostile_struct_size(bytes *b, size_t right) { return choose(b, 30) ? right : (size_t)choose(b, 200); }

/* The tensors of a right call. */
static void right_call(scene *s, const form *f, hostile t[TENSORS])
{
    static const DLDataType types[] = {
        {kDLFloat, 32, 1}, {kDLFloat, 16, 1}, {kDLBfloat, 16, 1}, {kDLFloat, 64, 1}, {kDLComplex, 64, 1}};
    static const int bits[] = {2, 3, 4, 5, 6, 8};
    bytes *b = &s->b;
    const unsigned kind = choose(b, 5);
    s->type = types[kind % 3];
    s->wide = types[kind];
    s->m = 1 + choose(b, 5);
    s->n = 1 + choose(b, 5);
    s->k = 1 + choose(b, 5);
    s->heads = 1 + choose(b, 3);
    s->experts = 1 + choose(b, 3);
    s->top = 1 + choose(b, (unsigned)s->n);
    s->bits = bits[choose(b, 6)];
    s->group = 32 << choose(b, 3);
    for (int i = 0; i < TENSORS; i++) {
        const char *letters = f->tensor[i] ? f->tensor[i] : "F1";
        int64_t shape[DIMS];
        int ndim = 0;
        while (letters[1 + ndim]) {
            shape[ndim] = scene_size(s, letters[1 + ndim]);
            ndim++;
        }
        right(&t[i], b, scene_dtype(s, letters[0]), ndim, shape);
        s->t[i] = &t[i].dl;
    }
}

static void shorten(hostile *t)
{
    for (int i = 0; i < DIMS; i++)
        if (t->shape[i] > BUFFER && t->stride[i] == 0) t->shape[i] = 7;
}

static int64_t count_of(const DLTensor *t)
{
    int64_t count = 1;
    for (int i = 0; i < t->ndim; i++)
        if (__builtin_mul_overflow(count, t->shape[i], &count)) return INT64_MAX;
    return count;
}

/* Reads or writes the first and the last byte of each element. */
static void touch(const DLTensor *t, int write)
{
    const int64_t count = count_of(t);
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, offset = 0;
        for (int d = t->ndim - 1; d >= 0; rest /= t->shape[d--]) offset += rest % t->shape[d] * t->strides[d];
        volatile uint8_t *first = (uint8_t *)t->data + t->byte_offset + offset * (t->dtype.bits / 8);
        volatile uint8_t *last = first + t->dtype.bits / 8 - 1;
        (void)*first;
        (void)*last;
        if (write) *first = *last = 0;
    }
}

/* Takes every other call. */
static samebits_status stock(void *user, const DLTensor *a, const DLTensor *b, DLTensor *out)
{
    unsigned *calls = user;
    REQUIRE(a->ndim >= 2 && b->ndim >= 2 && out->ndim >= 2);
    const int64_t m = a->shape[a->ndim - 2], k = a->shape[a->ndim - 1], n = b->shape[b->ndim - 1];
    REQUIRE(b->shape[b->ndim - 2] == k && out->shape[out->ndim - 1] == n && out->shape[out->ndim - 2] == m);
    REQUIRE(a->device.device_type == kDLCPU && b->device.device_type == kDLCPU && out->device.device_type == kDLCPU);
    if (++*calls % 2 || count_of(a) > BUFFER || count_of(b) > BUFFER) return SAMEBITS_ERR_UNSUPPORTED;
    touch(a, 0);
    touch(b, 0);
    touch(out, 1);
    return SAMEBITS_OK;
}

static samebits_status call(scene *s, const form *f)
{
    const int in_mode = choose(&s->b, 4) == 0;
    if (in_mode) {
        samebits_mode_params p;
        samebits_mode_params_default(&p);
        p.limit = choose(&s->b, 4);
        p.strict = choose(&s->b, 4) == 0;
        REQUIRE(samebits_mode_begin(&p) == SAMEBITS_OK);
    }
    const samebits_status status = f->unary    ? f->unary(s->context, s->t[1], s->t[0])
                                   : f->binary ? f->binary(s->context, s->t[1], s->t[2], s->t[0])
                                               : f->call(s);
    if (in_mode) REQUIRE(samebits_mode_end() == SAMEBITS_OK);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static hostile tensors[TENSORS];
    scene s = {.b = {data, data + size}};
    unsigned stock_calls = 0;
    fuzz_memory memory = {.limit = 1u << 24, .fail_at = -1};
    s.context = fuzz_context_with(&memory, (samebits_cpu)choose(&s.b, 4), stock, &stock_calls);
    memory.fail_at = (int)choose(&s.b, 12) - 8;
    while (s.b.at < s.b.end) {
        const form *f = &forms[choose(&s.b, form_count)];
        s.format = (samebits_format)((int)choose(&s.b, SAMEBITS_FORMAT_COUNT + 2) - 1);
        right_call(&s, f, tensors);
        for (unsigned i = choose(&s.b, 4); i > 0; i--) {
            const unsigned which = choose(&s.b, TENSORS);
            spoil(&tensors[which], &s.b, &s.t[which]);
        }
        for (int i = 0; i < TENSORS && f->walks; i++) shorten(&tensors[i]);
        const samebits_status status = call(&s, f);
        REQUIRE(status >= SAMEBITS_OK && status <= SAMEBITS_ERR_UNSUPPORTED);
        if (status) REQUIRE(*samebits_last_error());
        for (int i = status ? 0 : f->outputs; i < TENSORS; i++)
            if (s.t[i]) REQUIRE(!memcmp(tensors[i].memory, tensors[i].saved, BUFFER));
    }
    samebits_destroy(&s.context);
    REQUIRE(memory.live == 0);
    return 0;
}
