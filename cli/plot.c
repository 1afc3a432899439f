/* The picture of samebits bench: a bar for each line, its length how many times faster than the best peer. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

enum { LEFT = 430, BAR = 420, ROW = 20, TOP = 60 };

/* 0 where no library was timed: a copy is a bound, not a peer. */
static double ratio(const bench_line *l)
{
    double best = 0.0;
    for (int i = 1; i < l->count; i++)
        if (l->all[i].run != machine_copy && (best == 0.0 || l->all[i].seconds < best)) best = l->all[i].seconds;
    return best / l->all[0].seconds;
}

/* Names hold '<' or '&' only if a library's file name does; they are dropped. */
static void put_text(FILE *out, const char *text)
{
    for (; *text; text++)
        if (!strchr("<>&", *text)) fputc(*text, out);
}

void bench_plot(const bench *b, const char *path)
{
    double largest = 1.5;
    int rows = 0;
    for (int i = 0; i < b->count; i++) {
        if (ratio(&b->lines[i]) == 0.0) continue;
        largest = CLI_MAX(largest, ratio(&b->lines[i]));
        rows++;
    }
    if (!rows) cli_die("--plot: nothing to draw: no stock library was timed; see --stock and --ggml");
    FILE *out = fopen(path, "w");
    if (!out) cli_die("--plot %s: %s", path, strerror(errno));
    const int height = TOP + ROW * rows + 30;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"20\" y=\"24\" font-size=\"16\">samebits %s: speed against the best stock library</text>\n"
            "<text x=\"20\" y=\"44\" fill=\"#555\">bars past the line are faster; %d thread%s</text>\n",
            LEFT + BAR + 80, height, samebits_version(), b->threads, b->threads > 1 ? "s" : "");
    int y = TOP;
    for (int i = 0; i < b->count; i++) {
        const bench_line *l = &b->lines[i];
        const double r = ratio(l);
        if (r == 0.0) continue;
        const int width = (int)(BAR * r / largest);
        fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", LEFT - 8, y + 14);
        put_text(out, l->op);
        fputs(" ", out);
        put_text(out, l->form);
        fputs(" ", out);
        put_text(out, l->order);
        fputs(", ", out);
        put_text(out, l->shape);
        fprintf(out,
                "</text>\n<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n"
                "<text x=\"%d\" y=\"%d\">%.2f</text>\n",
                LEFT, y + 3, width, ROW - 6, r >= 1.0 ? "#2a7ab0" : "#c8783c", LEFT + width + 5, y + 14, r);
        y += ROW;
    }
    const int one = LEFT + (int)(BAR / largest);
    fprintf(out, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"black\" stroke-dasharray=\"4 3\"/>\n</svg>\n",
            one, TOP - 4, one, y + 4);
    if (fclose(out)) cli_die("--plot %s: %s", path, strerror(errno));
}
