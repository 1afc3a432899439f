#ifndef SAMEBITS_LLAMA_SERVER_H
#define SAMEBITS_LLAMA_SERVER_H

#include "options.h"

int server_main(const struct options *options);

#endif
