#include "plot.h"

#include "error.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Lengths in pixels. "0" has a column of its own, left of the logarithmic axis. */
enum { WIDTH = 960, LEFT = 380, ZERO = 410, AXIS = 460, RIGHT = 930, TOP = 92, ROW = 20 };
enum { LOW = -6, HIGH = 1 }; /* decades of the axis */

static const struct {
    const char *colour, *mark, *label;
    int x; /* of its legend */
} series[ENGINES] = {{"#d1495b", "&#9679;", "stock llama.cpp", LEFT + 30},
                     {"#00798c", "&#9675;", "samebits", LEFT + 300}};

static double place(double change)
{
    if (change == 0) return ZERO;
    double decade = isfinite(change) ? log10(change) : HIGH;
    decade = decade < LOW ? LOW : decade > HIGH ? HIGH : decade;
    return AXIS + (decade - LOW) / (HIGH - LOW) * (RIGHT - AXIS);
}

static void write_mark(FILE *file, const struct outcome *outcome, int which, int y)
{
    if (outcome->status == OUTCOME_SKIPPED || outcome->status == OUTCOME_FAILED) {
        fprintf(file, "<text x='%d' y='%d' fill='%s' font-size='10'>%s</text>\n", AXIS + 60 * which, y + 4,
                series[which].colour, outcome->status == OUTCOME_FAILED ? "failed" : "skipped");
        return;
    }
    const double x = place(outcome->difference.moved ? outcome->difference.max_change : 0);
    if (which == STOCK)
        fprintf(file, "<circle cx='%.1f' cy='%d' r='5' fill='%s'/>\n", x, y, series[which].colour);
    else /* a ring, so that two marks on "0" are both seen */
        fprintf(file, "<circle cx='%.1f' cy='%d' r='7' fill='none' stroke='%s' stroke-width='2'/>\n", x, y,
                series[which].colour);
}

static void write_rows(FILE *file, const struct suite *suite)
{
    int y = TOP + ROW / 2;
    for (int i = 0; i < scenario_count; i++) {
        if (!suite->chosen[i] || scenarios[i].base) continue;
        fprintf(file, "<text x='%d' y='%d' text-anchor='end'>%s</text>\n", LEFT, y + 4, scenarios[i].name);
        fprintf(file, "<line x1='%d' y1='%d' x2='%d' y2='%d' stroke='#eee'/>\n", LEFT + 8, y, RIGHT, y);
        for (int which = STOCK; which < ENGINES; which++)
            if (suite->engines[which].ran) write_mark(file, &suite->engines[which].outcomes[i], which, y);
        y += ROW;
    }
}

static void write_axis(FILE *file, int bottom)
{
    fprintf(file, "<g fill='#444' text-anchor='middle'>\n");
    fprintf(file, "<line x1='%d' y1='%d' x2='%d' y2='%d' stroke='#999'/>\n", ZERO, TOP - 6, ZERO, bottom);
    fprintf(file, "<text x='%d' y='%d' font-weight='bold'>0</text>\n", ZERO, bottom + 16);
    for (int decade = LOW; decade <= HIGH; decade++) {
        const double x = place(pow(10, decade));
        fprintf(file, "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#ddd'/>\n", x, TOP - 6, x, bottom);
        fprintf(file, "<text x='%.1f' y='%d'>%g</text>\n", x, bottom + 16, pow(10, decade));
    }
    fprintf(file, "<text x='%d' y='%d'>largest |change| of a logit (logarithmic; 0: no bit moved)</text>\n</g>\n",
            (AXIS + RIGHT) / 2, bottom + 36);
}

static void write_heading(FILE *file, const struct suite *suite)
{
    fprintf(file, "<text x='20' y='28' font-size='17' font-weight='bold'>"
                  "How far the logits of one prompt move</text>\n");
    fprintf(file, "<text x='20' y='48' fill='#444'>%s, %d tokens, against the whole prompt in one batch</text>\n",
            suite->description, suite->options->tokens);
    for (int which = STOCK; which < ENGINES; which++) {
        const struct suite_engine *engine = &suite->engines[which];
        if (engine->ran)
            fprintf(file, "<text x='%d' y='72' fill='%s' font-weight='bold'>%s %s: %d of %d moved</text>\n",
                    series[which].x, series[which].colour, series[which].mark, series[which].label,
                    engine->moved_scenarios, engine->compared);
    }
}

int plot_write(const struct suite *suite, const char *path)
{
    int rows = 0;
    for (int i = 0; i < scenario_count; i++) rows += suite->chosen[i] && !scenarios[i].base;
    const int bottom = TOP + rows * ROW;
    FILE *file = fopen(path, "w");
    if (!file) return fail("cannot write %s: %s; name another file", path, strerror(errno));
    fprintf(file,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif' "
            "font-size='12'>\n<rect width='100%%' height='100%%' fill='white'/>\n",
            WIDTH, bottom + 52);
    write_heading(file, suite);
    write_axis(file, bottom);
    write_rows(file, suite);
    fputs("</svg>\n", file);
    return fclose(file) ? fail("cannot write %s: %s", path, strerror(errno)) : 0;
}
