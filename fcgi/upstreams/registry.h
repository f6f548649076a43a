/* /api/admin/registry, for the routes in other rooms that write it. Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/models/store_models.h"

struct request;

#define REGISTRY_MAX_USERS 1000

struct registry_lists { /* what a change points to; in the request's arena */
    const char *names[STORE_MODEL_ALIASES];
    struct store_model_names aliases;
    int64_t users[REGISTRY_MAX_USERS];
};

/* What a body says of a model, but its name and place; what it does not say stays. NULL: *e. The
 * lists stand in the arena. */
struct store_model_change *registry_read_change(struct request *r, const cJSON *body,
                                                struct err *e);
/* Replies with the model as the list has it. */
bool registry_reply(struct request *r, int status, int64_t id, struct err *e);
