#include "table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add(table *t, char *text)
{
    if (t->cells == t->room) {
        t->room = t->room ? 2 * t->room : 64;
        t->text = realloc(t->text, (size_t)t->room * sizeof *t->text);
        if (!t->text) cli_die("out of memory");
    }
    t->text[t->cells++] = text;
}

void table_begin(table *t, const char *headings)
{
    *t = (table){0};
    while (*headings) {
        const size_t length = strcspn(headings, "|");
        const int right = *headings == '>';
        t->right[t->columns++] = right;
        add(t, cli_text("%.*s", (int)length - right, headings + right));
        headings += length + (headings[length] == '|');
    }
}

void table_cell(table *t, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) cli_die("out of memory");
    va_end(args);
    add(t, text);
}

void table_end(table *t, FILE *out)
{
    int width[24] = {0};
    for (int i = 0; i < t->cells; i++) width[i % t->columns] = CLI_MAX(width[i % t->columns], (int)strlen(t->text[i]));
    for (int i = 0; i < t->cells; i++) {
        const int column = i % t->columns, last = column == t->columns - 1;
        if (t->right[column])
            fprintf(out, "%*s", width[column], t->text[i]);
        else
            fprintf(out, "%-*s", last ? 0 : width[column], t->text[i]);
        fputs(last ? "\n" : "  ", out);
        free(t->text[i]);
    }
    free(t->text);
    *t = (table){0};
}

static int shown;

void progress(int done, int all, const char *format, ...)
{
    if (!isatty(STDERR_FILENO)) return;
    va_list args;
    va_start(args, format);
    fputs("\r\033[K", stderr);
    if (all) fprintf(stderr, "[%-20.*s] ", 20 * CLI_MIN(done, all) / all, "####################");
    vfprintf(stderr, format, args);
    fflush(stderr);
    va_end(args);
    shown = 1;
}

void progress_end(void)
{
    if (shown) fputs("\r\033[K", stderr);
    shown = 0;
}
