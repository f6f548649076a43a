/* Models of this machine beside the one that `sluice up` was started with: rows of store_models.h
 * with a place on the disk. Rules as in sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/models/store_models.h"

#define STORE_LOCAL_MODELS_MAX 32
#define STORE_LOCAL_PATH_BYTES 4095
#define STORE_LOCAL_IDLE_S 900
#define STORE_LOCAL_IDLE_MAX_S 31536000 /* a year */
#define STORE_LOCAL_DEFAULTS_BYTES 1000
#define STORE_LOCAL_DEVICE_BYTES 100

/* Both rows, or none. ERR_INPUT, ERR_CONFLICT (a model has that name already), ERR_LIMIT. */
bool store_local_model_add(struct store *s, const struct store_model *m, int64_t *id,
                           struct err *e);
