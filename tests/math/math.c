/* samebits_math [stride]: every function of the order over the inputs 0, stride, 2 * stride, ... of the
 * 2^32 bit patterns (default 257; 1 tries them all). Error against the C library's double functions, and
 * the vector functions' bits against the scalar ones'; f16 and bf16 conversions. */
#include "math/vector.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "base/fpenv.h"
#include "order/activation.h"

static double exact_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
static double exact_silu(double x) { return isinf(x) && x < 0 ? -0.0 : x / (1.0 + exp(-x)); }
static double exact_gelu(double x) { return isinf(x) && x < 0 ? 0.0 : x * 0.5 * erfc(-x * 0.70710678118654752440); }
static double exact_gelu_tanh(double x)
{
    const double u = 1.5957691216057307117597842397375 * (x + 0.044715 * x * x * x);
    return isinf(x) && x < 0 ? -0.0 : x / (1.0 + exp(-u));
}

static double exact_gelu_quick(double x) { return isinf(x) && x < 0 ? -0.0 : x / (1.0 + exp(-1.702 * x)); }

/* `limit` is in units of max(ulp of the result, floor, ulp of x * relative). */
typedef struct {
    const char *name;
    float (*scalar)(float);
    double (*exact)(double);
    double limit, floor, relative;
} function;

static float scalar_exp(float x) { return sb_exp(x); }
static float scalar_tanh(float x) { return sb_tanh(x); }
static float scalar_erf(float x) { return sb_erf(x); }
static float scalar_log(float x) { return sb_log(x); }
static float scalar_sigmoid(float x) { return sb_sigmoid(x); }
static float scalar_silu(float x) { return sb_silu(x); }
static float scalar_gelu(float x) { return sb_gelu(x); }
static float scalar_gelu_tanh(float x) { return sb_gelu_tanh(x); }
static float scalar_gelu_quick(float x) { return sb_gelu_quick(x); }

static const function functions[MATH_COUNT] = {
    [MATH_exp] = {"exp", scalar_exp, exp, 1.0, 0, 0},
    [MATH_tanh] = {"tanh", scalar_tanh, tanh, 1.0, 0, 0},
    [MATH_erf] = {"erf", scalar_erf, erf, 1.0, 0, 0},
    [MATH_log] = {"log", scalar_log, log, 1.0, 0, 0},
    [MATH_sigmoid] = {"sigmoid", scalar_sigmoid, exact_sigmoid, 2.5, 0, 0},
    /* exp is subnormal below -87, and its one unit is then multiplied by x. */
    [MATH_silu] = {"silu", scalar_silu, exact_silu, 3.5, 0x1p-142, 0},
    /* 1 + erf cancels for negative x: the error is bounded beside x, not beside the result. */
    [MATH_gelu] = {"gelu", scalar_gelu, exact_gelu, 1.5, 0, 1.0},
    /* The argument of the exp reaches -87 with a relative error of 1.5 ulp. */
    [MATH_gelu_tanh] = {"gelu_tanh", scalar_gelu_tanh, exact_gelu_tanh, 2.0, 0x1p-142, 1.0},
    [MATH_gelu_quick] = {"gelu_quick", scalar_gelu_quick, exact_gelu_quick, 2.0, 0x1p-142, 1.0},
};

static double ulp(double x)
{
    int e;
    frexp(x, &e);
    return ldexp(1.0, SB_MAX(e, -125) - 24);
}

/* The error of y as f(x) in the function's units; infinite where the special values are wrong. */
static double error_of(const function *f, float x, float y)
{
    if (sb_is_nan(x)) return sb_is_nan(y) ? 0.0 : INFINITY;
    const double want = f->exact(x);
    if (isnan(want)) return sb_is_nan(y) ? 0.0 : INFINITY;
    if (!isfinite((float)want) || !isfinite(y)) return (float)want == y ? 0.0 : INFINITY;
    double unit = SB_MAX(ulp(want), f->floor);
    if (f->relative > 0 && isfinite(x)) unit = SB_MAX(unit, f->relative * ulp(x));
    return fabs(want - (double)y) / unit;
}

/* The vector forms, one an instruction set. */
typedef struct {
    unsigned cpu; /* SB_CPU_* flags it needs */
    math_map *map, *map_short;
    math_weights *weights;
    math_to_f16 *to_f16; /* the hardware's conversions; NULL: those of another row */
    math_from_f16 *from_f16;
} form;

static const form forms[] = {
#if defined(SB_HAVE_X86)
    {SB_CPU_AVX2, math_map_avx2, math_map_short_avx2, math_weights_avx2, math_to_f16_avx2, math_from_f16_avx2},
    {SB_CPU_AVX512, math_map_avx512, math_map_short_avx512, math_weights_avx512, NULL, NULL},
#endif
#if defined(SB_HAVE_NEON)
    {SB_CPU_NEON, math_map_neon, math_map_short_neon, math_weights_neon, math_to_f16_neon, math_from_f16_neon},
#endif
    {~0u, NULL, NULL, NULL, NULL, NULL}, /* for a machine without one */
};

static int can_run(const form *f) { return (f->cpu & ~sb_cpu_host()) == 0; }

typedef struct {
    double worst;
    float at;
    long long inputs, differing;
} result;

static long passed, failed;

static void report(const char *what, int ok, const char *detail)
{
    ok ? passed++ : failed++;
    printf("%s %-12s %s\n", ok ? "ok  " : "FAIL", what, detail);
}

static long long count_differing(const float *want, const float *have)
{
    long long n = 0;
    for (int i = 0; i < MATH_BLOCK; i++) n += sb_bits(sb_canonical(want[i])) != sb_bits(sb_canonical(have[i]));
    return n;
}

/* One block of inputs, starting at the bit pattern `begin`. */
static void try_block(math_function id, uint64_t begin, uint64_t stride, result *r)
{
    float in[MATH_BLOCK], want[MATH_BLOCK], have[MATH_BLOCK];
    for (int i = 0; i < MATH_BLOCK; i++) in[i] = sb_float((uint32_t)(begin + (uint64_t)i * stride));
    for (int i = 0; i < MATH_BLOCK; i++) {
        want[i] = functions[id].scalar(in[i]);
        const double error = error_of(&functions[id], in[i], want[i]);
        if (error > r->worst) {
            r->worst = error;
            r->at = in[i];
        }
    }
    for (const form *f = forms; f->map; f++) {
        if (!can_run(f)) continue;
        f->map(id, in, have);
        r->differing += count_differing(want, have);
        f->map_short(id, in, have);
        r->differing += count_differing(want, have);
    }
    r->inputs += MATH_BLOCK;
}

static void try_function(math_function id, uint64_t stride)
{
    result total = {0};
    const int64_t blocks = (int64_t)(((1ull << 32) / stride + MATH_BLOCK - 1) / MATH_BLOCK);
#pragma omp parallel
    {
        const sb_fpenv caller = sb_fpenv_enter();
        result r = {0};
#pragma omp for schedule(dynamic, 64)
        for (int64_t b = 0; b < blocks; b++) try_block(id, (uint64_t)b * MATH_BLOCK * stride, stride, &r);
#pragma omp critical
        {
            total.inputs += r.inputs;
            total.differing += r.differing;
            if (r.worst > total.worst) {
                total.worst = r.worst;
                total.at = r.at;
            }
        }
        sb_fpenv_leave(caller);
    }
    char detail[160];
    snprintf(detail, sizeof detail, "%lld inputs, worst %.4f of %.1f allowed at %a, %lld vector lanes differ",
             total.inputs, total.worst, functions[id].limit, total.at, total.differing);
    report(functions[id].name, total.worst <= functions[id].limit && !total.differing, detail);
}

/* Rounding to nearest even of a double whose value is exact, to `bits` fraction bits with exponents >= low. */
static double round_to(double x, int bits, int low)
{
    int e;
    frexp(x, &e);
    const double unit = ldexp(1.0, SB_MAX(e - 1, low) - bits);
    return nearbyint(x / unit) * unit;
}

static int bf16_is_right(float x, uint16_t h)
{
    if (sb_is_nan(x)) return h == SB_NAN_BF16;
    if (isinf(x)) return h == sb_bits(x) >> 16;
    const double want = round_to(x, 7, -126);
    const float have = sb_from_bf16(h);
    if (signbit(x) != signbit(have)) return 0;
    return fabs(want) >= 0x1p128 ? isinf(have) != 0 : (double)have == want;
}

static void try_conversions(uint64_t stride)
{
    long long f16 = 0, bf16 = 0, weights = 0, inputs = 0;
    const int64_t blocks = (int64_t)(((1ull << 32) / stride + MATH_BLOCK - 1) / MATH_BLOCK);
#pragma omp parallel for schedule(dynamic, 64) reduction(+ : f16, bf16, weights, inputs)
    for (int64_t b = 0; b < blocks; b++) {
        const sb_fpenv caller = sb_fpenv_enter();
        const uint64_t begin = (uint64_t)b * MATH_BLOCK * stride;
        float in[MATH_BLOCK];
        uint16_t half[MATH_BLOCK];
        int32_t weight[MATH_BLOCK];
        for (int i = 0; i < MATH_BLOCK; i++) in[i] = sb_float((uint32_t)(begin + (uint64_t)i * stride));
        for (int i = 0; i < MATH_BLOCK; i++) bf16 += !bf16_is_right(in[i], sb_to_bf16(in[i]));
        for (const form *f = forms; f->map; f++) {
            if (!can_run(f)) continue;
            f->weights(in, weight);
            for (int i = 0; i < MATH_BLOCK; i++) weights += in[i] <= 0.0f && weight[i] != sb_exp_weight(in[i]);
            if (!f->to_f16) continue;
            f->to_f16(in, half);
            for (int i = 0; i < MATH_BLOCK; i++) f16 += sb_to_f16(in[i]) != (sb_is_nan(in[i]) ? SB_NAN_F16 : half[i]);
        }
        inputs += MATH_BLOCK;
        sb_fpenv_leave(caller);
    }
    char detail[100];
    snprintf(detail, sizeof detail, "%lld inputs, %lld differ from the hardware's", inputs, f16);
    report("f32 to f16", !f16, detail);
    snprintf(detail, sizeof detail, "%lld inputs, %lld differ from rounding in double", inputs, bf16);
    report("f32 to bf16", !bf16, detail);
    snprintf(detail, sizeof detail, "%lld vector lanes differ", weights);
    report("exp weight", !weights, detail);
}

static void try_from_f16(const form *f)
{
    long long differing = 0;
    for (uint32_t begin = 0; begin < 65536; begin += MATH_BLOCK) {
        uint16_t in[MATH_BLOCK];
        float want[MATH_BLOCK];
        for (uint32_t i = 0; i < MATH_BLOCK; i++) in[i] = (uint16_t)(begin + i);
        f->from_f16(in, want);
        for (int i = 0; i < MATH_BLOCK; i++)
            differing += sb_bits(sb_canonical(sb_from_f16(in[i]))) != sb_bits(sb_canonical(want[i]));
    }
    char detail[80];
    snprintf(detail, sizeof detail, "65536 inputs, %lld differ from the hardware's", differing);
    report("f16 to f32", !differing, detail);
}

int main(int argc, char **argv)
{
    const long long stride = argc > 1 ? atoll(argv[1]) : 257;
    if (stride < 1 || argc > 2) {
        fprintf(stderr, "usage: samebits_math [stride >= 1]\n");
        return 2;
    }
    sb_fpenv_enter();
    for (const form *f = forms; f->map; f++)
        if (f->from_f16 && can_run(f)) try_from_f16(f);
    try_conversions((uint64_t)stride);
    for (int id = 0; id < MATH_COUNT; id++) try_function((math_function)id, (uint64_t)stride);
    printf("%ld passed, %ld failed\n", passed, failed);
    return failed != 0;
}
