#ifndef SAMEBITS_LLAMA_PLOT_H
#define SAMEBITS_LLAMA_PLOT_H

#include "suite.h"

/* Writes an SVG of the largest change per scenario, stock beside samebits. -1 after fail(). */
int plot_write(const struct suite *suite, const char *path);

#endif
