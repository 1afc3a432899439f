#include "report.h"

#include "json.h"

#include <stdio.h>
#include <string.h>

enum { NAME_WIDTH = 52, CELL_WIDTH = 34 };

static void format_cell(char *text, size_t size, const struct outcome *outcome)
{
    const struct difference *difference = &outcome->difference;
    switch (outcome->status) {
    case OUTCOME_BASE: snprintf(text, size, "base, hash %s", outcome->hash); break;
    case OUTCOME_SKIPPED: snprintf(text, size, "skipped"); break;
    case OUTCOME_FAILED: snprintf(text, size, "FAILED"); break;
    case OUTCOME_COMPARED:
        if (difference->moved == 0)
            snprintf(text, size, "0");
        else
            snprintf(text, size, "%lld  max %.2g%s", difference->moved, difference->max_change,
                     difference->argmax_moved ? "  other token" : "");
        break;
    default: snprintf(text, size, "-");
    }
    const size_t used = strlen(text);
    if (outcome->texts_moved) snprintf(text + used, size - used, ", %d/%d texts", outcome->texts_moved, outcome->texts);
}

static void print_cells(const struct suite *suite, int index)
{
    for (int which = STOCK; which < ENGINES; which++) {
        char cell[96];
        const struct outcome *outcome = &suite->engines[which].outcomes[index];
        if (!suite->engines[which].ran) continue;
        format_cell(cell, sizeof cell, outcome);
        printf("  %-*s %6.2f", CELL_WIDTH, cell, outcome->seconds);
    }
    putchar('\n');
}

static void print_notes(const struct suite *suite)
{
    for (int i = 0; i < scenario_count; i++)
        for (int which = STOCK; which < ENGINES; which++) {
            const struct outcome *outcome = &suite->engines[which].outcomes[i];
            if (outcome->note[0]) printf("%s, %s: %s\n", scenarios[i].name, engine_names[which], outcome->note);
        }
}

static void print_summary(const struct suite *suite)
{
    for (int which = STOCK; which < ENGINES; which++) {
        const struct suite_engine *engine = &suite->engines[which];
        if (!engine->ran) continue;
        printf("%s moved %lld logits in %d of %d scenarios", engine_names[which], engine->moved_logits,
               engine->moved_scenarios, engine->compared);
        if (engine->failed)
            printf("; %d FAILED", engine->failed);
        else if (engine->moved_scenarios == 0)
            printf(which == STOCK ? ": already invariant here" : ": same row, same bits");
        puts(".");
    }
}

static void print_heading(const struct suite *suite)
{
    printf("%s, prompt of %d tokens, %d logits a row; a logit moved if its bits did.\n", suite->description,
           suite->options->tokens, suite->n_vocab);
    for (int which = STOCK; which < ENGINES; which++) {
        const struct suite_engine *engine = &suite->engines[which];
        if (engine->ran)
            printf("%-8s  devices: %s%s%s\n", engine_names[which], engine->devices, engine->banner[0] ? "; " : "",
                   engine->banner);
    }
    printf("\n%-*s", NAME_WIDTH, "scenario");
    for (int which = STOCK; which < ENGINES; which++)
        if (suite->engines[which].ran)
            printf("  %-*s %6s", CELL_WIDTH, which == STOCK ? "stock: moved logits" : "samebits: moved logits", "s");
    putchar('\n');
}

void report_table(const struct suite *suite)
{
    int group = -1;
    print_heading(suite);
    for (int i = 0; i < scenario_count; i++) {
        if (!suite->chosen[i]) continue;
        if (group != (int)scenarios[i].group) {
            group = (int)scenarios[i].group;
            printf("-- %s\n", groups[group].name);
        }
        printf("%-*s", NAME_WIDTH, scenarios[i].name);
        print_cells(suite, i);
    }
    putchar('\n');
    print_notes(suite);
    print_summary(suite);
}

static cJSON *outcome_json(const struct outcome *outcome)
{
    static const char *const names[] = {"not run", "base", "compared", "skipped", "failed"};
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "status", names[outcome->status]);
    cJSON_AddNumberToObject(object, "compared", (double)outcome->difference.compared);
    cJSON_AddNumberToObject(object, "moved", (double)outcome->difference.moved);
    json_add_change(object, "max_change", outcome->difference.max_change);
    cJSON_AddBoolToObject(object, "argmax_moved", outcome->difference.argmax_moved);
    if (outcome->texts) {
        cJSON_AddNumberToObject(object, "texts", outcome->texts);
        cJSON_AddNumberToObject(object, "texts_moved", outcome->texts_moved);
    }
    cJSON_AddNumberToObject(object, "seconds", outcome->seconds);
    if (outcome->hash[0]) cJSON_AddStringToObject(object, "hash", outcome->hash);
    if (outcome->note[0]) cJSON_AddStringToObject(object, "note", outcome->note);
    return object;
}

static void add_engine(cJSON *document, const struct suite *suite, int which)
{
    const struct suite_engine *engine = &suite->engines[which];
    cJSON *object = cJSON_AddObjectToObject(document, engine_names[which]);
    cJSON_AddStringToObject(object, "devices", engine->devices);
    cJSON_AddStringToObject(object, "banner", engine->banner);
    cJSON_AddNumberToObject(object, "scenarios", engine->compared);
    cJSON_AddNumberToObject(object, "moved_scenarios", engine->moved_scenarios);
    cJSON_AddNumberToObject(object, "moved_logits", (double)engine->moved_logits);
    cJSON_AddNumberToObject(object, "failed", engine->failed);
    if (which == STOCK) cJSON_AddBoolToObject(object, "already_invariant", engine->moved_scenarios == 0);
}

void report_json(const struct suite *suite)
{
    cJSON *document = json_document("scenarios");
    cJSON_AddStringToObject(document, "model", suite->description);
    cJSON_AddNumberToObject(document, "tokens", suite->options->tokens);
    cJSON_AddNumberToObject(document, "n_vocab", suite->n_vocab);
    for (int which = STOCK; which < ENGINES; which++)
        if (suite->engines[which].ran) add_engine(document, suite, which);
    cJSON *list = cJSON_AddArrayToObject(document, "scenarios");
    for (int i = 0; i < scenario_count; i++) {
        if (!suite->chosen[i]) continue;
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "name", scenarios[i].name);
        cJSON_AddStringToObject(row, "group", groups[scenarios[i].group].name);
        for (int which = STOCK; which < ENGINES; which++)
            if (suite->engines[which].ran)
                cJSON_AddItemToObject(row, engine_names[which], outcome_json(&suite->engines[which].outcomes[i]));
        cJSON_AddItemToArray(list, row);
    }
    json_print(document);
}
