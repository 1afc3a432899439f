/* The inside of a context, and its memory. */
#ifndef SB_CONTEXT_H
#define SB_CONTEXT_H

#include <samebits/context.h>

#include "base/base.h"

/* More workers than any machine of today has CPUs; thread libraries end the process when they cannot start
 * as many as they are asked for. */
#define SB_MAX_THREADS 1024

struct samebits_context {
    samebits_options options; /* allocator filled in, threads resolved */
    unsigned cpu;             /* SB_CPU_* flags that rows may use */
    char extras[32];
};

/* Memory aligned to SB_ALIGN through the context's allocator. Returns NULL without a message. A size of 0
 * gets a unique block, so that NULL always means failure. */
void *sb_alloc(const samebits_context *context, size_t size);
void sb_free(const samebits_context *context, void *ptr, size_t size);

void sb_log_line(const samebits_context *context, samebits_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
