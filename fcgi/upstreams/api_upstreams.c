/* /api/admin/upstreams: the servers that answer for us, and for which models. A key goes in and
 * never comes out. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/http/relay_error.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/worker.h"
#include "fcgi/upstreams/upstream_status.h"
#include "fcgi/upstreams/upstream_test.h"
#include "fcgi/upstreams/upstream_url.h"
#include "sql/models/store_models.h"
#include "sql/models/store_upstreams.h"

#define MAX_ROUTES 64

/* ---- showing */

struct showing {
    cJSON *items, *status;
    int64_t only; /* 0: all */
};

static bool put_upstream(void *context, const struct store_upstream *u)
{
    struct showing *s = context;
    if (s->only && s->only != u->id)
        return true;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "id", (double)u->id);
    cJSON_AddStringToObject(o, "name", u->name);
    cJSON_AddStringToObject(o, "dialect", u->dialect);
    cJSON_AddStringToObject(o, "url", u->url);
    cJSON_AddBoolToObject(o, "has_key", u->has_key);
    cJSON_AddBoolToObject(o, "drained", u->drained);
    cJSON_AddNumberToObject(o, "max_streams", (double)u->max_streams);
    cJSON_AddNumberToObject(o, "first_byte_ms", (double)u->first_byte_ms);
    cJSON_AddNumberToObject(o, "idle_ms", (double)u->idle_ms);
    cJSON_AddNumberToObject(o, "created_at", (double)u->created_at);
    cJSON_AddArrayToObject(o, "models");
    const cJSON *status = upstream_status_of(s->status, u->id);
    cJSON_AddItemToObject(o, "status", status ? cJSON_Duplicate(status, true) : cJSON_CreateNull());
    return cJSON_AddItemToArray(s->items, o);
}

static bool put_route(void *context, const struct store_model_route *route)
{
    struct showing *s = context;
    cJSON *u;
    cJSON_ArrayForEach (u, s->items) {
        if ((int64_t)json_member(u, "id")->valuedouble != route->upstream_id)
            continue;
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "model", route->model);
        cJSON_AddStringToObject(o, "remote", route->remote);
        cJSON_AddNumberToObject(o, "priority", (double)route->priority);
        cJSON_AddNumberToObject(o, "weight", (double)route->weight);
        cJSON_AddItemToArray(cJSON_GetObjectItem(u, "models"), o);
    }
    return true;
}

static bool collect(struct request *r, struct showing *s, struct err *e)
{
    s->items = cJSON_CreateArray();
    s->status = upstream_status_read(r->worker->run_dir);
    bool ok = store_upstream_list(r->store, put_upstream, s, e) &&
              store_model_route_list(r->store, put_route, s, e);
    cJSON_Delete(s->status);
    return ok;
}

static bool list(struct request *r, struct err *e)
{
    struct showing s = {0};
    bool ok = collect(r, &s, e);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddItemToObject(o, "items", s.items);
    if (ok)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return ok;
}

static bool show(struct request *r, int status, int64_t id, struct err *e)
{
    struct showing s = {.only = id};
    bool ok = collect(r, &s, e) &&
              (s.items->child || err_set(e, ERR_NOTFOUND, "there is no such upstream"));
    if (ok)
        reply_json(r, status, s.items->child);
    cJSON_Delete(s.items);
    return ok;
}

/* ---- changing */

static bool is_model_name(const char *name)
{
    const size_t n = name ? strlen(name) : 0;
    for (const char *c = name; n && *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return false;
    return n > 0 && n <= STORE_MODEL_NAME_BYTES;
}

static bool read_routes(const cJSON *body, struct store_route_wish *out, int *n, struct err *e)
{
    const cJSON *items = NULL, *item;
    *n = -1;
    if (!json_get_array(body, "models", &items, e))
        return false;
    *n = items ? 0 : -1;
    cJSON_ArrayForEach (item, items) {
        struct store_route_wish *w = &out[*n];
        if (*n == MAX_ROUTES)
            return err_field(e, ERR_LIMIT, "models", "has more than %d entries", MAX_ROUTES);
        *w = (struct store_route_wish){.weight = 1};
        if (cJSON_IsString(item))
            w->model = item->valuestring;
        else if (!cJSON_IsObject(item))
            return err_field(e, ERR_INPUT, "models", "must be a list of names or objects");
        else if (!json_get_string(item, "model", &w->model, e) ||
                 !json_get_string(item, "remote", &w->remote, e) ||
                 !json_get_int(item, "priority", 0, 100, &w->priority, e) ||
                 !json_get_int(item, "weight", 1, 1000, &w->weight, e))
            return false;
        if (!is_model_name(w->model))
            return err_field(e, ERR_INPUT, "models",
                             "each needs a model: 1 to %d bytes without blanks",
                             STORE_MODEL_NAME_BYTES);
        if (!w->remote)
            w->remote = w->model;
        if (!*w->remote || strlen(w->remote) > 256)
            return err_field(e, ERR_INPUT, "models", "remote must have 1 to 256 bytes");
        ++*n;
    }
    return true;
}

static const struct field_row add_fields[] = {
    {"name", FIELD_READ},    {"url", FIELD_READ},           {"dialect", FIELD_READ},
    {"key", FIELD_READ},     {"max_streams", FIELD_READ},   {"models", FIELD_READ},
    {"idle_ms", FIELD_READ}, {"first_byte_ms", FIELD_READ}, {0}};
static const struct field_row change_fields[] = {{"drained", FIELD_READ},
                                                 {"key", FIELD_READ},
                                                 {"max_streams", FIELD_READ},
                                                 {"idle_ms", FIELD_READ},
                                                 {"first_byte_ms", FIELD_READ},
                                                 {"models", FIELD_READ},
                                                 {0}};

static bool read_patience(const cJSON *body, int64_t *max_streams, int64_t *first_byte_ms,
                          int64_t *idle_ms, struct err *e)
{
    return json_get_int(body, "max_streams", 0, 100000, max_streams, e) &&
           json_get_int(body, "first_byte_ms", 100, 3600000, first_byte_ms, e) &&
           json_get_int(body, "idle_ms", 100, 3600000, idle_ms, e);
}

static bool check_key(const char *key, struct err *e)
{
    if (key && (strlen(key) > STORE_UPSTREAM_KEY_BYTES || strpbrk(key, "\r\n")))
        return err_field(e, ERR_INPUT, "key", "must be one line of at most %d bytes",
                         STORE_UPSTREAM_KEY_BYTES);
    return true;
}

static bool add(struct request *r, struct err *e)
{
    static const char *const dialects[] = {"openai", "anthropic", "ollama"};
    const cJSON *body = request_json(r, e);
    const char *key = NULL, *url = NULL;
    struct store_upstream u = {.dialect = "openai"};
    struct store_route_wish routes[MAX_ROUTES];
    char clean[UPSTREAM_URL_BYTES + 1];
    int64_t id;
    int n, known = 0;
    if (!body || !fields_check(r, body, add_fields, e) ||
        !json_get_string(body, "name", &u.name, e) || !json_get_string(body, "url", &url, e) ||
        !json_get_string(body, "dialect", &u.dialect, e) ||
        !json_get_string(body, "key", &key, e) || !check_key(key, e) ||
        !read_patience(body, &u.max_streams, &u.first_byte_ms, &u.idle_ms, e) ||
        !read_routes(body, routes, &n, e) || !upstream_url_read(url, clean, e))
        return false;
    for (size_t i = 0; i < 3; i++)
        known |= !strcmp(dialects[i], u.dialect);
    if (!known)
        return err_field(e, ERR_INPUT, "dialect", "must be openai, anthropic or ollama");
    if (!u.name || !*u.name || strlen(u.name) > 64 || strpbrk(u.name, " \t\r\n\""))
        return err_field(e, ERR_INPUT, "name", "must have 1 to 64 bytes without blanks");
    u.url = clean;
    const struct store_route_wishes wishes = {.at = routes, .n = n};
    u.models = n >= 0 ? &wishes : NULL;
    if (!store_upstream_add(r->store, &u, key, &id, e))
        return false;
    audit_record_id(r, "upstream.add", "upstream", id);
    return show(r, 201, id, e);
}

static bool change(struct request *r, struct err *e)
{
    int64_t id;
    const cJSON *body = request_json(r, e);
    struct store_upstream_change c = {
        .drained = -1, .max_streams = -1, .first_byte_ms = -1, .idle_ms = -1};
    struct store_route_wish routes[MAX_ROUTES];
    bool drained = false;
    int n;
    if (!path_id_param(r, "id", &id, e) || !body || !fields_check(r, body, change_fields, e) ||
        !json_get_bool(body, "drained", &drained, e) || !json_get_string(body, "key", &c.key, e) ||
        !check_key(c.key, e) ||
        !read_patience(body, &c.max_streams, &c.first_byte_ms, &c.idle_ms, e) ||
        !read_routes(body, routes, &n, e))
        return false;
    if (json_member(body, "drained"))
        c.drained = drained;
    const struct store_route_wishes wishes = {.at = routes, .n = n};
    c.models = n >= 0 ? &wishes : NULL;
    if (!store_upstream_change(r->store, id, &c, e))
        return false;
    audit_record_id(r,
                    c.drained == 1   ? "upstream.drain"
                    : c.drained == 0 ? "upstream.resume"
                                     : "upstream.change",
                    "upstream", id);
    return show(r, 200, id, e);
}

static bool remove_upstream(struct request *r, struct err *e)
{
    int64_t id;
    if (!path_id_param(r, "id", &id, e) || !store_upstream_remove(r->store, id, e))
        return false;
    audit_record_id(r, "upstream.remove", "upstream", id);
    return reply_empty(r, 204);
}

/* ---- asking */

struct first_route {
    int64_t upstream, model;
    char name[STORE_MODEL_NAME_BYTES + 1];
};

static bool see_first(void *context, const struct store_model_route *route)
{
    struct first_route *f = context;
    if (route->upstream_id != f->upstream)
        return true;
    f->model = route->model_id;
    snprintf(f->name, sizeof f->name, "%s", route->model);
    return false;
}

static bool test(struct request *r, struct err *e)
{
    struct first_route f = {0};
    struct upstream_tested t;
    struct err why = {0};
    if (!path_id_param(r, "id", &f.upstream, e) ||
        !store_model_route_list(r->store, see_first, &f, e))
        return false;
    if (!f.model)
        return err_set(e, ERR_NOTFOUND, "there is no such upstream, or it answers for no model");
    const bool ok = upstream_test_run(
        &(struct upstream_test){
            .model = f.model, .upstream = f.upstream, .relay_socket = r->worker->relay_socket},
        &t, &why);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddBoolToObject(o, "ok", ok);
    cJSON_AddStringToObject(o, "model", f.name);
    if (ok) {
        cJSON_AddNumberToObject(o, "first_ms", t.first_ms);
        cJSON_AddNumberToObject(o, "total_ms", t.total_ms);
        cJSON_AddNumberToObject(o, "prompt_tokens", t.prompt_tokens);
        cJSON_AddNumberToObject(o, "completion_tokens", t.completion_tokens);
    } else {
        cJSON_AddStringToObject(o, "error", why.text);
        cJSON_AddStringToObject(o, "reason", why.reason);
    }
    reply_json(r, 200, o);
    cJSON_Delete(o);
    return true;
}

#define ROW(m, p, h)                                                                               \
    .method = (m), .path = (p), .auth = ROUTE_ADMIN, .pool = POOL_SHORT, .handler = (h),           \
    .scope = SCOPE_ADMIN

const struct route api_upstreams_routes[] = {
    {ROW(HTTP_GET, "/api/admin/upstreams", list), .polled = true,
     .doc = {.summary = "The servers that answer for this one, and how they are",
             .reply = "UpstreamList",
             .statuses = "200"}},
    {ROW(HTTP_POST, "/api/admin/upstreams", add), .body_limit = ROUTE_JSON_BODY, .confirmed = true,
     .doc = {.summary = "Add an upstream, and the models that it answers",
             .body = "UpstreamAdd",
             .reply = "Upstream",
             .statuses = "201 409"}},
    {ROW(HTTP_PATCH, "/api/admin/upstreams/{id}", change), .body_limit = ROUTE_JSON_BODY,
     .confirmed = true,
     .doc = {.summary = "Drain or resume an upstream, change its key, its limits or its models",
             .body = "UpstreamChange",
             .reply = "Upstream",
             .statuses = "200 409"}},
    {ROW(HTTP_DELETE, "/api/admin/upstreams/{id}", remove_upstream), .confirmed = true,
     .doc = {.summary = "Remove an upstream; answers that run on it end", .statuses = "204"}},
    {ROW(HTTP_POST, "/api/admin/upstreams/{id}/test", test),
     .doc = {.summary = "Ask an upstream for a short answer",
             .reply = "UpstreamTested",
             .statuses = "200"}},
    {0},
};
