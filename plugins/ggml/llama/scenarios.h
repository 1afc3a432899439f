#ifndef SAMEBITS_LLAMA_SCENARIOS_H
#define SAMEBITS_LLAMA_SCENARIOS_H

#include "ggml.h"

#include <stdbool.h>

/* Rows of one group are compared with the group's base row: a precision, or what the neighbours say, is an input. */
enum group { GROUP_PLAIN, GROUP_NEIGHBOURS, GROUP_WINDOW, GROUP_NO_FLASH, GROUP_Q8_CACHE, GROUP_SPECULATION, GROUPS };

struct group_info {
    const char *name;
    bool flash;
    enum ggml_type cache;
    bool beyond_window; /* a prompt long enough for the ring of a sliding window to wrap */
};

/* How the other slots are used while ours is evaluated. */
enum company {
    COMPANY_NONE,
    COMPANY_TOGETHER,    /* their tokens share our batches */
    COMPANY_INTERLEAVED, /* theirs are decoded between our chunks */
    COMPANY_CHURN,       /* the same, and one of them is removed and starts again each time */
    COMPANY_WRAP,        /* one fills the cache, leaves when ours is half done, and ours wraps around its end */
};

enum lengths { LENGTHS_SAME, LENGTHS_SHORTER, LENGTHS_LONGER };

enum { CHUNK_WHOLE = 0, CHUNK_ALL_BUT_LAST = -1 };

/* Zero means the default of the field. */
struct scenario {
    const char *name;
    enum group group;
    bool base;       /* the row that the others of its group are compared with */
    bool brief;      /* part of --short */
    int ubatch;      /* 512 */
    int threads;     /* 1 */
    int context;     /* tokens a slot; enough for the prompt */
    int slots;       /* 1 */
    int slot;        /* ours, counted from 0 */
    bool unified;    /* one KV cache for all slots */
    bool small_ring; /* the window's cache holds the window only */
    bool restore;    /* half way, our state is saved and restored into another slot */
    int chunk;       /* tokens a decode, or one of CHUNK_ */
    enum company company;
    enum lengths lengths;
    bool other_words; /* the neighbours say something else */
    int draft;        /* > 0: speculative decoding with drafts of this width */
};

extern const struct group_info groups[GROUPS];
extern const struct scenario scenarios[];
extern const int scenario_count;

enum { SCENARIOS_MAX = 96 };

/*
 * Marks the rows to run: all, those of --short, or those whose name holds one of the comma-separated words of
 * `filter`; each chosen row brings its group's base. Returns how many, or -1 after fail() if a word fits none.
 */
int scenarios_choose(bool chosen[SCENARIOS_MAX], const char *filter, bool brief);

#endif
