#ifndef SAMEBITS_LLAMA_OPS_H
#define SAMEBITS_LLAMA_OPS_H

#include "options.h"

int ops_main(const struct options *options);

#endif
