/* /api/admin/registry: the models beside the first, what is set for each, and who may use them. */
#include "fcgi/upstreams/registry.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"

#include "engine/base/json/json.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/inference/local/local_defaults.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/local_model.h"
#include "fcgi/process/state.h"
#include "sql/models/store_local_models.h"
#include "sql/users/store_groups.h"

#define MAX_STATE ((size_t)1 << 20)

struct showing {
    struct request *r;
    cJSON *items, *told; /* what `sluice up` tells of models of this machine; NULL: nothing */
    int64_t only;
};

/* Why the last load failed, as it was told; NULL: it did not. */
static const char *error_of(const cJSON *told, int64_t id)
{
    const cJSON *line, *n;
    cJSON_ArrayForEach (line, json_member(told, "models"))
        if ((n = json_member(line, "id")) && (int64_t)n->valuedouble == id)
            return json_text(line, "error");
    return NULL;
}

static void put_local(const struct showing *s, cJSON *o, const struct store_model *m)
{
    const struct shared_local *l = local_model_state(s->r->worker->shared, m->id);
    const char *error = error_of(s->told, m->id);
    cJSON *defaults = m->defaults ? cJSON_Parse(m->defaults) : NULL;
    cJSON_AddStringToObject(o, "path", m->path);
    cJSON_AddBoolToObject(o, "pinned", m->pinned);
    cJSON_AddBoolToObject(o, "preload", m->preload);
    cJSON_AddNumberToObject(o, "idle_s", (double)m->idle_s);
    cJSON_AddItemToObject(o, "defaults", defaults ? defaults : cJSON_CreateObject());
    cJSON_AddStringToObject(o, "device", m->device ? m->device : "");
    cJSON_AddStringToObject(o, "state", l ? local_state_name(l->state) : "unknown");
    if (error)
        cJSON_AddStringToObject(o, "error", error);
    if (l && l->needed)
        cJSON_AddNumberToObject(o, "needed_bytes", (double)l->needed);
    if (l && l->state == LOCAL_FAILED && l->reason == LOCAL_NO_ROOM)
        cJSON_AddNumberToObject(o, "free_bytes", (double)l->free);
}

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
    cJSON *groups = cJSON_Parse(m->groups);
    cJSON_AddItemToObject(o, "groups", groups ? groups : cJSON_CreateArray());
    cJSON_AddNumberToObject(o, "created_at", (double)m->created_at);
    if (m->path)
        put_local(s, o, m);
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
    char path[4096];
    struct err ignored;
    s->told = file_join(path, sizeof path, r->worker->run_dir, STATE_LOCAL_MODELS, &ignored) &&
                      file_exists(path)
                  ? json_parse_file(path, MAX_STATE, &ignored)
                  : NULL;
    const bool listed = store_model_list(r->store, 0, put_model, s, e);
    cJSON_Delete(s->told);
    if (!listed)
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

static bool read_lists(const cJSON *body, struct registry_lists *l, struct store_model_change *c,
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
        if (!cJSON_IsNumber(item) || item->valuedouble < 1 || c->n_users == REGISTRY_MAX_USERS)
            return err_field(e, ERR_INPUT, "users", "must be a list of at most %d ids",
                             REGISTRY_MAX_USERS);
        l->users[c->n_users++] = (int64_t)item->valuedouble;
    }
    c->aliases = aliases ? &l->aliases : NULL;
    c->users = users ? l->users : NULL;
    return true;
}

static bool read_local(struct request *r, const cJSON *body, struct store_model_change *c,
                       struct err *e)
{
    struct buf text = {0};
    const cJSON *defaults = NULL;
    if (!read_switch(body, "pinned", &c->pinned, e) ||
        !read_switch(body, "preload", &c->preload, e) ||
        !json_get_int(body, "idle_s", 0, STORE_LOCAL_IDLE_MAX_S, &c->idle_s, e) ||
        !json_get_object(body, "defaults", &defaults, e) ||
        !json_get_string(body, "device", &c->device, e) ||
        !local_defaults_check(defaults, r->arena, e))
        return false;
    if (!defaults)
        return true;
    c->defaults = !defaults->child              ? ""
                  : json_write(&text, defaults) ? arena_strdup(r->arena, text.data)
                                                : NULL;
    buf_fini(&text);
    return c->defaults || err_set(e, ERR_NOMEM, "no memory for the defaults");
}

static bool read_groups(struct request *r, const cJSON *body, struct store_model_change *c,
                        struct err *e)
{
    const struct store_ids *groups = NULL;
    if (!path_id_list(r, body, &(struct path_id_ask){"groups", STORE_GROUPS_MAX}, &groups, e))
        return false;
    c->groups = groups ? groups->at : NULL;
    c->n_groups = groups ? groups->n : 0;
    return true;
}

struct store_model_change *registry_read_change(struct request *r, const cJSON *body, struct err *e)
{
    struct registry_lists *l = arena_alloc(r->arena, sizeof *l);
    struct store_model_change *c = arena_alloc(r->arena, sizeof *c);
    if (!l || !c) {
        err_set(e, ERR_NOMEM, "no memory for the change");
        return NULL;
    }
    memset(l, 0, sizeof *l);
    *c = (struct store_model_change){STORE_MODEL_UNCHANGED};
    const bool ok = json_get_int(body, "context", 0, INT32_MAX, &c->context, e) &&
                    read_switch(body, "tools", &c->tools, e) &&
                    read_switch(body, "vision", &c->vision, e) &&
                    read_switch(body, "reasoning", &c->reasoning, e) &&
                    read_switch(body, "everyone", &c->everyone, e) && read_local(r, body, c, e) &&
                    read_lists(body, l, c, e) && read_groups(r, body, c, e);
    return ok ? c : NULL;
}

bool registry_reply(struct request *r, int status, int64_t id, struct err *e)
{
    struct showing s = {.only = id};
    bool ok = collect(r, &s, e);
    if (ok)
        reply_json(r, status, s.items->child);
    cJSON_Delete(s.items);
    return ok;
}

static const struct field_row change_fields[] = {
    {"context", FIELD_READ},  {"tools", FIELD_READ},
    {"vision", FIELD_READ},   {"reasoning", FIELD_READ},
    {"everyone", FIELD_READ}, {"aliases", FIELD_READ},
    {"users", FIELD_READ},    {"pinned", FIELD_READ},
    {"preload", FIELD_READ},  {"idle_s", FIELD_READ},
    {"defaults", FIELD_READ}, {"device", FIELD_READ},
    {"groups", FIELD_READ},   {0}};

static bool change(struct request *r, struct err *e)
{
    int64_t id;
    const cJSON *body = request_json(r, e);
    const struct store_model_change *c;
    if (!path_id_param(r, "id", &id, e) || !body || !fields_check(r, body, change_fields, e) ||
        !(c = registry_read_change(r, body, e)) || !store_model_change(r->store, id, c, e))
        return false;
    audit_record_id(r, "model.change", "model", id);
    return registry_reply(r, 200, id, e);
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
    {ROW(HTTP_GET, "/api/admin/registry", list), .polled = true,
     .doc = {.summary = "The models beside the first: of this machine and of other servers, and "
                        "who may use them",
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
