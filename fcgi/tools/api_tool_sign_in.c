/* Sign-ins at tool servers: /api/tool-servers/{id}/sign-in begins and ends one, and two addresses
 * are for others: where an issuer sends browsers back to, and what describes this server to it.
 * What fails on the way back is told to the page as a code behind the #: words that come from
 * elsewhere are never shown. */
#define LOG_MODULE "tools"
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/oidc/oidc_config.h"
#include "fcgi/tools/tool_account.h"
#include "fcgi/tools/tool_fetch.h"
#include "fcgi/tools/tool_offer.h"
#include "fcgi/tools/tool_sign_in.h"

static bool get_server(struct request *r, struct store_tool_server *x, struct err *e)
{
    struct store_ref ref = {.user_id = r->who.user_id};
    if (!path_id_param(r, "id", &ref.id, e) ||
        !store_tool_server_get(r->store, r->arena, &ref, x, e))
        return false;
    return x->client_id ||
           err_set(e, ERR_CONFLICT,
                   "the tool server wants no sign-in: it is asked without, or with "
                   "a secret of its own") ||
           err_reason(e, "tool_no_sign_in");
}

static bool begin(struct request *r, struct err *e)
{
    struct store_tool_server x;
    struct buf url = {0};
    if (!get_server(r, &x, e))
        return false;
    if (r->who.by != AUTH_SESSION)
        return err_set(e, ERR_FORBIDDEN, "only the page does this: log in there");
    if (!tool_offer_usable(r, &x))
        return err_set(e, ERR_FORBIDDEN, "this tool server is turned off") ||
               err_reason(e, "tool_unknown");
    const bool ok = tool_sign_in_begin(r, &x, &url, e);
    if (ok) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "url", url.data);
        reply_json(r, 200, o);
        cJSON_Delete(o);
    } else if (e->code == ERR_FORMAT) {
        e->code = ERR_UNAVAILABLE; /* what another server says is no file of ours */
    }
    buf_fini(&url);
    return ok;
}

static bool forget(struct request *r, struct err *e)
{
    struct store_tool_server x;
    struct store_ref ref = {.user_id = r->who.user_id};
    struct err why = {0};
    if (!path_id_param(r, "id", &ref.id, e))
        return false;
    /* Also where they see the server no more: the tokens are theirs to take away. */
    if (!store_tool_server_signed(r->store, r->arena, &ref, &x, &why) && !get_server(r, &x, e))
        return false;
    if (!tool_sign_in_forget(r, &x, e))
        return false;
    audit_record_id(r, "tool_server.sign_out", "tool_server", x.id);
    return reply_empty(r, 204);
}

static bool go_to(struct request *r, const char *code)
{
    char url[64];
    snprintf(url, sizeof url, "/#/tool-sign-in/%s", code);
    reply_header(r, "Location", url);
    return reply_empty(r, 303);
}

/* Whoever may change the server reads its tools for all at once; a failure is told by the page's
 * own button. */
static void read_tools(struct request *r, struct store_tool_server *x)
{
    struct err why = {0};
    const bool own = x->user_id ? x->user_id == r->who.user_id : r->who.admin;
    const struct store_ref ref = {.user_id = r->who.user_id, .id = x->id};
    if (own &&
        (!store_tool_server_get(r->store, r->arena, &ref, x, &why) ||
         !tool_fetch(r, x, NULL, false, &why) || !store_tool_server_relist(r->store, x, &why)))
        log_info("id=%s server=%lld signed in, but its tools were not read: %s", r->id,
                 (long long)x->id, why.text);
}

static bool end(struct request *r, struct err *e)
{
    struct store_tool_server x = {0};
    struct err why = {0};
    if (tool_sign_in_end(r, &x, &why)) {
        audit_record_id(r, "tool_server.sign_in", "tool_server", x.id);
        read_tools(r, &x);
        return go_to(r, "done");
    }
    const char *code = !strncmp(why.reason, "tool_", 5) ? why.reason : "tool_sign_in_failed";
    log_warn("id=%s sign-in at a tool server: %s: %s", r->id, code, why.text);
    return go_to(r, code);
}

static bool describe(struct request *r, struct err *e)
{
    const char *address = oidc_config_address(r);
    const char *id = address ? arena_printf(r->arena, "%s" TOOL_SIGN_IN_DOCUMENT, address) : NULL;
    const char *back = address ? arena_printf(r->arena, "%s" TOOL_SIGN_IN_CALLBACK, address) : NULL;
    if (!id || !back)
        return err_set(e, ERR_INPUT, "the request does not say where it came to");
    cJSON *o = oauth_client_json(id, back, OAUTH_NONE);
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

const struct route api_tool_sign_in_routes[] = {
    {.method = HTTP_POST,
     .path = "/api/tool-servers/{id}/sign-in",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = begin,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Begin to sign in at a tool server: where the browser is to go for it",
             .reply = "ToolSignInDeparture",
             .statuses = "200 403 409 503"}},
    {.method = HTTP_DELETE,
     .path = "/api/tool-servers/{id}/sign-in",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = forget,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Sign out at a tool server: its tokens are forgotten and revoked",
             .statuses = "204 409"}},
    {.method = HTTP_GET,
     .path = TOOL_SIGN_IN_CALLBACK,
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .handler = end,
     .scope = SCOPE_ANY,
     .doc = {.summary = "For browsers that come from a tool server's issuer: back to the page",
             .query = "ToolSignInAnswer",
             .statuses = "303 429 503"}},
    {.method = HTTP_GET,
     .path = TOOL_SIGN_IN_DOCUMENT,
     .auth = ROUTE_OPEN,
     .pool = POOL_SHORT,
     .handler = describe,
     .scope = SCOPE_ANY,
     .doc = {.summary = "This server as an OAuth client, for issuers of tool servers",
             .reply = "ToolClient",
             .statuses = "200 400"}},
    {0},
};
