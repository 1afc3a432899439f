/* Runs the groups named on the command line, or all of them. */
#include "api.h"

samebits_context *api_context;

int api_setup(void **state)
{
    (void)state;
    samebits_options options;
    samebits_options_default(&options);
    options.threads = 2;
    return samebits_create(&api_context, &options) != SAMEBITS_OK;
}

int api_teardown(void **state)
{
    samebits_destroy(&api_context);
    return test_free_all(state);
}

static const struct {
    const char *name;
    int (*run)(void);
} groups[] = {
    {"context", api_context_tests},
    {"matmul", api_matmul_tests},
    {"rows", api_rows_tests},
    {"reduce", api_reduce_tests},
    {"attention", api_attention_tests},
    {"weights", api_weights_tests},
    {"quantized", api_quantized_tests},
    {"dequantised", api_dequantised_tests},
    {"affine", api_affine_tests},
    {"scaled", api_scaled_tests},
    {"elementwise", api_elementwise_tests},
    {"rope", api_rope_tests},
    {"gather", api_gather_tests},
    {"sampling", api_sampling_tests},
    {"embedding", api_embedding_tests},
    {"mode", api_mode_tests},
    {"wide", api_wide_tests},
};

int main(int argc, char **argv)
{
    int failed = 0, ran = 0;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        int wanted = argc == 1;
        for (int a = 1; a < argc; a++) wanted |= !strcmp(argv[a], groups[i].name);
        if (!wanted) continue;
        failed += groups[i].run();
        ran++;
    }
    if (!ran) fprintf(stderr, "no such group of tests\n");
    return failed || !ran;
}
