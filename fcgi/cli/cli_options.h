/* What every reading command does with its argv: --help, options, one complaint. */
#pragma once
#include <stddef.h>

#include "engine/base/option.h"
#include "fcgi/cli/command.h"

/* Returns -1 when the command shall run; else the exit status (help was printed, or the options are
 * wrong). rest as in option_parse. */
int cli_options(const struct command *c, int argc, char **argv, void *into, char **rest);
/* Says what is missing beside the options; gives the exit status. */
int cli_misused(const struct command *c, const char *what);
