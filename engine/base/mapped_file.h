/* Files of one fixed layout that several processes have mapped at once: counters, rings. The
 * layout's first members are struct mapped_header; the rest is zero in a new file. Thread-safe. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/err.h"

struct mapped_header {
    uint32_t magic, version; /* another version: another layout */
    uint64_t size;           /* bytes of the whole file */
};

/* Maps the file for reading and writing, and makes it with its blocks when it is missing. A file of
 * another layout is replaced, never truncated: a process of the old program may have it mapped, and
 * would get SIGBUS. NULL: *e. Give back with munmap. */
void *mapped_file_open(const char *path, struct mapped_header layout, mode_t mode, struct err *e);
/* Maps the file for reading only. NULL: there is none, or it has another layout. */
const void *mapped_file_open_readonly(const char *path, struct mapped_header layout);
