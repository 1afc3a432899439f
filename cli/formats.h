/* samebits verify --formats: weight formats against those who define them. */
#ifndef FORMATS_H
#define FORMATS_H

#include "ggml.h"

/* Compares each GGUF format with the library's own function, and prints a table, or one JSON object.
 * Returns an exit code. */
int formats_verify(const ggml_library *g, int json);

#endif
