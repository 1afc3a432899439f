/* samebits verify: options, the order of the checks, the report. */
#include "verify.h"

#include <argp.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "accuracy.h"
#include "attention.h"
#include "fingerprint.h"
#include "formats.h"
#include "fuzz.h"
#include "stock.h"
#include "table.h"

const char *const check_names[CHECK_COUNT] = {"spec", "levels", "threads", "content", "shape", "layout", "host"};

static void run_samebits(const engine *e, const problem *p, setting how, const tensor *x, tensor *out)
{
    (void)e;
    /* DLTensors are read only where the API says const; the context is shared. */
    tensor to = *out;
    to.dl.shape = to.shape;
    to.dl.strides = to.stride;
    cli_check(p->op->run(p, cli_context(how.cpu, how.threads, how.lent), &x->dl, &to.dl), p->op->name);
}

const engine engine_samebits = {run_samebits, FAULT_NONE, 0};

static void run_plain(const engine *e, const problem *p, setting how, const tensor *x, tensor *out)
{
    const plain_call call = {p, how, e->fault, x, out};
    p->op->plain(&call);
}

engine engine_plain(fault_id fault) { return (engine){run_plain, fault, 1}; }

int verify_wants(const verify *v, const char *op, const char *form)
{
    return (!v->only || !strcmp(v->only, op)) && (!v->form || !strcmp(v->form, form));
}

int64_t result_cases(const result *r)
{
    int64_t cases = 0;
    for (int i = 0; i < CHECK_COUNT; i++) cases += r->checks[i].cases;
    return cases;
}

int64_t result_differing(const result *r)
{
    int64_t differing = 0;
    for (int i = 0; i < CHECK_COUNT; i++) differing += r->checks[i].differing;
    return differing;
}

static void note(result *r, check kind, const char *format, va_list args, const char *tail)
{
    char *text;
    if (r->first) return;
    if (vasprintf(&text, format, args) < 0) cli_die("out of memory");
    r->first = cli_text("%s %s, %s: %s%s", r->op, r->form, check_names[kind], text, tail);
    free(text);
}

void compare(result *r, check kind, const tensor *want, const tensor *have, const char *format, ...)
{
    int64_t first = 0;
    const int64_t differing = tensor_differing(want, have, &first);
    r->checks[kind].cases++;
    r->checks[kind].differing += differing;
    if (!differing) return;
    char tail[160];
    snprintf(tail, sizeof tail, ": %lld values differ, first number %lld: want %.9g, have %.9g", (long long)differing,
             (long long)first, (double)tensor_get(want, first), (double)tensor_get(have, first));
    va_list args;
    va_start(args, format);
    note(r, kind, format, args, tail);
    va_end(args);
}

void expect(result *r, check kind, int holds, const char *format, ...)
{
    r->checks[kind].cases++;
    if (holds) return;
    r->checks[kind].differing++;
    va_list args;
    va_start(args, format);
    note(r, kind, format, args, "");
    va_end(args);
}

typedef struct options {
    verify v;
    const char *stock, *ggml;
    int self_test, accuracy, formats, all;
    int64_t fuzz; /* cases an op; 0: none */
} options;

enum {
    KEY_SEED = 256,
    KEY_FULL,
    KEY_QUICK,
    KEY_ALL,
    KEY_FUZZ,
    KEY_OP,
    KEY_FORM,
    KEY_CPU,
    KEY_STOCK,
    KEY_SELF_TEST,
    KEY_ACCURACY,
    KEY_FORMATS,
    KEY_GGML,
    KEY_JSON
};

static const struct argp_option option_list[] = {
    {"quick", KEY_QUICK, 0, 0, "Small shapes, about a minute (default)", 0},
    {"full", KEY_FULL, 0, 0, "The whole sweep, all thread counts (about two hours)", 0},
    {"all", KEY_ALL, 0, 0, "--full, --self-test, and the fingerprints at every level", 0},
    {"fuzz", KEY_FUZZ, "N", 0, "Only N random calls of every op, against the order in plain C", 0},
    {"seed", KEY_SEED, "N", 0, "Seed of the inputs and needles (default: the time; it is printed)", 0},
    {"op", KEY_OP, "NAME", 0, "Only this op, such as matmul", 0},
    {"form", KEY_FORM, "FORM", 0, "Only this form, such as f32 or q4_k", 0},
    {"cpu", KEY_CPU, "LEVEL", 0, "Only scalar and this level: scalar, avx2, avx512, amx or neon", 0},
    {"stock", KEY_STOCK, "PATH", 0, "A stock library to try beside ours; several with ':'", 0},
    {"self-test", KEY_SELF_TEST, 0, 0, "Plant faults and see that each is caught", 0},
    {"accuracy", KEY_ACCURACY, 0, 0, "Only measure errors against float64, beside stock", 0},
    {"formats", KEY_FORMATS, 0, 0, "Only compare the weight formats with ggml's own functions; needs --ggml", 0},
    {"ggml", KEY_GGML, "FOLDER", 0, "For --accuracy, --formats: folder with libggml-base.so, libggml-cpu*.so", 0},
    {"json", KEY_JSON, 0, 0, "Print one JSON object", 0},
    {0}};

static const char documentation[] =
    "Checks that the same row gives the same bits: whatever the CPU level, the threads, the neighbour rows, "
    "their number, the layout in memory and the host's floating-point settings are."
    "\v"
    "Columns of the table: spec, against the order written in plain C; levels, against scalar; threads; "
    "content, the neighbour rows hold something else; shape, there are more or fewer of them; layout, strides "
    "and packing; host, FTZ, DAZ and rounding mode switched by the caller. Each shows values that differ.\n\n"
    "Examples:\n"
    "  samebits verify\n"
    "  samebits verify --full --op matmul\n"
    "  samebits verify --self-test\n"
    "  samebits verify --fuzz 100000 --op softmax --seed 1\n"
    "  samebits verify --accuracy --ggml /opt/llama.cpp/bin\n"
    "  samebits verify --formats --ggml /opt/llama.cpp/bin\n"
    "  samebits verify --stock /usr/lib/x86_64-linux-gnu/libmkl_rt.so --json\n\n"
    "Exit status: 0 all bits hold, 1 bits moved or a fault was missed, 2 usage or environment.";

static error_t parse(int key, char *arg, struct argp_state *state)
{
    options *o = state->input;
    char *end;
    switch (key) {
    case KEY_SEED:
        o->v.seed = strtoull(arg, &end, 0);
        if (!*arg || *end) argp_error(state, "--seed wants a number, not '%s'", arg);
        break;
    case KEY_FULL: o->v.full = 1; break;
    case KEY_QUICK: o->v.full = 0; break;
    case KEY_ALL: o->all = o->v.full = o->self_test = 1; break;
    case KEY_FUZZ:
        o->fuzz = strtoll(arg, &end, 10);
        if (!*arg || *end || o->fuzz < 1) argp_error(state, "--fuzz wants a number of cases, not '%s'", arg);
        break;
    case KEY_OP: o->v.only = arg; break;
    case KEY_FORM: o->v.form = arg; break;
    case KEY_CPU: {
        const int cpu = cli_cpu_of(arg);
        if (cpu < SAMEBITS_CPU_SCALAR)
            argp_error(state, "--cpu wants scalar, avx2, avx512, amx or neon, not '%s'", arg);
        if (!samebits_cpu_supported((samebits_cpu)cpu)) cli_die("this machine has no %s; see samebits info", arg);
        o->v.levels[0] = SAMEBITS_CPU_SCALAR;
        o->v.levels[1] = (samebits_cpu)cpu;
        o->v.level_count = cpu == SAMEBITS_CPU_SCALAR ? 1 : 2;
        break;
    }
    case KEY_STOCK: o->stock = arg; break;
    case KEY_SELF_TEST: o->self_test = 1; break;
    case KEY_ACCURACY: o->accuracy = 1; break;
    case KEY_FORMATS: o->formats = 1; break;
    case KEY_GGML: o->ggml = arg; break;
    case KEY_JSON: o->v.json = 1; break;
    case ARGP_KEY_ARG: argp_error(state, "unexpected argument '%s'; --op NAME chooses an op", arg); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* Everything that was found out. */
typedef struct report {
    const options *o;
    result *results;
    int result_count;
    control *controls;
    int control_count, libraries;
    int planted, caught;
    int fingerprints, moved; /* with --all: over all levels */
    int64_t cases, differing;
} report;

static void check_name(const char *only)
{
    for (int i = 0; i < op_count; i++)
        if (!strcmp(ops[i].name, only)) return;
    if (!strcmp(only, "attention")) return;
    char *names = cli_text("%s", ops[0].name);
    for (int i = 1; i < op_count; i++) {
        int seen = 0;
        while (strcmp(ops[seen].name, ops[i].name)) seen++;
        if (seen == i) names = cli_text("%s, %s", names, ops[i].name);
    }
    cli_die("there is no op '%s'; there are %s, attention", only, names);
}

static void check_form(const verify *v)
{
    for (int i = 0; i < op_count; i++)
        if (verify_wants(v, ops[i].name, ops[i].form)) return;
    for (int i = 0; i < attention_form_count; i++)
        if (verify_wants(v, "attention", attention_forms[i].form)) return;
    cli_die("there is no form '%s' of %s; samebits info lists them", v->form, v->only ? v->only : "any op");
}

static void run_ops(report *rep)
{
    const verify *v = &rep->o->v;
    rep->results = cli_alloc((size_t)(op_count + attention_form_count) * sizeof *rep->results);
    for (int i = 0; i < op_count; i++) {
        if (!verify_wants(v, ops[i].name, ops[i].form) || !op_present(&ops[i])) continue;
        result *r = &rep->results[rep->result_count++];
        *r = (result){.op = ops[i].name, .form = ops[i].form, .order = ops[i].order};
        verify_rows(v, &ops[i], r);
    }
    for (int i = 0; i < attention_form_count; i++) {
        if (!verify_wants(v, "attention", attention_forms[i].form)) continue;
        result *r = &rep->results[rep->result_count++];
        *r = (result){.op = "attention", .form = attention_forms[i].form, .order = SAMEBITS_ORDER_PORTABLE_1};
        verify_attention(v, i, r);
    }
    for (int i = 0; i < rep->result_count; i++) {
        rep->cases += result_cases(&rep->results[i]);
        rep->differing += result_differing(&rep->results[i]);
    }
}

static void print_results(const report *rep)
{
    table t;
    table_begin(&t, "op|form|order|>spec|>levels|>threads|>content|>shape|>layout|>host|>cases|>differing");
    for (int i = 0; i < rep->result_count; i++) {
        const result *r = &rep->results[i];
        table_cell(&t, "%s", r->op);
        table_cell(&t, "%s", r->form);
        table_cell(&t, "%s", samebits_order_name(r->order));
        for (int c = 0; c < CHECK_COUNT; c++)
            if (r->checks[c].cases)
                table_cell(&t, "%lld", (long long)r->checks[c].differing);
            else
                table_cell(&t, "-");
        table_cell(&t, "%lld", (long long)result_cases(r));
        table_cell(&t, "%lld", (long long)result_differing(r));
    }
    table_end(&t, stdout);
    for (int i = 0; i < rep->result_count; i++)
        if (rep->results[i].first) printf("first: %s\n", rep->results[i].first);
}

static void print_controls(const report *rep)
{
    table t;
    putchar('\n');
    table_begin(&t, "stock library|op|changed|>cases|>differing|result");
    for (int i = 0; i < rep->control_count; i++) {
        const control *c = &rep->controls[i];
        table_cell(&t, "%s", c->library);
        table_cell(&t, "%s", c->op);
        table_cell(&t, "%s", c->change);
        table_cell(&t, "%lld", (long long)c->cases);
        table_cell(&t, "%lld", (long long)c->differing);
        table_cell(&t, "%s", c->differing ? "moves" : "already invariant here");
    }
    table_end(&t, stdout);
    if (!rep->libraries) printf("%s\n", stock_hint);
}

static void print_human(const report *rep)
{
    print_results(rep);
    print_controls(rep);
    if (rep->o->self_test) printf("\nself-test: %d faults planted, %d caught\n", rep->planted, rep->caught);
    if (rep->o->all) printf("\nfingerprints: %d of %d moved\n", rep->moved, rep->fingerprints);
    printf("\n%lld cases, %lld values differ (seed %" PRIu64 ")\n", (long long)rep->cases, (long long)rep->differing,
           rep->o->v.seed);
}

/* What all objects say of the run. */
static void add_run(cJSON *root, const options *o)
{
    char seed[24]; /* a string: seeds have 64 bits, JSON numbers 53 */
    snprintf(seed, sizeof seed, "%" PRIu64, o->v.seed);
    cJSON_AddNumberToObject(root, "schema", CLI_JSON_SCHEMA);
    cJSON_AddStringToObject(root, "version", samebits_version());
    cJSON_AddStringToObject(root, "seed", seed);
    cJSON *list = cJSON_AddArrayToObject(root, "levels");
    for (int i = 0; i < o->v.level_count; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(samebits_cpu_name(o->v.levels[i])));
}

static void print_object(cJSON *root)
{
    char *text = cJSON_Print(root);
    puts(text);
    free(text);
    cJSON_Delete(root);
}

static void print_json(const report *rep)
{
    cJSON *root = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(root, "ops");
    for (int i = 0; i < rep->result_count; i++) {
        const result *r = &rep->results[i];
        cJSON *one = cJSON_CreateObject(), *checks = cJSON_AddObjectToObject(one, "checks");
        cJSON_AddStringToObject(one, "op", r->op);
        cJSON_AddStringToObject(one, "form", r->form);
        cJSON_AddStringToObject(one, "order", samebits_order_name(r->order));
        for (int c = 0; c < CHECK_COUNT; c++) {
            cJSON *check = cJSON_AddObjectToObject(checks, check_names[c]);
            cJSON_AddNumberToObject(check, "cases", (double)r->checks[c].cases);
            cJSON_AddNumberToObject(check, "differing", (double)r->checks[c].differing);
        }
        if (r->first) cJSON_AddStringToObject(one, "first", r->first);
        cJSON_AddItemToArray(list, one);
    }
    list = cJSON_AddArrayToObject(root, "controls");
    for (int i = 0; i < rep->control_count; i++) {
        const control *c = &rep->controls[i];
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "library", c->library);
        cJSON_AddStringToObject(one, "op", c->op);
        cJSON_AddStringToObject(one, "changed", c->change);
        cJSON_AddNumberToObject(one, "cases", (double)c->cases);
        cJSON_AddNumberToObject(one, "differing", (double)c->differing);
        cJSON_AddItemToArray(list, one);
    }
    if (rep->o->self_test) {
        cJSON *faults = cJSON_AddObjectToObject(root, "faults");
        cJSON_AddNumberToObject(faults, "planted", rep->planted);
        cJSON_AddNumberToObject(faults, "caught", rep->caught);
    }
    if (rep->o->all) {
        cJSON *fingerprints = cJSON_AddObjectToObject(root, "fingerprints");
        cJSON_AddNumberToObject(fingerprints, "compared", rep->fingerprints);
        cJSON_AddNumberToObject(fingerprints, "moved", rep->moved);
    }
    add_run(root, rep->o);
    cJSON_AddNumberToObject(root, "cases", (double)rep->cases);
    cJSON_AddNumberToObject(root, "differing", (double)rep->differing);
    print_object(root);
}

static int measure_accuracy(const options *o)
{
    stock *stocks;
    accuracy_line *lines;
    const int stock_count = stock_open(o->stock, &stocks);
    const int count = accuracy_measure(o->v.only, stocks, stock_count, o->ggml ? ggml_open(o->ggml) : NULL, &lines);
    if (o->v.json) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddNumberToObject(root, "schema", CLI_JSON_SCHEMA);
        accuracy_json(lines, count, root);
        print_object(root);
    } else {
        accuracy_print(lines, count);
    }
    free(lines);
    return CLI_HOLDS;
}

/* --fuzz: exit code. */
static int fuzz(const options *o)
{
    fuzz_result *results;
    int64_t cases = 0, differing = 0;
    fuzz_begin();
    const int64_t control = fuzz_control(&o->v);
    const int count = fuzz_run(&o->v, o->fuzz, &results);
    for (int i = 0; i < count; i++) {
        cases += results[i].cases;
        differing += result_differing(&results[i].r);
    }
    if (o->v.json) {
        cJSON *root = cJSON_CreateObject();
        fuzz_json(results, count, root);
        add_run(root, o);
        cJSON_AddNumberToObject(root, "control", (double)control);
        cJSON_AddNumberToObject(root, "cases", (double)cases);
        cJSON_AddNumberToObject(root, "differing", (double)differing);
        print_object(root);
    } else {
        fuzz_print(results, count);
        printf("\n%lld cases, %lld values differ (seed %" PRIu64 "); a planted fault was seen in %lld of 500 cases\n",
               (long long)cases, (long long)differing, o->v.seed, (long long)control);
    }
    if (!control) cli_warn("the planted fault was not seen: the check cannot fail here");
    free(results);
    return differing || !control ? CLI_MOVED : CLI_HOLDS;
}

int command_verify(int argc, char **argv)
{
    static const struct argp argp = {option_list, parse, "", documentation, NULL, NULL, NULL};
    options o = {.v = {.seed = (uint64_t)time(NULL), .who = engine_samebits}};
    o.v.level_count = cli_levels(o.v.levels);
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    if (o.v.only) check_name(o.v.only);
    check_form(&o.v);
    if (o.accuracy) return measure_accuracy(&o);
    if (o.formats) {
        if (!o.ggml) cli_die("--formats wants --ggml FOLDER, with libggml-base.so and libggml-cpu*.so");
        return formats_verify(ggml_open(o.ggml), o.v.json);
    }
    if (o.fuzz) return fuzz(&o);
    stock *stocks;
    report rep = {.o = &o, .libraries = stock_open(o.stock, &stocks)};
    if (!o.v.json) printf("samebits %s, seed %" PRIu64 "\n", samebits_version(), o.v.seed);
    if (o.self_test) rep.planted = verify_faults(&o.v, &rep.caught);
    run_ops(&rep);
    rep.control_count = verify_controls(&o.v, stocks, rep.libraries, &rep.controls);
    for (int i = 0, count; o.all && i < o.v.level_count; i++) {
        rep.moved += fingerprint_moved(o.v.levels[i], &count);
        rep.fingerprints += count;
    }
    if (o.v.json)
        print_json(&rep);
    else
        print_human(&rep);
    const control *naive = &rep.controls[rep.control_count - 1];
    if (!naive->differing) cli_warn("the built-in control did not move: the check cannot fail here");
    return rep.differing || rep.moved || rep.caught < rep.planted || !naive->differing ? CLI_MOVED : CLI_HOLDS;
}
