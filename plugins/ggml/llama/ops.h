#ifndef SAMEBITS_LLAMA_OPS_H
#define SAMEBITS_LLAMA_OPS_H

#include "options.h"
#include "suite.h"

/* What one engine does with the nodes of one kind. */
struct ops_cell {
    int nodes, measured, moved;
    double max_change;
    char backends[64]; /* all that ran such a node */
};

/* The nodes of one op and one type of weights (or of keys). */
struct ops_row {
    char op[32], type[16];
    struct ops_cell cells[ENGINES];
};

enum { OPS_ROWS_MAX = 128 };

struct ops_table {
    const struct options *options;
    char description[128];
    bool ran[ENGINES];
    struct ops_row rows[OPS_ROWS_MAX];
    int count;
};

enum { OPS_PREFIX = 520, OPS_BATCH = 37 }; /* tokens before, and beside, the token whose ops are watched */

/* Which ops of the model run where, and whether they move; returns the exit status. */
int ops_main(const struct options *options);

void ops_print_table(const struct ops_table *table);
void ops_print_json(const struct ops_table *table);

#endif
