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

/* Rows of a table of options: what a plan depends on beside MEMORY_OPTION_ROWS, in commands that
 * plan as the engine would. holder has members of these names. */
#define PLAN_OPTION_ROWS(holder)                                                                   \
    {"backend",         OPTION_CHOICE, offsetof(holder, backend), "auto", 0, 0,                    \
     "auto|vulkan|cpu", NULL,          "what shall compute"},                                      \
        {"slots", OPTION_INT, offsetof(holder, slots), "16", 1, 1024,                              \
         NULL,    "N",        "jobs that run at once"},                                            \
        {"ctx",                                                                                    \
         OPTION_INT,                                                                               \
         offsetof(holder, ctx),                                                                    \
         "0",                                                                                      \
         0,                                                                                        \
         1 << 24,                                                                                  \
         NULL,                                                                                     \
         "TOKENS",                                                                                 \
         "longest prompt and answer together; 0: the model's own, at most 32768"},                 \
        {"kv-memory", OPTION_BYTES, offsetof(holder, kv_memory),      "0", 0, 1e15,                \
         NULL,        "BYTES",      "memory for KV blocks; 0: chosen"},                            \
        {"prefill-chunk",                                                                          \
         OPTION_INT,                                                                               \
         offsetof(holder, prefill_chunk),                                                          \
         "0",                                                                                      \
         0,                                                                                        \
         65536,                                                                                    \
         NULL,                                                                                     \
         "TOKENS",                                                                                 \
         "prompt tokens of a step; 0: chosen"},                                                    \
        {"threads", OPTION_INT, offsetof(holder, threads),       "0", 0, 1024,                     \
         NULL,      "N",        "cpu: threads (0: one per core)"},                                 \
    {                                                                                              \
        "exact", OPTION_BOOL, offsetof(holder, exact), NULL, 0, 0, NULL, NULL,                     \
            "32-bit activations everywhere, however slow"                                          \
    }
