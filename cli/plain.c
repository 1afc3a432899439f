#include "plain.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plain_math.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
enum { FLUSH_BITS = 0x8040 }; /* FTZ and DAZ */
void host_flush(int on) { _mm_setcsr((_mm_getcsr() & ~(unsigned)FLUSH_BITS) | (on ? FLUSH_BITS : 0)); }
int host_flushes(void) { return (_mm_getcsr() & FLUSH_BITS) == FLUSH_BITS; }
#elif defined(__aarch64__)
#define FLUSH_BITS ((uint64_t)1 << 24) /* FZ */
void host_flush(int on)
{
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    fpcr = (fpcr & ~FLUSH_BITS) | (on ? FLUSH_BITS : 0);
    __asm__ volatile("msr fpcr, %0" : : "r"(fpcr));
}
int host_flushes(void)
{
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return (fpcr & FLUSH_BITS) != 0;
}
#else
void host_flush(int on) { (void)on; }
int host_flushes(void) { return 0; }
#endif

/* spec/order.md, section dot, with the chunk as a parameter and the last two chunks swapped on demand. */
static float dot(const float *x, const float *w, int64_t k, int64_t chunk, int swap)
{
    const int64_t chunks = (k + chunk - 1) / chunk;
    float total = 0.0f;
    for (int64_t j = 0; j < chunks; j++) {
        int64_t at = j;
        if (swap && chunks > 2 && j >= chunks - 2) at = 2 * chunks - 3 - j;
        float sum = 0.0f;
        for (int64_t i = at * chunk; i < CLI_MIN((at + 1) * chunk, k); i++) sum = fmaf(x[i], w[i], sum);
        total = j ? total + sum : sum;
    }
    return total;
}

float plain_dot(const float *x, const float *w, int64_t k) { return dot(x, w, k, 256, 0); }

/* What a vector kernel over K would do: eight running sums, then their sum. */
static float dot_lanes(const float *x, const float *w, int64_t k)
{
    float lanes[8] = {0}, total = 0.0f;
    for (int64_t i = 0; i < k; i++) lanes[i % 8] = fmaf(x[i], w[i], lanes[i % 8]);
    for (int i = 0; i < 8; i++) total += lanes[i];
    return total;
}

static float dot_split(const float *x, const float *w, int64_t k, int parts)
{
    float total = 0.0f;
    for (int i = 0; i < parts; i++) {
        const int64_t begin = k * i / parts, end = k * (i + 1) / parts;
        total += dot(x + begin, w + begin, end - begin, 256, 0);
    }
    return total;
}

static float faulty_dot(const plain_call *call, int64_t row, const float *x, const float *w)
{
    const int64_t rows = call->x->shape[0], k = call->p->k;
    const int above = call->how.cpu != SAMEBITS_CPU_SCALAR;
    switch (call->fault) {
    case FAULT_CHUNK: return dot(x, w, k, 128, 0);
    case FAULT_SWAP: return dot(x, w, k, 256, above);
    case FAULT_ONE_ROW: return rows == 1 ? dot_lanes(x, w, k) : dot(x, w, k, 256, 0);
    case FAULT_TAIL_ROWS: return row >= rows / 4 * 4 ? dot_lanes(x, w, k) : dot(x, w, k, 256, 0);
    case FAULT_SPLIT: return call->how.threads > 1 ? dot_split(x, w, k, call->how.threads) : dot(x, w, k, 256, 0);
    case FAULT_STRIDED: return call->x->stride[1] != 1 ? dot_lanes(x, w, k) : dot(x, w, k, 256, 0);
    default: return dot(x, w, k, 256, 0);
    }
}

/* spec/ops/matmul.md, section epilogue. */
float plain_epilogue(const problem *p, int64_t col, float t)
{
    const samebits_epilogue *e = &p->epilogue;
    t = (float)e->alpha * t;
    if (e->c) t = fmaf((float)e->beta, tensor_get(&p->c, col), t);
    if (e->bias) t += tensor_get(&p->bias, col);
    return plain_activation(e->activation, t);
}

static void store(const plain_call *call, int64_t index, float value)
{
    const dtype type = call->out->type;
    if (call->fault == FAULT_TRUNCATE && call->how.cpu != SAMEBITS_CPU_SCALAR && type == T_BF16 && value == value) {
        uint32_t bits;
        memcpy(&bits, &value, 4);
        value = bits_to_f32(T_F32, bits & 0xFFFF0000);
    }
    tensor_set(call->out, index, value);
}

static __attribute__((noinline)) void product_rows(const plain_call *call)
{
    const problem *p = call->p;
    const int64_t rows = call->x->shape[0];
    float *x = cli_alloc((size_t)p->k * sizeof(float));
    for (int64_t row = 0; row < rows; row++) {
        tensor_row(call->x, row, x);
        if (call->fault == FAULT_LEAK && row + 1 < rows && p->k)
            x[p->k - 1] = tensor_get(call->x, (row + 2) * p->k - 1);
        for (int64_t col = 0; col < p->n; col++)
            store(call, row * p->n + col, plain_epilogue(p, col, faulty_dot(call, row, x, p->wide + col * p->k)));
    }
    free(x);
}

void plain_product(const plain_call *call)
{
    fenv_t host;
    fegetenv(&host);
    if (call->fault != FAULT_FLUSH) fesetenv(FE_DFL_ENV);
    product_rows(call);
    fesetenv(&host);
}
