/* Models, written within a transaction of another file. Inside sql/ only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct store;

/* As store_model_make, inside a write transaction of the caller. */
bool models_make(struct store *s, const char *name, int64_t *id, struct err *e);
