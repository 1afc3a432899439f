#ifndef SAMEBITS_LLAMA_OPTIONS_H
#define SAMEBITS_LLAMA_OPTIONS_H

#include <stdbool.h>

enum mode { MODE_SCENARIOS, MODE_LIST, MODE_OPS, MODE_BENCH, MODE_SERVER };

enum which { WHICH_BOTH, WHICH_STOCK, WHICH_SAMEBITS };

struct options {
    enum mode mode;
    const char *model;
    const char *plugin;      /* NULL only if WHICH_STOCK */
    const char *backend_dir; /* NULL: beside libggml */
    enum which which;
    bool json, brief;
    const char *plot;   /* SVG to write */
    const char *filter; /* of scenario names */
    int tokens;
    int prompts, generated; /* of speculative decoding */
    const char *url;        /* of a server */
    int tries;
    unsigned seed;
};

/* Ends the process on --help, --version and usage errors (status 2). */
void options_parse(struct options *options, int argc, char **argv);

#endif
