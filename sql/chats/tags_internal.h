/* Tags as callers give them: a JSON array. Inside sql/ only. */
#pragma once
#include <cjson/cJSON.h>

#include "engine/base/err.h"

/* At most STORE_TAGS_MAX texts of 1 to STORE_TAG_BYTES bytes, without control characters or spaces
 * around them. NULL: *e names the field. The caller owns the tree. */
cJSON *tags_read(const char *json, const char *field, struct err *e);
