/* An allocator that counts, checks what it is given back, and fails on request. */
#ifndef TEST_MEMORY_H
#define TEST_MEMORY_H

#include <samebits/context.h>

typedef struct test_memory {
    _Atomic long calls;  /* allocations asked for */
    _Atomic long live;   /* blocks out */
    _Atomic long faults; /* blocks freed with another size, or alignment broken */
    long fail_at;        /* the allocation with this index returns NULL; -1: none */
} test_memory;

/* No allocation fails. */
void test_memory_init(test_memory *memory);
samebits_allocator test_memory_allocator(test_memory *memory);

#endif
