/* The check of a JSON text before it becomes a tree (RFC 8259, strict). Private to
 * engine/base/json/json.c and its tests. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"
#include "engine/base/json/json.h"

/* True when the text is one well-formed value within l->max_depth, with valid UTF-8, no lone
 * surrogates, finite numbers and (unless allowed) no duplicate keys and no \u0000. ERR_INPUT with
 * line and column otherwise. */
bool json_scan(const char *text, size_t len, const struct json_limits *l, struct err *e);
/* After cJSON: numbers whose literal says more than their double keep it in valuestring. False: no
 * memory. */
bool json_keep_literals(const char *text, size_t len, cJSON *tree);
