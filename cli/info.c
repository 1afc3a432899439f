/* samebits info: what this build and this machine have. */
#include <argp.h>
#include <limits.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attention.h"
#include "ggml.h"
#include "op.h"
#include "table.h"

typedef struct options {
    int json;
    const char *ggml;
} options;

enum { KEY_JSON = 256, KEY_GGML };

static const struct argp_option option_list[] = {
    {"ggml", KEY_GGML, "PATH", 0, "Say which plugin build fits this ggml: libggml-cpu*.so, or its folder", 0},
    {"json", KEY_JSON, 0, 0, "Print one JSON object", 0},
    {0}};

static const char documentation[] =
    "Prints the version, the CPU level in use, the orders, the weight formats and the ops."
    "\v"
    "Examples:\n"
    "  samebits info\n"
    "  samebits info --json\n"
    "  samebits info --ggml /opt/llama.cpp/bin\n\n"
    "Exit status: 0, or 2 for usage or environment.";

static error_t parse(int key, char *arg, struct argp_state *state)
{
    options *o = state->input;
    switch (key) {
    case KEY_GGML: o->ggml = arg; break;
    case KEY_JSON: o->json = 1; break;
    case ARGP_KEY_ARG: argp_error(state, "unexpected argument '%s'", arg); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const samebits_order orders[] = {SAMEBITS_ORDER_PORTABLE_1, SAMEBITS_ORDER_INT8_1, SAMEBITS_ORDER_AMX_1};

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
    for (int i = 0; i < attention_form_count; i++) {
        table_cell(&t, "attention");
        table_cell(&t, "%s", attention_forms[i].form);
        table_cell(&t, "%s", samebits_order_name(SAMEBITS_ORDER_PORTABLE_1));
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
    for (int i = 0; i < attention_form_count; i++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "op", "attention");
        cJSON_AddStringToObject(one, "form", attention_forms[i].form);
        cJSON_AddStringToObject(one, "order", samebits_order_name(SAMEBITS_ORDER_PORTABLE_1));
        cJSON_AddItemToArray(list, one);
    }
    char *text = cJSON_Print(root);
    puts(text);
    free(text);
    cJSON_Delete(root);
}

/* Where an installed plugin for this API version lies, beside this program; NULL if it does not. */
static char *plugin_path(int api)
{
    char self[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = length > 0 ? (self[length] = 0, strrchr(self, '/')) : NULL;
    if (!slash) return NULL;
    *slash = 0;
    char *path = cli_text("%s/../" SAMEBITS_LIBDIR "/samebits/ggml-api-%d/libggml-samebits.so", self, api);
    char *found = realpath(path, NULL);
    free(path);
    return found;
}

static int print_ggml(const options *o)
{
    const char *version;
    const int api = ggml_api(o->ggml, &version);
    if (!api) cli_die("--ggml %s: no ggml is there; name libggml-cpu*.so, or the folder that it is in", o->ggml);
    const int fits = api == 2 || api == 3;
    char *path = fits ? plugin_path(api) : NULL;
    if (o->json) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddNumberToObject(root, "schema", CLI_JSON_SCHEMA);
        cJSON_AddStringToObject(root, "ggml", version ? version : "unknown");
        cJSON_AddNumberToObject(root, "api", api);
        cJSON_AddBoolToObject(root, "fits", fits);
        if (path) cJSON_AddStringToObject(root, "plugin", path);
        char *text = cJSON_Print(root);
        puts(text);
        free(text);
        cJSON_Delete(root);
    } else {
        printf("ggml %s, backend API %d\n", version ? version : "of unknown version", api);
        if (!fits)
            printf("no plugin build fits: samebits has them for API 2 and 3\n");
        else if (path)
            printf("plugin: GGML_BACKEND_PATH=%s\n", path);
        else
            printf("plugin: the build ggml-api-%d fits; it is not installed beside this program: configure with "
                   "-DSAMEBITS_GGML_INCLUDE=<ggml's include and src folders>\n",
                   api);
    }
    free(path);
    return fits ? CLI_HOLDS : CLI_ERROR;
}

int command_info(int argc, char **argv)
{
    static const struct argp argp = {option_list, parse, "", documentation, NULL, NULL, NULL};
    options o = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    if (o.ggml) return print_ggml(&o);
    if (o.json)
        print_json();
    else
        print_human();
    return CLI_HOLDS;
}
