#include "bench.h"

#include "child.h"
#include "clock.h"
#include "engine.h"
#include "error.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PP_TOKENS = 512, TG_TOKENS = 64, WARM_TOKENS = 32, CONTEXT = 1024, ROUNDS = 3 };

/* What is measured, and the settings of the engines. Ours has one; stock has the four that users choose from. */
static const struct measure {
    const char *name, *key;
    int prompt, generate, threads;
} measures[] = {
    {"pp512, 1 thread", "pp512_1", PP_TOKENS, 0, 1},
    {"pp512, 2 threads", "pp512_2", PP_TOKENS, 0, 2},
    {"tg64, 1 thread", "tg64_1", 0, TG_TOKENS, 1},
    {"tg64, 2 threads", "tg64_2", 0, TG_TOKENS, 2},
};
static const struct setting {
    const char *name;
    bool ours, flash, no_repack;
} settings[] = {
    {"samebits", true, true, false},
    {"stock, flash attention, repacked", false, true, false},
    {"stock, flash attention, plain weights", false, true, true},
    {"stock, no flash attention, repacked", false, false, false},
    {"stock, no flash attention, plain weights", false, false, true},
};
enum { MEASURES = sizeof measures / sizeof *measures, SETTINGS = sizeof settings / sizeof *settings, OURS = 0 };

struct bench {
    const struct options *options;
    int setting, round;
    double rates[SETTINGS][MEASURES][ROUNDS];
    int rounds[SETTINGS];
    char description[128];
};

/* As llama-bench does it: an empty cache, the prompt as one batch, or single tokens one after the other. */
static int evaluate(struct llama_context *context, llama_token *tokens, int prompt, int generate)
{
    int status = 0;
    llama_memory_clear(llama_get_memory(context), false);
    if (prompt) status = llama_decode(context, llama_batch_get_one(tokens, prompt));
    for (int i = 0; i < generate && !status; i++) status = llama_decode(context, llama_batch_get_one(tokens + i, 1));
    llama_synchronize(context);
    return status ? fail("llama_decode returned %d", status) : 0;
}

static int measure_all(const struct engine *engine, const struct setting *setting, llama_token *tokens)
{
    struct llama_context *context = engine_context(engine, engine_params(CONTEXT, 1, PP_TOKENS, 1, setting->flash));
    if (!context) return -1;
    /* Weights are paged in, and clocks settle, outside the measured time. */
    int status = evaluate(context, tokens, WARM_TOKENS, 2);
    for (int i = 0; i < MEASURES && !status; i++) {
        const struct measure *measure = &measures[i];
        llama_set_n_threads(context, measure->threads, measure->threads);
        const double began = seconds_now();
        status = evaluate(context, tokens, measure->prompt, measure->generate);
        const double seconds = seconds_now() - began;
        cJSON *message = cJSON_CreateObject();
        cJSON_AddNumberToObject(message, "measure", i);
        cJSON_AddNumberToObject(message, "rate", (measure->prompt + measure->generate) / seconds);
        child_send(message);
    }
    llama_free(context);
    return status;
}

static int bench_child(void *argument)
{
    const struct bench *bench = argument;
    const struct setting *setting = &settings[bench->setting];
    const struct engine_options engine_options = {
        .model = bench->options->model,
        .plugin = setting->ours ? bench->options->plugin : NULL,
        .backend_dir = bench->options->backend_dir,
        .no_repack = setting->no_repack,
    };
    struct engine engine;
    if (engine_open(&engine, &engine_options)) return -1;
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "description", engine.description);
    child_send(message);
    llama_token *tokens = text_prompt(engine.vocab, PP_TOKENS);
    const int status = tokens ? measure_all(&engine, setting, tokens) : -1;
    free(tokens);
    engine_close(&engine);
    return status;
}

static void on_message(const cJSON *message, void *user)
{
    struct bench *bench = user;
    const int measure = (int)json_number(message, "measure", -1);
    const char *description = json_string(message, "description", NULL);
    if (description) snprintf(bench->description, sizeof bench->description, "%s", description);
    if (measure >= 0 && measure < MEASURES)
        bench->rates[bench->setting][measure][bench->round] = json_number(message, "rate", 0);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_rate(const struct bench *bench, int setting, int measure)
{
    double sorted[ROUNDS];
    const int count = bench->rounds[setting];
    for (int i = 0; i < count; i++) sorted[i] = bench->rates[setting][measure][i];
    qsort(sorted, (size_t)count, sizeof *sorted, compare_doubles);
    return count ? sorted[count / 2] : 0;
}

/* The setting of stock with the highest median among those that ran as often as any. */
static int best_stock(const struct bench *bench, int measure)
{
    int best = -1;
    for (int i = 0; i < SETTINGS; i++) {
        if (settings[i].ours || bench->rounds[i] == 0) continue;
        if (best < 0 || bench->rounds[i] > bench->rounds[best] ||
            (bench->rounds[i] == bench->rounds[best] &&
             median_rate(bench, i, measure) > median_rate(bench, best, measure)))
            best = i;
    }
    return best;
}

static bool is_wanted(const struct bench *bench, const struct setting *setting)
{
    return bench->options->which != (setting->ours ? WHICH_STOCK : WHICH_SAMEBITS);
}

/* The first round tries every setting; the others repeat ours and those that were best at something. */
static void choose_settings(const struct bench *bench, bool chosen[SETTINGS])
{
    for (int i = 0; i < SETTINGS; i++)
        chosen[i] = is_wanted(bench, &settings[i]) && (settings[i].ours || bench->round == 0);
    for (int measure = 0; measure < MEASURES && bench->round > 0; measure++)
        if (best_stock(bench, measure) >= 0) chosen[best_stock(bench, measure)] = true;
}

static int rounds_of(const struct bench *bench) { return bench->options->brief ? 1 : ROUNDS; }

static int run_round(struct bench *bench)
{
    bool chosen[SETTINGS];
    choose_settings(bench, chosen);
    for (int i = 0; i < SETTINGS; i++) {
        if (!chosen[i]) continue;
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\r\033[Kround %d/%d  %s", bench->round + 1, rounds_of(bench), settings[i].name);
        bench->setting = i;
        if (child_run(settings[i].name, bench_child, bench, on_message, bench)) return -1;
        bench->rounds[i] = bench->round + 1;
    }
    return 0;
}

static double ratio_of(const struct bench *bench, int measure)
{
    const int best = best_stock(bench, measure);
    const double stock = best >= 0 ? median_rate(bench, best, measure) : 0;
    return stock > 0 ? median_rate(bench, OURS, measure) / stock : 0;
}

/* An engine that did not run has no rate. */
static void print_number(int width, double value, const char *unit)
{
    if (value > 0)
        printf(" %*.*f%s", width, *unit ? 2 : 1, value, unit);
    else
        printf(" %*s", width + (int)strlen(unit), "-");
}

static void print_table(const struct bench *bench)
{
    printf("%s, tokens per second, medians of %d interleaved runs; stock at its best setting.\n\n", bench->description,
           rounds_of(bench));
    printf("%-18s %9s %9s %7s  %s\n", "", "stock", "samebits", "ratio", "best of stock");
    for (int i = 0; i < MEASURES; i++) {
        const int best = best_stock(bench, i);
        printf("%-18s", measures[i].name);
        print_number(9, best >= 0 ? median_rate(bench, best, i) : 0, "");
        print_number(9, median_rate(bench, OURS, i), "");
        print_number(6, ratio_of(bench, i), "x");
        printf("  %s\n", best >= 0 ? settings[best].name : "-");
    }
}

static void add_rate(cJSON *row, const char *name, double rate)
{
    if (rate > 0)
        cJSON_AddNumberToObject(row, name, rate);
    else
        cJSON_AddNullToObject(row, name);
}

static void print_json(const struct bench *bench)
{
    cJSON *document = json_document("bench");
    cJSON_AddStringToObject(document, "model", bench->description);
    cJSON_AddNumberToObject(document, "rounds", rounds_of(bench));
    cJSON *list = cJSON_AddArrayToObject(document, "measures");
    for (int i = 0; i < MEASURES; i++) {
        const int best = best_stock(bench, i);
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "name", measures[i].key);
        cJSON_AddNumberToObject(row, "threads", measures[i].threads);
        add_rate(row, "stock", best >= 0 ? median_rate(bench, best, i) : 0);
        add_rate(row, "samebits", median_rate(bench, OURS, i));
        add_rate(row, "ratio", ratio_of(bench, i));
        cJSON_AddStringToObject(row, "best_of_stock", best >= 0 ? settings[best].name : "");
        cJSON_AddItemToArray(list, row);
    }
    json_print(document);
}

int bench_main(const struct options *options)
{
    struct bench bench = {.options = options};
    int status = 0;
    for (bench.round = 0; bench.round < rounds_of(&bench) && !status; bench.round++) status = run_round(&bench);
    if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
    if (status) {
        fprintf(stderr, "samebits-llama: %s\n", failure());
        return EXIT_TROUBLE;
    }
    if (options->json)
        print_json(&bench);
    else
        print_table(&bench);
    return EXIT_HELD;
}
