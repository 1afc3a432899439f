#ifndef SAMEBITS_LLAMA_TEXT_H
#define SAMEBITS_LLAMA_TEXT_H

#include "llama.h"

/* Exactly `count` tokens of the built-in prompt, repeated as needed; free() it. NULL after fail(). */
llama_token *text_prompt(const struct llama_vocab *vocab, int count);

/* The i-th opening for generation, at most `capacity` tokens; returns how many, -1 after fail(). */
int text_opening(const struct llama_vocab *vocab, int i, llama_token *tokens, int capacity);

/* The words of the built-in prompt, for requests to a server. */
const char *text_paragraph(void);

#endif
