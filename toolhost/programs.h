/* The programs that an admin lets run as tool servers: what the file of --programs says. Users
 * never add one; a tool server's row names one of these (stdio://NAME). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"

#define PROGRAMS_MAX 64
#define PROGRAM_NAME 24 /* characters */
#define PROGRAM_WORDS 64
#define PROGRAMS_ARENA ((size_t)4 << 20) /* enough for every file */

struct program {
    const char *name;
    char *argv[PROGRAM_WORDS + 1]; /* argv[0]: an absolute path */
    char *env[PROGRAM_WORDS + 4];  /* NAME=VALUE: all that it gets */
    const char *folder;            /* where it runs, and its HOME; NULL: / */
    const char *read[PROGRAM_WORDS + 1], *write[PROGRAM_WORDS + 1]; /* beside the system's files */
    bool network;
    int64_t memory_bytes, cpu_s;
    /* how it does */
    int failures;     /* starts in a row after which it ended by itself, too soon */
    double not_until; /* clock_ms before which it is not started again */
};

struct programs {
    struct program list[PROGRAMS_MAX];
    size_t n;
};

/* Everything is in the arena. A field that is unknown, missing or wrong is an error that names it.
 */
bool programs_read(struct programs *out, struct arena *a, const char *path, struct err *e);
/* Logs which of its paths aren't there: they are no error, as a disk may come later, but no rule
 * can be made for them. */
void programs_warn(const struct program *p);
/* NULL: there is none of that name. */
struct program *programs_find(struct programs *p, const char *name);
