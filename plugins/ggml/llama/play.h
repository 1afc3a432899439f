#ifndef SAMEBITS_LLAMA_PLAY_H
#define SAMEBITS_LLAMA_PLAY_H

#include "engine.h"
#include "scenarios.h"

/* What became of a row that could not be played: the model or llama.cpp does not offer it, or a call failed. */
enum played { PLAYED = 0, PLAY_FAILED = -1, PLAY_UNSUPPORTED = 1 };

/* How many tokens the scenario's prompt has when the user asked for `count`; 0 after fail() if the model has none. */
int play_length(const struct engine *engine, const struct scenario *scenario, int count);

/*
 * Evaluates the prompt as the scenario says and copies the logits of its last token (n_vocab values).
 * Threads: one call at a time. After anything but PLAYED, failure() says why.
 */
enum played play(const struct engine *engine, const struct scenario *scenario, const llama_token *tokens, int count,
                 float *logits);

#endif
