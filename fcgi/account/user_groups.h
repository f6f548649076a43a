/* The groups of a user, and the limits that follow from them, as the API tells both the user and
 * admins. Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct request;

/* Adds "groups" (id, name, description), "effective" and "limit_sources" to *o. */
bool user_groups_put(struct request *r, int64_t user_id, cJSON *o, struct err *e);
