#include "support/tensor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, GUARD_BYTE = 0xA5, POISON_BYTE = 0xFB };

static test_tensor *all;

size_t test_dtype_size(test_dtype dtype)
{
    static const size_t size[] = {4, 2, 2, 1, 4, 1, 4, 8, 8};
    return size[dtype];
}

static DLDataType dl_dtype(test_dtype dtype)
{
    switch (dtype) {
    case TEST_F32: return (DLDataType){kDLFloat, 32, 1};
    case TEST_F16: return (DLDataType){kDLFloat, 16, 1};
    case TEST_BF16: return (DLDataType){kDLBfloat, 16, 1};
    case TEST_U8: return (DLDataType){kDLUInt, 8, 1};
    case TEST_I32: return (DLDataType){kDLInt, 32, 1};
    case TEST_U32: return (DLDataType){kDLUInt, 32, 1};
    case TEST_F64: return (DLDataType){kDLFloat, 64, 1};
    case TEST_C64: return (DLDataType){kDLComplex, 64, 1};
    default: return (DLDataType){6, 8, 1}; /* bool, unnamed in old DLPack headers */
    }
}

static void *need(void *ptr)
{
    if (ptr) return ptr;
    fprintf(stderr, "out of memory in a test\n");
    exit(2);
}

test_tensor *test_strided(test_dtype dtype, int ndim, const int64_t *shape, const int64_t *strides, int64_t offset)
{
    test_tensor *t = need(calloc(1, sizeof *t));
    int64_t last = 0, count = 1;
    for (int i = 0; i < TEST_MAX_DIMS; i++) t->shape[i] = 1;
    for (int i = 0; i < ndim; i++) {
        t->shape[i] = shape[i];
        t->strides[i] = strides[i];
        count *= shape[i];
        if (shape[i]) last += (shape[i] - 1) * strides[i];
    }
    t->dtype = dtype;
    t->size = (size_t)(count ? last + 1 + offset : 0) * test_dtype_size(dtype);
    unsigned char *base = need(aligned_alloc(64, (t->size + 2 * GUARD + 63) / 64 * 64));
    t->memory = base + GUARD;
    memset(base, GUARD_BYTE, t->size + 2 * GUARD);
    t->dl = (DLTensor){.data = t->memory,
                       .ndim = ndim,
                       .dtype = dl_dtype(dtype),
                       .shape = t->shape,
                       .strides = t->strides,
                       .byte_offset = (uint64_t)offset * test_dtype_size(dtype)};
    t->dl.device.device_type = kDLCPU;
    t->next = all;
    all = t;
    test_poison(t);
    return t;
}

test_tensor *test_new(test_dtype dtype, int ndim, const int64_t *shape)
{
    int64_t strides[TEST_MAX_DIMS], next = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        strides[i] = next;
        next *= shape[i] > 1 ? shape[i] : 1;
    }
    return test_strided(dtype, ndim, shape, strides, 0);
}

static int guards_whole(const test_tensor *t)
{
    for (int i = 1; i <= GUARD; i++)
        if (t->memory[-i] != GUARD_BYTE || t->memory[t->size + (size_t)i - 1] != GUARD_BYTE) return 0;
    return 1;
}

int test_free_all(void **state)
{
    (void)state;
    int whole = 1;
    while (all) {
        test_tensor *t = all;
        all = t->next;
        whole &= guards_whole(t);
        free(t->memory - GUARD);
        free(t->saved);
        free(t);
    }
    if (!whole) fprintf(stderr, "a guard byte beside a tensor was written\n");
    return whole ? 0 : -1;
}

int64_t test_count(const test_tensor *t)
{
    int64_t count = 1;
    for (int i = 0; i < t->dl.ndim; i++) count *= t->shape[i];
    return count;
}

void *test_at(const test_tensor *t, int64_t index)
{
    int64_t offset = 0;
    for (int i = t->dl.ndim - 1; i >= 0; i--) {
        offset += index % t->shape[i] * t->strides[i];
        index /= t->shape[i];
    }
    return t->memory + t->dl.byte_offset + (size_t)offset * test_dtype_size(t->dtype);
}

void *test_gather(const test_tensor *t)
{
    const size_t size = test_dtype_size(t->dtype);
    const int64_t count = test_count(t);
    char *out = need(malloc((size_t)count * size + 1));
    for (int64_t i = 0; i < count; i++) memcpy(out + (size_t)i * size, test_at(t, i), size);
    return out;
}

void test_scatter(test_tensor *t, const void *elements)
{
    const size_t size = test_dtype_size(t->dtype);
    const int64_t count = test_count(t);
    for (int64_t i = 0; i < count; i++) memcpy(test_at(t, i), (const char *)elements + (size_t)i * size, size);
}

uint64_t test_next(test_rng *rng)
{
    uint64_t z = rng->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

int64_t test_below(test_rng *rng, int64_t n) { return (int64_t)(test_next(rng) % (uint64_t)n); }

/* A float's bits with the given layout, exponent within `spread` of 1. */
static uint32_t random_bits(test_rng *rng, int exponent_bits, int mantissa_bits, int spread)
{
    const uint64_t r = test_next(rng);
    const uint32_t sign = (uint32_t)(r >> 63) << (exponent_bits + mantissa_bits);
    const uint32_t mantissa = (uint32_t)r & ((1u << mantissa_bits) - 1);
    const unsigned kind = (unsigned)(r >> 32) & 127u;
    if (kind == 0) return sign;
    if (kind == 1) return sign | mantissa;
    const uint32_t bias = (1u << (exponent_bits - 1)) - 1;
    const uint32_t exponent = bias - (uint32_t)spread + (uint32_t)((r >> 40) % (uint64_t)(2 * spread + 1));
    return sign | exponent << mantissa_bits | mantissa;
}

static uint64_t random_bits_f64(test_rng *rng, int spread)
{
    const uint32_t high = random_bits(rng, 11, 20, spread);
    return (uint64_t)high << 32 | ((high & 0x7FFFFFFF) ? test_next(rng) >> 32 : 0);
}

static void fill(test_tensor *t, test_rng *rng, int spread)
{
    const int64_t count = test_count(t);
    for (int64_t i = 0; i < count; i++) {
        if (t->dtype == TEST_F32 || t->dtype == TEST_C64) {
            const uint32_t u[2] = {random_bits(rng, 8, 23, spread),
                                   t->dtype == TEST_C64 ? random_bits(rng, 8, 23, spread) : 0};
            memcpy(test_at(t, i), u, test_dtype_size(t->dtype));
        } else if (t->dtype == TEST_F64) {
            const uint64_t u = random_bits_f64(rng, spread);
            memcpy(test_at(t, i), &u, 8);
        } else {
            const int f16 = t->dtype == TEST_F16;
            const uint16_t h = (uint16_t)random_bits(rng, f16 ? 5 : 8, f16 ? 10 : 7, f16 && spread > 8 ? 8 : spread);
            memcpy(test_at(t, i), &h, 2);
        }
    }
}

void test_random(test_tensor *t, test_rng *rng) { fill(t, rng, 20); }
void test_random_small(test_tensor *t, test_rng *rng) { fill(t, rng, 2); }

void test_random_bytes(test_tensor *t, test_rng *rng)
{
    for (size_t i = 0; i < t->size; i++) t->memory[i] = (unsigned char)test_next(rng);
}

void test_poison(test_tensor *t)
{
    memset(t->memory, POISON_BYTE, t->size);
    /* 0xFBFB is finite in f16 and bf16; with the two bits set it is a NaN in all three, and not the canonical one. */
    if (t->dtype <= TEST_BF16 || t->dtype >= TEST_F64)
        for (size_t i = 1; i < t->size; i += 2) t->memory[i] = 0xFF;
}

void test_set(test_tensor *t, int64_t index, float value)
{
    uint32_t u;
    memcpy(&u, &value, 4);
    if (t->dtype == TEST_F64) {
        const double wide = (double)value;
        memcpy(test_at(t, index), &wide, 8);
        return;
    }
    if (t->dtype == TEST_F32 || t->dtype == TEST_C64) {
        memcpy(test_at(t, index), (const uint32_t[]){u, u}, test_dtype_size(t->dtype));
        return;
    }
    uint16_t h = (uint16_t)(u >> 16);
    if (t->dtype == TEST_F16) {
        const uint32_t e = u >> 23 & 255;
        const uint16_t sign = (uint16_t)(u >> 16 & 0x8000u);
        if (e == 255)
            h = (uint16_t)(sign | (u & 0x7FFFFFu ? 0x7E00u : 0x7C00u));
        else
            h = (uint16_t)(e <= 112 ? sign : sign | ((e - 112) << 10) | (u >> 13 & 0x3FFu));
    }
    memcpy(test_at(t, index), &h, 2);
}

float test_get(const test_tensor *t, int64_t index)
{
    uint32_t u = 0;
    float value;
    if (t->dtype == TEST_F64) {
        double wide;
        memcpy(&wide, test_at(t, index), 8);
        return (float)wide;
    }
    memcpy(&u, test_at(t, index), t->dtype == TEST_C64 ? 4 : test_dtype_size(t->dtype));
    if (t->dtype == TEST_BF16) u <<= 16;
    if (t->dtype == TEST_F16) {
        const uint32_t sign = (u & 0x8000u) << 16, e = u >> 10 & 31, m = u & 0x3FFu;
        if (!e) return (sign ? -1.0f : 1.0f) * (float)m * 0x1p-24f;
        u = sign | (e == 31 ? 255u : e + 112) << 23 | m << 13;
    }
    memcpy(&value, &u, 4);
    return value;
}

void test_save(test_tensor *t)
{
    free(t->saved);
    t->saved = need(malloc(t->size + 1));
    memcpy(t->saved, t->memory, t->size);
}

int test_unchanged(const test_tensor *t) { return !memcmp(t->saved, t->memory, t->size) && guards_whole(t); }
