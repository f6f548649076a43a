/* Parses a command's options as its row in struct command describes them, and answers --help from
 * the same row. */
#include "fcgi/cli/cli_options.h"

#include <stdio.h>
#include <string.h>

int cli_options(const struct command *c, int argc, char **argv, void *into, char **rest)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            printf("usage: sluice %s %s\n\n%s\n\n", c->name, c->usage, c->help);
            option_help(c->options, c->n_options);
            return 0;
        }
    struct err e = {0};
    if (option_parse(c->options, c->n_options,
                     &(struct option_args){.argc = argc, .argv = argv, .rest = rest}, into, &e))
        return -1;
    command_fail(c->name, &e);
    return 2;
}

int cli_misused(const struct command *c, const char *what)
{
    fprintf(stderr, "sluice %s: %s; usage: sluice %s %s\n", c->name, what, c->name, c->usage);
    return 2;
}
