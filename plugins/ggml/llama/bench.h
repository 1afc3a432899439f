#ifndef SAMEBITS_LLAMA_BENCH_H
#define SAMEBITS_LLAMA_BENCH_H

#include "options.h"

int bench_main(const struct options *options);

#endif
