#include "tensor.h"

#include <stdlib.h>
#include <string.h>

#include "edge.h"

enum { GUARD = 256 }; /* poisoned bytes on both sides, but for memory at an edge */
enum { DL_BOOL = 6 }; /* DLPack's kDLBool; the header of version 0.6 does not name it yet */

const char *layout_name(layout l)
{
    static const char *const names[] = {"plain",    "padded rows", "transposed", "stepped",
                                        "offset 1", "offset 2",    "offset 4",   "offset 8"};
    return names[l];
}

const char *dtype_name(dtype type)
{
    static const char *const names[] = {"f32", "f16", "bf16", "u8", "i32", "bool", "u32", "f64", "complex64"};
    return names[type];
}

size_t dtype_size(dtype type)
{
    static const size_t sizes[] = {4, 2, 2, 1, 4, 1, 4, 8, 8};
    return sizes[type];
}

static DLDataType dl_type(dtype type)
{
    static const uint8_t codes[] = {kDLFloat, kDLFloat, kDLBfloat, kDLUInt,   kDLInt,
                                    DL_BOOL,  kDLUInt,  kDLFloat,  kDLComplex};
    return (DLDataType){codes[type], (uint8_t)(8 * dtype_size(type)), 1};
}

static void describe(tensor *t, dtype type, int ndim)
{
    t->type = type;
    t->dl = (DLTensor){
        .device = {kDLCPU, 0}, .ndim = ndim, .dtype = dl_type(type), .shape = t->shape, .strides = t->stride};
}

void tensor_make(tensor *t, dtype type, layout l, int ndim, const int64_t *shape)
{
    memset(t, 0, sizeof *t);
    describe(t, type, ndim);
    int order[TENSOR_DIMS]; /* dims from the slowest in memory to the fastest */
    for (int i = 0; i < ndim; i++) {
        order[i] = i;
        t->shape[i] = shape[i];
    }
    if (l == LAYOUT_TRANSPOSED && ndim > 1) {
        order[ndim - 1] = ndim - 2;
        order[ndim - 2] = ndim - 1;
    }
    int64_t step = l == LAYOUT_STEPPED ? 2 : 1, last = 0; /* last: the element that lies last */
    for (int i = ndim - 1; i >= 0; i--) {
        t->stride[order[i]] = step;
        last += (CLI_MAX(shape[order[i]], 1) - 1) * step;
        step *= CLI_MAX(shape[order[i]], 1);
        if (l == LAYOUT_PADDED && i == ndim - 1) step += 13;
    }
    const int64_t offset = l < LAYOUT_OFFSET1 ? 0 : (int64_t)1 << (l - LAYOUT_OFFSET1);
    const size_t guard = edge_is_on() ? 0 : GUARD;
    t->size = (size_t)(last + 1 + offset) * dtype_size(type) + 2 * guard;
    t->memory = edge_alloc(t->size, guard ? 64 : dtype_size(type));
    t->dl.data = t->memory + guard;
    t->dl.byte_offset = (uint64_t)offset * dtype_size(type);
}

void tensor_make2(tensor *t, dtype type, layout l, int64_t rows, int64_t cols)
{
    tensor_make(t, type, l, 2, (int64_t[]){rows, cols});
}

void tensor_free(tensor *t)
{
    edge_free(t->memory);
    memset(t, 0, sizeof *t);
}

void tensor_slice(tensor *view, const tensor *t, int dim, int64_t first, int64_t count)
{
    *view = *t;
    view->memory = NULL;
    view->dl.shape = view->shape;
    view->dl.strides = view->stride;
    view->shape[dim] = count;
    view->dl.byte_offset += (uint64_t)(first * t->stride[dim]) * dtype_size(t->type);
}

void *tensor_at(const tensor *t, int64_t index)
{
    int64_t offset = 0;
    for (int i = t->dl.ndim - 1; i >= 0; i--) {
        offset += index % t->shape[i] * t->stride[i];
        index /= t->shape[i];
    }
    return (char *)t->dl.data + t->dl.byte_offset + (size_t)offset * dtype_size(t->type);
}

/* Elements of the last dim, and the bytes from one to the next. */
static int64_t row_length(const tensor *t) { return t->shape[t->dl.ndim - 1]; }
static int64_t row_step(const tensor *t) { return t->stride[t->dl.ndim - 1] * (int64_t)dtype_size(t->type); }

int64_t tensor_spilled(const tensor *t)
{
    unsigned char *copy = cli_alloc(t->size);
    memcpy(copy, t->memory, t->size);
    const int64_t count = tensor_count(t);
    for (int64_t row = 0; row < count; row += row_length(t)) {
        unsigned char *at = copy + ((unsigned char *)tensor_at(t, row) - t->memory);
        for (int64_t i = 0; i < row_length(t); i++) memset(at + i * row_step(t), 0xFF, dtype_size(t->type));
    }
    int64_t spilled = 0;
    for (size_t i = 0; i < t->size; i++) spilled += copy[i] != 0xFF;
    free(copy);
    return spilled;
}

static float f16_to_f32(uint32_t bits)
{
    const uint32_t sign = bits << 16 & 0x80000000, exponent = bits >> 10 & 31, mantissa = bits & 0x3FF;
    float value = (float)mantissa * 0x1p-24f; /* of a subnormal */
    uint32_t wide;
    memcpy(&wide, &value, 4);
    if (exponent) wide = (exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13;
    wide |= sign;
    memcpy(&value, &wide, 4);
    return value;
}

/* Round to nearest, ties to even, in integers: a host's rounding mode does not matter here. */
static uint32_t f16_from_f32(uint32_t bits)
{
    const uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
    if (size >= 0x477FF000) return sign | 0x7C00; /* 65520 and above */
    if (size < 0x33000000) return sign;           /* below half the smallest subnormal */
    const int exponent = (int)(size >> 23), shift = exponent < 113 ? 126 - exponent : 13;
    const uint32_t mantissa = (size & 0x7FFFFF) | 0x800000, rest = mantissa & ((1u << shift) - 1),
                   half = 1u << (shift - 1);
    const uint32_t kept = mantissa >> shift, up = rest > half || (rest == half && kept & 1);
    return sign | (kept + up + (exponent < 113 ? 0 : (uint32_t)(exponent - 113) << 10));
}

float bits_to_f32(dtype type, uint32_t bits)
{
    float value;
    if (type == T_F16) return f16_to_f32(bits);
    if (type == T_BF16) bits <<= 16;
    memcpy(&value, &bits, 4);
    return value;
}

uint32_t bits_from_f32(dtype type, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    const int nan = (bits & 0x7FFFFFFF) > 0x7F800000;
    if (type == T_F16) return nan ? 0x7E00 : f16_from_f32(bits);
    if (type == T_BF16) return nan ? 0x7FC0 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    return nan ? 0x7FC00000 : bits;
}

/* Of an element, from the lowest byte. */
static uint64_t load_bits(const void *at, size_t size)
{
    uint64_t bits = 0;
    switch (size) {
    case 8: memcpy(&bits, at, 8); break;
    case 4: memcpy(&bits, at, 4); break;
    case 2: memcpy(&bits, at, 2); break;
    default: memcpy(&bits, at, 1);
    }
    return bits;
}

static void store_bits(void *at, size_t size, uint64_t bits)
{
    switch (size) {
    case 8: memcpy(at, &bits, 8); break;
    case 4: memcpy(at, &bits, 4); break;
    case 2: memcpy(at, &bits, 2); break;
    default: memcpy(at, &bits, 1);
    }
}

float tensor_get(const tensor *t, int64_t index)
{
    const uint64_t bits = load_bits(tensor_at(t, index), dtype_size(t->type));
    double wide;
    memcpy(&wide, &bits, sizeof wide);
    return t->type == T_F64 ? (float)wide : bits_to_f32(t->type, (uint32_t)bits);
}

void tensor_set(tensor *t, int64_t index, float value)
{
    const double wide = (double)value;
    uint64_t bits = bits_from_f32(t->type, value);
    if (t->type == T_C64) bits |= bits << 32;
    if (t->type == T_F64) memcpy(&bits, &wide, sizeof bits);
    store_bits(tensor_at(t, index), dtype_size(t->type), bits);
}

void tensor_row(const tensor *t, int64_t row, float *out)
{
    const int64_t length = row_length(t), step = row_step(t);
    const char *at = tensor_at(t, row * length);
    for (int64_t i = 0; i < length; i++)
        out[i] = bits_to_f32(t->type, (uint32_t)load_bits(at + i * step, dtype_size(t->type)));
}

void tensor_copy(tensor *to, const tensor *from)
{
    const int64_t count = tensor_count(from), length = row_length(from), a = row_step(from), b = row_step(to);
    const size_t size = dtype_size(from->type);
    for (int64_t row = 0; row < count; row += length) {
        const char *in = tensor_at(from, row);
        char *out = tensor_at(to, row);
        for (int64_t i = 0; i < length; i++) store_bits(out + i * b, size, load_bits(in + i * a, size));
    }
}

static int is_plain(const tensor *t)
{
    int64_t step = 1;
    for (int i = t->dl.ndim - 1; i >= 0; step *= t->shape[i--])
        if (t->shape[i] != 1 && t->stride[i] != step) return 0;
    return 1;
}

int64_t tensor_differing(const tensor *a, const tensor *b, int64_t *first)
{
    const int64_t count = tensor_count(a);
    const size_t size = dtype_size(a->type);
    int64_t differing = 0;
    if (!count) return 0;
    if (is_plain(a) && is_plain(b) && !memcmp(tensor_at(a, 0), tensor_at(b, 0), (size_t)count * size)) return 0;
    const int64_t length = row_length(a), in_a = row_step(a), in_b = row_step(b);
    for (int64_t row = 0; row < count; row += length) {
        const char *at_a = tensor_at(a, row), *at_b = tensor_at(b, row);
        for (int64_t i = 0; i < length; i++)
            if (memcmp(at_a + i * in_a, at_b + i * in_b, size) && !differing++ && first) *first = row + i;
    }
    return differing;
}

const char *fill_name(fill kind)
{
    static const char *const names[] = {"spread", "unit", "subnormal", "NaN", "Inf", "huge", "zero"};
    return names[kind];
}

uint64_t fill_bits(dtype type, fill kind, rng *r)
{
    /* Mantissa bits, and the exponent field of Inf. */
    static const uint64_t
        mantissas[] = {[T_F32] = 0x7FFFFF, [T_F16] = 0x3FF, [T_BF16] = 0x7F, [T_F64] = ((uint64_t)1 << 52) - 1},
        infs[] = {[T_F32] = 0x7F800000, [T_F16] = 0x7C00, [T_BF16] = 0x7F80, [T_F64] = (uint64_t)0x7FF << 52};
    if (type == T_C64) {
        const uint64_t real = fill_bits(T_F32, kind, r);
        return real | fill_bits(T_F32, kind, r) << 32;
    }
    const uint64_t mantissa = mantissas[type], inf = infs[type];
    if (kind <= FILL_UNIT && type == T_F64) return rng_f64_bits(r, kind == FILL_UNIT ? 2 : 20);
    if (kind <= FILL_UNIT) {
        const int span = kind == FILL_UNIT ? 2 : type == T_F16 ? 6 : 20;
        const uint32_t bits = rng_f32_bits(r, span);
        float value;
        memcpy(&value, &bits, 4);
        return bits_from_f32(type, value);
    }
    const uint64_t u = rng_next(r);
    const uint64_t sign = u >> 63 << (8 * dtype_size(type) - 1);
    switch (kind) {
    case FILL_SUBNORMAL: return sign | (u & mantissa);
    case FILL_NAN: return sign | inf | (u & mantissa) | 1;
    case FILL_INF: return sign | inf;
    case FILL_HUGE: return sign | (inf - 1 - (u & (mantissa >> 1)));
    default: return sign;
    }
}

void tensor_fill(tensor *t, fill kind, rng *r)
{
    const int64_t count = tensor_count(t), length = row_length(t), step = row_step(t);
    for (int64_t row = 0; row < count; row += length) {
        char *at = tensor_at(t, row);
        for (int64_t i = 0; i < length; i++)
            store_bits(at + i * step, dtype_size(t->type), fill_bits(t->type, kind, r));
    }
}

void tensor_fill_row(tensor *t, int64_t row, fill kind, rng *r)
{
    tensor view;
    tensor_slice(&view, t, 0, row, 1);
    tensor_fill(&view, kind, r);
}
