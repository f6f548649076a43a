/* /api/tool-servers: servers of tools, a user's own and everyone's. A server is asked for its tools
 * before its row is written, so that what is in the list did answer once. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "engine/base/arena.h"
#include "engine/base/json/json.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/config/setting_checks.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/json_put.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/tools/tool_account.h"
#include "fcgi/tools/tool_fetch.h"
#include "fcgi/tools/tool_list.h"
#include "fcgi/tools/tool_offer.h"
#include "sql/users/store_groups.h"

#define DEFAULT_HEADER "Authorization"

static const struct field_row add_fields[] = {
    {"name", FIELD_READ},          {"url", FIELD_READ},      {"header", FIELD_READ},
    {"secret", FIELD_READ},        {"everyone", FIELD_READ}, {"client_id", FIELD_READ},
    {"client_secret", FIELD_READ}, {"groups", FIELD_READ},   {0}};
static const struct field_row change_fields[] = {
    {"name", FIELD_READ},          {"url", FIELD_READ},
    {"header", FIELD_READ},        {"secret", FIELD_READ},
    {"enabled", FIELD_READ},       {"client_id", FIELD_READ},
    {"client_secret", FIELD_READ}, {0}};
static const struct field_row forget_fields[] = {{"tool", FIELD_READ}, {0}};

/* The tools without what only the server needs: schemas are long. */
static cJSON *shown_tools(const struct store_tool_server *x)
{
    cJSON *list = json_parse(x->tools, strlen(x->tools), NULL, NULL), *tool;
    cJSON *allowed = json_parse(x->allowed, strlen(x->allowed), NULL, NULL);
    cJSON_ArrayForEach (tool, list) {
        cJSON *hash = cJSON_DetachItemFromObjectCaseSensitive(tool, "hash");
        cJSON_DeleteItemFromObjectCaseSensitive(tool, "parameters");
        if (!cJSON_AddItemToObject(tool, "definition", hash))
            cJSON_Delete(hash);
        cJSON_AddBoolToObject(tool, "always", json_has_text(allowed, json_text(tool, "name")));
    }
    cJSON_Delete(allowed);
    return list ? list : cJSON_CreateArray();
}

/* Where everyone's server is, and how it is asked, is for admins to know. */
static cJSON *server_json(struct request *r, const struct store_tool_server *x)
{
    cJSON *o = cJSON_CreateObject();
    const bool may_change = x->user_id ? x->user_id == r->who.user_id : r->who.admin;
    json_put_id(o, "id", x->id);
    cJSON_AddStringToObject(o, "name", x->name);
    cJSON_AddBoolToObject(o, "everyone", !x->user_id);
    cJSON_AddBoolToObject(o, "may_change", may_change);
    if (may_change) {
        cJSON_AddStringToObject(o, "url", x->url);
        cJSON_AddStringToObject(o, "header", x->header);
        cJSON_AddBoolToObject(o, "has_secret", x->sealed.bytes != NULL);
        if (!x->user_id)
            cJSON_AddItemToObject(o, "groups",
                                  x->everyone ? cJSON_CreateNull() : cJSON_Parse(x->groups));
        cJSON_AddStringToObject(o, "client_id", x->client_id ? x->client_id : "");
        cJSON_AddBoolToObject(o, "has_client_secret", x->has_client_secret);
    }
    cJSON_AddItemToObject(o, "sign_in", tool_account_json(r, x));
    cJSON_AddBoolToObject(o, "enabled", x->enabled);
    cJSON_AddBoolToObject(o, "usable", tool_offer_usable(r, x));
    cJSON_AddItemToObject(o, "tools", shown_tools(x));
    json_put_time(o, "listed_at", x->listed_at);
    json_put_time(o, "created_at", x->created_at);
    return o;
}

struct list {
    struct request *r;
    cJSON *items;
};

static bool add_item(void *context, const struct store_tool_server *x)
{
    struct list *l = context;
    return cJSON_AddItemToArray(l->items, server_json(l->r, x));
}

static bool list_servers(struct request *r, struct err *e)
{
    cJSON *o = cJSON_CreateObject();
    struct list l = {.r = r, .items = cJSON_AddArrayToObject(o, "items")};
    const bool ok = store_tool_server_list(r->store, r->who.user_id, add_item, &l, e);
    cJSON_AddBoolToObject(o, "may_add", tool_offer_own(r));
    if (ok)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return ok;
}

static bool send_server(struct request *r, int status, int64_t id, struct err *e)
{
    struct store_tool_server x;
    if (!store_tool_server_get(r->store, r->arena,
                               &(struct store_ref){.user_id = r->who.user_id, .id = id}, &x, e))
        return false;
    cJSON *o = server_json(r, &x);
    reply_json(r, status, o);
    cJSON_Delete(o);
    return true;
}

/* Names of calls begin with it. */
static bool check_name(const char *name, struct err *e)
{
    const size_t n = strlen(name), plain = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    return (n && n <= STORE_TOOL_NAME && plain == n && isalnum((unsigned char)name[0])) ||
           err_field(e, ERR_INPUT, "name",
                     "must have 1 to %d small letters, digits, '_' or '-', and begin with a letter "
                     "or digit",
                     STORE_TOOL_NAME);
}

static bool check_header(const char *header, struct err *e)
{
    static const char *const own[] = {"host",           "content-length",      "content-type",
                                      "accept",         "connection",          "transfer-encoding",
                                      "mcp-session-id", "mcp-protocol-version"};
    size_t n = 0;
    while (isalnum((unsigned char)header[n]) || (header[n] && strchr("-_", header[n])))
        n++;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (!strcasecmp(header, own[i]))
            return err_field(e, ERR_INPUT, "header", "'%s' is set by the protocol", own[i]);
    return (n && n <= 64 && !header[n]) ||
           err_field(e, ERR_INPUT, "header", "must be the name of a header");
}

static bool check_text(const char *text, const char *field, size_t most, struct err *e)
{
    if (text && strlen(text) > most)
        return err_field(e, ERR_LIMIT, field, "is longer than %zu bytes", most);
    for (const char *c = text ? text : ""; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return err_field(e, ERR_INPUT, field, "holds a control character");
    return true;
}

/* What is sent beside the columns of the row. */
struct secrets {
    const char *secret;                    /* the header's; NULL: it stays */
    const char *client_id, *client_secret; /* NULL: they stay */
};

static bool read_secrets(const cJSON *body, struct secrets *out, struct err *e)
{
    return json_get_string(body, "secret", &out->secret, e) &&
           json_get_string(body, "client_id", &out->client_id, e) &&
           json_get_string(body, "client_secret", &out->client_secret, e) &&
           check_text(out->secret, "secret", STORE_TOOL_SECRET, e) &&
           check_text(out->client_id, "client_id", STORE_TOOL_CLIENT, e) &&
           check_text(out->client_secret, "client_secret", STORE_TOOL_SECRET, e);
}

/* A client is for servers where people sign in, which get no secret of ours. */
static bool check_client(const struct store_tool_server *x, const struct secrets *sent,
                         struct err *e)
{
    const bool has_secret = sent->secret ? *sent->secret : x->sealed.bytes != NULL;
    const char *id = sent->client_id ? sent->client_id : x->client_id;
    if (sent->client_id && *sent->client_id && has_secret)
        return err_field(e, ERR_INPUT, "client_id", "is for a sign-in; a secret takes its place");
    return !sent->client_secret || !*sent->client_secret || (id && *id) ||
           err_field(e, ERR_INPUT, "client_secret", "needs a client_id");
}

/* Programs are set up in a file on the server, and given out by admins to everyone. */
static bool check_program(const struct store_tool_server *x, const char *url, struct err *e)
{
    const char *name = tool_pipe_program(url);
    const size_t n = strlen(name), plain = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    if (!n || n > STORE_TOOL_NAME || plain != n)
        return err_field(e, ERR_INPUT, "url", "must end with the name of a program: stdio://NAME");
    return !x->user_id ||
           err_field(e, ERR_FORBIDDEN, "url", "programs are for everyone, and admins add them") ||
           err_reason(e, "tool_program_admin");
}

/* What HTTP has, and a program has not. */
static bool check_no_head(const struct store_tool_server *x, const char *header,
                          const struct secrets *sent, struct err *e)
{
    const char *secret = sent->secret;
    if (sent->client_id && *sent->client_id)
        return err_field(e, ERR_INPUT, "client_id", "a program gets none");
    if (header)
        return err_field(e, ERR_INPUT, "header", "a program gets none");
    if (secret && *secret)
        return err_field(e, ERR_INPUT, "secret", "a program gets none: see its env");
    return secret || !x->sealed.bytes ||
           err_field(e, ERR_INPUT, "secret", "a program gets none: send \"\"");
}

static bool put_fields(struct store_tool_server *x, const char *name, const char *url,
                       const char *header)
{
    x->name = name ? name : x->name;
    x->url = url ? url : x->url;
    x->header = header ? header : x->header;
    return true;
}

/* Another address, or a secret, ends that people sign in; a client begins it. */
static void put_client(struct store_tool_server *x, const struct secrets *sent, bool moved)
{
    if (moved || (sent->secret && *sent->secret)) {
        x->client_id = NULL;
        x->account = NULL;
    }
    if (sent->client_id && (*sent->client_id || x->client_id))
        x->client_id = sent->client_id;
}

/* What is sent, over what is there. */
static bool read_server(const cJSON *body, struct store_tool_server *x, struct secrets *sent,
                        struct err *e)
{
    const char *name = NULL, *url = NULL, *header = NULL;
    if (!json_get_string(body, "name", &name, e) || !json_get_string(body, "url", &url, e) ||
        !json_get_string(body, "header", &header, e) || !read_secrets(body, sent, e) ||
        !json_get_bool(body, "enabled", &x->enabled, e))
        return false;
    if ((name && !check_name(name, e)) || (header && !check_header(header, e)) ||
        !check_client(x, sent, e))
        return false;
    const char *to = url ? url : x->url;
    const bool moved = url && x->url && strcmp(url, x->url);
    put_client(x, sent, moved);
    if (to && tool_pipe_program(to))
        return check_program(x, to, e) && check_no_head(x, header, sent, e) &&
               put_fields(x, name, url, header);
    if (url && (strlen(url) > STORE_TOOL_URL || !setting_is_url(url, true)))
        return err_field(e, ERR_INPUT, "url",
                         "must begin with https:// (or http:// on this machine: localhost, "
                         "127.0.0.1, [::1])") ||
               err_reason(e, "tool_url");
    if (moved && x->sealed.bytes && !sent->secret)
        return err_field(e, ERR_INPUT, "secret",
                         "was saved for another address: send it again, or \"\" for none") ||
               err_reason(e, "tool_secret_again");
    return put_fields(x, name, url, header);
}

/* Once users may add no servers, theirs are asked for nothing more either. */
static bool may_ask(const struct request *r, const struct store_tool_server *x, struct err *e)
{
    return !x->user_id || tool_offer_own(r) ||
           err_set(e, ERR_FORBIDDEN, "users may have no tool servers of their own here") ||
           err_reason(e, "tool_servers_closed");
}

/* Which client people sign in by, where they do; of a server that is kept. One that was registered
 * by itself is forgotten where somebody says that none is entered. */
static bool keep_client(struct request *r, const struct store_tool_server *x,
                        const struct secrets *sent, struct err *e)
{
    struct store_tool_client client;
    if (!x->client_id)
        return store_tool_client_remove(r->store, x->id, e);
    if (!store_tool_client_get(r->store, r->arena, x, &client, e))
        return false;
    const bool same = client.client_id && client.typed == (*x->client_id != '\0') &&
                      (!client.typed || !strcmp(client.client_id, x->client_id));
    const bool reset = same && !client.typed && sent->client_id && *client.client_id;
    if (same && !reset && !sent->client_secret)
        return true;
    if (!same || reset)
        client = (struct store_tool_client){.client_id = x->client_id};
    client.typed = *x->client_id != '\0';
    if (sent->client_secret)
        client.secret = *sent->client_secret ? sent->client_secret : NULL;
    return store_tool_client_put(r->store, x, NULL, &client, e);
}

/* Of a server that has no row yet: where people sign in nobody has, so it is asked without any. */
static const char *first_secret(const struct store_tool_server *x, const struct secrets *sent)
{
    if (x->client_id)
        return NULL;
    return sent->secret ? sent->secret : "";
}

/* Whose it is to be, from the moment it is there. */
static bool read_owner(struct request *r, const cJSON *body, struct store_tool_server *x,
                       struct err *e)
{
    bool everyone = false;
    if (!json_get_bool(body, "everyone", &everyone, e) ||
        !path_id_list(r, body, &(struct path_id_ask){"groups", STORE_GROUPS_MAX}, &x->only, e))
        return false;
    if (everyone && !r->who.admin)
        return err_field(e, ERR_FORBIDDEN, "everyone", "is for admins");
    x->user_id = everyone ? 0 : r->who.user_id;
    return everyone || !x->only ||
           err_field(e, ERR_INPUT, "groups", "goes with everyone: true only");
}

static bool add_server(struct request *r, struct err *e)
{
    struct store_tool_server x = {.header = DEFAULT_HEADER, .enabled = true};
    const cJSON *body = request_json(r, e);
    struct secrets sent = {0};
    if (!body || !fields_check(r, body, add_fields, e) || !read_owner(r, body, &x, e))
        return false;
    if (!read_server(body, &x, &sent, e))
        return false;
    if (!x.name || !x.url)
        return err_field(e, ERR_INPUT, x.name ? "url" : "name", "is needed");
    if (!may_ask(r, &x, e) || !tool_fetch(r, &x, first_secret(&x, &sent), true, e) ||
        !store_tool_server_add(r->store, &x, sent.secret, &x.id, e) ||
        !keep_client(r, &x, &sent, e))
        return false;
    audit_record_id(r, "tool_server.add", "tool_server", x.id);
    if (x.only)
        audit_record_id(r, "tool_server.groups", "tool_server", x.id);
    return send_server(r, 201, x.id, e);
}

/* One that the user may change. */
static bool get_own(struct request *r, struct store_tool_server *x, struct err *e)
{
    struct store_ref ref = {.user_id = r->who.user_id};
    if (!path_id_param(r, "id", &ref.id, e) ||
        !store_tool_server_get(r->store, r->arena, &ref, x, e))
        return false;
    return x->user_id || r->who.admin ||
           err_set(e, ERR_FORBIDDEN, "everyone's tool servers are the admins' to change");
}

/* Whoever changes it need not be signed in there: a server that only says so has the tools that it
 * had, and everyone's permissions for them stay. */
static bool keep_list(struct request *r, const struct store_tool_server *before,
                      struct store_tool_server *x, struct err *e)
{
    struct buf text = {0};
    if (x->listed_at || !before->listed_at || strcmp(x->url, before->url) || !x->client_id ||
        !before->client_id || strcmp(x->client_id, before->client_id))
        return true;
    const bool ok = tool_list_rename(x->name, before->tools, &text, e) &&
                    ((x->tools = arena_strdup(r->arena, text.data)) ||
                     err_set(e, ERR_NOMEM, "no memory for a list of tools"));
    buf_fini(&text);
    x->listed_at = before->listed_at;
    return ok;
}

static bool change_server(struct request *r, struct err *e)
{
    struct store_tool_server x, before;
    const cJSON *body = request_json(r, e);
    struct secrets sent = {0};
    if (!body || !fields_check(r, body, change_fields, e) || !get_own(r, &x, e))
        return false;
    before = x;
    if (!read_server(body, &x, &sent, e))
        return false;
    const bool asks = sent.secret || (!x.client_id) != (!before.client_id) ||
                      strcmp(x.name, before.name) || strcmp(x.url, before.url) ||
                      strcmp(x.header, before.header);
    const bool only_off = !asks && !x.enabled;
    if ((!only_off && !may_ask(r, &x, e)) ||
        (asks && (!tool_fetch(r, &x, sent.secret, true, e) || !keep_list(r, &before, &x, e))) ||
        !store_tool_server_change(r->store, &before, &x, sent.secret, e) ||
        ((asks || sent.client_id || sent.client_secret) && !keep_client(r, &x, &sent, e)))
        return false;
    audit_record_id(r, "tool_server.change", "tool_server", x.id);
    return send_server(r, 200, x.id, e);
}

static bool refresh_server(struct request *r, struct err *e)
{
    struct store_tool_server x;
    if (!get_own(r, &x, e) || !may_ask(r, &x, e))
        return false;
    const bool signed_in = x.client_id != NULL;
    if (!tool_fetch(r, &x, NULL, false, e)) {
        struct err why = *e; /* that people sign in there is news worth keeping */
        if (!signed_in && x.client_id && keep_client(r, &x, &(struct secrets){0}, &why)) {
            *e = (struct err){0};
            err_set(e, ERR_FORBIDDEN, "the tool server wants you to sign in first");
            err_reason(e, "tool_sign_in");
        }
        return false;
    }
    return store_tool_server_relist(r->store, &x, e) && send_server(r, 200, x.id, e);
}

static bool remove_server(struct request *r, struct err *e)
{
    struct store_tool_server x;
    if (!get_own(r, &x, e) ||
        !store_tool_server_remove(r->store, &(struct store_ref){.user_id = x.user_id, .id = x.id},
                                  e))
        return false;
    audit_record_id(r, "tool_server.remove", "tool_server", x.id);
    return reply_empty(r, 204);
}

/* Of one tool, or of all of the server's: the own permissions alone. */
static bool forget_permissions(struct request *r, struct err *e)
{
    struct store_tool_permission p = {.user_id = r->who.user_id};
    const cJSON *body = request_json(r, e);
    return body && path_id_param(r, "id", &p.server_id, e) &&
           fields_check(r, body, forget_fields, e) && json_get_string(body, "tool", &p.tool, e) &&
           store_tool_permission_remove(r->store, &p, e) && reply_empty(r, 204);
}

const struct route api_tool_servers_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/tool-servers",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = list_servers,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "List tool servers: the own and everyone's",
             .reply = "ToolServerList",
             .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/tool-servers",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = add_server,
     .scope = SCOPE_ADMIN,
     .confirmed = true,
     .doc = {.summary = "Add a tool server, which is asked for its tools",
             .body = "ToolServerRequest",
             .reply = "ToolServer",
             .statuses = "201 409"}},
    {.method = HTTP_PATCH,
     .path = "/api/tool-servers/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = change_server,
     .scope = SCOPE_ADMIN,
     .confirmed = true,
     .doc = {.summary = "Change a tool server, which is asked again",
             .body = "ToolServerChange",
             .reply = "ToolServer",
             .statuses = "200 409"}},
    {.method = HTTP_POST,
     .path = "/api/tool-servers/{id}/refresh",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = refresh_server,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Ask a tool server for its tools again",
             .reply = "ToolServer",
             .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/tool-servers/{id}/ask-again",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = forget_permissions,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Take back that tools run without a question",
             .body = "ToolPermissionChange",
             .statuses = "204"}},
    {.method = HTTP_DELETE,
     .path = "/api/tool-servers/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = remove_server,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Remove a tool server", .statuses = "204"}},
    {0},
};
