/* What a program reaches: the system's own files and what its entry names, no other process, and no
 * network unless that says so. */
#pragma once
#include <stdbool.h>

#include "toolhost/programs.h"

/* In the child, between fork and exec. False: errno; nothing was run. */
bool program_walls_enter(const struct program *p, bool without_landlock, bool without_seccomp);
