/* Locks the calling process in, for good: no files but the system's own read-only (Landlock), no
 * question about a path (stat, access, readlink), no network, no new processes, no writing but to
 * what is open, no code but what the loader maps from files, bounded time and memory. seccomp lets
 * through only what the readers need; everything else fails with EPERM. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct sandbox_limits {
    int cpu_s;
    size_t memory_bytes;
    bool without_landlock; /* goes on where the kernel has none: files are not hidden then */
};
/* False: the process must not go on; *why says what the system refused. *files_hidden: Landlock is
 * in force. */
bool sandbox_enter(const struct sandbox_limits *l, bool *files_hidden, const char **why);
/* Afterwards: no other program may be run either. */
bool sandbox_forbid_exec(void);
/* Afterwards: no program, no library and no file may be opened, and no code mapped. */
bool sandbox_forbid_files(void);
