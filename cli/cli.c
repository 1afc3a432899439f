/* Errors, memory and contexts of the samebits command. */
#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *program = "samebits";

void cli_set_name(const char *name) { program = name; }

static void say(const char *format, va_list args)
{
    fflush(stdout);
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

void cli_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    exit(CLI_ERROR);
}

void cli_warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
}

void *cli_alloc(size_t size)
{
    const size_t rounded = (CLI_MAX(size, (size_t)1) + 63) / 64 * 64;
    void *memory = aligned_alloc(64, rounded);
    if (!memory) cli_die("out of memory: %zu bytes wanted", size);
    return memset(memory, 0, rounded);
}

char *cli_text(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) cli_die("out of memory");
    va_end(args);
    return text;
}

int cli_cpu_of(const char *name)
{
    for (int cpu = SAMEBITS_CPU_AUTO; cpu < SAMEBITS_CPU_COUNT; cpu++)
        if (!strcmp(name, samebits_cpu_name((samebits_cpu)cpu))) return cpu;
    return -1;
}

int cli_levels(samebits_cpu levels[static 4])
{
    int count = 0;
    for (int cpu = SAMEBITS_CPU_SCALAR; cpu < SAMEBITS_CPU_COUNT; cpu++)
        if (samebits_cpu_supported((samebits_cpu)cpu)) levels[count++] = (samebits_cpu)cpu;
    return count;
}

static void run_workers(void *user, int workers, void (*body)(void *arg, int worker), void *arg)
{
    (void)user;
    while (workers-- > 0) body(arg, workers);
}

static samebits_allocator allocator;

void cli_set_allocator(const samebits_allocator *a) { allocator = *a; }

samebits_context *cli_context(samebits_cpu cpu, int threads, int lent)
{
    static struct {
        samebits_cpu cpu;
        int threads, lent;
        samebits_context *context;
    } made[128];
    static size_t count;
    for (size_t i = 0; i < count; i++)
        if (made[i].cpu == cpu && made[i].threads == threads && made[i].lent == lent) return made[i].context;
    if (count == CLI_COUNT(made)) cli_die("more than %zu contexts", count);
    samebits_options options;
    samebits_options_default(&options);
    options.cpu = cpu;
    options.threads = threads;
    options.allocator = allocator;
    if (lent) options.parallel_for = run_workers;
    made[count].cpu = cpu;
    made[count].threads = threads;
    made[count].lent = lent;
    cli_check(samebits_create(&made[count].context, &options), "samebits_create");
    return made[count++].context;
}

void cli_check(samebits_status status, const char *what)
{
    if (status) cli_die("%s: %s: %s", what, samebits_status_name(status), samebits_last_error());
}

double cli_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
