/* /api/admin/settings: what an admin may change while the server runs. */
#include "fcgi/account/users.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"

static bool list(struct request *r, struct err *e)
{
    cJSON *o = settings_list(r, e);
    if (o)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return o != NULL;
}

static bool change(struct request *r, struct err *e)
{
    char names[512];
    const cJSON *body = request_json(r, e);
    if (!body || !settings_change(r, body, names, sizeof names, e))
        return false;
    users_audit(r, r->who.user_id, r->who.name, "settings.change", names);
    return list(r, e);
}

const struct route api_settings_routes[] = {
    {HTTP_GET, "/api/admin/settings", ROUTE_ADMIN, POOL_SHORT, 0, list, SCOPE_ADMIN,
     {.summary = "The server's settings, with their types, limits and defaults", .reply = "ServerSettings", .statuses = "200"}},
    {HTTP_PATCH, "/api/admin/settings", ROUTE_ADMIN, POOL_SHORT, ROUTE_JSON_BODY, change, SCOPE_ADMIN,
     {.summary = "Change settings of the server; null: back to the default", .body = "ServerSettingsChange",
      .reply = "ServerSettings", .statuses = "200"}},
    {0},
};
