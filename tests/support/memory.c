#include "support/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 64 };

void test_memory_init(test_memory *memory)
{
    memset(memory, 0, sizeof *memory);
    memory->fail_at = -1;
}

static void *take(void *user, size_t size, size_t alignment)
{
    test_memory *m = user;
    if (m->calls++ == m->fail_at) return NULL;
    if (alignment > HEAD || (alignment & (alignment - 1))) {
        m->faults++;
        return NULL;
    }
    if (size >> 40) return NULL; /* what no machine has; sanitizers end the process when malloc is asked for it */
    unsigned char *base = aligned_alloc(HEAD, (HEAD + size + HEAD - 1) / HEAD * HEAD);
    if (!base) return NULL;
    memcpy(base, &size, sizeof size);
    memset(base + HEAD, 0xFF, size); /* NaN: what was never written must never be read */
    m->live++;
    return base + HEAD;
}

static void give(void *user, void *ptr, size_t size)
{
    test_memory *m = user;
    unsigned char *base = (unsigned char *)ptr - HEAD;
    size_t was;
    memcpy(&was, base, sizeof was);
    if (was != size) m->faults++;
    m->live--;
    free(base);
}

samebits_allocator test_memory_allocator(test_memory *memory) { return (samebits_allocator){take, give, memory}; }
