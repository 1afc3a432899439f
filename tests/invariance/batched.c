/* Batch dims of matmul: how they are grouped, broadcast or strided moves no bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <samebits/samebits.h>

#include "invariance.h"
#include "support/tensor.h"

enum { B = 6, M = 5, K = 300, N = 21 };

/* Elements that differ between out (..., M, N) and each product of the batch computed alone. */
static long differing(samebits_context *c, const DLTensor *a, const DLTensor *b, const test_tensor *out,
                      int64_t batches, const int64_t *a_offset, const int64_t *b_offset)
{
    long moved = 0;
    unsigned char *have = test_gather(out);
    for (int64_t i = 0; i < batches; i++) {
        test_tensor *alone = TENSOR(TEST_F32, M, N);
        DLTensor a2 = *a, b2 = *b;
        a2.ndim = b2.ndim = 2;
        a2.shape += a->ndim - 2;
        a2.strides += a->ndim - 2;
        b2.shape += b->ndim - 2;
        b2.strides += b->ndim - 2;
        a2.byte_offset += (uint64_t)a_offset[i] * 4;
        b2.byte_offset += (uint64_t)b_offset[i] * 4;
        assert_int_equal(samebits_matmul(c, &a2, &b2, NULL, &alone->dl), SAMEBITS_OK);
        for (int64_t j = 0; j < M * N; j++) moved += memcmp(test_at(alone, j), have + (i * M * N + j) * 4, 4) != 0;
    }
    free(have);
    return moved;
}

void test_batched(void **state)
{
    (void)state;
    test_rng rng = {51};
    samebits_context *c;
    assert_int_equal(samebits_create(&c, NULL), SAMEBITS_OK);
    test_tensor *a = TENSOR(TEST_F32, B, M, K), *b = TENSOR(TEST_F32, B, K, N), *out = TENSOR(TEST_F32, B, M, N);
    test_random(a, &rng);
    test_random(b, &rng);
    int64_t a_offset[B], b_offset[B], first[B] = {0};
    for (int i = 0; i < B; i++) {
        a_offset[i] = i * M * K;
        b_offset[i] = i * K * N;
    }
    assert_int_equal(samebits_matmul(c, &a->dl, &b->dl, NULL, &out->dl), SAMEBITS_OK);
    assert_int_equal(differing(c, &a->dl, &b->dl, out, B, a_offset, b_offset), 0);
    assert_true(differing(c, &a->dl, &b->dl, out, B, a_offset, first) > 0); /* control: the wrong b */

    /* A batch of 1 in b, b without a batch, b with stride 0, a with stride 0. */
    int64_t b_shape[3] = {1, K, N}, zero[3] = {0, N, 1}, a_zero[3] = {0, K, 1};
    DLTensor one = b->dl, still = b->dl, flat = b->dl, a_still = a->dl;
    one.shape = b_shape;
    still.strides = zero;
    flat.ndim = 2;
    flat.shape = b_shape + 1;
    flat.strides = zero + 1;
    a_still.strides = a_zero;
    const DLTensor *forms[] = {&one, &still, &flat};
    for (int i = 0; i < 3; i++) {
        test_poison(out);
        assert_int_equal(samebits_matmul(c, &a->dl, forms[i], NULL, &out->dl), SAMEBITS_OK);
        assert_int_equal(differing(c, &a->dl, &b->dl, out, B, a_offset, first), 0);
    }
    test_poison(out);
    assert_int_equal(samebits_matmul(c, &a_still, &b->dl, NULL, &out->dl), SAMEBITS_OK);
    assert_int_equal(differing(c, &a->dl, &b->dl, out, B, first, b_offset), 0);

    /* (2, 3, M, K) with the two batch dims swapped in memory: batch (i, j) lies at j * 2 + i. */
    int64_t shape[4] = {2, 3, M, K}, strides[4] = {M * K, 2 * M * K, K, 1}, swapped[B];
    int64_t shape_b[4] = {2, 3, K, N}, strides_b[4] = {3 * K * N, K * N, N, 1};
    DLTensor a4 = a->dl, b4 = b->dl;
    a4.ndim = b4.ndim = 4;
    a4.shape = shape;
    a4.strides = strides;
    b4.shape = shape_b;
    b4.strides = strides_b;
    test_tensor *out4 = TENSOR(TEST_F32, 2, 3, M, N);
    for (int i = 0; i < B; i++) swapped[i] = (i % 3 * 2 + i / 3) * M * K;
    assert_int_equal(samebits_matmul(c, &a4, &b4, NULL, &out4->dl), SAMEBITS_OK);
    assert_int_equal(differing(c, &a->dl, &b->dl, out4, B, swapped, b_offset), 0);
    samebits_destroy(&c);
}
