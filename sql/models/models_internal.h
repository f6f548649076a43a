/* Models, written within a transaction of another file. Inside sql/ only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct store;

/* The id of the model that is called `name`, or has it as an alias; made as a chat model for
 * everyone where there is none. Inside a write transaction of the caller. */
bool models_make(struct store *s, const char *name, int64_t *id, struct err *e);
