#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

/* Per thread, like errno: two threads that share a context must not see each other's message. */
static _Thread_local char message[512];

samebits_status sb_fail(samebits_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return status;
}

const char *samebits_last_error(void) { return message; }

const char *samebits_status_name(samebits_status status)
{
    static const char *const names[] = {"OK",         "ERR_NULL",   "ERR_RANK",    "ERR_SHAPE",    "ERR_DTYPE",
                                        "ERR_DEVICE", "ERR_STRIDE", "ERR_OVERLAP", "ERR_OVERFLOW", "ERR_FORMAT",
                                        "ERR_ORDER",  "ERR_PARAM",  "ERR_CPU",     "ERR_MEMORY",   "ERR_UNSUPPORTED"};
    const unsigned i = (unsigned)status;
    return i < sizeof names / sizeof *names ? names[i] : "unknown";
}
