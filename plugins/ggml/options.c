/* The plugin's environment variables (docs/ggml.md). */
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

static bool unknown(const char *name, const char *value, const char *want)
{
    sbg_error("not loaded: %s is \"%s\", want %s\n", name, value, want);
    return false;
}

static bool read_order(samebits_order *order)
{
    const char *value = getenv("SAMEBITS_ORDER");
    if (!value || !strcmp(value, samebits_order_name(SAMEBITS_ORDER_INT8_1)))
        *order = SAMEBITS_ORDER_INT8_1;
    else if (!strcmp(value, samebits_order_name(SAMEBITS_ORDER_PORTABLE_1)))
        *order = SAMEBITS_ORDER_PORTABLE_1;
    else
        return unknown("SAMEBITS_ORDER", value, "int8-1 or portable-1");
    return true;
}

static bool read_cpu(samebits_cpu *cpu)
{
    const char *value = getenv("SAMEBITS_CPU");
    *cpu = SAMEBITS_CPU_AUTO;
    if (!value) return true;
    while (*cpu < SAMEBITS_CPU_COUNT && strcmp(value, samebits_cpu_name(*cpu))) (*cpu)++;
    if (*cpu == SAMEBITS_CPU_COUNT) return unknown("SAMEBITS_CPU", value, "auto, scalar, avx2, avx512, amx or neon");
    if (samebits_cpu_supported(*cpu)) return true;
    sbg_error("not loaded: SAMEBITS_CPU is \"%s\", which this machine does not have\n", value);
    return false;
}

static bool read_threads(int *threads)
{
    const char *value = getenv("SAMEBITS_THREADS");
    *threads = 0;
    if (!value) return true;
    char *end;
    const long n = strtol(value, &end, 10);
    if (end == value || *end || n < 1 || n > 1024) return unknown("SAMEBITS_THREADS", value, "1 to 1024");
    *threads = (int)n;
    return true;
}

static bool read_strict(bool *strict)
{
    const char *value = getenv("SAMEBITS_STRICT");
    *strict = value && !strcmp(value, "1");
    return !value || *strict || !strcmp(value, "0") || unknown("SAMEBITS_STRICT", value, "0 or 1");
}

bool sbg_options_read(sbg_options *options)
{
    return read_order(&options->order) && read_cpu(&options->cpu) && read_threads(&options->threads) &&
           read_strict(&options->strict);
}
