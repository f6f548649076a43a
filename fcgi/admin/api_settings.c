/* /api/admin/settings: what an admin may change while the server runs. */
#include "fcgi/config/server_settings.h"
#include "fcgi/auth/confirmation.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "sql/prompts/store_prompt_blocks.h"

static bool list(struct request *r, struct err *e)
{
    cJSON *o = server_settings_list(r, e);
    if (o)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return o != NULL;
}

/* What lies there in clear, or under keys that nobody asks for any more. */
static bool empty_prompt_cache(struct request *r, struct err *e)
{
    int64_t removed;
    return store_prompts_forget(r->store, &(struct store_forgetting){.what = FORGET_ALL}, &removed,
                                e);
}

static bool change(struct request *r, struct err *e)
{
    char names[512];
    const cJSON *body = request_json(r, e);
    if (!body || (server_settings_guarded(body) && !confirmation_check(r, e)) ||
        !server_settings_change(r, body, names, sizeof names, e) ||
        /* Also where it is set to what it was: an attempt before may have ended halfway. */
        (cJSON_GetObjectItemCaseSensitive(body, "prompt_cache_seal") && !empty_prompt_cache(r, e)))
        return false;
    audit_record(r, r->who.user_id, r->who.name, "settings.change", names);
    return list(r, e);
}

const struct route api_settings_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/admin/settings",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = list,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "The server's settings, with their types, limits and defaults",
             .reply = "ServerSettings",
             .statuses = "200"}},
    {.method = HTTP_PATCH,
     .path = "/api/admin/settings",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = change,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Change settings of the server; null: back to the default",
             .body = "ServerSettingsChange",
             .reply = "ServerSettings",
             .statuses = "200"}},
    {0},
};
