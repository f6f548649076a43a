/* What programs leave behind. Each is the subreaper of what it starts, so an orphan becomes a child
 * of the host's only when its program has ended, also one that left the program's group (setsid,
 * as browsers that are driven do). One thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "toolhost/session.h"

/* Kills every child that is no session's program, and collects those that have ended; what they
 * leave behind follows at the next call. True: some are left. */
bool orphans_end(const struct session *sessions, size_t n);
