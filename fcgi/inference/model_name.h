/* Which names mean the model that this server runs: its id, its folder's name, and the aliases of
 * the setting model_aliases: names separated by blanks, of which one may end with * ("claude-*", or
 * "*" alone for any name), so that clients with names of their own work as they are. Each of these
 * may have Ollama's tag ":latest" behind it. Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

struct request;

bool model_name_is_served(const struct request *r, const char *name);

typedef bool (*model_alias_fn)(void *context, const char *name); /* false: enough */
/* Each alias that is a name, without the patterns. */
void model_name_each_alias(const struct request *r, model_alias_fn fn, void *context);
