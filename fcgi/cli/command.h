/* One subcommand of `sluice`: one file cmd_<name>.c that holds one entry, and one row in main.c's
 * table. Commands of the operator may use every room; nothing includes fcgi/cli. */
#pragma once
#include <stddef.h>

struct err;
struct option;

struct command {
    const char *name;
    const char *usage;            /* after "sluice NAME " */
    const char *help;             /* one sentence */
    const struct option *options; /* [n_options] */
    size_t n_options;
    /* argv[0] is the subcommand's name; returns the exit status: 0 done, 1 failed, 2 used wrongly.
     */
    int (*run)(int argc, char **argv);
};

/* All commands in the order of --help, NULL after the last. */
const struct command *const *command_table(void);
/* Prints "sluice NAME: text" (and the field) on standard error; returns 1. */
int command_fail(const char *name, const struct err *e);
