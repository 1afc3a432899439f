#ifndef SAMEBITS_LLAMA_SERVER_H
#define SAMEBITS_LLAMA_SERVER_H

#include "options.h"

/*
 * The needle test of a running llama-server: one prompt alone, cached, in every slot, and beside three others; its
 * log-probabilities are compared as numbers. Returns the exit status.
 */
int server_main(const struct options *options);

#endif
