#include "text.h"

#include "error.h"

#include <stdlib.h>
#include <string.h>

static const char paragraph[] =
    "The history of numerical computing is a history of rounding. In the beginning, engineers worked with tables and "
    "slide rules, and every result carried an honest error. Then came machines that promised exact answers, and people "
    "forgot that a sum of floating point numbers depends on the order in which they are added. A batch of one and a "
    "batch of eight give different answers, and nobody can say which of them is right. ";

/* Lists, code, tables and prose: text that repeats itself, so that looked-up drafts are accepted often, and text
 * that does not, so that they are rejected. */
static const char *const openings[] = {
    "Monday, Tuesday, Wednesday,",
    "Once upon a time there was a king who",
    "#include <stdio.h>\nint main(void) {",
    "The three laws of motion are",
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):",
    "Q: What is the capital of France? A: Paris. Q: What is the capital of Italy? A:",
    "1, 2, 3, 4, 5, 6,",
    "Dear Sir or Madam, I am writing to",
    "The recipe needs flour, sugar and",
    "| name | age |\n|---|---|\n| Ann | 31 |\n",
    "Shall I compare thee to a summer's day?",
    "In 1969 the first people landed on",
    "for (int i = 0; i < n; i++)",
    "Water boils at one hundred degrees, and",
    "SELECT name FROM people WHERE",
    "The cat sat on the mat. The dog sat on the",
    "To install the program, first",
    "She opened the old wooden box and",
    "{\"name\": \"Ann\", \"city\": \"Oslo\"}, {\"name\":",
    "A good teacher knows that",
};

const char *text_paragraph(void) { return paragraph; }

llama_token *text_prompt(const struct llama_vocab *vocab, int count)
{
    /* No tokenizer makes fewer than one token of 16 characters of English. */
    const size_t copies = (size_t)count * 16 / (sizeof paragraph - 1) + 1;
    const size_t length = copies * (sizeof paragraph - 1);
    char *text = malloc(length + 1);
    llama_token *tokens = malloc((length + 8) * sizeof *tokens);
    if (!text || !tokens) {
        fail("out of memory for a prompt of %d tokens", count);
        goto error;
    }
    for (size_t i = 0; i < copies; i++) memcpy(text + i * (sizeof paragraph - 1), paragraph, sizeof paragraph);
    const int got = llama_tokenize(vocab, text, (int32_t)length, tokens, (int32_t)length + 8, true, false);
    if (got < count) {
        fail("the model's tokenizer gave %d tokens where %d were needed; pass a smaller --tokens", got, count);
        goto error;
    }
    free(text);
    return tokens;
error:
    free(text);
    free(tokens);
    return NULL;
}

int text_opening(const struct llama_vocab *vocab, int i, llama_token *tokens, int capacity)
{
    const char *text = openings[(size_t)i % (sizeof openings / sizeof *openings)];
    const int got = llama_tokenize(vocab, text, (int32_t)strlen(text), tokens, capacity, true, false);
    return got > 0 ? got : fail("the model's tokenizer cannot encode \"%s\"", text);
}
