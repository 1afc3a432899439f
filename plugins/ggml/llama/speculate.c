#include "speculate.h"

#include "clock.h"
#include "error.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

enum { OPENING_MAX = 256, WIDTH_MAX = 16, NGRAM = 2 };

/* One text being written; its last token is not evaluated yet, unless the text is the opening alone. */
struct writer {
    struct llama_context *context;
    struct llama_batch batch;
    int n_vocab;
    llama_token *text; /* opening and what was generated */
    int opening, length, end;
    int evaluated;
};

/* Evaluates tokens that follow the evaluated ones; logits of all of them, or of the last. */
static int evaluate(struct writer *writer, const llama_token *tokens, int count, bool all)
{
    struct llama_batch *batch = &writer->batch;
    batch->n_tokens = count;
    for (int i = 0; i < count; i++) {
        batch->token[i] = tokens[i];
        batch->pos[i] = writer->evaluated + i;
        batch->n_seq_id[i] = 1;
        batch->seq_id[i][0] = 0;
        batch->logits[i] = all || i == count - 1;
    }
    const int status = llama_decode(writer->context, *batch);
    writer->evaluated += count;
    return status ? fail("llama_decode returned %d while generating", status) : 0;
}

static int start(struct writer *writer)
{
    writer->length = writer->opening;
    writer->evaluated = 0;
    llama_memory_clear(llama_get_memory(writer->context), false);
    return evaluate(writer, writer->text, writer->opening, false);
}

static const float *row_of(struct writer *writer, int i) { return llama_get_logits_ith(writer->context, i); }

/* Plain greedy decoding: the text, and the logits that chose each token. */
static int write_plain(struct writer *writer, float *reference)
{
    if (start(writer)) return -1;
    while (writer->length < writer->end) {
        const float *row = row_of(writer, -1);
        if (!row) return fail("llama.cpp returned no logits");
        memcpy(reference + (size_t)(writer->length - writer->opening) * (size_t)writer->n_vocab, row,
               (size_t)writer->n_vocab * sizeof *row);
        writer->text[writer->length++] = row_argmax(row, writer->n_vocab);
        if (writer->length < writer->end && evaluate(writer, writer->text + writer->length - 1, 1, false)) return -1;
    }
    return 0;
}

/*
 * What followed the last earlier place where the text's last words stood; without one, the text's own tail. A poor
 * draft is as good a test as a fine one: all widths stay full and rejected tokens leave the cache.
 */
static void look_up_draft(const struct writer *writer, llama_token *draft, int width)
{
    int from = writer->length - width > 0 ? writer->length - width : 0;
    for (int i = writer->length - NGRAM - 1; i >= 0; i--)
        if (memcmp(writer->text + i, writer->text + writer->length - NGRAM, NGRAM * sizeof *draft) == 0) {
            from = i + NGRAM;
            break;
        }
    for (int i = 0; i < width; i++) draft[i] = writer->text[from + i < writer->length ? from + i : writer->length - 1];
}

/* Compares the i-th row of the last batch and writes its token; false at the first token that plain text lacks. */
static bool accept_row(struct writer *writer, int i, const float *reference, const llama_token *plain,
                       struct speculation *run)
{
    const int position = writer->length - writer->opening;
    const float *row = row_of(writer, i);
    compare_rows(reference + (size_t)position * (size_t)writer->n_vocab, row, writer->n_vocab, &run->difference);
    const llama_token token = row_argmax(row, writer->n_vocab);
    writer->text[writer->length++] = token;
    return token == plain[position];
}

/* One verification; 1 when the text has left the plain one. */
static int verify_draft(struct writer *writer, const float *reference, const llama_token *plain,
                        struct speculation *run)
{
    const int left = writer->end - writer->length - 1;
    const int width = run->width < left ? run->width : left;
    llama_token tokens[WIDTH_MAX + 1];
    tokens[0] = writer->text[writer->length - 1];
    look_up_draft(writer, tokens + 1, width);
    if (evaluate(writer, tokens, width + 1, true)) return -1;
    run->drafted += width;
    for (int i = 0; i <= width; i++) {
        if (!accept_row(writer, i, reference, plain, run)) return 1;
        if (i == width || writer->text[writer->length - 1] != tokens[i + 1]) break;
        run->accepted++;
    }
    writer->evaluated = writer->length - 1;
    if (!llama_memory_seq_rm(llama_get_memory(writer->context), 0, writer->evaluated, -1))
        return fail("rejected tokens cannot be removed from the cache");
    return 0;
}

static int write_speculative(struct writer *writer, const float *reference, const llama_token *plain,
                             struct speculation *run)
{
    const double began = seconds_now();
    if (start(writer)) return -1;
    int status = !accept_row(writer, -1, reference, plain, run);
    while (status == 0 && writer->length < writer->end) status = verify_draft(writer, reference, plain, run);
    if (status < 0) return -1;
    run->texts++;
    run->texts_moved += status;
    run->seconds += seconds_now() - began;
    return 0;
}

static int write_prompt(struct writer *writer, const struct engine *engine, int prompt, int count, float *reference,
                        struct speculation *runs, int widths)
{
    llama_token plain[count];
    writer->opening = text_opening(engine->vocab, prompt, writer->text, OPENING_MAX);
    if (writer->opening < 0) return -1;
    writer->end = writer->opening + count;
    if (write_plain(writer, reference) || (prompt == 0 && check_row(reference, engine->n_vocab))) return -1;
    memcpy(plain, writer->text + writer->opening, sizeof plain);
    for (int i = 0; i < widths; i++)
        if (write_speculative(writer, reference, plain, &runs[i])) return -1;
    return 0;
}

int speculate(const struct engine *engine, int prompts, int count, int threads, struct speculation *runs, int widths)
{
    struct writer writer = {.n_vocab = engine->n_vocab};
    float *reference = malloc((size_t)count * (size_t)engine->n_vocab * sizeof *reference);
    writer.text = malloc((size_t)(OPENING_MAX + count + 1) * sizeof *writer.text);
    int status = reference && writer.text ? 0 : fail("out of memory for the logits of %d tokens", count);
    if (!status) {
        writer.context =
            engine_context(engine, engine_params(GGML_PAD(OPENING_MAX + count, 256), 1, 512, threads, true));
        writer.batch = llama_batch_init(OPENING_MAX, 0, 1);
        status = writer.context ? 0 : -1;
        for (int prompt = 0; !status && prompt < prompts; prompt++)
            status = write_prompt(&writer, engine, prompt, count, reference, runs, widths);
        llama_batch_free(writer.batch);
        llama_free(writer.context);
    }
    free(writer.text);
    free(reference);
    return status;
}
