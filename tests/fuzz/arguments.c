/* Right calls with up to three fields spoilt: whatever a tensor's fields say, a call gives OK, or a status with a
 * message and its output untouched. Input: the level, which allocation fails, then calls. */
#include "fuzz.h"

enum { BUFFER = 1 << 16, DIMS = 9, TENSORS = 6 };

/* Memory that is as large as any tensor that passes the checks: its sizes are below 8, or a row of one block; its
 * strides below 33; or they are so large that the checks must see it. */
typedef struct hostile {
    DLTensor dl;
    int64_t shape[DIMS], stride[DIMS];
    _Alignas(64) uint8_t memory[BUFFER], saved[BUFFER];
} hostile;

static int64_t hostile_size(bytes *b)
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
        pattern[1][i] = state >> 29;
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

static float hostile_float(bytes *b)
{
    static const float some[] = {1.0f, 0.0f, -1.0f, 1e-5f, 3e38f};
    const unsigned c = choose(b, 7);
    const uint32_t bits[] = {0x7FC00000, 0xFF800000};
    float value = some[c % 5];
    if (c > 4) memcpy(&value, &bits[c - 5], 4);
    return value;
}

typedef struct scene {
    bytes b;
    samebits_context *context;
    unsigned which; /* the function */
    samebits_format format;
    DLTensor *t[TENSORS];
} scene;

enum {
    MATMUL,
    LINEAR,
    PREPARED,
    QUANTIZED,
    ADDMM,
    ATTENTION,
    SOFTMAX,
    LOG_SOFTMAX,
    RMS_NORM,
    LAYER_NORM,
    OTHERS,
    FUNCTIONS
};

/* The tensors of a right call of s->which: out, x or a, w or b, then what is optional. */
static void right_call(scene *s, hostile t[TENSORS])
{
    bytes *b = &s->b;
    static const DLDataType floats[] = {
        {kDLFloat, 32, 1}, {kDLFloat, 16, 1}, {kDLBfloat, 16, 1}, {kDLFloat, 64, 1}, {kDLComplex, 64, 1}};
    static const DLDataType u8 = {kDLUInt, 8, 1}, i32 = {kDLInt, 32, 1};
    const unsigned kind = choose(b, 5);
    const int dense = s->which == MATMUL || s->which == LINEAR || s->which == ADDMM;
    const DLDataType f32 = floats[0], type = floats[dense ? kind : kind % 3], addend = type.bits == 64 ? type : f32;
    const int64_t m = 1 + choose(b, 5), n = 1 + choose(b, 5), h = 1 + choose(b, 3),
                  block = samebits_format_block(s->format);
    const int64_t k = (s->which == PREPARED || s->which == QUANTIZED) && block ? block : 1 + choose(b, 5);
    size_t row_size = 1;
    (void)samebits_format_row_size(s->format, k, &row_size);
    const int packed = block > 1 && (s->which == PREPARED || s->which == QUANTIZED);
    const int64_t x[] = {m, k}, w[] = {n, packed ? (int64_t)row_size : k}, wt[] = {k, n}, out[] = {m, n};
    const int64_t rows[] = {2, m, n}, q[] = {2, h, m, k}, kv[] = {2, 1, n, k}, list[] = {2, n}, two[] = {2};
    const int by_rows = s->which >= SOFTMAX;
    if (s->which == ATTENTION) {
        right(&t[0], b, type, 4, q);
        right(&t[1], b, type, 4, q);
        right(&t[2], b, type, 4, kv);
        right(&t[3], b, f32, 2, out);
        right(&t[4], b, choose(b, 2) ? f32 : i32, 1, choose(b, 2) ? &h : two);
        right(&t[5], b, i32, 2, list);
    } else {
        right(&t[0], b, by_rows || type.bits > 16 ? type : f32, by_rows ? 3 : 2, by_rows ? rows : out);
        right(&t[1], b, type, by_rows ? 3 : 2, by_rows ? rows : x);
        right(&t[2], b,
              packed                          ? u8
              : s->which == PREPARED && block ? floats[s->format]
                                              : type,
              2, s->which == MATMUL || s->which == ADDMM ? wt : w);
        right(&t[3], b, addend, by_rows ? 1 : 2, by_rows ? &n : out);
        right(&t[4], b, addend, 1, s->which == SOFTMAX ? two : &n);
        right(&t[5], b, f32, 1, two);
    }
    for (int i = 0; i < TENSORS; i++) s->t[i] = &t[i].dl;
}

static size_t struct_size(bytes *b, size_t right) { return choose(b, 30) ? right : (size_t)choose(b, 200); }

static const samebits_epilogue *epilogue(scene *s, samebits_epilogue *e)
{
    if (choose(&s->b, 3) == 0) return NULL;
    samebits_epilogue_default(e);
    e->struct_size = struct_size(&s->b, sizeof *e);
    e->alpha = hostile_float(&s->b);
    e->beta = hostile_float(&s->b);
    if (choose(&s->b, 2)) e->c = s->t[3];
    if (choose(&s->b, 2)) e->bias = s->t[4];
    e->activation = (samebits_activation)((int)choose(&s->b, SAMEBITS_ACTIVATION_COUNT + 2) - 1);
    return e;
}

static samebits_status call_attention(scene *s)
{
    samebits_attention_params p;
    samebits_attention_params_default(&p);
    p.struct_size = struct_size(&s->b, sizeof p);
    p.scale = hostile_float(&s->b);
    p.softcap = choose(&s->b, 3) ? 0.0f : hostile_float(&s->b);
    p.causal = (int)choose(&s->b, 2);
    p.window = (int64_t)choose(&s->b, 6) - 1;
    const unsigned parts = choose(&s->b, 16);
    if (parts & 1) p.mask = s->t[3];
    if (parts & 2) p.sinks = s->t[4];
    if (parts & 4) p.key_index = s->t[5];
    if (parts & 8) p.key_length = s->t[4];
    return samebits_attention(s->context, s->t[1], s->t[2], s->t[2], choose(&s->b, 4) ? &p : NULL, s->t[0]);
}

static samebits_status call_softmax(scene *s)
{
    samebits_softmax_params p;
    samebits_softmax_params_default(&p);
    p.struct_size = struct_size(&s->b, sizeof p);
    p.scale = hostile_float(&s->b);
    if (choose(&s->b, 2)) p.mask = s->t[3];
    if (choose(&s->b, 2)) p.sinks = s->t[4];
    if (choose(&s->b, 2)) p.slopes = s->t[5];
    return samebits_softmax(s->context, s->t[1], choose(&s->b, 4) ? &p : NULL, s->t[0]);
}

static samebits_status call_prepared(scene *s, const samebits_epilogue *e)
{
    samebits_weights *w = NULL;
    const samebits_order order = (samebits_order)choose(&s->b, 4);
    samebits_status status = samebits_weights_prepare(s->context, s->t[2], s->format, NULL, &w);
    REQUIRE(!status == (w != NULL));
    if (!status) status = samebits_linear_prepared(s->context, s->t[1], w, order, e, s->t[0]);
    samebits_weights_destroy(&w);
    return status;
}

static samebits_status call_sizes(scene *s)
{
    size_t size = 0;
    const samebits_format format = (samebits_format)((int)choose(&s->b, SAMEBITS_FORMAT_COUNT + 2) - 1);
    const int64_t n = hostile_size(&s->b), k = 32 * (hostile_size(&s->b) / 32) + hostile_size(&s->b) % 32;
    const samebits_status status = samebits_format_row_size(format, k, &size);
    return status ? status : samebits_weights_size(format, n, k, choose(&s->b, 9) ? &size : NULL);
}

static samebits_status call_modes(scene *s)
{
    samebits_mode_params p;
    samebits_route route;
    samebits_mode_params_default(&p);
    p.struct_size = struct_size(&s->b, sizeof p);
    p.limit = hostile_size(&s->b);
    p.strict = (int)choose(&s->b, 2);
    samebits_status status = samebits_mode_begin(&p);
    if (status) return status;
    status = samebits_mode_route(choose(&s->b, 9) ? "op" : NULL, hostile_size(&s->b), (int)choose(&s->b, 2), &route);
    REQUIRE(samebits_mode_end() == SAMEBITS_OK);
    return status;
}

static samebits_status call(scene *s)
{
    samebits_epilogue space;
    const samebits_epilogue *e = s->which < ADDMM ? epilogue(s, &space) : NULL;
    switch (s->which) {
    case MATMUL: return samebits_matmul(s->context, s->t[1], s->t[2], e, s->t[0]);
    case LINEAR: return samebits_linear(s->context, s->t[1], s->t[2], e, s->t[0]);
    case PREPARED: return call_prepared(s, e);
    case QUANTIZED:
        return samebits_matmul_quantized(s->context, s->t[1], s->t[2], s->format, (samebits_order)choose(&s->b, 4), e,
                                         s->t[0]);
    case ADDMM:
        return samebits_addmm(s->context, s->t[3], s->t[1], s->t[2], hostile_float(&s->b), hostile_float(&s->b),
                              s->t[0]);
    case ATTENTION: return call_attention(s);
    case SOFTMAX: return call_softmax(s);
    case LOG_SOFTMAX: return samebits_log_softmax(s->context, s->t[1], s->t[0]);
    case RMS_NORM: return samebits_rms_norm(s->context, s->t[1], s->t[3], hostile_float(&s->b), s->t[0]);
    case LAYER_NORM: return samebits_layer_norm(s->context, s->t[1], s->t[3], s->t[4], hostile_float(&s->b), s->t[0]);
    default: return choose(&s->b, 2) ? call_sizes(s) : call_modes(s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static hostile tensors[TENSORS];
    scene s = {.b = {data, data + size}};
    fuzz_memory memory = {.limit = 1u << 24, .fail_at = -1};
    s.context = fuzz_context(&memory, (samebits_cpu)choose(&s.b, 4));
    memory.fail_at = (int)choose(&s.b, 12) - 8;
    while (s.b.at < s.b.end) {
        s.which = choose(&s.b, FUNCTIONS);
        s.format = (samebits_format)((int)choose(&s.b, SAMEBITS_FORMAT_COUNT + 2) - 1);
        right_call(&s, tensors);
        for (unsigned i = choose(&s.b, 4); i > 0; i--) {
            const unsigned which = choose(&s.b, TENSORS);
            spoil(&tensors[which], &s.b, &s.t[which]);
        }
        const samebits_status status = call(&s);
        REQUIRE(status >= SAMEBITS_OK && status <= SAMEBITS_ERR_UNSUPPORTED);
        if (status) REQUIRE(*samebits_last_error());
        for (int i = status ? 0 : 1; i < TENSORS; i++)
            if (s.t[i]) REQUIRE(!memcmp(tensors[i].memory, tensors[i].saved, BUFFER));
    }
    samebits_destroy(&s.context);
    REQUIRE(memory.live == 0);
    return 0;
}
