/* samebits verify --fuzz: random calls of every op against the order in plain C. */
#ifndef FUZZ_H
#define FUZZ_H

#include "attention.h"
#include "verify.h"

typedef struct fuzz_result {
    result r;
    int64_t cases, failed; /* cases run, and those in which a value differed */
    uint64_t first_seed;   /* of the first that failed */
} fuzz_result;

/* To be called before the others: contexts get memory that is poisoned, and in some cases stands at an edge, as that of
 * tensors does; a case that touches what lies beyond is named before the process ends. */
void fuzz_begin(void);
/* Runs `cases` cases of every op and form that v wants, at v's levels. Returns the number of results. */
int fuzz_run(const verify *v, int64_t cases, fuzz_result **results);
/* One case of attention. */
void fuzz_attention(const verify *v, const attention_form *form, rng *r, result *found);
/* How many of 500 cases catch a wrong chunk size: a run that can find nothing proves nothing. */
int64_t fuzz_control(const verify *v);
void fuzz_print(const fuzz_result *results, int count);
/* Adds "fuzz" to an object. */
void fuzz_json(const fuzz_result *results, int count, cJSON *root);

#endif
