/* Command-line options from one table, which also makes --help and the man page.
 * A flag is --name VALUE or --name=VALUE; a boolean is --name or --no-name.
 * Unknown flags, missing values and values out of range are refused with the reason. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

enum option_type {
    OPTION_BOOL,
    OPTION_INT,
    OPTION_FLOAT,
    OPTION_STRING,
    OPTION_BYTES,
    OPTION_CHOICE
};

struct option {
    const char *name; /* without the dashes */
    enum option_type type;
    size_t offset;        /* of the field in the struct that option_parse fills:
                             bool, int64_t, double, const char *, int64_t (bytes), const char * */
    const char *fallback; /* default, as written on the command line; NULL: zero / none */
    double min, max;      /* INT, FLOAT, BYTES; both 0: no limit */
    const char *choices;  /* CHOICE: "auto|vulkan|cpu" */
    const char *value;    /* name of the value in the help, such as "FILE" */
    const char *help;     /* one sentence */
};

struct option_args {
    int argc;
    char **argv;
    char **rest; /* [argc + 1] takes what is not an option, in order, NULL-terminated; NULL: such is
                    refused */
};
/* Fills `into` with the defaults, then with argv[1..]. "--" ends the options. Values point into
 * argv. */
bool option_parse(const struct option *table, size_t n, const struct option_args *args, void *into,
                  struct err *e);
/* The options' part of --help on standard output. */
void option_help(const struct option *table, size_t n);
/* "10", "4K", "2MiB", "1.5G" (powers of 1024) to bytes. */
bool option_bytes(const char *text, int64_t *out);
