#include "check/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "base/fpenv.h"
#include "formats/quant.h"

enum { GUARD = 64 };
static const unsigned char guard_byte = 0xA5;
static long passed, failed;

uint64_t check_next(check_rng *rng)
{
    uint64_t z = rng->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

int64_t check_below(check_rng *rng, int64_t n) { return (int64_t)(check_next(rng) % (uint64_t)n); }

float check_float(check_rng *rng)
{
    const uint64_t r = check_next(rng);
    const uint32_t sign = (uint32_t)(r >> 63) << 31, mantissa = (uint32_t)r & 0x7FFFFFu;
    const unsigned kind = (unsigned)(r >> 32) & 127u;
    if (kind == 0) return sb_float(sign);
    if (kind == 1) return sb_float(sign | mantissa);
    return sb_float(sign | (uint32_t)(107 + (r >> 40) % 41) << 23 | mantissa);
}

void check_floats(check_rng *rng, float *out, int64_t count)
{
    for (int64_t i = 0; i < count; i++) out[i] = check_float(rng);
}

void check_doubles(check_rng *rng, double *out, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const uint64_t r = check_next(rng), exponent = (uint64_t)(1003 + check_below(rng, 41));
        const unsigned kind = (unsigned)check_below(rng, 128);
        const uint64_t mantissa = kind ? r >> 12 : 0, sign = r << 63;
        out[i] = sb_double(sign | (kind > 1 ? exponent << 52 : 0) | mantissa);
    }
}

void check_bytes(check_rng *rng, void *out, int64_t count)
{
    for (int64_t i = 0; i < count; i++) ((uint8_t *)out)[i] = (uint8_t)check_next(rng);
}

void check_block(check_rng *rng, samebits_format format, float d, float m, uint8_t *block)
{
    const uint16_t factors[2] = {sb_to_f16(d), sb_to_f16(m)};
    check_bytes(rng, block, sb_format_info(format)->block_bytes);
    memcpy(block, factors, sb_quant_has_min(format) ? 4 : 2);
}

void *check_alloc(size_t size)
{
    char *base = NULL;
    if (posix_memalign((void **)&base, 64, size + 64 + GUARD)) {
        fprintf(stderr, "check: out of memory\n");
        exit(2);
    }
    memcpy(base, &size, sizeof size);
    memset(base + 64, 0xFF, size);
    memset(base + 64 + size, guard_byte, GUARD);
    return base + 64;
}

void check_free(void *ptr)
{
    if (!ptr) return;
    char *base = (char *)ptr - 64;
    size_t size;
    memcpy(&size, base, sizeof size);
    int clean = 1;
    for (int i = 0; i < GUARD; i++) clean &= (unsigned char)base[64 + size + i] == guard_byte;
    if (!clean) check_true("write past the end of a buffer", 0);
    free(base);
}

static int64_t one_in = 1;
int check_takes(void)
{
    static check_rng rng = {11};
    return check_below(&rng, one_in) == 0;
}

unsigned check_cpu(void) { return sb_cpu_host(); }

void check_true(const char *what, int ok)
{
    if (ok) {
        passed++;
        return;
    }
    failed++;
    printf("FAIL %s\n", what);
}

void check_same(const char *what, const void *want, const void *have, int64_t count, size_t element)
{
    int64_t differing = 0, first = -1;
    for (int64_t i = 0; i < count; i++)
        if (memcmp((const char *)want + (size_t)i * element, (const char *)have + (size_t)i * element, element)) {
            differing++;
            if (first < 0) first = i;
        }
    if (!differing) {
        passed++;
        return;
    }
    failed++;
    uint32_t w = 0, h = 0;
    memcpy(&w, (const char *)want + (size_t)first * element, SB_MIN(element, sizeof w));
    memcpy(&h, (const char *)have + (size_t)first * element, SB_MIN(element, sizeof h));
    printf("FAIL %s: %lld of %lld differ, first at %lld: want %08x, have %08x\n", what, (long long)differing,
           (long long)count, (long long)first, w, h);
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--one-in")) one_in = atoll(argv[2]);
    if ((argc != 1 && argc != 3) || one_in < 1 || (argc == 3 && strcmp(argv[1], "--one-in") != 0)) {
        fprintf(stderr, "usage: samebits_check [--one-in N]: every case, or one in N at random\n");
        return 2;
    }
    sb_fpenv_enter();
    check_amx();
    check_matmul();
    check_matmul_amx1();
    check_matmul_quantized();
    check_norm();
    check_softmax();
    check_reduce();
    check_epilogue();
    check_elementwise();
    check_rope();
    check_attention();
    check_attention_op();
    printf("%ld passed, %ld failed\n", passed, failed);
    return failed != 0;
}
