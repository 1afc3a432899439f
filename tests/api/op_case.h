/* What every op must do with bad input, tested from a description of one valid call. */
#ifndef OP_CASE_H
#define OP_CASE_H

#include <samebits/samebits.h>

#include "support/tensor.h"

enum { OP_MAX_ARGUMENTS = 10 };

typedef enum op_flag {
    OP_OUT = 1,      /* written by the call */
    OP_OPTIONAL = 2, /* may be NULL */
    OP_IN_PLACE = 4, /* may be the output itself */
    OP_NO_GROW = 8   /* its shape is free, or its error is another one: the op's own test has it */
} op_flag;

typedef struct op_argument {
    const char *name; /* as messages call it */
    test_tensor *tensor;
    int min_dims, max_dims;
    unsigned flags;
} op_argument;

typedef struct op_case {
    samebits_context *context;
    /* Calls the op with context and pointer[]. */
    samebits_status (*call)(struct op_case *c);
    op_argument argument[OP_MAX_ARGUMENTS];
    int count;
    DLTensor *pointer[OP_MAX_ARGUMENTS]; /* what the call gets: a tensor, a spoilt copy, or NULL */
    void *user;
} op_case;

void op_add(op_case *c, const char *name, test_tensor *tensor, int min_dims, int max_dims, unsigned flags);

/* The call must give this status, a message that names `name` (unless NULL), and leave all memory as it was. */
void op_expect_at(op_case *c, samebits_status status, const char *name, const char *what, const char *file, int line);
#define op_expect(c, status, name, what) op_expect_at(c, status, name, what, __FILE__, __LINE__)
/* The call must succeed and leave its inputs as they were. */
void op_expect_ok(op_case *c);

/* Spoils each argument in every way that concerns all ops; all sizes of the case must be 2 or more. */
void op_check_errors(op_case *c);
/* Fails each allocation in turn. Makes contexts of its own with these threads. */
void op_check_memory(op_case *c, int threads);

/* Whether `name` stands in text as a word. */
int op_names(const char *text, const char *name);

#endif
