#include "edge.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli.h"

typedef struct mapping {
    void *block;
    char *pages;
    size_t size;
} mapping;

/* Those that are in use. A library may free what another thread has made. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mapping mappings[256];
static int is_on;
static unsigned turn;

void edge_set(int on) { is_on = on; }
int edge_is_on(void) { return is_on; }

static size_t round_up(size_t size, size_t step) { return (size + step - 1) / step * step; }

/* One mapping with a page of nothing at each end. */
static void *map(size_t size, size_t alignment)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = round_up(size, page);
    size_t place = 0;
    pthread_mutex_lock(&lock);
    while (place < CLI_COUNT(mappings) && mappings[place].block) place++;
    if (place == CLI_COUNT(mappings)) cli_die("more than %zu mappings", CLI_COUNT(mappings));
    mapping *m = &mappings[place];
    m->size = inside + 2 * page;
    m->pages = mmap(NULL, m->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m->pages == MAP_FAILED || mprotect(m->pages + page, inside, PROT_READ | PROT_WRITE))
        cli_die("out of memory: %zu bytes wanted", size);
    m->block = m->pages + page + (turn++ % 2 ? 0 : inside - round_up(size, alignment));
    pthread_mutex_unlock(&lock);
    return m->block;
}

void *edge_alloc(size_t size, size_t alignment)
{
    const size_t most = CLI_MAX(size, (size_t)1);
    void *block = NULL;
    if (is_on)
        block = map(most, alignment);
    else if (posix_memalign(&block, CLI_MAX(alignment, sizeof(void *)), most))
        cli_die("out of memory: %zu bytes wanted", size);
    return memset(block, 0xFF, most);
}

void edge_free(void *block)
{
    if (!block) return;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < CLI_COUNT(mappings); i++) {
        if (mappings[i].block != block) continue;
        munmap(mappings[i].pages, mappings[i].size);
        mappings[i].block = NULL;
        block = NULL;
        break;
    }
    pthread_mutex_unlock(&lock);
    free(block);
}
