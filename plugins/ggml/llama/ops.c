/*
 * Each op of the graph is judged on its own: one token is evaluated alone, then as the first of OPS_BATCH, both after
 * the same prefix. In the second pass the first row of every op is compared with what the op gave alone, and then
 * replaced by it, so that the next op sees the same input bits in both passes.
 */
#include "ops.h"

#include "child.h"
#include "engine.h"
#include "error.h"
#include "ggml-backend.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum watch { WATCH_NOTHING, WATCH_ALONE, WATCH_FIRST_ROW };

struct node {
    char name[GGML_MAX_NAME], op[32], type[16];
    int64_t ne[GGML_MAX_DIMS];
    size_t element;
    void *alone; /* the op's output for the token alone, packed; NULL if it cannot be read */
    bool measured;
    bool moved;
    double max_change;
};

struct ops_worker {
    const struct options *options;
    int which;
    enum watch watch;
    struct node *nodes;
    int count, capacity, next;
    bool out_of_memory;
};

static bool is_view(const struct ggml_tensor *tensor)
{
    switch (tensor->op) {
    case GGML_OP_NONE:
    case GGML_OP_VIEW:
    case GGML_OP_RESHAPE:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE: return true;
    default: return false;
    }
}

static bool is_readable(const struct ggml_tensor *tensor)
{
    const ggml_backend_buffer_t buffer = tensor->view_src ? tensor->view_src->buffer : tensor->buffer;
    /* SET_ROWS returns the whole KV cache, of which each pass writes other rows. */
    return tensor->op != GGML_OP_SET_ROWS && !ggml_is_quantized(tensor->type) && buffer &&
           ggml_backend_buffer_is_host(buffer);
}

/* Visits the first ne[0] x ... x ne[3] elements of a tensor of any strides. */
static void walk(const struct ggml_tensor *tensor, struct node *node,
                 void (*visit)(struct node *node, void *element, void *packed))
{
    char *packed = node->alone;
    for (int64_t i3 = 0; i3 < node->ne[3]; i3++)
        for (int64_t i2 = 0; i2 < node->ne[2]; i2++)
            for (int64_t i1 = 0; i1 < node->ne[1]; i1++)
                for (int64_t i0 = 0; i0 < node->ne[0]; i0++, packed += node->element)
                    visit(node,
                          (char *)tensor->data + i0 * (int64_t)tensor->nb[0] + i1 * (int64_t)tensor->nb[1] +
                              i2 * (int64_t)tensor->nb[2] + i3 * (int64_t)tensor->nb[3],
                          packed);
}

static void keep_element(struct node *node, void *element, void *packed) { memcpy(packed, element, node->element); }

static void compare_element(struct node *node, void *element, void *packed)
{
    if (memcmp(element, packed, node->element) == 0) return;
    node->moved = true;
    if (node->element == sizeof(float)) {
        float a, b;
        memcpy(&a, element, sizeof a);
        memcpy(&b, packed, sizeof b);
        const double change = fabs((double)a - (double)b);
        node->max_change = isnan(change) ? INFINITY : fmax(node->max_change, change);
    }
    memcpy(element, packed, node->element);
}

static struct node *add_node(struct ops_worker *worker)
{
    if (worker->count == worker->capacity) {
        const int capacity = 2 * worker->capacity + 256;
        struct node *grown = realloc(worker->nodes, (size_t)capacity * sizeof *grown);
        if (!grown) return NULL;
        worker->nodes = grown;
        worker->capacity = capacity;
    }
    struct node *node = &worker->nodes[worker->count++];
    *node = (struct node){0};
    return node;
}

static const char *type_of(const struct ggml_tensor *tensor)
{
    switch (tensor->op) {
    case GGML_OP_MUL_MAT:
    case GGML_OP_MUL_MAT_ID:
    case GGML_OP_GET_ROWS: return ggml_type_name(tensor->src[0]->type);
    case GGML_OP_FLASH_ATTN_EXT: return ggml_type_name(tensor->src[1]->type);
    case GGML_OP_SET_ROWS: return ggml_type_name(tensor->type);
    default: return "";
    }
}

static void watch_alone(struct ops_worker *worker, const struct ggml_tensor *tensor)
{
    struct node *node = add_node(worker);
    if (!node) {
        worker->out_of_memory = true;
        return;
    }
    snprintf(node->name, sizeof node->name, "%s", tensor->name);
    snprintf(node->op, sizeof node->op, "%s", ggml_op_desc(tensor));
    snprintf(node->type, sizeof node->type, "%s", type_of(tensor));
    memcpy(node->ne, tensor->ne, sizeof node->ne);
    node->element = ggml_type_size(tensor->type);
    if (is_readable(tensor)) node->alone = malloc((size_t)ggml_nelements(tensor) * node->element);
    if (node->alone) walk(tensor, node, keep_element);
}

/* The token's part of a tensor starts at its first element if one dimension counts tokens and the others agree. */
static bool counts_tokens_once(const struct node *node, const struct ggml_tensor *tensor)
{
    int longer = 0;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        if (tensor->ne[i] == node->ne[i]) continue;
        if (tensor->ne[i] != OPS_BATCH * node->ne[i]) return false;
        longer++;
    }
    return longer <= 1;
}

static void watch_first_row(struct ops_worker *worker, const struct ggml_tensor *tensor)
{
    if (worker->next >= worker->count) return;
    struct node *node = &worker->nodes[worker->next++];
    if (!node->alone || strcmp(node->op, ggml_op_desc(tensor)) || strcmp(node->name, tensor->name) ||
        !is_readable(tensor) || node->element != ggml_type_size(tensor->type) || !counts_tokens_once(node, tensor))
        return;
    node->measured = true;
    walk(tensor, node, compare_element);
}

static bool on_node(struct ggml_tensor *tensor, bool ask, void *user)
{
    struct ops_worker *worker = user;
    if (worker->watch == WATCH_NOTHING || is_view(tensor)) return !ask;
    if (ask) return true;
    if (worker->watch == WATCH_ALONE)
        watch_alone(worker, tensor);
    else
        watch_first_row(worker, tensor);
    return true;
}

/* The prefix unwatched, then the token with `count - 1` others; all rows ask for logits, so that none is dropped. */
static int pass(struct ops_worker *worker, const struct engine *engine, const llama_token *tokens, int count,
                enum watch watch)
{
    struct llama_context_params params = engine_params(1024, 1, 1024, 2, true);
    params.cb_eval = on_node;
    params.cb_eval_user_data = worker;
    worker->watch = WATCH_NOTHING;
    struct llama_context *context = engine_context(engine, params);
    if (!context) return -1;
    struct llama_batch batch = llama_batch_init(OPS_PREFIX, 0, 1);
    int status = 0;
    for (int part = 0; part < 2 && !status; part++) {
        const int from = part ? OPS_PREFIX : 0;
        batch.n_tokens = part ? count : OPS_PREFIX;
        for (int i = 0; i < batch.n_tokens; i++) {
            batch.token[i] = tokens[from + i];
            batch.pos[i] = from + i;
            batch.n_seq_id[i] = 1;
            batch.seq_id[i][0] = 0;
            batch.logits[i] = part;
        }
        worker->watch = part ? watch : WATCH_NOTHING;
        engine_forget_assignments();
        status = llama_decode(context, batch);
    }
    llama_batch_free(batch);
    llama_free(context);
    return status ? fail("llama_decode returned %d", status) : 0;
}

/* Walks the scheduler's log of its last graph: a header names the backend of the nodes that follow it. */
static void send_nodes(const struct ops_worker *worker)
{
    static const char header[] = "## SPLIT #", node_line[] = "node #";
    char backend[64] = "?";
    const char *line = engine_assignments();
    for (const char *again = line; (again = strstr(again, "## SPLIT #0:")); again++) line = again;
    for (int i = 0; line && i < worker->count; line = strchr(line, '\n'), line += !!line) {
        if (strncmp(line, header, strlen(header)) == 0) sscanf(line, "## SPLIT #%*d: %63s", backend);
        if (strncmp(line, node_line, strlen(node_line)) || !strchr(line, '\n')) continue;
        const struct node *node = &worker->nodes[i++];
        cJSON *message = cJSON_CreateObject();
        cJSON_AddStringToObject(message, "op", node->op);
        cJSON_AddStringToObject(message, "type", node->type);
        cJSON_AddStringToObject(message, "backend", backend);
        cJSON_AddBoolToObject(message, "measured", node->measured);
        cJSON_AddBoolToObject(message, "moved", node->moved);
        json_add_change(message, "max_change", node->max_change);
        child_send(message);
    }
}

static int ops_child(void *argument)
{
    struct ops_worker *worker = argument;
    const struct engine_options engine_options = {
        .model = worker->options->model,
        .plugin = worker->which == SAMEBITS ? worker->options->plugin : NULL,
        .backend_dir = worker->options->backend_dir,
        .trace = true,
    };
    struct engine engine;
    if (engine_open(&engine, &engine_options)) return -1;
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "description", engine.description);
    child_send(message);
    llama_token *tokens = text_prompt(engine.vocab, OPS_PREFIX + OPS_BATCH);
    int status = tokens ? 0 : -1;
    if (!status) status = pass(worker, &engine, tokens, 1, WATCH_ALONE);
    if (!status) status = pass(worker, &engine, tokens, OPS_BATCH, WATCH_FIRST_ROW);
    if (worker->out_of_memory) status = fail("out of memory for the outputs of the model's ops");
    if (!status) send_nodes(worker);
    for (int i = 0; i < worker->count; i++) free(worker->nodes[i].alone);
    free(worker->nodes);
    free(tokens);
    engine_close(&engine);
    return status;
}

struct ops_listener {
    struct ops_table *table;
    int which;
};

static struct ops_row *find_row(struct ops_table *table, const char *op, const char *type)
{
    for (int i = 0; i < table->count; i++)
        if (strcmp(table->rows[i].op, op) == 0 && strcmp(table->rows[i].type, type) == 0) return &table->rows[i];
    if (table->count == OPS_ROWS_MAX) return &table->rows[OPS_ROWS_MAX - 1];
    struct ops_row *row = &table->rows[table->count++];
    snprintf(row->op, sizeof row->op, "%s", op);
    snprintf(row->type, sizeof row->type, "%s", type);
    return row;
}

static void on_message(const cJSON *message, void *user)
{
    struct ops_listener *listener = user;
    const char *description = json_string(message, "description", NULL);
    if (description) {
        snprintf(listener->table->description, sizeof listener->table->description, "%s", description);
        return;
    }
    struct ops_cell *cell =
        &find_row(listener->table, json_string(message, "op", "?"), json_string(message, "type", ""))
             ->cells[listener->which];
    const char *backend = json_string(message, "backend", "?");
    const size_t used = strlen(cell->backends);
    cell->nodes++;
    cell->measured += json_bool(message, "measured");
    cell->moved += json_bool(message, "moved");
    cell->max_change = fmax(cell->max_change, json_number(message, "max_change", INFINITY));
    if (!strstr(cell->backends, backend))
        snprintf(cell->backends + used, sizeof cell->backends - used, "%s%s", used ? "+" : "", backend);
}

int ops_main(const struct options *options)
{
    static struct ops_table table;
    table.options = options;
    for (int which = STOCK; which < ENGINES; which++) {
        if (options->which == (which == STOCK ? WHICH_SAMEBITS : WHICH_STOCK)) continue;
        struct ops_worker worker = {.options = options, .which = which};
        struct ops_listener listener = {.table = &table, .which = which};
        if (child_run(engine_names[which], ops_child, &worker, on_message, &listener)) {
            fprintf(stderr, "samebits-llama: %s\n", failure());
            return EXIT_TROUBLE;
        }
        table.ran[which] = true;
    }
    int moved = 0;
    for (int i = 0; i < table.count; i++) moved += table.rows[i].cells[SAMEBITS].moved;
    if (options->json)
        ops_print_json(&table);
    else
        ops_print_table(&table);
    return moved ? EXIT_MOVED : EXIT_HELD;
}
