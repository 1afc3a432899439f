/* Contexts, options, CPU levels and orders. */
#ifndef SAMEBITS_CONTEXT_H
#define SAMEBITS_CONTEXT_H

#include <stddef.h>

#include <dlpack/dlpack.h>

#include <samebits/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Instruction set a context may use. The level never changes a bit of any result.
 *
 * AMX and AUTO ask Linux once whether the process may use tiles, where the CPU has them, and try an instruction in a
 * child; no other level does. From then on the system wants alternate signal stacks to be large enough for tiles. Tiles
 * are scratch to the ABI: a call may change them, and leaves them released. */
typedef enum samebits_cpu {
    SAMEBITS_CPU_AUTO = 0, /* the best this machine has */
    SAMEBITS_CPU_SCALAR,   /* the reference kernels, plain C */
    SAMEBITS_CPU_AVX2,     /* AVX2, FMA, F16C; AVX-VNNI where present */
    SAMEBITS_CPU_AVX512,   /* AVX-512 F, BW, DQ, VL; VNNI where present, BF16 where it pays */
    SAMEBITS_CPU_AMX,      /* the same, and AMX: products of bytes and of bf16 on tiles */
    SAMEBITS_CPU_NEON,     /* Advanced SIMD of 64-bit Arm; dot and matrix products of bytes where present */
    SAMEBITS_CPU_COUNT     /* number of levels, not a level */
} samebits_cpu;

/* An order fixes the arithmetic of an op (spec/orders.md). */
typedef enum samebits_order {
    SAMEBITS_ORDER_PORTABLE_1 = 1, /* f32 activations; the same bits on every machine */
    SAMEBITS_ORDER_INT8_1 = 2,     /* int8 activations for quantised weights; exact integer dots */
    SAMEBITS_ORDER_AMX_1 = 3       /* bf16 by bf16, what AMX's matrix unit computes; any machine can, slower */
} samebits_order;

typedef enum samebits_log_level { SAMEBITS_LOG_INFO = 0, SAMEBITS_LOG_WARN, SAMEBITS_LOG_ERROR } samebits_log_level;

/* Allocator hooks. alloc returns memory aligned to `alignment` (a power of two) or NULL. */
typedef struct samebits_allocator {
    void *(*alloc)(void *user, size_t size, size_t alignment);
    void (*free)(void *user, void *ptr, size_t size);
    void *user;
} samebits_allocator;

/* Runs body(arg, w) exactly once for each w in [0, workers), concurrently or not, and returns when all
 * are done. Lets a host lend its own threads. Cancellation of the calling thread waits meanwhile. */
typedef void (*samebits_parallel_for)(void *user, int workers, void (*body)(void *arg, int worker), void *arg);

/* A matrix product of another library, which follows no order: out = a @ b for a (..., M, K), b (..., K, N) and
 * out (..., M, N), of any strides, which share no memory. Called only where a mode leaves the choice (samebits/mode.h),
 * on the caller's thread. Returns SAMEBITS_OK, or anything else for a call that it does not take: it decides that
 * before it writes, since the call may still fail for want of memory, and out is then to be untouched. */
typedef samebits_status (*samebits_stock_product)(void *user, const DLTensor *a, const DLTensor *b, DLTensor *out);

typedef struct samebits_options {
    size_t struct_size;           /* set by samebits_options_default */
    int threads;                  /* workers a call may use, at most 1024; 0: one per CPU */
    samebits_cpu cpu;             /* CPU level to force */
    samebits_allocator allocator; /* all NULL: malloc, which asks for huge pages from 4 MiB on */
    void (*log)(void *user, samebits_log_level level, const char *line); /* NULL: silent */
    void *log_user;
    samebits_parallel_for parallel_for; /* NULL: the library's own threads (OpenMP) */
    void *parallel_user;
    samebits_stock_product stock; /* NULL: none */
    void *stock_user;
} samebits_options;

typedef struct samebits_context samebits_context;

/* Fills in the defaults. Call it first, then change what you need. All structs with a struct_size are made so; one has
 * the same size in all libraries of one SONAME. */
SAMEBITS_API void samebits_options_default(samebits_options *options);

/* Creates a context. options may be NULL (defaults).
 * Ownership: the caller's, until samebits_destroy.
 * Errors: NULL, PARAM (threads out of range, unknown level, half an allocator), CPU, MEMORY; *context is then NULL.
 * Threads: one context may be used from several threads at once. */
SAMEBITS_API samebits_status samebits_create(samebits_context **context, const samebits_options *options);

/* Destroys *context (NULL is allowed) and sets it to NULL. No call may be using it. */
SAMEBITS_API void samebits_destroy(samebits_context **context);

/* The level in use: never AUTO. */
SAMEBITS_API samebits_cpu samebits_context_cpu(const samebits_context *context);
SAMEBITS_API int samebits_context_threads(const samebits_context *context);
/* Changes the number of workers of later calls (0: one per CPU). Errors: NULL, PARAM.
 * Threads: not while another thread uses the context. */
SAMEBITS_API samebits_status samebits_context_set_threads(samebits_context *context, int threads);

/* Whether this machine can run a level. AUTO and SCALAR: always 1. */
SAMEBITS_API int samebits_cpu_supported(samebits_cpu level);
/* "scalar", "avx2", "avx512", "amx", "neon", "auto"; "unknown" otherwise. */
SAMEBITS_API const char *samebits_cpu_name(samebits_cpu level);
/* Names of the instruction sets beyond the level that kernels may use here, such as "vnni bf16" or
 * "dotprod i8mm". */
SAMEBITS_API const char *samebits_cpu_extras(const samebits_context *context);
/* "portable-1", "int8-1", "amx-1"; "unknown" otherwise. */
SAMEBITS_API const char *samebits_order_name(samebits_order order);

#ifdef __cplusplus
}
#endif
#endif
