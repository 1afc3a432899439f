#include "scenarios.h"

#include "error.h"

#include <string.h>
#include <strings.h>

const struct group_info groups[GROUPS] = {
    [GROUP_PLAIN] = {"one prompt", true, GGML_TYPE_F16, false},
    [GROUP_NEIGHBOURS] = {"what the neighbours say", true, GGML_TYPE_F16, false},
    [GROUP_WINDOW] = {"longer than the window", true, GGML_TYPE_F16, true},
    [GROUP_NO_FLASH] = {"flash attention off", false, GGML_TYPE_F16, false},
    [GROUP_Q8_CACHE] = {"q8_0 KV cache", true, GGML_TYPE_Q8_0, false},
    [GROUP_SPECULATION] = {"speculative decoding", true, GGML_TYPE_F16, false},
};

/* clang-format off */
const struct scenario scenarios[] = {
    {"whole prompt, ubatch 512", .base = true, .brief = true},
    {"same again", .brief = true},
    {"2 threads", .threads = 2, .brief = true},
    {"3 threads", .threads = 3},
    {"4 threads", .threads = 4},
    {"context 4096", .context = 4096},
    {"ubatch 1", .ubatch = 1},
    {"ubatch 2", .ubatch = 2},
    {"ubatch 3", .ubatch = 3},
    {"ubatch 8", .ubatch = 8},
    {"ubatch 16", .ubatch = 16, .brief = true},
    {"ubatch 32", .ubatch = 32},
    {"ubatch 64", .ubatch = 64},
    {"ubatch 128", .ubatch = 128},
    {"token by token", .chunk = 1, .brief = true},
    {"token by token, 2 threads", .chunk = 1, .threads = 2},
    {"chunks of 7", .chunk = 7, .brief = true},
    {"cache hit: all but last, then last", .chunk = CHUNK_ALL_BUT_LAST, .brief = true},
    {"4 slots", .slots = 4, .company = COMPANY_TOGETHER},
    {"4 slots, ours fourth", .slots = 4, .slot = 3, .company = COMPANY_TOGETHER},
    {"4 slots, unified KV", .slots = 4, .unified = true, .company = COMPANY_TOGETHER},
    {"4 slots, unified KV, ours second", .slots = 4, .slot = 1, .unified = true, .company = COMPANY_TOGETHER},
    {"4 slots, unified KV, ours third", .slots = 4, .slot = 2, .unified = true, .company = COMPANY_TOGETHER},
    {"4 slots, unified KV, ours fourth", .slots = 4, .slot = 3, .unified = true, .company = COMPANY_TOGETHER},
    {"interleaved with 3 others", .slots = 4, .slot = 1, .chunk = 24, .company = COMPANY_INTERLEAVED},
    {"interleaved with 3 others, unified KV", .slots = 4, .slot = 1, .unified = true, .chunk = 24,
     .company = COMPANY_INTERLEAVED, .brief = true},
    {"others removed in between", .slots = 4, .slot = 2, .chunk = 24, .company = COMPANY_CHURN},
    {"others removed in between, unified KV", .slots = 4, .slot = 2, .unified = true, .chunk = 24,
     .company = COMPANY_CHURN, .brief = true},
    {"cache ring wrapped", .slots = 2, .slot = 1, .unified = true, .chunk = 24, .company = COMPANY_WRAP},
    {"small window cache", .small_ring = true},
    {"state restored into another slot", .slots = 4, .chunk = 24, .restore = true},
    {"state restored into another slot, unified KV", .slots = 4, .unified = true, .chunk = 24,
     .company = COMPANY_INTERLEAVED, .restore = true, .brief = true},
    {"shorter neighbours, unified KV", .slots = 4, .unified = true, .company = COMPANY_TOGETHER,
     .lengths = LENGTHS_SHORTER},
    {"longer neighbours", .slots = 4, .company = COMPANY_TOGETHER, .lengths = LENGTHS_LONGER},
    {"longer neighbours, unified KV", .slots = 4, .unified = true, .company = COMPANY_TOGETHER,
     .lengths = LENGTHS_LONGER},

    {"3 neighbours", GROUP_NEIGHBOURS, .base = true, .slots = 4, .company = COMPANY_TOGETHER},
    {"3 neighbours with other words", GROUP_NEIGHBOURS, .slots = 4, .company = COMPANY_TOGETHER, .other_words = true},
    {"3 neighbours with other words, unified KV", GROUP_NEIGHBOURS, .slots = 4, .unified = true,
     .company = COMPANY_TOGETHER, .other_words = true},

    {"long prompt, full cache", GROUP_WINDOW, .base = true},
    {"long prompt, window wrapped, ubatch 64", GROUP_WINDOW, .ubatch = 64, .small_ring = true},
    {"long prompt, window wrapped, chunks of 50", GROUP_WINDOW, .ubatch = 64, .small_ring = true, .chunk = 50},
    {"long prompt, window wrapped, interleaved, unified KV", GROUP_WINDOW, .ubatch = 64, .slots = 2, .slot = 1,
     .unified = true, .small_ring = true, .chunk = 100, .company = COMPANY_INTERLEAVED},

    {"no flash: whole prompt", GROUP_NO_FLASH, .base = true},
    {"no flash: ubatch 64", GROUP_NO_FLASH, .ubatch = 64},
    {"no flash: token by token", GROUP_NO_FLASH, .chunk = 1},
    {"no flash: chunks of 7", GROUP_NO_FLASH, .chunk = 7},
    {"no flash: cache hit", GROUP_NO_FLASH, .chunk = CHUNK_ALL_BUT_LAST},
    {"no flash: 2 threads", GROUP_NO_FLASH, .threads = 2},
    {"no flash: interleaved, unified KV", GROUP_NO_FLASH, .slots = 4, .slot = 1, .unified = true, .chunk = 24,
     .company = COMPANY_INTERLEAVED},

    {"q8_0 cache: whole prompt", GROUP_Q8_CACHE, .base = true},
    {"q8_0 cache: ubatch 64", GROUP_Q8_CACHE, .ubatch = 64},
    {"q8_0 cache: chunks of 7", GROUP_Q8_CACHE, .chunk = 7},
    {"q8_0 cache: cache hit", GROUP_Q8_CACHE, .chunk = CHUNK_ALL_BUT_LAST},
    {"q8_0 cache: interleaved, unified KV", GROUP_Q8_CACHE, .slots = 4, .slot = 1, .unified = true, .chunk = 24,
     .company = COMPANY_INTERLEAVED},

    {"speculative, drafts of 2", GROUP_SPECULATION, .draft = 2},
    {"speculative, drafts of 4", GROUP_SPECULATION, .draft = 4, .brief = true},
    {"speculative, drafts of 8", GROUP_SPECULATION, .draft = 8},
};
/* clang-format on */
const int scenario_count = sizeof scenarios / sizeof *scenarios;
_Static_assert(sizeof scenarios / sizeof *scenarios <= SCENARIOS_MAX, "raise SCENARIOS_MAX");

static bool choose_named(bool chosen[SCENARIOS_MAX], const char *word, size_t length)
{
    char wanted[128];
    bool found = false;
    if (length == 0 || length >= sizeof wanted) return false;
    memcpy(wanted, word, length);
    wanted[length] = 0;
    for (int i = 0; i < scenario_count; i++)
        if (strcasestr(scenarios[i].name, wanted)) found = chosen[i] = true;
    return found;
}

static void choose_bases(bool chosen[SCENARIOS_MAX])
{
    for (int i = 0; i < scenario_count; i++)
        for (int j = 0; j < scenario_count; j++)
            if (chosen[i] && scenarios[j].base && scenarios[j].group == scenarios[i].group) chosen[j] = true;
}

int scenarios_choose(bool chosen[SCENARIOS_MAX], const char *filter, bool brief)
{
    memset(chosen, 0, SCENARIOS_MAX * sizeof *chosen);
    for (const char *word = filter; word && *word;) {
        const size_t length = strcspn(word, ",");
        if (!choose_named(chosen, word, length))
            return fail("no scenario's name holds \"%.*s\"; --list shows them", (int)length, word);
        word += length + (word[length] == ',');
    }
    if (!filter)
        for (int i = 0; i < scenario_count; i++) chosen[i] = brief ? scenarios[i].brief : true;
    choose_bases(chosen);
    int count = 0;
    for (int i = 0; i < scenario_count; i++) count += chosen[i];
    return count > 0 ? count : fail("--scenarios is empty; --list shows the names");
}
