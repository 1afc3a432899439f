#ifndef SAMEBITS_LLAMA_BENCH_H
#define SAMEBITS_LLAMA_BENCH_H

#include "options.h"

/* Tokens per second of both engines, stock at its best setting; returns the exit status. */
int bench_main(const struct options *options);

#endif
