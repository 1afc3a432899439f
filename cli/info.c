/* samebits info: what this build and this machine have. */
#include <argp.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"
#include "table.h"

typedef struct options {
    int json;
    const char *ggml;
} options;

enum { KEY_JSON = 256 };

static const struct argp_option option_list[] = {{"json", KEY_JSON, 0, 0, "Print one JSON object", 0}, {0}};

static const char documentation[] =
    "Prints the version, the CPU level in use, the orders, the weight formats and the ops."
    "\v"
    "Examples:\n"
    "  samebits info\n"
    "  samebits info --json\n\n"
    "Exit status: 0, or 2 for usage or environment.";

static error_t parse(int key, char *arg, struct argp_state *state)
{
    options *o = state->input;
    switch (key) {
    case KEY_JSON: o->json = 1; break;
    case ARGP_KEY_ARG: argp_error(state, "unexpected argument '%s'", arg); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const samebits_order orders[] = {SAMEBITS_ORDER_PORTABLE_1, SAMEBITS_ORDER_INT8_1};

static void print_human(void)
{
    samebits_context *context = cli_context(SAMEBITS_CPU_AUTO, 0, 0);
    samebits_cpu levels[4];
    const int count = cli_levels(levels);
    printf("samebits   %s\n", samebits_version());
    printf("cpu        %s (here:", samebits_cpu_name(samebits_context_cpu(context)));
    for (int i = 0; i < count; i++) printf(" %s", samebits_cpu_name(levels[i]));
    printf(")\nextras     %s\n", *samebits_cpu_extras(context) ? samebits_cpu_extras(context) : "none");
    printf("threads    %d\n", samebits_context_threads(context));
    printf("orders    ");
    for (size_t i = 0; i < CLI_COUNT(orders); i++) printf(" %s", samebits_order_name(orders[i]));
    printf("\nformats   ");
    for (int f = 0; f < SAMEBITS_FORMAT_COUNT; f++) printf(" %s", samebits_format_name((samebits_format)f));
    printf("\n\n");
    table t;
    table_begin(&t, "op|form|order");
    for (int i = 0; i < op_count; i++) {
        if (!op_present(&ops[i])) continue;
        table_cell(&t, "%s", ops[i].name);
        table_cell(&t, "%s", ops[i].form);
        table_cell(&t, "%s", samebits_order_name(ops[i].order));
    }
    table_end(&t, stdout);
}

static void print_json(void)
{
    samebits_context *context = cli_context(SAMEBITS_CPU_AUTO, 0, 0);
    samebits_cpu levels[4];
    const int count = cli_levels(levels);
    cJSON *root = cJSON_CreateObject();
    cJSON_AddNumberToObject(root, "schema", CLI_JSON_SCHEMA);
    cJSON_AddStringToObject(root, "version", samebits_version());
    cJSON_AddStringToObject(root, "cpu", samebits_cpu_name(samebits_context_cpu(context)));
    cJSON_AddStringToObject(root, "extras", samebits_cpu_extras(context));
    cJSON_AddNumberToObject(root, "threads", samebits_context_threads(context));
    cJSON *list = cJSON_AddArrayToObject(root, "levels");
    for (int i = 0; i < count; i++) cJSON_AddItemToArray(list, cJSON_CreateString(samebits_cpu_name(levels[i])));
    list = cJSON_AddArrayToObject(root, "orders");
    for (size_t i = 0; i < CLI_COUNT(orders); i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(samebits_order_name(orders[i])));
    list = cJSON_AddArrayToObject(root, "formats");
    for (int f = 0; f < SAMEBITS_FORMAT_COUNT; f++)
        cJSON_AddItemToArray(list, cJSON_CreateString(samebits_format_name((samebits_format)f)));
    list = cJSON_AddArrayToObject(root, "ops");
    for (int i = 0; i < op_count; i++) {
        if (!op_present(&ops[i])) continue;
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "op", ops[i].name);
        cJSON_AddStringToObject(one, "form", ops[i].form);
        cJSON_AddStringToObject(one, "order", samebits_order_name(ops[i].order));
        cJSON_AddItemToArray(list, one);
    }
    char *text = cJSON_Print(root);
    puts(text);
    free(text);
    cJSON_Delete(root);
}

int command_info(int argc, char **argv)
{
    static const struct argp argp = {option_list, parse, "", documentation, NULL, NULL, NULL};
    options o = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    if (o.json)
        print_json();
    else
        print_human();
    return CLI_HOLDS;
}
