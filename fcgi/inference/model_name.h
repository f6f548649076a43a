/* Which names mean the model that this server runs: its id, its folder's name, and the aliases of
 * the setting model_aliases: names separated by blanks, of which one may end with * ("claude-*", or
 * "*" alone for any name), so that clients with names of their own work as they are. Each of these
 * may have Ollama's tag ":latest" behind it. Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct request;
struct store_model;

bool model_name_is_served(const struct request *r, const char *name);
/* Finds what the request means: a model of another server that its user may use becomes r->model,
 * one of this machine r->local and its worker r->worker. Names of the first model come first,
 * patterns of aliases last. False, ERR_NOTFOUND with the code model_not_found: nothing is called
 * that, for this user; ERR_UNAVAILABLE: it can't be opened here. */
bool model_name_take(struct request *r, const char *name, struct err *e);
/* From now on the request is one for this model of the machine. ERR_UNAVAILABLE, as above. */
bool model_name_enter(struct request *r, const struct store_model *m, struct err *e);
/* And again for the first. */
void model_name_leave(struct request *r);
/* Whose models are listed and found: of nobody in particular, where no user is known. */
int64_t model_name_user(const struct request *r);
/* Of what answers the request. */
const char *model_name_of(const struct request *r);

/* Its id or its folder's name, and no alias. */
bool model_name_is_own(const struct request *r, const char *name);

typedef bool (*model_alias_fn)(void *context, const char *name); /* false: enough */
/* Each alias that is a name, without the patterns. */
void model_name_each_alias(const struct request *r, model_alias_fn fn, void *context);
