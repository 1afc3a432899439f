/* An allocator that reuses its blocks. */
#include <stdlib.h>

#include "plugin.h"

/* The smallest free block that is large enough; otherwise a free slot; otherwise -1. */
static int choose(const sbg_arena *arena, size_t size)
{
    int best = -1;
    for (int i = 0; i < SBG_ARENA_BLOCKS; i++) {
        if (arena->block[i].used) continue;
        const bool fits = arena->block[i].size >= size;
        const bool best_fits = best >= 0 && arena->block[best].size >= size;
        if (best < 0 || (fits && (!best_fits || arena->block[i].size < arena->block[best].size))) best = i;
    }
    return best;
}

static void *arena_alloc(void *user, size_t size, size_t alignment)
{
    sbg_arena *arena = user;
    const int i = choose(arena, size);
    void *memory = NULL;
    if (i >= 0 && arena->block[i].size >= size) {
        arena->block[i].used = true;
        return arena->block[i].memory;
    }
    if (i >= 0) free(arena->block[i].memory);
    const bool failed = posix_memalign(&memory, alignment, size) != 0;
    if (i >= 0) {
        arena->block[i].memory = failed ? NULL : memory;
        arena->block[i].size = failed ? 0 : size;
        arena->block[i].used = !failed;
    }
    return failed ? NULL : memory;
}

static void arena_free(void *user, void *memory, size_t size)
{
    (void)size;
    sbg_arena *arena = user;
    for (int i = 0; i < SBG_ARENA_BLOCKS; i++)
        if (arena->block[i].memory == memory) {
            arena->block[i].used = false;
            return;
        }
    free(memory); /* it came when all blocks were in use */
}

samebits_allocator sbg_arena_allocator(sbg_arena *arena)
{
    return (samebits_allocator){arena_alloc, arena_free, arena};
}

void sbg_arena_clear(sbg_arena *arena)
{
    for (int i = 0; i < SBG_ARENA_BLOCKS; i++) free(arena->block[i].memory);
    *arena = (sbg_arena){0};
}
