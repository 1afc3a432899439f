#include "base/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__linux__)
#include <sched.h>
#include <sys/mman.h>
#endif
#include <unistd.h>

#include "base/cpu.h"
#include "base/error.h"

/* What is this large begins on a huge page. */
enum { HUGE_PAGE = 1 << 21, HUGE_SIZE = 1 << 22 };

/* Weights are read at the speed of memory; a walk through the page table every 4 KiB costs a part of it. Advice only:
 * a system without huge pages, or without any to spare, gives others. */
static void *default_alloc(void *user, size_t size, size_t alignment)
{
    (void)user;
    void *ptr = NULL;
    if (posix_memalign(&ptr, size < HUGE_SIZE ? alignment : HUGE_PAGE, size)) return NULL;
#if defined(MADV_HUGEPAGE)
    if (size >= HUGE_SIZE) madvise(ptr, size / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
    return ptr;
}

static void default_free(void *user, void *ptr, size_t size)
{
    (void)user;
    (void)size;
    free(ptr);
}

void *sb_alloc(const samebits_context *context, size_t size)
{
    const samebits_allocator *a = &context->options.allocator;
    return a->alloc(a->user, size ? size : 1, SB_ALIGN);
}

void sb_free(const samebits_context *context, void *ptr, size_t size)
{
    const samebits_allocator *a = &context->options.allocator;
    if (ptr) a->free(a->user, ptr, size ? size : 1);
}

void sb_log_line(const samebits_context *context, samebits_log_level level, const char *format, ...)
{
    if (!context->options.log) return;
    char line[256];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    context->options.log(context->options.log_user, level, line);
}

void samebits_options_default(samebits_options *options)
{
    if (!options) return;
    *options = (samebits_options){.struct_size = sizeof *options};
}

static int cpu_count(void)
{
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return SB_MIN(CPU_COUNT(&set), SB_MAX_THREADS);
#endif
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)SB_MIN(n, SB_MAX_THREADS) : 1;
}

static samebits_status check_options(const samebits_options *o)
{
    if (o->struct_size != sizeof *o)
        return sb_fail(SAMEBITS_ERR_PARAM, "options.struct_size is %zu, want %zu: call samebits_options_default first",
                       o->struct_size, sizeof *o);
    if (o->threads < 0 || o->threads > SB_MAX_THREADS)
        return sb_fail(SAMEBITS_ERR_PARAM, "options.threads is %d, want 0 (one per CPU) to %d", o->threads,
                       SB_MAX_THREADS);
    if (!o->allocator.alloc != !o->allocator.free)
        return sb_fail(SAMEBITS_ERR_PARAM, "options.allocator has only one of alloc and free: set both or neither");
    if ((unsigned)o->cpu >= SAMEBITS_CPU_COUNT)
        return sb_fail(SAMEBITS_ERR_PARAM, "options.cpu is %d, want one of samebits_cpu", (int)o->cpu);
    if (!samebits_cpu_supported(o->cpu))
        return sb_fail(SAMEBITS_ERR_CPU, "CPU level %s is not on this machine (best here: %s)",
                       samebits_cpu_name(o->cpu), samebits_cpu_name(sb_cpu_level(sb_cpu_host())));
    return SAMEBITS_OK;
}

/* The instruction sets beyond the level, by name. */
static void name_extras(samebits_context *c)
{
    static const struct {
        unsigned flag;
        const char *name;
    } extras[] = {{SB_CPU_AVXVNNI, "avxvnni"},
                  {SB_CPU_VNNI, "vnni"},
                  {SB_CPU_BF16, "bf16"},
                  {SB_CPU_DOTPROD, "dotprod"},
                  {SB_CPU_I8MM, "i8mm"}};
    size_t length = 0;
    c->extras[0] = 0;
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++)
        if (c->cpu & extras[i].flag)
            length += (size_t)snprintf(c->extras + length, sizeof c->extras - length, "%s%s", length ? " " : "",
                                       extras[i].name);
}

samebits_status samebits_create(samebits_context **context, const samebits_options *options)
{
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: pass the address of a samebits_context *");
    *context = NULL;
    samebits_options o;
    samebits_options_default(&o);
    if (options) o = *options;
    const samebits_status status = check_options(&o);
    if (status) return status;
    if (!o.allocator.alloc) o.allocator = (samebits_allocator){default_alloc, default_free, NULL};
    if (!o.threads) o.threads = cpu_count();

    samebits_context *c = o.allocator.alloc(o.allocator.user, sizeof *c, SB_ALIGN);
    if (!c) return sb_fail(SAMEBITS_ERR_MEMORY, "out of memory: a context needs %zu bytes", sizeof *c);
    c->options = o;
    c->cpu = sb_cpu_of_level(o.cpu);
    name_extras(c);
    *context = c; /* first, since a host's log may end this thread */
    sb_log_line(c, SAMEBITS_LOG_INFO, "samebits: cpu %s, %d threads", samebits_cpu_name(sb_cpu_level(c->cpu)),
                o.threads);
    return SAMEBITS_OK;
}

void samebits_destroy(samebits_context **context)
{
    if (!context || !*context) return;
    const samebits_allocator a = (*context)->options.allocator;
    a.free(a.user, *context, sizeof **context);
    *context = NULL;
}

samebits_cpu samebits_context_cpu(const samebits_context *context)
{
    return context ? sb_cpu_level(context->cpu) : SAMEBITS_CPU_AUTO;
}

int samebits_context_threads(const samebits_context *context) { return context ? context->options.threads : 0; }

samebits_status samebits_context_set_threads(samebits_context *context, int threads)
{
    if (!context) return sb_fail(SAMEBITS_ERR_NULL, "context is NULL: create one with samebits_create");
    if (threads < 0 || threads > SB_MAX_THREADS)
        return sb_fail(SAMEBITS_ERR_PARAM, "threads is %d, want 0 (one per CPU) to %d", threads, SB_MAX_THREADS);
    context->options.threads = threads ? threads : cpu_count();
    return SAMEBITS_OK;
}

const char *samebits_cpu_extras(const samebits_context *context) { return context ? context->extras : ""; }
