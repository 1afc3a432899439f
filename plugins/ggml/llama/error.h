#ifndef SAMEBITS_LLAMA_ERROR_H
#define SAMEBITS_LLAMA_ERROR_H

/* What scripts rely on: the bits held, they moved, or there was nothing to judge. */
enum exit_code { EXIT_HELD = 0, EXIT_MOVED = 1, EXIT_TROUBLE = 2 };

/* Sets the message that failure() returns; always returns -1, so that callers can `return fail(...)`. */
int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *failure(void);

#endif
