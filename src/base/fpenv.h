/* The floating-point environment of every order: round to nearest even, subnormals kept, nothing traps. */
#ifndef SB_FPENV_H
#define SB_FPENV_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
typedef unsigned sb_fpenv;
#define SB_FPENV_ORDER 0x1F80u
static inline sb_fpenv sb_fpenv_enter(void)
{
    const sb_fpenv caller = _mm_getcsr();
    _mm_setcsr(SB_FPENV_ORDER);
    return caller;
}
static inline void sb_fpenv_leave(sb_fpenv caller) { _mm_setcsr(caller); }
/* The same, but that subnormals are taken and given as zero: order amx-1. */
static inline sb_fpenv sb_fpenv_enter_flushing(void)
{
    const sb_fpenv caller = _mm_getcsr();
    _mm_setcsr(SB_FPENV_ORDER | 0x8040u);
    return caller;
}
#elif defined(__aarch64__)
typedef uint64_t sb_fpenv;
static inline sb_fpenv sb_fpenv_enter(void)
{
    sb_fpenv caller;
    __asm__ volatile("mrs %0, fpcr" : "=r"(caller));
    __asm__ volatile("msr fpcr, %0" ::"r"((uint64_t)0));
    return caller;
}
static inline void sb_fpenv_leave(sb_fpenv caller) { __asm__ volatile("msr fpcr, %0" ::"r"(caller)); }
#else
#error "samebits does not know how to set this machine's floating-point environment"
#endif

#endif
