#include "play.h"

#include "error.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS_MAX = 4, UBATCH = 512, CONTEXT = 2048, RING_UBATCH = 64 };

struct player {
    const struct scenario *scenario;
    struct llama_context *context;
    struct llama_batch batch;
    int capacity; /* of the batch */
    const llama_token *tokens;
    int count;             /* of our prompt */
    int done;              /* of our prompt */
    int slot;              /* ours, now */
    int step;              /* chunks of ours so far */
    int theirs[SLOTS_MAX]; /* how far each neighbour is */
    bool half;             /* the half-way event has happened */
};

int play_length(const struct engine *engine, const struct scenario *scenario, int count)
{
    if (!groups[scenario->group].beyond_window) return count;
    if (engine->window <= 0) {
        fail("the model has no sliding window");
        return 0;
    }
    if (engine->window > CONTEXT) {
        fail("a window of %d tokens is too long to wrap here", engine->window);
        return 0;
    }
    /* llama.cpp pads the window's cache to 256; some more, so that the ring is well into its second turn. */
    return GGML_PAD(engine->window + RING_UBATCH, 256) + 150;
}

static int larger(int a, int b) { return a > b ? a : b; }

static int context_of(const struct scenario *scenario, int count)
{
    /* Just enough for a neighbour that takes all cells but ours, so that our second half starts at the end. */
    if (scenario->company == COMPANY_WRAP) return GGML_PAD(count + count / 2, 256) / scenario->slots;
    const int needed = GGML_PAD(2 * count + 256, 256);
    return larger(scenario->context, larger(CONTEXT, needed));
}

static llama_token neighbour_token(const struct player *player, int slot, int position)
{
    /* Copies of our prompt, shifted; or its words in another order. */
    const int stride = player->scenario->other_words ? 13 : 1;
    return player->tokens[(position * stride + slot * 7) % player->count];
}

/* A neighbour never needs more than its slot holds; one that is done stays in the cache. */
static int neighbour_length(const struct player *player, int slot)
{
    switch (player->scenario->lengths) {
    case LENGTHS_SHORTER: return player->count * (slot + 1) / (2 * SLOTS_MAX);
    case LENGTHS_LONGER: return player->count + player->count / 2;
    default: return player->count;
    }
}

static void put(struct player *player, llama_token token, int position, int slot, bool wants_logits)
{
    struct llama_batch *batch = &player->batch;
    const int i = batch->n_tokens++;
    batch->token[i] = token;
    batch->pos[i] = position;
    batch->n_seq_id[i] = 1;
    batch->seq_id[i][0] = slot;
    batch->logits[i] = wants_logits;
}

static void put_neighbour(struct player *player, int slot, int count)
{
    const int end = neighbour_length(player, slot);
    for (int i = 0; i < count && player->theirs[slot] < end; i++) {
        const int position = player->theirs[slot]++;
        put(player, neighbour_token(player, slot, position), position, slot, false);
    }
}

static int decode(struct player *player)
{
    if (player->batch.n_tokens == 0) return 0;
    const int status = llama_decode(player->context, player->batch);
    player->batch.n_tokens = 0;
    return status ? fail("llama_decode returned %d%s", status, status == 1 ? " (no room in the KV cache)" : "") : 0;
}

static int remove_slot(struct player *player, int slot)
{
    if (!llama_memory_seq_rm(llama_get_memory(player->context), slot, -1, -1))
        return fail("slot %d cannot be removed from the cache", slot);
    player->theirs[slot] = 0;
    return 0;
}

/* A part of one neighbour's text, decoded on its own between two chunks of ours. */
static int play_neighbour_between(struct player *player)
{
    const int others = player->scenario->slots - 1;
    int slot = player->step % others;
    slot += slot >= player->slot;
    if (player->scenario->company == COMPANY_CHURN && player->step >= others && remove_slot(player, slot)) return -1;
    put_neighbour(player, slot, 17 + 10 * slot);
    return decode(player);
}

/* Long before ours starts, neighbours may already have a lead, or fill the cache. */
static int play_lead(struct player *player)
{
    const struct scenario *scenario = player->scenario;
    int lead = scenario->lengths == LENGTHS_LONGER ? player->count / 2 : 0;
    if (scenario->company == COMPANY_WRAP)
        lead = (int)llama_n_ctx(player->context) - player->count / 2 - scenario->chunk;
    for (int slot = 0; lead > 0 && slot < scenario->slots; slot++) {
        if (slot == player->slot) continue;
        for (int i = 0; i < lead; i++) {
            const int position = player->theirs[slot]++;
            put(player, neighbour_token(player, slot, position), position, slot, false);
            if (player->batch.n_tokens == UBATCH && decode(player)) return -1;
        }
        if (decode(player)) return -1;
    }
    return 0;
}

static int move_to_slot(struct player *player, int to)
{
    const size_t size = llama_state_seq_get_size(player->context, player->slot);
    uint8_t *state = malloc(size);
    int status = 0;
    if (!state) return fail("out of memory for a state of %zu bytes", size);
    if (llama_state_seq_get_data(player->context, state, size, player->slot) != size)
        status = fail("the state of slot %d cannot be saved", player->slot);
    else if (remove_slot(player, player->slot) || remove_slot(player, to))
        status = -1;
    else if (llama_state_seq_set_data(player->context, state, size, to) == 0)
        status = fail("the state cannot be restored into slot %d", to);
    free(state);
    player->slot = to;
    return status;
}

static int play_half_way(struct player *player)
{
    const struct scenario *scenario = player->scenario;
    player->half = true;
    if (scenario->company == COMPANY_WRAP && remove_slot(player, !player->slot)) return -1;
    return scenario->restore ? move_to_slot(player, (player->slot + 2) % scenario->slots) : 0;
}

static int next_chunk(const struct player *player)
{
    const int left = player->count - player->done;
    const int room = player->capacity / player->scenario->slots;
    int chunk = player->scenario->chunk;
    if (chunk == CHUNK_ALL_BUT_LAST)
        chunk = left > 1 ? left - 1 : 1;
    else if (chunk == CHUNK_WHOLE)
        chunk = left;
    chunk = chunk < left ? chunk : left;
    return chunk < room ? chunk : room;
}

static int play_chunk(struct player *player)
{
    const struct scenario *scenario = player->scenario;
    if (!player->half && 2 * player->done >= player->count && play_half_way(player)) return -1;
    if ((scenario->company == COMPANY_INTERLEAVED || scenario->company == COMPANY_CHURN) &&
        play_neighbour_between(player))
        return -1;
    const int chunk = next_chunk(player);
    for (int slot = 0; slot < scenario->slots; slot++) {
        if (slot != player->slot && scenario->company == COMPANY_TOGETHER) put_neighbour(player, slot, chunk);
        for (int i = 0; slot == player->slot && i < chunk; i++) {
            const int position = player->done++;
            put(player, player->tokens[position], position, slot, position == player->count - 1);
        }
    }
    player->step++;
    return decode(player);
}

static int play_all(struct player *player, int n_vocab, float *logits)
{
    if (play_lead(player)) return -1;
    while (player->done < player->count)
        if (play_chunk(player)) return -1;
    /* Only our last token asked for logits, so the only row is ours, wherever it stood in the batch. */
    const float *row = llama_get_logits_ith(player->context, -1);
    if (!row) return fail("llama.cpp returned no logits for the last token");
    memcpy(logits, row, (size_t)n_vocab * sizeof *logits);
    return 0;
}

enum played play(const struct engine *engine, const struct scenario *scenario, const llama_token *tokens, int count,
                 float *logits)
{
    const struct group_info *group = &groups[scenario->group];
    struct scenario full = *scenario;
    full.slots = larger(full.slots, 1);
    struct llama_context_params params =
        engine_params(context_of(&full, count), full.slots, full.ubatch ? full.ubatch : UBATCH, larger(full.threads, 1),
                      group->flash);
    params.kv_unified = full.unified;
    params.swa_full = !full.small_ring;
    params.type_k = params.type_v = group->cache;

    struct player player = {.scenario = &full, .tokens = tokens, .count = count, .slot = full.slot};
    player.context = engine_context(engine, params);
    if (!player.context) return PLAY_UNSUPPORTED;
    player.capacity = (int)llama_n_batch(player.context);
    player.batch = llama_batch_init(player.capacity, 0, 1);
    const int status = play_all(&player, engine->n_vocab, logits);
    llama_batch_free(player.batch);
    llama_free(player.context);
    return status ? PLAY_FAILED : PLAYED;
}
