/* What this machine can do at best: reading and copying memory, and fused multiply-adds. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef int64_t words __attribute__((vector_size(32)));

typedef struct share {
    const words *data;
    words *to; /* of a copy */
    size_t count;
    int rounds;
    volatile int64_t sink;
    int lanes; /* peak: f32 lanes of the vectors */
} share;

/* Four streams: one alone does not fill the bus. */
static void *read_share(void *arg)
{
    share *s = arg;
    const size_t quarter = s->count / 4;
    words sum[4] = {{0}};
    for (int round = 0; round < s->rounds; round++)
        for (size_t i = 0; i < quarter; i++) {
            __builtin_prefetch(s->data + i + 32);
            __builtin_prefetch(s->data + quarter + i + 32);
            sum[0] += s->data[i];
            sum[1] += s->data[quarter + i];
            sum[2] += s->data[2 * quarter + i];
            sum[3] += s->data[3 * quarter + i];
        }
    sum[0] += sum[1] + sum[2] + sum[3];
    s->sink = sum[0][0] + sum[0][1] + sum[0][2] + sum[0][3];
    return NULL;
}

/* Seconds that `threads` shares take at once. */
static double run_shares(void *(*body)(void *), share *shares, int threads)
{
    pthread_t *ids = cli_alloc((size_t)threads * sizeof *ids);
    const double start = cli_seconds();
    for (int i = 1; i < threads; i++)
        if (pthread_create(&ids[i], NULL, body, &shares[i])) cli_die("cannot start a thread");
    body(&shares[0]);
    for (int i = 1; i < threads; i++) pthread_join(ids[i], NULL);
    free(ids);
    return cli_seconds() - start;
}

struct reader {
    words *data;
    share *shares;
    int threads;
    double bytes; /* a turn */
};

reader *machine_reader(double bytes, int threads)
{
    const size_t count = (size_t)CLI_MAX(bytes, 65536.0) / sizeof(words) / (size_t)threads / 4 * 4;
    const size_t all = count * (size_t)threads;
    const int rounds = (int)CLI_MAX(1.0, 64e6 / bytes);
    reader *r = cli_alloc(sizeof *r);
    r->threads = threads;
    r->bytes = (double)(all * sizeof(words)) * rounds;
    r->data = cli_alloc(all * sizeof *r->data);
    r->shares = cli_alloc((size_t)threads * sizeof *r->shares);
    for (size_t i = 0; i < all; i++) r->data[i] = (words){(int64_t)i, 1, 2, 3};
    for (int i = 0; i < threads; i++)
        r->shares[i] = (share){.data = r->data + (size_t)i * count, .count = count, .rounds = rounds};
    return r;
}

double machine_read(reader *r) { return r->bytes / run_shares(read_share, r->shares, r->threads) * 1e-9; }

void machine_reader_free(reader *r)
{
    free(r->data);
    free(r->shares);
    free(r);
}

struct copier {
    words *from, *to;
    share *shares;
    int threads;
};

static void *copy_share(void *arg)
{
    const share *s = arg;
    memcpy(s->to, s->data, s->count * sizeof *s->data);
    return NULL;
}

copier *machine_copier(double bytes, int threads)
{
    const size_t count = (size_t)bytes / sizeof(words) / (size_t)threads + 1, all = count * (size_t)threads;
    copier *c = cli_alloc(sizeof *c);
    *c = (copier){cli_alloc(all * sizeof(words)), cli_alloc(all * sizeof(words)),
                  cli_alloc((size_t)threads * sizeof(share)), threads};
    for (size_t i = 0; i < all; i++) c->from[i] = c->to[i] = (words){(int64_t)i, 1, 2, 3};
    for (int i = 0; i < threads; i++) {
        const size_t begin = (size_t)i * count;
        c->shares[i] = (share){.data = c->from + begin, .to = c->to + begin, .count = count};
    }
    return c;
}

void machine_copy(void *arg)
{
    const copier *c = arg;
    run_shares(copy_share, c->shares, c->threads);
}

void machine_copier_free(copier *c)
{
    free(c->from);
    free(c->to);
    free(c->shares);
    free(c);
}

enum { PEAK_STEPS = 20000000, PEAK_CHAINS = 12 };

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static int64_t peak_8(void)
{
    __m256 sum[PEAK_CHAINS], x = _mm256_set1_ps(0.999f);
    for (int i = 0; i < PEAK_CHAINS; i++) sum[i] = _mm256_set1_ps((float)i);
    for (int step = 0; step < PEAK_STEPS / PEAK_CHAINS; step++)
        for (int i = 0; i < PEAK_CHAINS; i++) sum[i] = _mm256_fmadd_ps(sum[i], x, x);
    for (int i = 1; i < PEAK_CHAINS; i++) sum[0] = _mm256_add_ps(sum[0], sum[i]);
    return (int64_t)_mm256_cvtss_f32(sum[0]);
}

__attribute__((target("avx512f"))) static int64_t peak_16(void)
{
    __m512 sum[PEAK_CHAINS], x = _mm512_set1_ps(0.999f);
    for (int i = 0; i < PEAK_CHAINS; i++) sum[i] = _mm512_set1_ps((float)i);
    for (int step = 0; step < PEAK_STEPS / PEAK_CHAINS; step++)
        for (int i = 0; i < PEAK_CHAINS; i++) sum[i] = _mm512_fmadd_ps(sum[i], x, x);
    for (int i = 1; i < PEAK_CHAINS; i++) sum[0] = _mm512_add_ps(sum[0], sum[i]);
    return (int64_t)_mm512_cvtss_f32(sum[0]);
}

static int peak_lanes(void)
{
    if (__builtin_cpu_supports("avx512f")) return 16;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 8 : 0;
}

static void *peak_share(void *arg)
{
    share *s = arg;
    s->sink = s->lanes == 16 ? peak_16() : peak_8();
    return NULL;
}
#else
static int peak_lanes(void) { return 0; }
static void *peak_share(void *arg) { return arg; }
#endif

double machine_peak(int threads)
{
    const int lanes = peak_lanes();
    share *shares = cli_alloc((size_t)threads * sizeof *shares);
    for (int i = 0; i < threads; i++) shares[i].lanes = lanes;
    double best = 1e30;
    for (int i = 0; lanes && i < 5; i++) {
        const double seconds = run_shares(peak_share, shares, threads);
        best = CLI_MIN(best, seconds);
    }
    free(shares);
    return lanes ? 2.0 * lanes * (double)(PEAK_STEPS / PEAK_CHAINS * PEAK_CHAINS) * threads / best * 1e-9 : 0.0;
}
