#include "suite.h"

#include "child.h"
#include "clock.h"
#include "engine.h"
#include "error.h"
#include "play.h"
#include "plot.h"
#include "report.h"
#include "speculate.h"
#include "text.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SPECULATION_THREADS = 2, STOCK_PROMPTS = 3 };

const char *const engine_names[ENGINES] = {"stock", "samebits"};

/* The child's side. */
struct worker {
    const struct suite *suite;
    int which;
    struct engine engine;
    llama_token *tokens;
    float *logits;
    float *bases[GROUPS];
};

static void send_outcome(int scenario, const struct outcome *outcome)
{
    cJSON *message = cJSON_CreateObject();
    cJSON_AddNumberToObject(message, "scenario", scenario);
    cJSON_AddNumberToObject(message, "status", outcome->status);
    cJSON_AddNumberToObject(message, "compared", (double)outcome->difference.compared);
    cJSON_AddNumberToObject(message, "moved", (double)outcome->difference.moved);
    json_add_change(message, "max_change", outcome->difference.max_change);
    cJSON_AddBoolToObject(message, "argmax_moved", outcome->difference.argmax_moved);
    cJSON_AddNumberToObject(message, "texts", outcome->texts);
    cJSON_AddNumberToObject(message, "texts_moved", outcome->texts_moved);
    cJSON_AddNumberToObject(message, "seconds", outcome->seconds);
    cJSON_AddStringToObject(message, "hash", outcome->hash);
    cJSON_AddStringToObject(message, "note", outcome->note);
    child_send(message);
}

static void send_start(int scenario)
{
    cJSON *message = cJSON_CreateObject();
    cJSON_AddNumberToObject(message, "start", scenario);
    child_send(message);
}

static void send_engine(const struct engine *engine)
{
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "description", engine->description);
    cJSON_AddStringToObject(message, "devices", engine->devices);
    cJSON_AddStringToObject(message, "banner", engine->banner);
    cJSON_AddNumberToObject(message, "n_vocab", engine->n_vocab);
    child_send(message);
}

static void judge(struct worker *worker, const struct scenario *scenario, struct outcome *outcome)
{
    float **base = &worker->bases[scenario->group];
    snprintf(outcome->hash, sizeof outcome->hash, "%016" PRIx64, hash_row(worker->logits, worker->engine.n_vocab));
    if (!scenario->base && *base) {
        outcome->status = OUTCOME_COMPARED;
        compare_rows(*base, worker->logits, worker->engine.n_vocab, &outcome->difference);
        return;
    }
    outcome->status = scenario->base ? OUTCOME_BASE : OUTCOME_SKIPPED;
    snprintf(outcome->note, sizeof outcome->note, "%s", scenario->base ? "" : "its base could not be played");
    if (!scenario->base) return;
    if (check_row(worker->logits, worker->engine.n_vocab)) {
        outcome->status = OUTCOME_FAILED;
        snprintf(outcome->note, sizeof outcome->note, "%s", failure());
        return;
    }
    *base = worker->logits;
    worker->logits = malloc((size_t)worker->engine.n_vocab * sizeof **base);
}

static int play_one(struct worker *worker, int index)
{
    const struct scenario *scenario = &scenarios[index];
    struct outcome outcome = {.status = OUTCOME_SKIPPED};
    const int count = play_length(&worker->engine, scenario, worker->suite->options->tokens);
    const double began = seconds_now();
    const enum played played =
        count ? play(&worker->engine, scenario, worker->tokens, count, worker->logits) : PLAY_UNSUPPORTED;
    outcome.seconds = seconds_now() - began;
    if (played == PLAYED) {
        judge(worker, scenario, &outcome);
    } else {
        outcome.status = played == PLAY_FAILED ? OUTCOME_FAILED : OUTCOME_SKIPPED;
        snprintf(outcome.note, sizeof outcome.note, "%s", failure());
    }
    send_outcome(index, &outcome);
    return worker->logits ? 0 : fail("out of memory for the base's logits");
}

/* All widths in one pass, so that the plain text is written once. */
static int speculate_all(struct worker *worker)
{
    const struct options *options = worker->suite->options;
    struct speculation runs[SCENARIOS_MAX] = {0};
    int indices[SCENARIOS_MAX], widths = 0;
    for (int i = 0; i < scenario_count; i++)
        if (worker->suite->chosen[i] && scenarios[i].draft) {
            runs[widths].width = scenarios[i].draft;
            indices[widths++] = i;
        }
    if (widths == 0) return 0;
    send_start(indices[0]);
    /* Stock is the control: a few texts show that it moves, and their time is better spent on ours. */
    const int prompts = worker->which == STOCK && options->prompts > STOCK_PROMPTS ? STOCK_PROMPTS : options->prompts;
    const int status = speculate(&worker->engine, prompts, options->generated, SPECULATION_THREADS, runs, widths);
    for (int i = 0; i < widths; i++) {
        struct outcome outcome = {.status = OUTCOME_COMPARED, .difference = runs[i].difference};
        outcome.texts = runs[i].texts;
        outcome.texts_moved = runs[i].texts_moved;
        outcome.seconds = runs[i].seconds;
        snprintf(outcome.note, sizeof outcome.note, "%lld of %lld drafted tokens accepted", runs[i].accepted,
                 runs[i].drafted);
        if (status) {
            outcome.status = OUTCOME_FAILED;
            snprintf(outcome.note, sizeof outcome.note, "%s", failure());
        }
        send_outcome(indices[i], &outcome);
    }
    return 0;
}

static int longest_prompt(const struct worker *worker)
{
    int longest = 0;
    for (int i = 0; i < scenario_count; i++) {
        const int length = play_length(&worker->engine, &scenarios[i], worker->suite->options->tokens);
        if (worker->suite->chosen[i] && length > longest) longest = length;
    }
    return longest;
}

static int worker_main(void *argument)
{
    struct worker *worker = argument;
    const struct options *options = worker->suite->options;
    const struct engine_options engine_options = {
        .model = options->model,
        .plugin = worker->which == SAMEBITS ? options->plugin : NULL,
        .backend_dir = options->backend_dir,
    };
    if (engine_open(&worker->engine, &engine_options)) return -1;
    send_engine(&worker->engine);
    worker->tokens = text_prompt(worker->engine.vocab, longest_prompt(worker));
    worker->logits = malloc((size_t)worker->engine.n_vocab * sizeof *worker->logits);
    int status = worker->tokens && worker->logits ? 0 : -1;
    for (int i = 0; i < scenario_count && !status; i++)
        if (worker->suite->chosen[i] && !scenarios[i].draft) {
            send_start(i);
            status = play_one(worker, i);
        }
    if (!status) status = speculate_all(worker);
    for (int i = 0; i < GROUPS; i++) free(worker->bases[i]);
    free(worker->logits);
    free(worker->tokens);
    engine_close(&worker->engine);
    return status;
}

/* The parent's side. */
struct listener {
    struct suite *suite;
    int which, done;
};

static void show_progress(const struct listener *listener, int scenario)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%-8s %2d/%d  %s", engine_names[listener->which], listener->done + 1,
                listener->suite->chosen_count, scenarios[scenario].name);
}

static void take_outcome(struct suite_engine *engine, const cJSON *message, int index)
{
    struct outcome *outcome = &engine->outcomes[index];
    outcome->status = (enum outcome_status)json_number(message, "status", OUTCOME_FAILED);
    outcome->difference.compared = (long long)json_number(message, "compared", 0);
    outcome->difference.moved = (long long)json_number(message, "moved", 0);
    outcome->difference.max_change = json_number(message, "max_change", INFINITY);
    outcome->difference.argmax_moved = json_bool(message, "argmax_moved");
    outcome->texts = (int)json_number(message, "texts", 0);
    outcome->texts_moved = (int)json_number(message, "texts_moved", 0);
    outcome->seconds = json_number(message, "seconds", 0);
    snprintf(outcome->hash, sizeof outcome->hash, "%s", json_string(message, "hash", ""));
    snprintf(outcome->note, sizeof outcome->note, "%s", json_string(message, "note", ""));
    engine->compared += outcome->status == OUTCOME_COMPARED;
    engine->failed += outcome->status == OUTCOME_FAILED;
    engine->moved_logits += outcome->difference.moved;
    engine->moved_scenarios += outcome->difference.moved > 0;
}

static void on_message(const cJSON *message, void *user)
{
    struct listener *listener = user;
    struct suite *suite = listener->suite;
    struct suite_engine *engine = &suite->engines[listener->which];
    const int start = (int)json_number(message, "start", -1);
    const int scenario = (int)json_number(message, "scenario", -1);
    if (start >= 0 && start < scenario_count) {
        show_progress(listener, start);
    } else if (scenario >= 0 && scenario < scenario_count) {
        listener->done++;
        take_outcome(engine, message, scenario);
    } else if (start < 0 && scenario < 0) {
        snprintf(suite->description, sizeof suite->description, "%s", json_string(message, "description", "?"));
        snprintf(engine->devices, sizeof engine->devices, "%s", json_string(message, "devices", "?"));
        snprintf(engine->banner, sizeof engine->banner, "%s", json_string(message, "banner", ""));
        suite->n_vocab = (int)json_number(message, "n_vocab", 0);
    }
}

/* A row that only samebits could not play is a fault of samebits: stock showed that it can be played. */
static void blame_one_sided_skips(struct suite *suite)
{
    struct suite_engine *ours = &suite->engines[SAMEBITS];
    for (int i = 0; i < scenario_count; i++)
        if (ours->outcomes[i].status == OUTCOME_SKIPPED && suite->engines[STOCK].outcomes[i].status >= OUTCOME_BASE &&
            suite->engines[STOCK].outcomes[i].status <= OUTCOME_COMPARED) {
            ours->outcomes[i].status = OUTCOME_FAILED;
            ours->failed++;
        }
}

int suite_run(struct suite *suite, const struct options *options)
{
    *suite = (struct suite){.options = options};
    suite->chosen_count = scenarios_choose(suite->chosen, options->filter, options->brief);
    if (suite->chosen_count < 0) return -1;
    int status = 0;
    for (int which = SAMEBITS; which >= STOCK && !status; which--) {
        if (options->which == (which == STOCK ? WHICH_SAMEBITS : WHICH_STOCK)) continue;
        struct worker worker = {.suite = suite, .which = which};
        struct listener listener = {.suite = suite, .which = which};
        status = child_run(engine_names[which], worker_main, &worker, on_message, &listener);
        suite->engines[which].ran = !status;
        if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
    }
    blame_one_sided_skips(suite);
    return status;
}

/* Said before minutes are spent, and without touching a file that may be there already. */
static int check_plot_folder(const char *path)
{
    char folder[PATH_MAX];
    if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder || access(dirname(folder), W_OK))
        return fail("cannot write %s: %s; name a file in a folder that exists", path, strerror(errno));
    return 0;
}

static enum exit_code verdict(const struct suite *suite)
{
    const struct suite_engine *ours = &suite->engines[SAMEBITS];
    if (ours->moved_scenarios) return EXIT_MOVED;
    if (ours->failed || suite->engines[STOCK].failed) {
        fprintf(stderr, "samebits-llama: some scenarios failed; their notes say why\n");
        return EXIT_TROUBLE;
    }
    if (ours->ran && ours->compared == 0) {
        fprintf(stderr, "samebits-llama: nothing was compared; choose other --scenarios\n");
        return EXIT_TROUBLE;
    }
    return EXIT_HELD;
}

int suite_main(const struct options *options)
{
    struct suite suite;
    if ((options->plot && check_plot_folder(options->plot)) || suite_run(&suite, options)) {
        fprintf(stderr, "samebits-llama: %s\n", failure());
        return EXIT_TROUBLE;
    }
    if (options->json)
        report_json(&suite);
    else
        report_table(&suite);
    if (options->plot && plot_write(&suite, options->plot)) {
        fprintf(stderr, "samebits-llama: %s\n", failure());
        return EXIT_TROUBLE;
    }
    return verdict(&suite);
}
