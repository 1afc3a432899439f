#include "bench.h"
#include "error.h"
#include "ops.h"
#include "options.h"
#include "scenarios.h"
#include "server.h"
#include "suite.h"

#include <stdio.h>

static int list_main(void)
{
    for (int i = 0; i < scenario_count; i++)
        printf("%-54s %s%s%s\n", scenarios[i].name, groups[scenarios[i].group].name, scenarios[i].base ? ", base" : "",
               scenarios[i].brief ? ", short" : "");
    return EXIT_HELD;
}

int main(int argc, char **argv)
{
    struct options options;
    options_parse(&options, argc, argv);
    if (options.mode == MODE_LIST) return list_main();
    if (options.mode == MODE_SERVER) return server_main(&options);
    if (options.which != WHICH_STOCK && !options.plugin) {
        fprintf(stderr,
                "samebits-llama: libggml-samebits.so was not found: pass --plugin FILE or set GGML_BACKEND_PATH "
                "(--engine stock runs without it)\n");
        return EXIT_TROUBLE;
    }
    switch (options.mode) {
    case MODE_OPS: return ops_main(&options);
    case MODE_BENCH: return bench_main(&options);
    default: return suite_main(&options);
    }
}
