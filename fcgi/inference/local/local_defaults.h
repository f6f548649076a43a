/* What a model's row says where requests leave it open (sql: local_models.defaults): some of the
 * settings, by their names in requests. They stand over the server's defaults. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"

struct request;
struct settings;

/* Before a row is written. ERR_INPUT with the member in the text, the field `defaults`. */
bool local_defaults_check(const cJSON *o, struct arena *a, struct err *e);
/* For the request's model; nothing where its row says nothing. */
void local_defaults_apply(struct settings *s, const struct request *r);
/* Does the row of the request's model say something of this setting? */
bool local_defaults_have(const struct request *r, const char *name);
