#ifndef SAMEBITS_LLAMA_SUITE_H
#define SAMEBITS_LLAMA_SUITE_H

#include "compare.h"
#include "options.h"
#include "scenarios.h"

enum { STOCK = 0, SAMEBITS = 1, ENGINES = 2 };

enum outcome_status { OUTCOME_NONE, OUTCOME_BASE, OUTCOME_COMPARED, OUTCOME_SKIPPED, OUTCOME_FAILED };

struct outcome {
    enum outcome_status status;
    struct difference difference;
    int texts, texts_moved; /* of speculative decoding */
    double seconds;
    char hash[20];  /* of the logits, when they were played */
    char note[192]; /* why it was skipped or failed; what was drafted */
};

struct suite_engine {
    bool ran;
    char devices[256], banner[512];
    struct outcome outcomes[SCENARIOS_MAX];
    int compared, moved_scenarios, failed;
    long long moved_logits;
};

struct suite {
    const struct options *options;
    bool chosen[SCENARIOS_MAX];
    int chosen_count;
    char description[128]; /* of the model */
    int n_vocab;
    struct suite_engine engines[ENGINES];
};

extern const char *const engine_names[ENGINES];

/* Plays the chosen scenarios with each engine. -1 after fail(). */
int suite_run(struct suite *suite, const struct options *options);

/* The whole of `samebits-llama MODEL`: run, table or JSON, picture; returns the exit status. */
int suite_main(const struct options *options);

#endif
