/* Ids of rows, as paths, queries and bodies name them: decimal text, and exactly one text for each
 * id. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct request;

/* 1 .. 10^18 - 1 in digits without sign, space or leading zero. False, *id untouched: another text,
 * or NULL. */
bool path_id_parse(const char *text, int64_t *id);
/* The path's segment {name}; ERR_NOTFOUND when it can't be an id. */
bool path_id_param(const struct request *r, const char *name, int64_t *id, struct err *e);
