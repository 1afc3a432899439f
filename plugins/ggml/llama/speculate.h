#ifndef SAMEBITS_LLAMA_SPECULATE_H
#define SAMEBITS_LLAMA_SPECULATE_H

#include "compare.h"
#include "engine.h"

/* Drafts of one width over several prompts, against plain greedy decoding of the same prompts. */
struct speculation {
    int width;
    struct difference difference; /* logits at each accepted position, up to the text's first other token */
    int texts, texts_moved;
    long long drafted, accepted;
    double seconds;
};

/*
 * Generates `count` tokens from `prompts` openings, plainly and with drafts looked up in the text so far, for each of
 * the `widths` runs. -1 after fail().
 */
int speculate(const struct engine *engine, int prompts, int count, int threads, struct speculation *runs, int widths);

#endif
