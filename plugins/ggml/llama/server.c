#include "server.h"

#include "error.h"
#include "http.h"
#include "json.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NEIGHBOURS = 3, SLOTS_MAX = 64, ROWS_MAX = 3 + SLOTS_MAX, PATIENCE = 600 };
enum { NEEDLE_TOKENS = 8, PROBABILITIES = 10, NEIGHBOUR_TOKENS = 512 };

struct row {
    char name[64];
    int tries, moved;
    double max_change; /* of a log-probability while the tokens are the same ones */
};

struct needle {
    const struct options *options;
    struct http http;
    char completion_url[512], props_url[512];
    int slots;
    cJSON *reference;
    unsigned random;
    struct row rows[ROWS_MAX];
    int row_count;
};

static unsigned draw(struct needle *needle, unsigned below)
{
    needle->random = needle->random * 1664525u + 1013904223u;
    return (needle->random >> 8) % below;
}

static cJSON *completion_request(const char *prompt, int tokens)
{
    cJSON *request = cJSON_CreateObject();
    cJSON_AddStringToObject(request, "prompt", prompt);
    cJSON_AddNumberToObject(request, "n_predict", tokens);
    cJSON_AddNumberToObject(request, "temperature", 0);
    cJSON_AddBoolToObject(request, "ignore_eos", true);
    return request;
}

static int start_needle(struct needle *needle, struct http_call *call, int slot, bool cached)
{
    cJSON *request = completion_request(text_paragraph(), NEEDLE_TOKENS);
    cJSON_AddNumberToObject(request, "n_probs", PROBABILITIES);
    cJSON_AddBoolToObject(request, "cache_prompt", cached);
    cJSON_AddNumberToObject(request, "id_slot", slot);
    const int status = http_start(&needle->http, call, needle->completion_url, request);
    cJSON_Delete(request);
    return status;
}

/* Random words of the paragraph, of a random number: nobody's prompt has the needle's length or content. */
static int start_neighbour(struct needle *needle, struct http_call *call)
{
    char prompt[2048];
    size_t used = 0;
    const char *text = text_paragraph();
    const unsigned words = 20 + draw(needle, 100);
    for (unsigned i = 0; i < words; i++) {
        const char *word = strchr(text + draw(needle, (unsigned)strlen(text) - 24), ' ') + 1;
        const int length = (int)strcspn(word, " ");
        used += (size_t)snprintf(prompt + used, sizeof prompt - used, "%.*s ", length, word);
        if (used > sizeof prompt - 32) break;
    }
    cJSON *request = completion_request(prompt, NEIGHBOUR_TOKENS);
    cJSON_AddBoolToObject(request, "cache_prompt", false);
    const int status = http_start(&needle->http, call, needle->completion_url, request);
    cJSON_Delete(request);
    return status;
}

/* The list of log-probabilities, detached from the answer. */
static cJSON *finish_needle(struct needle *needle, struct http_call *call)
{
    if (http_run(&needle->http, call, PATIENCE)) {
        cJSON_Delete(http_finish(&needle->http, call));
        return NULL;
    }
    cJSON *answer = http_finish(&needle->http, call);
    cJSON *list = cJSON_DetachItemFromObjectCaseSensitive(answer, "completion_probabilities");
    if (answer && cJSON_GetArraySize(list) == 0) {
        fail("the server's answer has no completion_probabilities; it needs llama-server's POST /completion");
        cJSON_Delete(list);
        list = NULL;
    }
    cJSON_Delete(answer);
    return list;
}

static bool same_number(const cJSON *a, const cJSON *b, struct row *row)
{
    const double x = json_number(a, "logprob", NAN), y = json_number(b, "logprob", NAN);
    const bool same_token = json_number(a, "id", -1) == json_number(b, "id", -2);
    if (same_token && fabs(x - y) > row->max_change) row->max_change = fabs(x - y);
    return same_token && x == y;
}

/* False if any number moved; stops at the first other token, after which the texts are different ones. */
static bool same_probabilities(const cJSON *reference, const cJSON *list, struct row *row)
{
    bool same = cJSON_GetArraySize(reference) == cJSON_GetArraySize(list);
    for (int i = 0; i < cJSON_GetArraySize(reference) && i < cJSON_GetArraySize(list); i++) {
        const cJSON *a = cJSON_GetArrayItem(reference, i), *b = cJSON_GetArrayItem(list, i);
        const cJSON *tops_a = cJSON_GetObjectItemCaseSensitive(a, "top_logprobs");
        const cJSON *tops_b = cJSON_GetObjectItemCaseSensitive(b, "top_logprobs");
        same &= cJSON_GetArraySize(tops_a) == PROBABILITIES && cJSON_GetArraySize(tops_b) == PROBABILITIES;
        for (int j = 0; j < PROBABILITIES; j++)
            same &= same_number(cJSON_GetArrayItem(tops_a, j), cJSON_GetArrayItem(tops_b, j), row);
        same &= same_number(a, b, row);
        if (json_number(a, "id", -1) != json_number(b, "id", -1)) break;
    }
    return same;
}

static int judge(struct needle *needle, struct http_call *call, struct row *row)
{
    cJSON *list = finish_needle(needle, call);
    if (!list) return -1;
    row->tries++;
    row->moved += !same_probabilities(needle->reference, list, row);
    cJSON_Delete(list);
    return 0;
}

static int ask_alone(struct needle *needle, struct row *row, int tries, int slot, bool cached)
{
    for (int i = 0; i < tries; i++) {
        struct http_call call;
        if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K%s %d/%d", row->name, i + 1, tries);
        if (start_needle(needle, &call, slot, cached) || judge(needle, &call, row)) return -1;
    }
    return 0;
}

static int ask_beside_others(struct needle *needle, struct row *row, bool cached)
{
    struct http_call neighbours[NEIGHBOURS], call;
    int started = 0;
    int status = 0;
    while (started < NEIGHBOURS && !status) {
        status = start_neighbour(needle, &neighbours[started]);
        started += !status;
    }
    /* The needle arrives when the others read their prompts, or when they write. */
    if (!status) status = http_run(&needle->http, NULL, 0.02 + 0.001 * draw(needle, 400));
    if (!status) status = start_needle(needle, &call, -1, cached) || judge(needle, &call, row);
    bool beside = false;
    for (int i = 0; i < started; i++) {
        /* The others write much longer than the needle needs, and are given up when it is done. */
        const bool finished = neighbours[i].done;
        beside |= !finished;
        cJSON *answer = http_finish(&needle->http, &neighbours[i]);
        if (finished && !answer && !status) status = fail("a prompt beside the needle failed: %s", failure());
        cJSON_Delete(answer);
    }
    if (!status && !beside)
        status = fail("the prompts beside the needle ended before it: the server's context is too small for %d tokens",
                      NEIGHBOUR_TOKENS);
    return status ? -1 : 0;
}

static struct row *add_row(struct needle *needle, const char *name)
{
    struct row *row = &needle->rows[needle->row_count++];
    snprintf(row->name, sizeof row->name, "%s", name);
    return row;
}

static int read_slots(struct needle *needle)
{
    struct http_call call;
    if (http_start(&needle->http, &call, needle->props_url, NULL)) return -1;
    const int status = http_run(&needle->http, &call, 30);
    cJSON *props = http_finish(&needle->http, &call);
    if (status || !props) return -1;
    const int slots = (int)json_number(props, "total_slots", 1);
    needle->slots = slots < 1 ? 1 : slots > SLOTS_MAX ? SLOTS_MAX : slots;
    cJSON_Delete(props);
    return 0;
}

static int ask_all(struct needle *needle)
{
    struct http_call call;
    if (read_slots(needle) || start_needle(needle, &call, -1, false)) return -1;
    needle->reference = finish_needle(needle, &call);
    if (!needle->reference) return -1;
    if (ask_alone(needle, add_row(needle, "alone, again"), 2, -1, false) ||
        ask_alone(needle, add_row(needle, "alone, cached"), 2, -1, true))
        return -1;
    for (int slot = 0; slot < needle->slots; slot++) {
        char name[32];
        snprintf(name, sizeof name, "alone, in slot %d", slot);
        if (ask_alone(needle, add_row(needle, name), 1, slot, false)) return -1;
    }
    struct row *row = add_row(needle, "beside three random prompts");
    for (int i = 0; i < needle->options->tries; i++) {
        if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K%s %d/%d", row->name, i + 1, needle->options->tries);
        if (ask_beside_others(needle, row, i % 2)) return -1;
    }
    return 0;
}

static void print_table(const struct needle *needle, int moved)
{
    printf("%s, %d slots; %d tokens with %d log-probabilities each, compared as numbers.\n\n", needle->options->url,
           needle->slots, NEEDLE_TOKENS, PROBABILITIES);
    for (int i = 0; i < needle->row_count; i++) {
        const struct row *row = &needle->rows[i];
        printf("%-32s moved %d of %d", row->name, row->moved, row->tries);
        if (row->moved) printf("   max %.2g", row->max_change);
        putchar('\n');
    }
    if (needle->slots <= NEIGHBOURS)
        printf("\nOnly %d slots: not all four prompts ran at once; start the server with -np 4.\n", needle->slots);
    printf("\n%s\n", moved ? "The answers depend on what else the server does." : "Same prompt, same bits.");
}

static void print_json(const struct needle *needle, int moved)
{
    cJSON *document = json_document("server");
    cJSON_AddStringToObject(document, "url", needle->options->url);
    cJSON_AddNumberToObject(document, "slots", needle->slots);
    cJSON_AddNumberToObject(document, "seed", needle->options->seed);
    cJSON *list = cJSON_AddArrayToObject(document, "rows");
    for (int i = 0; i < needle->row_count; i++) {
        const struct row *row = &needle->rows[i];
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "name", row->name);
        cJSON_AddNumberToObject(object, "tries", row->tries);
        cJSON_AddNumberToObject(object, "moved", row->moved);
        json_add_change(object, "max_change", row->max_change);
        cJSON_AddItemToArray(list, object);
    }
    const struct row *beside = &needle->rows[needle->row_count - 1];
    cJSON_AddNumberToObject(document, "beside_tries", beside->tries);
    cJSON_AddNumberToObject(document, "beside_moved", beside->moved);
    cJSON_AddNumberToObject(document, "moved", moved);
    json_print(document);
}

int server_main(const struct options *options)
{
    struct needle needle = {.options = options, .random = options->seed};
    const int length = (int)strlen(options->url) - (options->url[0] && options->url[strlen(options->url) - 1] == '/');
    snprintf(needle.completion_url, sizeof needle.completion_url, "%.*s/completion", length, options->url);
    snprintf(needle.props_url, sizeof needle.props_url, "%.*s/props", length, options->url);
    int status = http_open(&needle.http);
    if (!status) {
        status = ask_all(&needle);
        cJSON_Delete(needle.reference);
        http_close(&needle.http);
    }
    if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
    if (status) {
        fprintf(stderr, "samebits-llama: %s\n", failure());
        return EXIT_TROUBLE;
    }
    int moved = 0;
    for (int i = 0; i < needle.row_count; i++) moved += needle.rows[i].moved;
    if (options->json)
        print_json(&needle, moved);
    else
        print_table(&needle, moved);
    return moved ? EXIT_MOVED : EXIT_HELD;
}
