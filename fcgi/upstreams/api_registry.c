/* /api/admin/registry: the models that other servers answer, and who may use them. */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_request.h"
#include "sql/models/store_models.h"

#define MAX_USERS 1000

struct showing {
    struct request *r;
    cJSON *items;
    int64_t only;
};

static bool put_model(void *context, const struct store_model *m)
{
    struct showing *s = context;
    if (s->only && s->only != m->id)
        return true;
    cJSON *o = cJSON_CreateObject(), *aliases = cJSON_Parse(m->aliases);
    cJSON_AddNumberToObject(o, "id", (double)m->id);
    cJSON_AddStringToObject(o, "name", m->name);
    cJSON_AddItemToObject(o, "aliases", aliases ? aliases : cJSON_CreateArray());
    cJSON_AddStringToObject(o, "kind", m->kind);
    cJSON_AddNumberToObject(o, "context", (double)m->context);
    cJSON_AddBoolToObject(o, "tools", m->tools);
    cJSON_AddBoolToObject(o, "vision", m->vision);
    cJSON_AddBoolToObject(o, "reasoning", m->reasoning);
    cJSON_AddBoolToObject(o, "everyone", m->everyone);
    cJSON_AddNumberToObject(o, "created_at", (double)m->created_at);
    return cJSON_AddItemToArray(s->items, o);
}

static bool put_user(void *context, int64_t user_id)
{
    return cJSON_AddItemToArray(context, cJSON_CreateNumber((double)user_id));
}

static bool collect(struct request *r, struct showing *s, struct err *e)
{
    cJSON *o;
    s->r = r;
    s->items = cJSON_CreateArray();
    if (!store_model_list(r->store, 0, put_model, s, e))
        return false;
    cJSON_ArrayForEach (o, s->items)
        if (!store_model_users(r->store, (int64_t)json_member(o, "id")->valuedouble, put_user,
                               cJSON_AddArrayToObject(o, "users"), e))
            return false;
    return true;
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

static bool read_switch(const cJSON *body, const char *name, int64_t *out, struct err *e)
{
    bool on = false;
    if (!json_get_bool(body, name, &on, e))
        return false;
    if (json_member(body, name))
        *out = on;
    return true;
}

struct lists {
    const char *names[STORE_MODEL_ALIASES];
    struct store_model_names aliases;
    int64_t users[MAX_USERS];
};

static bool read_lists(const cJSON *body, struct lists *l, struct store_model_change *c,
                       struct err *e)
{
    const cJSON *aliases = NULL, *users = NULL, *item;
    if (!json_get_array(body, "aliases", &aliases, e) || !json_get_array(body, "users", &users, e))
        return false;
    l->aliases.at = l->names;
    cJSON_ArrayForEach (item, aliases) {
        if (!cJSON_IsString(item) || l->aliases.n == STORE_MODEL_ALIASES)
            return err_field(e, ERR_INPUT, "aliases", "must be a list of at most %d names",
                             STORE_MODEL_ALIASES);
        l->names[l->aliases.n++] = item->valuestring;
    }
    cJSON_ArrayForEach (item, users) {
        if (!cJSON_IsNumber(item) || item->valuedouble < 1 || c->n_users == MAX_USERS)
            return err_field(e, ERR_INPUT, "users", "must be a list of at most %d ids", MAX_USERS);
        l->users[c->n_users++] = (int64_t)item->valuedouble;
    }
    c->aliases = aliases ? &l->aliases : NULL;
    c->users = users ? l->users : NULL;
    return true;
}

static const struct field_row change_fields[] = {
    {"context", FIELD_READ},  {"tools", FIELD_READ},
    {"vision", FIELD_READ},   {"reasoning", FIELD_READ},
    {"everyone", FIELD_READ}, {"aliases", FIELD_READ},
    {"users", FIELD_READ},    {0}};

static bool change(struct request *r, struct err *e)
{
    int64_t id;
    struct showing s = {0};
    const cJSON *body = request_json(r, e);
    struct lists *l = arena_alloc(r->arena, sizeof *l);
    struct store_model_change c = {
        .context = -1, .tools = -1, .vision = -1, .reasoning = -1, .everyone = -1};
    if (!l)
        return err_set(e, ERR_NOMEM, "no memory for the change");
    memset(l, 0, sizeof *l);
    if (!path_id_param(r, "id", &id, e) || !body || !fields_check(r, body, change_fields, e) ||
        !json_get_int(body, "context", 0, INT32_MAX, &c.context, e) ||
        !read_switch(body, "tools", &c.tools, e) || !read_switch(body, "vision", &c.vision, e) ||
        !read_switch(body, "reasoning", &c.reasoning, e) ||
        !read_switch(body, "everyone", &c.everyone, e) || !read_lists(body, l, &c, e) ||
        !store_model_change(r->store, id, &c, e))
        return false;
    audit_record_id(r, "model.change", "model", id);
    s.only = id;
    bool ok = collect(r, &s, e);
    if (ok)
        reply_json(r, 200, s.items->child);
    cJSON_Delete(s.items);
    return ok;
}

static bool remove_model(struct request *r, struct err *e)
{
    int64_t id;
    if (!path_id_param(r, "id", &id, e) || !store_model_remove(r->store, id, e))
        return false;
    audit_record_id(r, "model.remove", "model", id);
    return reply_empty(r, 204);
}

#define ROW(m, p, h)                                                                               \
    .method = (m), .path = (p), .auth = ROUTE_ADMIN, .pool = POOL_SHORT, .handler = (h),           \
    .scope = SCOPE_ADMIN

const struct route api_registry_routes[] = {
    {ROW(HTTP_GET, "/api/admin/registry", list),
     .doc = {.summary = "The models that other servers answer, and who may use them",
             .reply = "RegistryList",
             .statuses = "200"}},
    {ROW(HTTP_PATCH, "/api/admin/registry/{id}", change), .body_limit = ROUTE_JSON_BODY,
     .doc = {.summary = "Change what a model can do, its aliases, and who may use it",
             .body = "RegistryChange",
             .reply = "RegistryModel",
             .statuses = "200 409"}},
    {ROW(HTTP_DELETE, "/api/admin/registry/{id}", remove_model),
     .doc = {.summary = "Forget a model; conversations that name it need another",
             .statuses = "204"}},
    {0},
};
