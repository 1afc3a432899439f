#include "base/cpu.h"

#include "base/amx.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Clang's __builtin_cpu_supports does not know f16c. Whether the system keeps its registers is told by AVX2's. */
static int has_f16c(void)
{
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

/* Bit 4 of EAX of leaf 7, subleaf 1 (Intel's manual, volume 2, CPUID); not every compiler here knows its name. */
static int has_avxvnni(void)
{
    unsigned a = 0, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4);
}
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

/* Everything but AMX, whose use has to be asked for. */
static unsigned detect(void)
{
    unsigned flags = SB_CPU_NONE;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) flags |= SB_CPU_AVX2;
    if ((flags & SB_CPU_AVX2) && has_avxvnni()) flags |= SB_CPU_AVXVNNI;
    if ((flags & SB_CPU_AVX2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        flags |= SB_CPU_AVX512;
        if (__builtin_cpu_supports("avx512vnni")) flags |= SB_CPU_VNNI;
        /* Intel's VDPBF16PS multiplies no more a cycle than its fma: on a Xeon, K = N = 4096, a product of 64 rows took
         * 34 ms with it and 17 without. */
        if (__builtin_cpu_supports("avx512bf16") && !__builtin_cpu_is("intel")) flags |= SB_CPU_BF16;
    }
#if defined(SB_EMULATED_LEVEL)
    /* This build makes the AVX-512, AVX-VNNI and AMX rows of AVX2 (option SAMEBITS_EMULATE_AVX512). */
    if (flags & SB_CPU_AVX2)
        flags = SB_CPU_AVX2 | SB_CPU_AVX512 | SB_CPU_VNNI | SB_CPU_BF16 | SB_CPU_AVXVNNI | SB_CPU_AMX;
#endif
#elif defined(__aarch64__)
    flags |= SB_CPU_NEON; /* every 64-bit Arm has it */
#if defined(__linux__)
    if (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) flags |= SB_CPU_DOTPROD;
    if (getauxval(AT_HWCAP2) & HWCAP2_I8MM) flags |= SB_CPU_I8MM;
#endif
#endif
    return flags;
}

/* What a level allows at most. */
static unsigned allowed(samebits_cpu level)
{
    switch (level) {
    case SAMEBITS_CPU_SCALAR: return SB_CPU_NONE;
    case SAMEBITS_CPU_AVX2: return SB_CPU_AVX2 | SB_CPU_AVXVNNI;
    case SAMEBITS_CPU_AVX512: return ~(unsigned)SB_CPU_AMX;
    default: return ~0u;
    }
}

unsigned sb_cpu_of_level(samebits_cpu level)
{
    const unsigned below = SB_CPU_AVX512 | SB_CPU_VNNI;
    unsigned flags = detect();
    if ((allowed(level) & SB_CPU_AMX) && (flags & below) == below && sb_amx_works()) flags |= SB_CPU_AMX;
    return flags & allowed(level);
}

unsigned sb_cpu_host(void) { return sb_cpu_of_level(SAMEBITS_CPU_AUTO); }

samebits_cpu sb_cpu_level(unsigned flags)
{
    if (flags & SB_CPU_NEON) return SAMEBITS_CPU_NEON;
    if (flags & SB_CPU_AMX) return SAMEBITS_CPU_AMX;
    if (flags & SB_CPU_AVX512) return SAMEBITS_CPU_AVX512;
    return flags & SB_CPU_AVX2 ? SAMEBITS_CPU_AVX2 : SAMEBITS_CPU_SCALAR;
}

int samebits_cpu_supported(samebits_cpu level)
{
    const unsigned host = sb_cpu_of_level(level);
    switch (level) {
    case SAMEBITS_CPU_AUTO:
    case SAMEBITS_CPU_SCALAR: return 1;
    case SAMEBITS_CPU_AVX2: return (host & SB_CPU_AVX2) != 0;
    case SAMEBITS_CPU_AVX512: return (host & SB_CPU_AVX512) != 0;
    case SAMEBITS_CPU_AMX: return (host & SB_CPU_AMX) != 0;
    case SAMEBITS_CPU_NEON: return (host & SB_CPU_NEON) != 0;
    case SAMEBITS_CPU_COUNT: break;
    }
    return 0;
}

const char *samebits_cpu_name(samebits_cpu level)
{
    switch (level) {
    case SAMEBITS_CPU_AUTO: return "auto";
    case SAMEBITS_CPU_SCALAR: return "scalar";
    case SAMEBITS_CPU_AVX2: return "avx2";
    case SAMEBITS_CPU_AVX512: return "avx512";
    case SAMEBITS_CPU_AMX: return "amx";
    case SAMEBITS_CPU_NEON: return "neon";
    case SAMEBITS_CPU_COUNT: break;
    }
    return "unknown";
}
