#include "error.h"

#include <stdarg.h>
#include <stdio.h>

static char message[1024];

int fail(const char *format, ...)
{
    /* Formatted aside first: an argument may be failure() itself, with more context around it. */
    char text[sizeof message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(message, sizeof message, "%s", text);
    return -1;
}

const char *failure(void) { return message; }
