/* samebits verify: the checks, what they count, and who is held to them. */
#ifndef VERIFY_H
#define VERIFY_H

#include <cjson/cJSON.h>

#include "plain.h"
#include "stock.h"

/* What is changed between two runs that must give the same bits. */
typedef enum check {
    CHECK_SPEC,    /* the order in plain C, written from the spec */
    CHECK_LEVELS,  /* the CPU level, against scalar */
    CHECK_THREADS, /* the number of threads */
    CHECK_CONTENT, /* what the neighbour rows hold; all shapes stay */
    CHECK_SHAPE,   /* how many neighbour rows there are, and where the row stands among them */
    CHECK_LAYOUT,  /* strides, offsets, batch dims, packing */
    CHECK_HOST,    /* the caller's floating-point environment */
    CHECK_COUNT
} check;

extern const char *const check_names[CHECK_COUNT];

typedef struct tally {
    int64_t cases, differing; /* comparisons, and values whose bits differ */
} tally;

typedef struct result {
    const char *op, *form;
    samebits_order order;
    tally checks[CHECK_COUNT];
    char *first; /* the first difference in words, NULL if there is none */
} result;

/* Who computes: the library, or its double in plain C with or without a fault. */
typedef struct engine engine;
struct engine {
    void (*run)(const engine *e, const problem *p, setting how, const tensor *x, tensor *out);
    fault_id fault;
    int plain;
};
extern const engine engine_samebits;
engine engine_plain(fault_id fault);

typedef struct verify {
    uint64_t seed;
    int full;
    const char *only; /* name of one op, or NULL */
    const char *form; /* one form of it, or NULL */
    samebits_cpu levels[4];
    int level_count;
    engine who;
    int small; /* few and small shapes: for --self-test */
    int json;
} verify;

/* Whether an op and form are among those asked for. */
int verify_wants(const verify *v, const char *op, const char *form);

int64_t result_cases(const result *r);
int64_t result_differing(const result *r);

/* Compares two tensors of one shape and counts. The text says how `have` was made. */
void compare(result *r, check kind, const tensor *want, const tensor *have, const char *format, ...) CLI_PRINTF(5);
/* Counts a condition as one value. */
void expect(result *r, check kind, int holds, const char *format, ...) CLI_PRINTF(4);

/* All checks of one op that works row by row. */
void verify_rows(const verify *v, const op *o, result *r);

/* All checks of attention in form `form` of attention_forms. */
void verify_attention(const verify *v, int form, result *r);

/* One stock library's answer to the question whether its rows move. */
typedef struct control {
    char *library;
    const char *op, *change; /* "sgemm", "batch" or "threads" */
    int64_t cases, differing;
} control;

/* Asks the libraries, and the built-in one last. Returns the number of answers. */
int verify_controls(const verify *v, const stock *list, int libraries, control **controls);

/* Plants every fault. Returns how many were planted; *caught gets how many were seen by the check that is
 * there for them. Prints a line for each that was not, and a table unless v->json. */
int verify_faults(const verify *v, int *caught);

#endif
