/* samebits verify --accuracy: every op and order against float64, beside stock. */
#ifndef ACCURACY_H
#define ACCURACY_H

#include <cjson/cJSON.h>

#include "ggml.h"
#include "stock.h"

typedef struct accuracy_line {
    const char *op, *form, *order;
    double rms, largest; /* error over the RMS of the exact outputs */
    char *peer;          /* NULL: no peer */
    double peer_rms, peer_largest;
} accuracy_line;

/* Lines of all ops that match `only` (NULL: all), beside the libraries given. Returns their number. */
int accuracy_measure(const char *only, const stock *stocks, int stock_count, ggml_library *ggml, accuracy_line **lines);
void accuracy_print(const accuracy_line *lines, int count);
/* Adds "accuracy" to an object. */
void accuracy_json(const accuracy_line *lines, int count, cJSON *root);

#endif
