/* Tables for a person: columns as wide as their widest cell. */
#ifndef TABLE_H
#define TABLE_H

#include <stdio.h>

#include "cli.h"

typedef struct table {
    int columns, cells, room;
    char **text;   /* headings first, then row by row */
    int right[24]; /* column is flush right */
} table;

/* Headings separated by '|'; one that starts with '>' is flush right. */
void table_begin(table *t, const char *headings);
void table_cell(table *t, const char *format, ...) CLI_PRINTF(2);
/* Prints and frees. */
void table_end(table *t, FILE *out);

/* A bar of `done` of `all` and a line on stderr, if that is a terminal; otherwise nothing. No bar if all is 0. */
void progress(int done, int all, const char *format, ...) CLI_PRINTF(3);
/* Removes the line. */
void progress_end(void);

#endif
