#ifndef SAMEBITS_LLAMA_ENGINE_H
#define SAMEBITS_LLAMA_ENGINE_H

#include "llama.h"

/* One process has one engine: llama.cpp as released, with or without the plugin. */
struct engine_options {
    const char *model;
    const char *plugin;      /* NULL: stock */
    const char *backend_dir; /* folder of ggml's backend modules; NULL: beside libggml */
    bool no_repack;          /* keep stock's weights plain */
    bool trace;              /* collect the scheduler's assignments, see engine_assignments() */
};

struct engine {
    struct llama_model *model;
    const struct llama_vocab *vocab;
    int n_vocab;
    int window; /* of sliding-window attention; 0: the model has none */
    char description[128];
    char devices[256];
    char banner[512]; /* what the plugin logged about itself */
};

/* Loads the backends and the model. -1 after fail(), which says what to do. */
int engine_open(struct engine *engine, const struct engine_options *options);
void engine_close(struct engine *engine);

/* A context with one value of n_batch for every run; NULL after fail(). */
struct llama_context *engine_context(const struct engine *engine, struct llama_context_params params);
struct llama_context_params engine_params(int n_ctx, int slots, int ubatch, int threads, bool flash);

/* The text that the scheduler logged about its last graph, one "node #" line per node (with options.trace). */
const char *engine_assignments(void);
void engine_forget_assignments(void);

#endif
