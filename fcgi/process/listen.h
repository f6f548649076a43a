/* The listening socket of a pool. */
#pragma once
#include "engine/base/err.h"

/* A non-blocking unix socket at `path`, mode 0660, group `group` (NULL: ours). It is bound beside
 * the path and renamed over it, so that an old master's socket is taken over without a gap. -1: *e.
 */
int listen_unix(const char *path, const char *group, struct err *e);
