#include "options.h"

#include "error.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *argp_program_version = "samebits-llama " SAMEBITS_LLAMA_VERSION;

enum key {
    KEY_PLUGIN = 256,
    KEY_BACKENDS,
    KEY_ENGINE,
    KEY_JSON,
    KEY_PLOT,
    KEY_TOKENS,
    KEY_SHORT,
    KEY_SCENARIOS,
    KEY_LIST,
    KEY_PROMPTS,
    KEY_GENERATE,
    KEY_OPS,
    KEY_BENCH,
    KEY_SERVER,
    KEY_TRIES,
    KEY_SEED,
};

static const struct argp_option table[] = {
    {0, 0, 0, 0, "What to do (default: play the scenarios with stock and with samebits):", 1},
    {"list", KEY_LIST, 0, 0, "List the scenarios", 1},
    {"ops", KEY_OPS, 0, 0, "List which of the model's ops run where, and which of them move", 1},
    {"bench", KEY_BENCH, 0, 0, "Measure tokens per second (pp512, tg64) of both", 1},
    {"check-server", KEY_SERVER, "URL", 0, "Needle test of a running llama-server", 1},
    {0, 0, 0, 0, "The engines:", 2},
    {"plugin", KEY_PLUGIN, "FILE", 0,
     "libggml-samebits.so (default: GGML_BACKEND_PATH, or beside this program, or in ../lib)", 2},
    {"backends", KEY_BACKENDS, "DIR", 0, "Folder of ggml's backend modules (default: beside libggml)", 2},
    {"engine", KEY_ENGINE, "NAME", 0, "Run only `stock' or only `samebits' (default: both)", 2},
    {0, 0, 0, 0, "The scenarios:", 3},
    {"short", KEY_SHORT, 0, 0, "A handful of scenarios and short prompts: about a minute; one round of --bench", 3},
    {"scenarios", KEY_SCENARIOS, "A,B", 0, "Only those whose names hold one of these words", 3},
    {"tokens", KEY_TOKENS, "N", 0, "Length of the prompt (default: 200; 48 with --short)", 3},
    {"prompts", KEY_PROMPTS, "N", 0, "Texts of speculative decoding (default: 20; 2 with --short)", 3},
    {"generate", KEY_GENERATE, "N", 0, "Tokens of each such text (default: 128; 24 with --short)", 3},
    {0, 0, 0, 0, "The server:", 4},
    {"tries", KEY_TRIES, "N", 0, "Times the prompt is asked beside three others (default: 6)", 4},
    {"seed", KEY_SEED, "N", 0, "Of the random prompts beside it (default: 1)", 4},
    {0, 0, 0, 0, "The output:", 5},
    {"json", KEY_JSON, 0, 0, "An object with a schema version instead of a table", 5},
    {"plot", KEY_PLOT, "FILE", 0, "Write a picture (SVG) of how far each scenario moves the logits", 5},
    {0},
};

static const char doc[] =
    "How far do the bits of llama.cpp move, with and without the samebits plugin?\v"
    "Plays scenarios - batch sizes, chunks, cache hits, slots, neighbours, threads, speculative decoding - over one "
    "prompt on an unmodified libllama and compares the logits with those of the plain run, bit by bit.\n\n"
    "Examples:\n"
    "  samebits-llama model.gguf\n"
    "  samebits-llama model.gguf --short --json\n"
    "  samebits-llama model.gguf --plugin ./libggml-samebits.so --plot moved.svg\n"
    "  samebits-llama model.gguf --engine stock --scenarios 'ubatch,4 slots'\n"
    "  samebits-llama --ops model.gguf\n"
    "  samebits-llama --bench model.gguf\n"
    "  samebits-llama --check-server http://127.0.0.1:8080\n\n"
    "Exit status: 0 samebits did not move (or the server did not), 1 it moved, 2 usage or environment error.";

static int parse_number(struct argp_state *state, const char *name, const char *text, int low, int high)
{
    char *end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < low || value > high)
        argp_error(state, "--%s takes a whole number from %d to %d, not \"%s\"", name, low, high, text);
    return (int)value;
}

static void parse_engine(struct argp_state *state, struct options *options, const char *name)
{
    if (strcmp(name, "stock") == 0)
        options->which = WHICH_STOCK;
    else if (strcmp(name, "samebits") == 0)
        options->which = WHICH_SAMEBITS;
    else if (strcmp(name, "both") == 0)
        options->which = WHICH_BOTH;
    else
        argp_error(state, "--engine takes stock, samebits or both, not \"%s\"", name);
}

static void check_complete(struct argp_state *state, struct options *options)
{
    const bool needs_model = options->mode != MODE_LIST && options->mode != MODE_SERVER;
    if (needs_model && !options->model) argp_error(state, "name a model: the path of a GGUF file");
    if (options->plot && (options->mode != MODE_SCENARIOS))
        argp_error(state, "--plot draws the scenarios: it does not go with --list, --ops, --bench or --check-server");
    if (options->tokens == 0) options->tokens = options->brief ? 48 : 200;
    if (options->prompts == 0) options->prompts = options->brief ? 2 : 20;
    if (options->generated == 0) options->generated = options->brief ? 24 : 128;
}

static error_t parse_one(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case KEY_LIST: options->mode = MODE_LIST; break;
    case KEY_OPS: options->mode = MODE_OPS; break;
    case KEY_BENCH: options->mode = MODE_BENCH; break;
    case KEY_SERVER: options->mode = MODE_SERVER, options->url = argument; break;
    case KEY_PLUGIN: options->plugin = argument; break;
    case KEY_BACKENDS: options->backend_dir = argument; break;
    case KEY_ENGINE: parse_engine(state, options, argument); break;
    case KEY_JSON: options->json = true; break;
    case KEY_PLOT: options->plot = argument; break;
    case KEY_SHORT: options->brief = true; break;
    case KEY_SCENARIOS: options->filter = argument; break;
    case KEY_TOKENS: options->tokens = parse_number(state, "tokens", argument, 8, 8192); break;
    case KEY_PROMPTS: options->prompts = parse_number(state, "prompts", argument, 1, 1000); break;
    case KEY_GENERATE: options->generated = parse_number(state, "generate", argument, 2, 1024); break;
    case KEY_TRIES: options->tries = parse_number(state, "tries", argument, 1, 1000); break;
    case KEY_SEED: options->seed = (unsigned)parse_number(state, "seed", argument, 0, INT_MAX); break;
    case ARGP_KEY_ARG:
        if (options->model) argp_error(state, "one model at a time: \"%s\" or \"%s\"", options->model, argument);
        options->model = argument;
        break;
    case ARGP_KEY_END: check_complete(state, options); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* Where an installed copy and a build folder have the plugin. */
static const char *find_plugin(void)
{
    static char path[PATH_MAX + 64];
    static const char *const places[] = {"libggml-samebits.so", "../lib/libggml-samebits.so"};
    char program[PATH_MAX];
    const char *named = getenv("GGML_BACKEND_PATH");
    if (named && *named) return named;
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0) return NULL;
    program[length] = 0;
    *strrchr(program, '/') = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/%s", program, places[i]);
        if (access(path, R_OK) == 0) return path;
    }
    return NULL;
}

void options_parse(struct options *options, int argc, char **argv)
{
    static const struct argp parser = {.options = table, .parser = parse_one, .args_doc = "MODEL.gguf", .doc = doc};
    *options = (struct options){.tries = 6, .seed = 1};
    argp_err_exit_status = EXIT_TROUBLE;
    argp_parse(&parser, argc, argv, 0, NULL, options);
    if (!options->plugin) options->plugin = find_plugin();
}
