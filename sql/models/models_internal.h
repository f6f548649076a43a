/* Models, written within a transaction of another file. Inside sql/ only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct store;
struct store_model;
struct store_model_change;

/* The id of the model that is called `name`, or has it as an alias; made as a chat model for
 * everyone where there is none. Inside a write transaction of the caller. */
bool models_make(struct store *s, const char *name, int64_t *id, struct err *e);
/* store_model_add, store_local_model_add: the row of models alone, likewise. */
bool models_add(struct store *s, const struct store_model *m, int64_t *id, struct err *e);
/* What a change says of a model of this machine. ERR_INPUT where it is none. */
bool models_change_local(struct store *s, int64_t id, const struct store_model_change *c,
                         struct err *e);
