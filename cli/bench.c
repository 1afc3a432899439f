/* samebits bench: options, timing, report. */
#include "bench.h"

#include <argp.h>
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

int bench_wants(const bench *b, const char *form) { return !b->form || !strcmp(b->form, form); }

bench_line *bench_add(bench *b, const char *op, const char *form, samebits_order order, char *shape)
{
    if (b->count == b->room) {
        b->room = b->room ? 2 * b->room : 64;
        b->lines = realloc(b->lines, (size_t)b->room * sizeof *b->lines);
        if (!b->lines) cli_die("out of memory");
    }
    bench_line *line = &b->lines[b->count++];
    *line = (bench_line){.shape = shape, .order = samebits_order_name(order)};
    line->op = cli_text("%s", op);
    line->form = cli_text("%s", form);
    return line;
}

void bench_join(bench_line *line, const char *name, void (*run)(void *), void *arg)
{
    line->all[line->count++] = (contestant){name, run, arg, 0.0};
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of a call in a series of its own, whose data have settled in the caches: else peers that share weights would
 * find what the peer before had read, and we, with weights of our own, what they had not displaced. */
static double time_call(const contestant *c)
{
    enum { WARM = 4 };
    const double LONG = 0.02; /* seconds: what is read in that time is more than caches hold */
    for (int i = 0;; i++) {
        const double begin = cli_seconds();
        c->run(c->arg);
        const double seconds = cli_seconds() - begin;
        if (i == WARM || seconds > LONG) return seconds;
    }
}

void bench_time(const bench *b, bench_line *line)
{
    enum { MOST = 31 };
    double times[BENCH_PEERS][MOST], reads[MOST];
    reader *plain = machine_reader(line->bytes, b->threads);
    const double budget = (b->quick ? 0.1 : 0.6) * (line->count + 1), start = cli_seconds();
    if (!b->json) progress(0, 0, "bench: %s %s %s", line->op, line->form, line->shape);
    for (int i = 0; i < line->count; i++) line->all[i].run(line->all[i].arg);
    int rounds = 0;
    /* Interleaved, so that a slow minute of the machine falls on all. */
    while (rounds < MOST && (rounds < 5 || cli_seconds() - start < budget)) {
        for (int i = 0; i < line->count; i++) times[i][rounds] = time_call(&line->all[i]);
        machine_read(plain);
        reads[rounds++] = machine_read(plain);
    }
    qsort(reads, (size_t)rounds, sizeof(double), by_value);
    line->bandwidth = reads[rounds / 2];
    machine_reader_free(plain);
    for (int i = 0; i < line->count; i++) {
        qsort(times[i], (size_t)rounds, sizeof(double), by_value);
        line->all[i].seconds = times[i][rounds / 2];
    }
    progress_end();
}

typedef struct options {
    bench b;
    const char *stock, *ggml, *plot;
} options;

enum { KEY_QUICK = 256, KEY_SWEEP, KEY_FORM, KEY_STOCK, KEY_GGML, KEY_PLOT, KEY_THREADS, KEY_JSON };

static const struct argp_option option_list[] = {
    {"quick", KEY_QUICK, 0, 0, "Smaller shapes, fewer of them", 0},
    {"sweep", KEY_SWEEP, 0, 0, "Products of 1 to 2048 rows, with prepared weights of eight shapes; takes an hour", 0},
    {"form", KEY_FORM, "FORM", 0, "Only lines of this form, as the table names it", 0},
    {"threads", KEY_THREADS, "N", 0, "Threads of all contestants (default 1)", 0},
    {"stock", KEY_STOCK, "PATH", 0, "A stock library to time beside ours; several with ':'", 0},
    {"ggml", KEY_GGML, "FOLDER", 0, "Folder with libggml-base.so and libggml-cpu*.so to time beside ours", 0},
    {"plot", KEY_PLOT, "FILE", 0, "Write a picture (SVG)", 0},
    {"json", KEY_JSON, 0, 0, "Print one JSON object", 0},
    {0}};

static const char documentation[] =
    "Times our kernels beside stock libraries, in turn, and prints medians. OP is matmul, quantized, attention, "
    "rows or modes; all of them by default."
    "\v"
    "Columns: 'ratio' is the best peer's time by ours; 'of read' is the speed at which weights or keys are read, by "
    "the measured read bandwidth over as many bytes; 'of peak' the share of the measured peak of f32 fma; 'to M=1' "
    "the cost against one row. The lines of modes show what a mode without a limit costs, and what a limit of "
    "SAMEBITS_LIMIT rows (default 8) above which stock computes would bring.\n\n"
    "Examples:\n"
    "  samebits bench --quick\n"
    "  samebits bench quantized --ggml /opt/llama.cpp/bin --threads 2\n"
    "  samebits bench matmul --stock /usr/lib/x86_64-linux-gnu/libmkl_rt.so --plot matmul.svg --json\n\n"
    "Exit status: 0, or 2 for usage or environment.";

static error_t parse(int key, char *arg, struct argp_state *state)
{
    static const char *const names[] = {"matmul", "quantized", "attention", "rows", "modes"};
    options *o = state->input;
    int known = 0;
    switch (key) {
    case KEY_QUICK: o->b.quick = 1; break;
    case KEY_SWEEP: o->b.sweep = 1; break;
    case KEY_FORM: o->b.form = arg; break;
    case KEY_STOCK: o->stock = arg; break;
    case KEY_GGML: o->ggml = arg; break;
    case KEY_PLOT: o->plot = arg; break;
    case KEY_JSON: o->b.json = 1; break;
    case KEY_THREADS:
        o->b.threads = atoi(arg);
        if (o->b.threads < 1 || o->b.threads > 1024) argp_error(state, "--threads wants 1 to 1024, not '%s'", arg);
        break;
    case ARGP_KEY_ARG:
        for (size_t i = 0; i < CLI_COUNT(names); i++) known |= !strcmp(arg, names[i]);
        if (!known || o->b.only)
            argp_error(state, "OP is one of matmul, quantized, attention, rows, modes, not '%s'", arg);
        o->b.only = arg;
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* The fastest peer, or NULL. */
static const contestant *best_peer(const bench_line *l)
{
    const contestant *best = NULL;
    for (int i = 1; i < l->count; i++)
        if (!best || l->all[i].seconds < best->seconds) best = &l->all[i];
    return best;
}

static void print_human(const bench *b)
{
    table t;
    table_begin(&t, "op|form|order|shape|>us|>GFLOP/s|>GB/s|>of read|>of peak|>to M=1|>ratio|best peer|others");
    for (int i = 0; i < b->count; i++) {
        const bench_line *l = &b->lines[i];
        const double seconds = l->all[0].seconds;
        const contestant *best = best_peer(l);
        table_cell(&t, "%s", l->op);
        table_cell(&t, "%s", l->form);
        table_cell(&t, "%s", l->order);
        table_cell(&t, "%s", l->shape);
        table_cell(&t, "%.0f", seconds * 1e6);
        table_cell(&t, l->flops > 0.0 ? "%.1f" : "-", l->flops / seconds * 1e-9);
        table_cell(&t, "%.1f", l->bytes / seconds * 1e-9);
        table_cell(&t, "%.2f", l->bytes / seconds * 1e-9 / l->bandwidth);
        table_cell(&t, l->flops > 0.0 && b->peak > 0.0 ? "%.2f" : "-", l->flops / seconds * 1e-9 / b->peak);
        table_cell(&t, l->one_row > 0.0 ? "%.2f" : "-", seconds / l->one_row);
        table_cell(&t, best ? "%.2f" : "-", best ? best->seconds / seconds : 0.0);
        table_cell(&t, "%s", best ? best->name : "-");
        char *others = cli_text("%s", "");
        for (int p = 1; p < l->count; p++)
            if (&l->all[p] != best) {
                char *longer =
                    cli_text("%s%s%s %.2f", others, *others ? ", " : "", l->all[p].name, l->all[p].seconds / seconds);
                free(others);
                others = longer;
            }
        table_cell(&t, "%s", others);
        free(others);
    }
    table_end(&t, stdout);
    printf("\n%d thread%s, level %s, peak fma %.1f GFLOP/s\n", b->threads, b->threads > 1 ? "s" : "",
           samebits_cpu_name(samebits_context_cpu(cli_context(SAMEBITS_CPU_AUTO, b->threads, 0))), b->peak);
    if (!b->stock_count) printf("%s\n", stock_hint);
    if (!b->ggml) printf("ggml was not timed: name the folder of its libraries with --ggml\n");
}

static void print_json(const bench *b)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddNumberToObject(root, "schema", CLI_JSON_SCHEMA);
    cJSON_AddStringToObject(root, "version", samebits_version());
    cJSON_AddStringToObject(root, "cpu",
                            samebits_cpu_name(samebits_context_cpu(cli_context(SAMEBITS_CPU_AUTO, b->threads, 0))));
    cJSON_AddNumberToObject(root, "threads", b->threads);
    cJSON_AddNumberToObject(root, "peak_gflops", b->peak);
    cJSON *list = cJSON_AddArrayToObject(root, "lines");
    for (int i = 0; i < b->count; i++) {
        const bench_line *l = &b->lines[i];
        const contestant *best = best_peer(l);
        cJSON *one = cJSON_CreateObject(), *peers;
        cJSON_AddStringToObject(one, "op", l->op);
        cJSON_AddStringToObject(one, "form", l->form);
        cJSON_AddStringToObject(one, "order", l->order);
        cJSON_AddStringToObject(one, "shape", l->shape);
        cJSON_AddNumberToObject(one, "seconds", l->all[0].seconds);
        cJSON_AddNumberToObject(one, "gflops", l->flops / l->all[0].seconds * 1e-9);
        cJSON_AddNumberToObject(one, "gbytes", l->bytes / l->all[0].seconds * 1e-9);
        cJSON_AddNumberToObject(one, "read_gbytes", l->bandwidth);
        if (l->one_row > 0.0) cJSON_AddNumberToObject(one, "to_one_row", l->all[0].seconds / l->one_row);
        if (best) cJSON_AddNumberToObject(one, "ratio", best->seconds / l->all[0].seconds);
        peers = cJSON_AddArrayToObject(one, "peers");
        for (int p = 1; p < l->count; p++) {
            cJSON *peer = cJSON_CreateObject();
            cJSON_AddStringToObject(peer, "library", l->all[p].name);
            cJSON_AddNumberToObject(peer, "seconds", l->all[p].seconds);
            cJSON_AddItemToArray(peers, peer);
        }
        cJSON_AddItemToArray(list, one);
    }
    char *text = cJSON_Print(root);
    puts(text);
    free(text);
    cJSON_Delete(root);
}

int command_bench(int argc, char **argv)
{
    static const struct argp argp = {option_list, parse, "[OP]", documentation, NULL, NULL, NULL};
    static const struct {
        const char *name;
        void (*run)(bench *b);
    } parts[] = {{"matmul", bench_products},
                 {"quantized", bench_quantized},
                 {"attention", bench_attention},
                 {"rows", bench_rows},
                 {"modes", bench_modes}};
    options o = {.b = {.threads = 1}};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    o.b.stock_count = stock_open(o.stock, &o.b.stocks);
    o.b.onednn = cli_alloc((size_t)o.b.stock_count * sizeof(onednn *));
    for (int i = 0; i < o.b.stock_count; i++) o.b.onednn[i] = onednn_open(o.b.stocks[i].library);
    o.b.ggml = o.ggml ? ggml_open(o.ggml) : NULL;
    o.b.peak = machine_peak(o.b.threads);
    for (size_t i = 0; i < CLI_COUNT(parts); i++)
        if (!o.b.only || !strcmp(o.b.only, parts[i].name)) parts[i].run(&o.b);
    if (!o.b.count) cli_die("--form %s: no line has this form; see the table without it", o.b.form);
    if (o.b.json)
        print_json(&o.b);
    else
        print_human(&o.b);
    if (o.plot) bench_plot(&o.b, o.plot);
    return CLI_HOLDS;
}
