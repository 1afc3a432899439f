/* samebits fingerprint: one hash per op, form and order over fixed inputs (docs/cli.md, section Fingerprint).
 * The same on every machine; the golden ones are compiled in. */
#include <argp.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "fingerprint.h"
#include "op.h"
#include "table.h"

/* FNV-1a, 64 bits, over the bytes of each value from the lowest. */
static void hash_bits(uint64_t *hash, uint64_t bits, size_t size)
{
    for (size_t i = 0; i < size; i++) *hash = (*hash ^ (bits >> (8 * i) & 0xFF)) * 0x100000001B3u;
}

void fingerprint_add(uint64_t *hash, const tensor *t)
{
    const int64_t count = tensor_count(t);
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, tensor_at(t, i), dtype_size(t->type));
        hash_bits(hash, bits, dtype_size(t->type));
    }
}

/* Rows of all kinds: wide and narrow exponents in turn, subnormals, and from the fifth on NaN and Inf. */
static void fill_rows(tensor *x, int64_t turn, rng *r)
{
    if (x->shape[0] > 1000) {
        /* Many numbers near 1: every step of an activation sees some. */
        tensor_fill(x, FILL_UNIT, r);
        return;
    }
    for (int64_t row = 0; row < x->shape[0]; row++)
        tensor_fill_row(x, row, (row + turn) % 2 ? FILL_SPREAD : FILL_UNIT, r);
    for (int64_t row = 2; row < x->shape[0]; row += 6) tensor_fill_row(x, row, FILL_SUBNORMAL, r);
    for (int64_t row = 4; row < x->shape[0]; row += 6) tensor_fill_row(x, row, FILL_INF, r);
    for (int64_t row = 5; row < x->shape[0]; row += 6) tensor_fill_row(x, row, FILL_NAN, r);
}

static uint64_t hash_op(const op *o, samebits_context *context)
{
    static const struct {
        int64_t m, k, n;
    } shapes[] = {{1, 1, 1},     {1, 256, 16},  {2, 257, 33},  {4, 512, 17},
                  {7, 1000, 40}, {13, 511, 65}, {1, 4096, 24}, {2000, 1, 3}};
    uint64_t hash = FINGERPRINT_START;
    for (size_t i = 0; i < CLI_COUNT(shapes); i++) {
        rng r = {1 + i};
        problem p;
        tensor x, out;
        problem_make(&p, o, shapes[i].k, shapes[i].n, &r);
        tensor_make2(&x, o->x, LAYOUT_PLAIN, shapes[i].m, p.k);
        tensor_make2(&out, o->out, LAYOUT_PLAIN, shapes[i].m, p.n);
        fill_rows(&x, (int64_t)i, &r);
        cli_check(o->run(&p, context, &x.dl, &out.dl), o->name);
        fingerprint_add(&hash, &out);
        tensor_free(&x);
        tensor_free(&out);
        problem_free(&p);
    }
    return hash;
}

typedef struct line {
    const char *op, *form, *order;
    uint64_t hash;
    const char *golden; /* NULL: not in the golden file */
    int moved;
} line;

static int compute(samebits_cpu cpu, line *lines)
{
    int count = 0;
    for (int i = 0; i < op_count; i++) {
        if (!op_present(&ops[i])) continue;
        progress(i, op_count, "fingerprint: %s %s", ops[i].name, ops[i].form);
        lines[count++] = (line){ops[i].name,
                                ops[i].form,
                                samebits_order_name(ops[i].order),
                                hash_op(&ops[i], cli_context(cpu, 0, 0)),
                                NULL,
                                0};
    }
    for (int i = 0; i < attention_form_count; i++) {
        progress(i, attention_form_count, "fingerprint: attention %s", attention_forms[i].form);
        lines[count++] = (line){"attention",
                                attention_forms[i].form,
                                samebits_order_name(SAMEBITS_ORDER_PORTABLE_1),
                                attention_fingerprint(&attention_forms[i], cli_context(cpu, 0, 0)),
                                NULL,
                                0};
    }
    progress_end();
    return count;
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) cli_die("%s: %s; --check alone compares with the golden file of this build", path, strerror(errno));
    char *text = cli_alloc(1 << 20);
    const size_t size = fread(text, 1, (1 << 20) - 1, file);
    if (ferror(file)) cli_die("%s: %s", path, strerror(errno));
    fclose(file);
    text[size] = 0;
    return text;
}

/* Marks what differs from the golden text ("op form order hash" a line, '#' starts a comment), and says
 * so on stderr. Returns how many entries moved, are new, or are gone. */
static int check(line *lines, int count, char *text, const char *name)
{
    int moved = 0, entries = 0;
    for (char *rest = text, *row; (row = strtok_r(rest, "\n", &rest));) {
        char op_name[64], form[64], order[64], hash[64];
        if (*row == '#' || strspn(row, " \t\r") == strlen(row)) continue;
        if (sscanf(row, "%63s %63s %63s %63s", op_name, form, order, hash) != 4)
            cli_die("%s: want 'op form order hash' on a line, not '%s'", name, row);
        entries++;
        int known = 0;
        for (int i = 0; i < count; i++) {
            line *l = &lines[i];
            if (strcmp(l->op, op_name) || strcmp(l->form, form) || strcmp(l->order, order)) continue;
            known = 1;
            l->golden = cli_text("%s", hash);
            l->moved = strtoull(hash, NULL, 16) != l->hash;
        }
        if (!known) cli_warn("%s %s %s is in %s, but not in this library", op_name, form, order, name);
        moved += !known;
    }
    if (!entries) cli_die("%s has no entries", name);
    for (int i = 0; i < count; i++) {
        const line *l = &lines[i];
        lines[i].moved |= !l->golden;
        moved += l->moved;
        if (!l->golden)
            cli_warn("%s %s %s is not in %s", l->op, l->form, l->order, name);
        else if (l->moved)
            cli_warn("%s %s %s moved: %s wants %s, have %016" PRIx64, l->op, l->form, l->order, name, l->golden,
                     l->hash);
    }
    return moved;
}

int fingerprint_moved(samebits_cpu cpu, int *count)
{
    line *lines = cli_alloc((size_t)(op_count + attention_form_count) * sizeof *lines);
    char *golden = cli_text("%s", fingerprint_golden);
    *count = compute(cpu, lines);
    const int moved = check(lines, *count, golden, "the golden file");
    free(golden);
    free(lines);
    return moved;
}

typedef struct options {
    samebits_cpu cpu;
    int check, json;
    const char *file;
} options;

enum { KEY_CPU = 256, KEY_CHECK, KEY_JSON };

static const struct argp_option option_list[] = {
    {"cpu", KEY_CPU, "LEVEL", 0, "CPU level: scalar, avx2, avx512, amx, neon (default: the best here)", 0},
    {"check", KEY_CHECK, "FILE", OPTION_ARG_OPTIONAL, "Compare with FILE, or with the golden file of this build", 0},
    {"json", KEY_JSON, 0, 0, "Print one JSON object", 0},
    {0}};

static const char documentation[] =
    "Prints one hash for each op, form and order, over fixed inputs. They are the same on every machine, at every "
    "CPU level and with any number of threads."
    "\v"
    "Examples:\n"
    "  samebits fingerprint\n"
    "  samebits fingerprint --cpu scalar --check\n"
    "  samebits fingerprint > here.txt; samebits fingerprint --check=here.txt   (on another machine)\n\n"
    "Exit status: 0 all hold (or nothing was compared), 1 a hash moved, 2 usage or environment.";

static error_t parse(int key, char *arg, struct argp_state *state)
{
    options *o = state->input;
    switch (key) {
    case KEY_CPU: {
        const int cpu = cli_cpu_of(arg);
        if (cpu < 0) argp_error(state, "--cpu wants scalar, avx2, avx512, amx or neon, not '%s'", arg);
        if (!samebits_cpu_supported((samebits_cpu)cpu)) cli_die("this machine has no %s; see samebits info", arg);
        o->cpu = (samebits_cpu)cpu;
        break;
    }
    case KEY_CHECK:
        o->check = 1;
        o->file = arg;
        break;
    case KEY_JSON: o->json = 1; break;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'; a file to compare with is --check=FILE", arg);
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void print_json(const options *o, const line *lines, int count, int moved)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddNumberToObject(root, "schema", CLI_JSON_SCHEMA);
    cJSON_AddStringToObject(root, "version", samebits_version());
    cJSON_AddStringToObject(root, "cpu", samebits_cpu_name(samebits_context_cpu(cli_context(o->cpu, 0, 0))));
    cJSON *list = cJSON_AddArrayToObject(root, "fingerprints");
    for (int i = 0; i < count; i++) {
        cJSON *one = cJSON_CreateObject();
        char hash[20];
        snprintf(hash, sizeof hash, "%016" PRIx64, lines[i].hash);
        cJSON_AddStringToObject(one, "op", lines[i].op);
        cJSON_AddStringToObject(one, "form", lines[i].form);
        cJSON_AddStringToObject(one, "order", lines[i].order);
        cJSON_AddStringToObject(one, "hash", hash);
        if (o->check) cJSON_AddBoolToObject(one, "moved", lines[i].moved);
        cJSON_AddItemToArray(list, one);
    }
    if (o->check) cJSON_AddNumberToObject(root, "moved", moved);
    char *text = cJSON_Print(root);
    puts(text);
    free(text);
    cJSON_Delete(root);
}

int command_fingerprint(int argc, char **argv)
{
    static const struct argp argp = {option_list, parse, "", documentation, NULL, NULL, NULL};
    options o = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    line *lines = cli_alloc((size_t)(op_count + attention_form_count) * sizeof *lines);
    const int count = compute(o.cpu, lines);
    char *golden = o.file ? read_file(o.file) : cli_text("%s", fingerprint_golden);
    const char *name = o.file ? o.file : "the golden file";
    const int moved = o.check ? check(lines, count, golden, name) : 0;
    if (o.json) {
        print_json(&o, lines, count, moved);
    } else if (o.check) {
        printf("%s: %d of %d fingerprints moved at level %s\n", moved ? "MOVED" : "same bits", moved, count,
               samebits_cpu_name(samebits_context_cpu(cli_context(o.cpu, 0, 0))));
    } else {
        printf("# samebits %s: op, form, order, hash\n", samebits_version());
        for (int i = 0; i < count; i++)
            printf("%s %s %s %016" PRIx64 "\n", lines[i].op, lines[i].form, lines[i].order, lines[i].hash);
    }
    free(golden);
    free(lines);
    return moved ? CLI_MOVED : CLI_HOLDS;
}
