/* chat_request.h: what a body says of the prompt cache. */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/openai/chat_request.h"

#define DAY_S 86400

bool chat_read_cache(struct chat_request *c, const cJSON *body, struct err *e)
{
    const char *retention = NULL;
    if (!json_get_string(body, "cache_salt", &c->salt, e) ||
        !json_get_string(body, "prompt_cache_key", &c->cache_key, e) ||
        !json_get_string(body, "prompt_cache_retention", &retention, e))
        return false;
    if (!retention)
        return true;
    if (!strcmp(retention, "24h"))
        c->keep_seconds = DAY_S;
    else if (!strcmp(retention, "in_memory") || !strcmp(retention, "in-memory"))
        c->keep_seconds = -1;
    else
        return err_field(e, ERR_INPUT, "prompt_cache_retention", "must be in_memory or 24h");
    return true;
}
