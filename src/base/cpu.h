/* What the CPU can do. */
#ifndef SB_CPU_H
#define SB_CPU_H

#include <samebits/context.h>

/* What a kernel row needs; rows list a set, a context has a set. */
enum {
    SB_CPU_NONE = 0,
    SB_CPU_AVX2 = 1 << 0,    /* AVX2, FMA, F16C */
    SB_CPU_AVX512 = 1 << 1,  /* F, BW, DQ, VL */
    SB_CPU_VNNI = 1 << 2,    /* AVX-512 VNNI */
    SB_CPU_BF16 = 1 << 3,    /* AVX-512 BF16, where it is faster than fma */
    SB_CPU_NEON = 1 << 4,    /* Advanced SIMD of 64-bit Arm */
    SB_CPU_DOTPROD = 1 << 5, /* its dot products of bytes */
    SB_CPU_I8MM = 1 << 6,    /* its products of 2 x 8 by 8 x 2 bytes */
    SB_CPU_AVXVNNI = 1 << 7, /* VNNI on 8 lanes, of CPUs without AVX-512 too */
    SB_CPU_AMX = 1 << 8      /* AMX: tiles, their products of bytes and of bf16 */
};

/* What this machine has of a level, the operating system's support included. The use of AMX is asked for only where
 * the level allows it. */
unsigned sb_cpu_of_level(samebits_cpu level);
/* Everything it has. */
unsigned sb_cpu_host(void);
/* The level a set of flags amounts to. */
samebits_cpu sb_cpu_level(unsigned flags);

#endif
