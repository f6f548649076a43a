/* Ids of rows, as paths, queries and bodies name them: decimal text, and exactly one text for each
 * id. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct request;
struct store_ids;

/* 1 .. 10^18 - 1 in digits without sign, space or leading zero. False, *id untouched: another text,
 * or NULL. */
bool path_id_parse(const char *text, int64_t *id);
/* The path's segment {name}; ERR_NOTFOUND when it can't be an id. */
bool path_id_param(const struct request *r, const char *name, int64_t *id, struct err *e);
/* A body's list of at most `most` ids, as texts or as numbers, into the request's arena; NULL: it
 * has none of this name, or null. False: ERR_INPUT with the field. */
struct path_id_ask {
    const char *name;
    int most;
};
bool path_id_list(struct request *r, const cJSON *body, const struct path_id_ask *ask,
                  const struct store_ids **out, struct err *e);
