/* Vectors of SB_VL f32 lanes, so that one kernel body serves AVX2, AVX-512 and NEON.
 *
 * A lane is an output, or one of the lanes that an order counts (order/sum.h): the vector length cannot move
 * a bit. Each file that includes this is compiled for one instruction set, which its name ends in (_avx2.c, _avx512.c,
 * _neon.c; cmake/isa.cmake). NEON's 8 lanes are two registers, of which it has twice as many as AVX2.
 * With SB_EMULATE_AVX512 the 16-lane form is built from AVX2 (simd/emu512.h), so that machines without
 * AVX-512 can test those kernels too. The operations are explained in simd/avx2.h and simd/x86.h.
 *
 *   vf f32 lanes   vi i32 lanes   vm a mask, one truth value a lane   vl i64 lanes, half as many
 *   vd f64 lanes, half as many   vh 16 lanes of 16 bits   vq 4 lanes of f32
 */
#ifndef SB_SIMD_H
#define SB_SIMD_H

#include "base/base.h"

#if defined(SB_EMULATE_AVX512)
#include "base/simd/emu512.h"
#elif defined(__AVX512F__)
#include "base/simd/avx512.h"
#elif defined(__AVX2__)
#include "base/simd/avx2.h"
#elif defined(__aarch64__)
#include "base/simd/neon.h"
#else
#error "simd.h needs at least AVX2 or NEON; scalar kernels do not include it"
#endif

/* Unrolled loops keep sums in registers. Sanitizer and emulated builds go without: they would take minutes to
 * compile. */
#if defined(SB_NO_UNROLL) || defined(SB_EMULATE_AVX512)
#define SB_UNROLL
#define SB_UNROLL_2
#else
#define SB_UNROLL   _Pragma("GCC unroll 16")
#define SB_UNROLL_2 _Pragma("GCC unroll 2")
#endif

/* Prefetch into L1; hides the latency of streams longer than the hardware follows. */
SB_INLINE void v_prefetch(const void *p) { __builtin_prefetch(p, 0, 3); }
SB_INLINE void v_prefetch_l2(const void *p) { __builtin_prefetch(p, 0, 2); }

#endif
