/* sluice: the operator's command. Each subcommand is a file with one entry; this is the table of
 * them. */
#include "fcgi/cli/command.h"

#include <stdio.h>
#include <string.h>

#include "config.h"
#include "engine/base/err.h"

/* one row per command, in the order of --help */
/* clang-format wraps this list in another way each time. */
/* clang-format off */
#define COMMANDS(X) \
    X(up) X(chat) X(launch) X(status) X(logs) X(doctor) X(user) X(group) X(key) X(upstream) \
    X(models) X(export) X(import) X(backup) X(restore) X(cache) X(tokenize) X(detokenize) \
    X(template) X(parse) X(search) X(pull) X(pack) \
    X(info) X(generate) X(logits) X(perplexity) X(bench) X(synth) X(completion)
/* clang-format on */

#define DECLARE(name) extern const struct command cmd_##name;
COMMANDS(DECLARE)
#undef DECLARE

static const struct command *const commands[] = {
#define ROW(name) &cmd_##name,
    COMMANDS(ROW)
#undef ROW
        NULL};

const struct command *const *command_table(void)
{
    return commands;
}

int command_fail(const char *name, const struct err *e)
{
    fprintf(stderr, "sluice %s: %s%s%s\n", name, e->field, e->field[0] ? ": " : "", e->text);
    return 1;
}

static void print_help(void)
{
    puts("sluice: your own chat and OpenAI-compatible API on one machine\n\nusage: sluice COMMAND "
         "...\n");
    for (const struct command *const *c = commands; *c; c++)
        printf("  %-12s %s\n", (*c)->name, (*c)->help);
    puts("\n`sluice COMMAND --help` tells more.");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help();
        return 2;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help") || !strcmp(argv[1], "-h")) {
        print_help();
        return 0;
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "version")) {
        puts("sluice " PACKAGE_VERSION);
        return 0;
    }
    for (const struct command *const *c = commands; *c; c++)
        if (!strcmp((*c)->name, argv[1]))
            return (*c)->run(argc - 1, argv + 1);
    fprintf(stderr, "sluice: no command '%s'; see `sluice help`\n", argv[1]);
    return 2;
}
