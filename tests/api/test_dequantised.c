/* portable-1 with quantised weights is "dequantise, then linear", bit for bit. The decoder here is a second one,
 * written from spec/formats.md: a single weight at a time, by its index. */
#include <math.h>

#include "api.h"

typedef struct {
    float d, dmin;
    const uint8_t *scales, *low, *high;
} block;

static float widen(const uint8_t *p)
{
    const unsigned h = (unsigned)p[0] | (unsigned)p[1] << 8, e = h >> 10 & 31, m = h & 1023;
    const float magnitude = e == 31 ? (m ? NAN : INFINITY)
                            : e     ? ldexpf((float)(1024 + m), (int)e - 25)
                                    : ldexpf((float)m, -24);
    return h >> 15 ? -magnitude : magnitude;
}

static int nibble(uint8_t b, int high) { return high ? b >> 4 : b & 15; }

static float weight_k(const block *b, int i)
{
    const int s = i / 32, j = i % 32;
    const uint8_t *p = b->scales;
    const int sc = s < 4 ? p[s] & 63 : (p[s + 4] & 15) + 16 * (p[s - 4] >> 6);
    const int m = s < 4 ? p[s + 4] & 63 : (p[s + 4] >> 4) + 16 * (p[s] >> 6);
    const int q = nibble(b->low[32 * (s / 2) + j], s % 2) + (b->high ? 16 * (b->high[j] >> s & 1) : 0);
    const float scaled = b->d * (float)sc * (float)q, minimum = b->dmin * (float)m;
    return scaled - minimum;
}

static const float iq4_nl[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/* E2M1; the format has no -0. */
static const float e2m1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6};

static float weight(samebits_format format, const uint8_t *p, int i)
{
    switch (format) {
    case SAMEBITS_FORMAT_Q4_0: return widen(p) * (float)(nibble(p[2 + i % 16], i / 16) - 8);
    case SAMEBITS_FORMAT_Q5_0:
        return widen(p) * (float)(nibble(p[6 + i % 16], i / 16) + 16 * (p[2 + i / 8] >> i % 8 & 1) - 16);
    case SAMEBITS_FORMAT_Q8_0: return widen(p) * (float)(int8_t)p[2 + i];
    case SAMEBITS_FORMAT_Q4_K: return weight_k(&(block){widen(p), widen(p + 2), p + 4, p + 16, NULL}, i);
    case SAMEBITS_FORMAT_Q5_K: return weight_k(&(block){widen(p), widen(p + 2), p + 4, p + 48, p + 16}, i);
    case SAMEBITS_FORMAT_Q4_1: return widen(p) * (float)nibble(p[4 + i % 16], i / 16) + widen(p + 2);
    case SAMEBITS_FORMAT_Q5_1:
        return widen(p) * (float)(nibble(p[8 + i % 16], i / 16) + 16 * (p[4 + i / 8] >> i % 8 & 1)) + widen(p + 2);
    case SAMEBITS_FORMAT_IQ4_NL: return widen(p) * iq4_nl[nibble(p[2 + i % 16], i / 16)];
    case SAMEBITS_FORMAT_MXFP4: return ldexpf(1.0f, p[0] - 128) * (2 * e2m1[nibble(p[1 + i % 16], i / 16)]);
    case SAMEBITS_FORMAT_Q2_K: {
        const float q = (float)(p[16 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3);
        return widen(p + 80) * (float)(p[i / 16] & 15) * q - widen(p + 82) * (float)(p[i / 16] >> 4);
    }
    case SAMEBITS_FORMAT_Q3_K: {
        const int j = i / 16, low = p[32 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
        const int sc = nibble(p[96 + j % 8], j / 8) + 16 * (p[104 + j % 4] >> j / 4 * 2 & 3) - 32;
        return widen(p + 108) * (float)sc * (float)(low - (p[i % 32] >> i / 32 & 1 ? 0 : 4));
    }
    case SAMEBITS_FORMAT_NVFP4: {
        const int part = i / 16, s = p[part], e = s >> 3 & 15, m = s & 7;
        const float scale = s == 0x7F ? 0.0f : e ? ldexpf((float)(8 + m), e - 10) : ldexpf((float)m, -9);
        return scale * e2m1[nibble(p[4 + 8 * part + i % 8], i % 16 / 8)];
    }
    default: {
        const int h = i / 128, t = i % 128 / 32, j = i % 32;
        const int q = nibble(p[64 * h + 32 * (t % 2) + j], t / 2) + 16 * (p[128 + 32 * h + j] >> 2 * t & 3) - 32;
        return widen(p + 208) * (float)(int8_t)p[192 + i / 16] * (float)q;
    }
    }
}

enum { M = 7, N = 19 };

static int has_min(samebits_format f)
{
    return f == SAMEBITS_FORMAT_Q4_1 || f == SAMEBITS_FORMAT_Q5_1 || f == SAMEBITS_FORMAT_Q2_K ||
           f == SAMEBITS_FORMAT_Q4_K || f == SAMEBITS_FORMAT_Q5_K;
}

/* Blocks of random bytes: with any scales, Inf and NaN among them, or with finite ones. */
static void random_weights(test_tensor *w, samebits_format format, int64_t block_bytes, int finite, test_rng *rng)
{
    test_random_bytes(w, rng);
    for (int64_t at = 0; finite && at < (int64_t)w->size; at += block_bytes) {
        const int offset = format == SAMEBITS_FORMAT_Q2_K   ? 80
                           : format == SAMEBITS_FORMAT_Q3_K ? 108
                           : format == SAMEBITS_FORMAT_Q6_K ? 208
                                                            : 0;
        if (format == SAMEBITS_FORMAT_NVFP4) return; /* has finite ones alone */
        uint8_t *p = w->memory + at + offset;
        p[format == SAMEBITS_FORMAT_MXFP4 ? 0 : 1] &= 0xBF;
        if (has_min(format)) p[3] &= 0xBF;
    }
}

/* Lookups give the same values: rows in any sequence, twice and not at all. */
static void check_embedding(test_tensor *w, samebits_format format, samebits_weights *weights, test_tensor *values,
                            int64_t k)
{
    static const int32_t rows[] = {18, 0, 7, 7, 16};
    test_tensor *id = TENSOR(TEST_I32, 5), *plain = TENSOR(TEST_F32, 5, k), *prepared = TENSOR(TEST_F32, 5, k);
    memcpy(id->memory, rows, sizeof rows);
    assert_ok(samebits_embedding(api_context, &w->dl, format, &id->dl, &plain->dl));
    assert_ok(samebits_embedding_prepared(api_context, weights, &id->dl, &prepared->dl));
    assert_memory_equal(plain->memory, prepared->memory, plain->size);
    for (int64_t i = 0; i < 5 * k; i++) {
        const uint32_t nan = 0x7FC00000u;
        const void *want = test_at(values, rows[i / k] * k + i % k);
        float value;
        memcpy(&value, want, sizeof value);
        assert_memory_equal(test_at(plain, i), isnan(value) ? (const void *)&nan : want, 4);
    }
}

static void check_format(samebits_format format, int64_t k, int finite, test_rng *rng)
{
    const int64_t size = samebits_format_block(format);
    size_t row, block_bytes;
    assert_ok(samebits_format_row_size(format, k, &row));
    assert_ok(samebits_format_row_size(format, size, &block_bytes));
    test_tensor *x = TENSOR(TEST_F32, M, k), *w = TENSOR(TEST_U8, N, (int64_t)row), *values = TENSOR(TEST_F32, N, k);
    test_tensor *want = TENSOR(TEST_F32, M, N), *have = TENSOR(TEST_F32, M, N);
    test_random(x, rng);
    random_weights(w, format, (int64_t)block_bytes, finite, rng);
    for (int64_t n = 0; n < N; n++)
        for (int64_t i = 0; i < k; i++) {
            const float value =
                weight(format, w->memory + (size_t)n * row + (size_t)(i / size) * block_bytes, (int)(i % size));
            memcpy(test_at(values, n * k + i), &value, sizeof value);
        }
    assert_ok(samebits_linear(api_context, &x->dl, &values->dl, NULL, &want->dl));
    assert_ok(
        samebits_matmul_quantized(api_context, &x->dl, &w->dl, format, SAMEBITS_ORDER_PORTABLE_1, NULL, &have->dl));
    assert_memory_equal(have->memory, want->memory, want->size);
    samebits_weights *weights;
    assert_ok(samebits_weights_prepare(api_context, &w->dl, format, NULL, &weights));
    check_embedding(w, format, weights, values, k);
    memset(have->memory, 0, have->size);
    assert_ok(samebits_linear_prepared(api_context, &x->dl, weights, SAMEBITS_ORDER_PORTABLE_1, NULL, &have->dl));
    assert_memory_equal(have->memory, want->memory, want->size);
    samebits_weights_destroy(&weights);
}

static void test_dequantised(void **state)
{
    (void)state;
    test_rng rng = {71};
    for (int f = SAMEBITS_FORMAT_Q4_0; f < SAMEBITS_FORMAT_COUNT; f++)
        for (int64_t blocks = 1; blocks <= 21; blocks += 10)
            for (int finite = 0; finite < 2; finite++) {
                const samebits_format format = (samebits_format)f;
                if (format >= SAMEBITS_FORMAT_AFFINE_2 && format <= SAMEBITS_FORMAT_MLX_NVFP4) continue;
                check_format(format, blocks * samebits_format_block(format), finite, &rng);
                test_free_all(NULL);
            }
}

int api_dequantised_tests(void)
{
    const struct CMUnitTest tests[] = {API_TEST(test_dequantised)};
    return API_RUN(tests);
}
