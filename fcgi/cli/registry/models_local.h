/* sluice models: models of this machine as `sluice up` has them now. One thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct shared;

/* The memory that the server's processes share. NULL: no `sluice up` runs on this state folder;
 * shared_close gives it back. */
struct shared *models_local_open(const char *state, struct err *e);
/* "ready"; "-" without a server, and for one that it has not seen. */
const char *models_local_state(struct shared *s, int64_t id);
/* Asks for it, and waits until it is done, saying what happens. ERR_UNAVAILABLE: it can't be
 * loaded, *e says why. */
bool models_local_load(struct shared *s, int64_t id, const char *state, struct err *e);
bool models_local_unload(struct shared *s, int64_t id, const char *state, struct err *e);
