/* What a program reaches: the system's own files and what its entry names, no memory of another
 * process, no socket of this machine's by its path (Sluice's own are open to its user), and no
 * network unless its entry says so. Signals reach other processes of the user before Linux 6.12:
 * refusing them by number would keep a program from ending its own children, too. */
#pragma once
#include <stdbool.h>

#include "toolhost/programs.h"

/* In the child, between fork and exec. False: errno; nothing was run. */
bool program_walls_enter(const struct program *p, bool without_landlock, bool without_seccomp);
