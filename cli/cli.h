/* What every file of the samebits command shares: exit codes, errors, memory. */
#ifndef CLI_H
#define CLI_H

#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>

#include <samebits/samebits.h>

/* Exit codes that scripts rely on. */
enum { CLI_HOLDS = 0, CLI_MOVED = 1, CLI_ERROR = 2 };

/* Version of the objects that --json prints; raised when a key changes its meaning or goes away. */
enum { CLI_JSON_SCHEMA = 1 };

#define CLI_COUNT(array) (sizeof(array) / sizeof *(array))
#define CLI_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define CLI_MAX(a, b)    ((a) > (b) ? (a) : (b))
#define CLI_PRINTF(at)   __attribute__((format(printf, at, at + 1)))

/* A subcommand: argv[0] is "samebits NAME". Returns an exit code. */
int command_verify(int argc, char **argv);
int command_fingerprint(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_info(int argc, char **argv);

/* Prints "samebits NAME: message" on stderr and exits with CLI_ERROR. */
noreturn void cli_die(const char *format, ...) CLI_PRINTF(1);
void cli_warn(const char *format, ...) CLI_PRINTF(1);
/* The name that messages start with. */
void cli_set_name(const char *name);

/* Zeroed memory aligned to 64 bytes; ends the program if there is none. */
void *cli_alloc(size_t size);
/* Formatted text; the caller frees it. */
char *cli_text(const char *format, ...) CLI_PRINTF(1);

/* The level called `name` ("auto" included), -1 if there is none. */
int cli_cpu_of(const char *name);
/* A context at this level with this many threads, made once and kept. Ends the program if it cannot be made.
 * With `lent`, the workers are run by this program, one after another from the last to the first. */
samebits_context *cli_context(samebits_cpu cpu, int threads, int lent);
/* Of the contexts that are made from now on; by default the library's own. */
void cli_set_allocator(const samebits_allocator *allocator);
/* Levels of this machine, scalar first. Returns their number. */
int cli_levels(samebits_cpu levels[static 4]);
/* Ends the program with the library's message unless status is OK. */
void cli_check(samebits_status status, const char *what);

double cli_seconds(void);

#endif
