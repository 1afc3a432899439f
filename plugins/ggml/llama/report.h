#ifndef SAMEBITS_LLAMA_REPORT_H
#define SAMEBITS_LLAMA_REPORT_H

#include "suite.h"

void report_table(const struct suite *suite);
void report_json(const struct suite *suite);

#endif
