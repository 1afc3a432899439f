/* Tensors for tests: memory with guard bytes, random contents, poison, and comparison bit by bit. */
#ifndef TEST_TENSOR_H
#define TEST_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include <dlpack/dlpack.h>

#define TEST_MAX_DIMS 16

typedef enum test_dtype {
    TEST_F32,
    TEST_F16,
    TEST_BF16,
    TEST_U8,
    TEST_I32,
    TEST_BOOL,
    TEST_U32,
    TEST_F64,
    TEST_C64
} test_dtype;

typedef struct test_tensor {
    DLTensor dl; /* data, shape and strides point into this struct and its memory */
    int64_t shape[TEST_MAX_DIMS], strides[TEST_MAX_DIMS];
    test_dtype dtype;
    size_t size;           /* bytes that the tensor spans, gaps between its elements included */
    unsigned char *memory; /* size bytes between two guards */
    unsigned char *saved;  /* what test_save kept */
    struct test_tensor *next;
} test_tensor;

/* Row-major; strides filled in. Freed by test_free_all. */
test_tensor *test_new(test_dtype dtype, int ndim, const int64_t *shape);
/* Any strides >= 0, in elements, first element `offset` elements into the memory (as DLPack's byte_offset). */
test_tensor *test_strided(test_dtype dtype, int ndim, const int64_t *shape, const int64_t *strides, int64_t offset);
#define TENSOR(dtype, ...)                                                                                             \
    test_new(dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

/* Frees every tensor made since the last call; fails the test if a guard byte was written. A cmocka teardown. */
int test_free_all(void **state);

size_t test_dtype_size(test_dtype dtype);
int64_t test_count(const test_tensor *t);
/* Address of the element with row-major index `index`. */
void *test_at(const test_tensor *t, int64_t index);
/* All elements in row-major order, tightly packed; malloc'd. */
void *test_gather(const test_tensor *t);
/* The reverse. */
void test_scatter(test_tensor *t, const void *elements);

/* A reproducible stream of random numbers (splitmix64). */
typedef struct test_rng {
    uint64_t state;
} test_rng;
uint64_t test_next(test_rng *rng);
int64_t test_below(test_rng *rng, int64_t n);

/* Mixed signs, exponents spread over +-20 (f16: +-8), some zeros of both signs and subnormals. */
void test_random(test_tensor *t, test_rng *rng);
/* Exponents spread over +-2: for exponentials. */
void test_random_small(test_tensor *t, test_rng *rng);
void test_random_bytes(test_tensor *t, test_rng *rng);
/* Every byte of the memory, gaps included. A pattern of NaN in every float dtype that no op stores. */
void test_poison(test_tensor *t);
/* Stores a float, rounded by truncation to the dtype, in both parts of complex64: for special values. */
void test_set(test_tensor *t, int64_t index, float value);
/* The element widened to f32; of f64 rounded, of complex64 its real part. */
float test_get(const test_tensor *t, int64_t index);

void test_save(test_tensor *t);
/* Whether the memory, gaps and guards included, is what test_save saw. */
int test_unchanged(const test_tensor *t);

#endif
