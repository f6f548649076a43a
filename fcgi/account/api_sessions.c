/* Lists a user's sessions and ends them. */
#include "fcgi/account/account_lists.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"

static bool list_one(void *context, const struct store_session_seen *n)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "id", n->id);
    cJSON_AddNumberToObject(o, "created_at", (double)n->created_at);
    cJSON_AddNumberToObject(o, "last_used_at", (double)n->used_at);
    cJSON_AddNumberToObject(o, "expires_at", (double)n->expires_at);
    cJSON_AddStringToObject(o, "address", n->address);
    cJSON_AddStringToObject(o, "agent", n->agent);
    cJSON_AddBoolToObject(o, "current", n->current);
    return cJSON_AddItemToArray(context, o);
}

static const unsigned char *own_hash(const struct request *r)
{
    return r->who.by == AUTH_SESSION ? r->who.token_hash : NULL;
}

bool account_reply_sessions(struct request *r, int64_t user_id, struct err *e)
{
    cJSON *o = cJSON_CreateObject();
    bool ok = store_session_list(
        r->store, &(struct store_session_viewer){.user_id = user_id, .current = own_hash(r)},
        list_one, cJSON_AddArrayToObject(o, "items"), e);
    if (ok)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return ok;
}

static bool list_sessions(struct request *r, struct err *e)
{
    return account_reply_sessions(r, r->who.user_id, e);
}

static bool end_session(struct request *r, struct err *e)
{
    if (!store_session_end(r->store, r->who.user_id, request_param(r, "session"), e))
        return false;
    audit_record(r, r->who.user_id, r->who.name, "session.end", request_param(r, "session"));
    return reply_empty(r, 204);
}

static bool end_others(struct request *r, struct err *e)
{
    int n = 0;
    if (!store_session_end_all(r->store, r->who.user_id, own_hash(r), &n, e))
        return false;
    if (n) /* else anyone could fill the audit log with nothing */
        audit_record(r, r->who.user_id, r->who.name, "session.end_others", "");
    return reply_empty(r, 204);
}

const struct route api_sessions_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/sessions",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = list_sessions,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Where the caller is logged in",
             .reply = "SessionList",
             .statuses = "200"}},
    {.method = HTTP_DELETE,
     .path = "/api/sessions",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = end_others,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "End all own sessions but the one that asks", .statuses = "204"}},
    {.method = HTTP_DELETE,
     .path = "/api/sessions/{session}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = end_session,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "End one of the own sessions", .statuses = "204"}},
    {0},
};
