/* The thread's last error. */
#ifndef SB_ERROR_H
#define SB_ERROR_H

#include <samebits/status.h>

/* Stores the message and returns the status, so that a check reads `return sb_fail(...)`. */
samebits_status sb_fail(samebits_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
