/* The samebits command: finds the subcommand and hands over. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const struct {
    const char *name, *what;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"verify", "check that the bits hold, with stock libraries as controls", command_verify},
    {"fingerprint", "one hash per op and order; compare with the committed ones", command_fingerprint},
    {"bench", "speed beside stock libraries", command_bench},
    {"info", "version, orders, CPU level, ops and formats", command_info},
};

static void usage(FILE *out)
{
    fputs("Usage: samebits COMMAND [OPTION...]\n\nSame row, same bits: checks and measures the samebits library.\n\n",
          out);
    for (size_t i = 0; i < CLI_COUNT(commands); i++) fprintf(out, "  %-12s  %s\n", commands[i].name, commands[i].what);
    fputs("\n'samebits COMMAND --help' shows a command's options and examples; 'samebits --version' the version.\n"
          "Exit status: 0 the bits hold, 1 bits moved, 2 usage or environment.\n",
          out);
}

/* SAMEBITS_LIMIT is the process's limit (samebits/mode.h); the library itself reads no environment. */
static void read_limit(void)
{
    const char *value = getenv("SAMEBITS_LIMIT");
    char *end;
    if (!value) return;
    errno = 0;
    const long long rows = strtoll(value, &end, 10);
    if (!strcmp(value, "unlimited"))
        cli_check(samebits_limit_set(SAMEBITS_UNLIMITED), "SAMEBITS_LIMIT");
    else if (!*value || *end || errno || rows < 0)
        cli_die("SAMEBITS_LIMIT is \"%s\", want a number of rows, 0 for off, or unlimited", value);
    else
        cli_check(samebits_limit_set(rows), "SAMEBITS_LIMIT");
}

int main(int argc, char **argv)
{
    argp_err_exit_status = CLI_ERROR;
    read_limit();
    if (argc < 2) {
        usage(stderr);
        return CLI_ERROR;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        usage(stdout);
        return CLI_HOLDS;
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
        printf("samebits %s\n", samebits_version());
        return CLI_HOLDS;
    }
    for (size_t i = 0; i < CLI_COUNT(commands); i++)
        if (!strcmp(argv[1], commands[i].name)) {
            argv[1] = cli_text("samebits %s", commands[i].name);
            cli_set_name(argv[1]);
            return commands[i].run(argc - 1, argv + 1);
        }
    cli_die("there is no command '%s'; 'samebits --help' lists them", argv[1]);
}
