/* What the fuzz targets share: bytes as choices, and a context whose allocator is small and may fail. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <samebits/samebits.h>

/* The entry that libFuzzer and AFL++ call. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct bytes {
    const uint8_t *at, *end;
} bytes;

/* The next byte, below n; 0 when there are no more. */
static inline unsigned choose(bytes *b, unsigned n) { return b->at < b->end ? *b->at++ % n : 0; }

/* Ends the program, which the fuzzer reports, unless a promise holds. */
#define REQUIRE(holds)                                                                                                 \
    do {                                                                                                               \
        if (!(holds)) {                                                                                                \
            fprintf(stderr, "%s:%d: broken promise: %s; last error: %s\n", __FILE__, __LINE__, #holds,                 \
                    samebits_last_error());                                                                            \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

typedef struct fuzz_memory {
    size_t limit; /* of one block */
    int fail_at;  /* the allocation with this number fails; -1: none */
    int live;
} fuzz_memory;

static void *fuzz_alloc(void *user, size_t size, size_t alignment)
{
    fuzz_memory *m = user;
    void *block = NULL;
    if (size > m->limit || m->fail_at-- == 0 || posix_memalign(&block, alignment, size)) return NULL;
    m->live++;
    return block;
}

static void fuzz_free(void *user, void *block, size_t size)
{
    (void)size;
    ((fuzz_memory *)user)->live--;
    free(block);
}

/* One thread, so that a sanitizer sees all there is. */
static inline samebits_context *fuzz_context_with(fuzz_memory *memory, samebits_cpu cpu, samebits_stock_product stock,
                                                  void *stock_user)
{
    samebits_options o;
    samebits_context *context = NULL;
    samebits_options_default(&o);
    o.threads = 1;
    o.cpu = samebits_cpu_supported(cpu) ? cpu : SAMEBITS_CPU_AUTO;
    o.allocator = (samebits_allocator){fuzz_alloc, fuzz_free, memory};
    o.stock = stock;
    o.stock_user = stock_user;
    REQUIRE(samebits_create(&context, &o) == SAMEBITS_OK);
    return context;
}

static inline samebits_context *fuzz_context(fuzz_memory *memory, samebits_cpu cpu)
{
    return fuzz_context_with(memory, cpu, NULL, NULL);
}

#endif
