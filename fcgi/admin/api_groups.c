/* Groups of users, for admins: what they carry, and who is in them. */
#include <stdio.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/json_put.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_request.h"
#include "sql/models/store_models.h"
#include "sql/tools/store_tool_servers.h"
#include "sql/users/store_groups.h"
#include "sql/users/store_users.h"

#define MOVES_MAX 1000 /* users in one request */
#define PAGE_MAX 500

static const struct field_row fields[] = {{"name", FIELD_READ},
                                          {"description", FIELD_READ},
                                          {"claim", FIELD_READ},
                                          {"limits", FIELD_READ},
                                          {"models", FIELD_READ},
                                          {"tool_servers", FIELD_READ},
                                          {0}};
static const struct field_row move_fields[] = {{"add", FIELD_READ}, {"remove", FIELD_READ}, {0}};

static void put_ids(cJSON *o, const char *name, const char *json)
{
    cJSON *list = cJSON_Parse(json);
    cJSON_AddItemToObject(o, name, list ? list : cJSON_CreateArray());
}

static cJSON *group_json(const struct store_group *g)
{
    struct store_user_limits said = g->limits;
    cJSON *o = cJSON_CreateObject(), *limits;
    json_put_id(o, "id", g->id);
    cJSON_AddStringToObject(o, "name", g->name);
    cJSON_AddStringToObject(o, "description", g->description);
    cJSON_AddStringToObject(o, "claim", g->claim);
    cJSON_AddNumberToObject(o, "members", (double)g->n_members);
    put_ids(o, "models", g->models);
    put_ids(o, "tool_servers", g->tool_servers);
    limits = cJSON_AddObjectToObject(o, "limits");
    for (int i = 0; i < STORE_LIMITS; i++) {
        const int64_t n = *store_limit_at(&said, i);
        cJSON_AddItemToObject(limits, store_limit_names[i],
                              n == STORE_LIMIT_UNSAID ? cJSON_CreateNull()
                                                      : cJSON_CreateNumber((double)n));
    }
    json_put_time(o, "created_at", g->created_at);
    return o;
}

static bool put_group(void *context, const struct store_group *g)
{
    return cJSON_AddItemToArray(context, group_json(g));
}

static bool list(struct request *r, struct err *e)
{
    cJSON *o = cJSON_CreateObject();
    const bool ok = store_group_list(r->store, put_group, cJSON_AddArrayToObject(o, "items"), e);
    if (ok)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return ok;
}

static bool reply_group(struct request *r, int status, int64_t id, struct err *e)
{
    struct store_group g;
    if (!store_group_get(r->store, r->arena, id, &g, e))
        return false;
    cJSON *o = group_json(&g);
    reply_json(r, status, o);
    cJSON_Delete(o);
    return true;
}

static bool read_one(struct request *r, struct err *e)
{
    int64_t id;
    return path_id_param(r, "id", &id, e) && reply_group(r, 200, id, e);
}

/* Those that are not said stay as they are; null: the group says nothing of it. */
static bool read_limits(const cJSON *body, struct store_user_limits *l, bool *given, struct err *e)
{
    const cJSON *o = NULL, *one;
    *given = cJSON_GetObjectItemCaseSensitive(body, "limits") != NULL;
    if (!json_get_object(body, "limits", &o, e))
        return false;
    cJSON_ArrayForEach (one, o) {
        int i = 0;
        while (i < STORE_LIMITS && strcmp(one->string, store_limit_names[i]) != 0)
            i++;
        if (i == STORE_LIMITS)
            return err_field(e, ERR_INPUT, "limits", "there is no limit '%.40s'", one->string);
        const int64_t most = i < 3 ? STORE_LIMIT_MAX : STORE_USER_LIMIT_MAX;
        if (cJSON_IsNull(one))
            *store_limit_at(l, i) = STORE_LIMIT_UNSAID;
        else if (!json_get_int(o, one->string, 0, most, store_limit_at(l, i), e))
            return false;
    }
    for (int i = 0; *given && !o && i < STORE_LIMITS; i++)
        *store_limit_at(l, i) = STORE_LIMIT_UNSAID;
    return true;
}

/* *l holds what is there, and what will be afterwards. */
static bool read_change(struct request *r, struct store_group_change *c,
                        struct store_user_limits *l, struct err *e)
{
    bool limits = false;
    const cJSON *body = request_json(r, e);
    if (!body || !fields_check(r, body, fields, e) || !json_get_string(body, "name", &c->name, e) ||
        !json_get_string(body, "description", &c->description, e) ||
        !json_get_string(body, "claim", &c->claim, e) || !read_limits(body, l, &limits, e) ||
        !path_id_list(r, body, &(struct path_id_ask){"models", STORE_MODELS_MAX}, &c->models, e) ||
        !path_id_list(r, body, &(struct path_id_ask){"tool_servers", STORE_TOOL_SERVERS_MAX},
                      &c->tool_servers, e))
        return false;
    c->limits = limits ? l : NULL;
    return true;
}

static bool add(struct request *r, struct err *e)
{
    int64_t id;
    struct store_group_change c = {0};
    struct store_user_limits l;
    for (int i = 0; i < STORE_LIMITS; i++)
        *store_limit_at(&l, i) = STORE_LIMIT_UNSAID;
    if (!read_change(r, &c, &l, e) || !store_group_add(r->store, &c, &id, e))
        return false;
    audit_record_id(r, "group.add", "group", id);
    return reply_group(r, 201, id, e);
}

static bool change(struct request *r, struct err *e)
{
    int64_t id;
    struct store_group g;
    struct store_group_change c = {0};
    if (!request_json(r, e) || !path_id_param(r, "id", &id, e) ||
        !store_group_get(r->store, r->arena, id, &g, e) || !read_change(r, &c, &g.limits, e) ||
        !store_group_change(r->store, id, &c, e))
        return false;
    const struct {
        bool done;
        const char *action;
    } rows[] = {{c.name || c.description || c.claim, "group.change"},
                {c.limits != NULL, "group.limits"},
                {c.models != NULL, "group.models"},
                {c.tool_servers != NULL, "group.tools"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].done)
            audit_record_id(r, rows[i].action, "group", id);
    return reply_group(r, 200, id, e);
}

static bool remove_one(struct request *r, struct err *e)
{
    int64_t id;
    if (!path_id_param(r, "id", &id, e) || !store_group_remove(r->store, id, e))
        return false;
    audit_record_id(r, "group.remove", "group", id);
    return reply_empty(r, 204);
}

static bool put_member(void *context, const struct store_group_member *m)
{
    cJSON *o = cJSON_CreateObject();
    json_put_id(o, "id", m->user_id);
    cJSON_AddStringToObject(o, "name", m->name);
    cJSON_AddBoolToObject(o, "by_provider", m->provider);
    return cJSON_AddItemToArray(context, o);
}

static bool members(struct request *r, struct err *e)
{
    struct store_group g;
    struct store_group_page page = {0};
    int64_t limit = PAGE_MAX;
    if (!path_id_param(r, "id", &page.group_id, e) ||
        !store_group_get(r->store, r->arena, page.group_id, &g, e) ||
        !request_query_int(r, "after", 0, INT64_C(1) << 52, &page.after, e) ||
        !request_query_int(r, "limit", 1, PAGE_MAX, &limit, e))
        return false;
    page.limit = (int)limit;
    cJSON *o = cJSON_CreateObject();
    const bool ok =
        store_group_members(r->store, &page, put_member, cJSON_AddArrayToObject(o, "items"), e);
    if (ok)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return ok;
}

struct told {
    struct request *r;
    int64_t group_id;
};

static void tell(void *context, int64_t user_id, bool added)
{
    const struct told *t = context;
    char target[64];
    snprintf(target, sizeof target, "group:%lld user:%lld", (long long)t->group_id,
             (long long)user_id);
    audit_record(t->r, t->r->who.user_id, t->r->who.name,
                 added ? "group.member.add" : "group.member.remove", target);
}

static bool move(struct request *r, struct err *e)
{
    struct told told = {.r = r};
    struct store_group_moves m = {.moved = tell, .context = &told};
    const struct store_ids *add_ids = NULL, *remove_ids = NULL;
    const cJSON *body = request_json(r, e);
    if (!body || !path_id_param(r, "id", &m.group_id, e) ||
        !fields_check(r, body, move_fields, e) ||
        !path_id_list(r, body, &(struct path_id_ask){"add", MOVES_MAX}, &add_ids, e) ||
        !path_id_list(r, body, &(struct path_id_ask){"remove", MOVES_MAX}, &remove_ids, e))
        return false;
    if (!add_ids && !remove_ids)
        return err_field(e, ERR_INPUT, "add", "or remove is needed");
    told.group_id = m.group_id;
    m.add = add_ids ? *add_ids : m.add;
    m.remove = remove_ids ? *remove_ids : m.remove;
    return store_group_move(r->store, &m, e) && reply_group(r, 200, m.group_id, e);
}

#define ROW(m, p, h)                                                                               \
    .method = (m), .path = (p), .auth = ROUTE_ADMIN, .pool = POOL_SHORT, .handler = (h),           \
    .scope = SCOPE_ADMIN

const struct route api_groups_routes[] = {
    {ROW(HTTP_GET, "/api/groups", list),
     .doc = {.summary = "List the groups of users", .reply = "GroupList", .statuses = "200"}},
    {ROW(HTTP_POST, "/api/groups", add), .body_limit = ROUTE_JSON_BODY, .confirmed = true,
     .doc = {.summary = "Make a group of users",
             .body = "GroupRequest",
             .reply = "Group",
             .statuses = "201 409 413"}},
    {ROW(HTTP_GET, "/api/groups/{id}", read_one),
     .doc = {.summary = "A group", .reply = "Group", .statuses = "200"}},
    {ROW(HTTP_PATCH, "/api/groups/{id}", change), .body_limit = ROUTE_JSON_BODY, .confirmed = true,
     .doc = {.summary = "Change a group's name, limits, models or tool servers",
             .body = "GroupRequest",
             .reply = "Group",
             .statuses = "200 409"}},
    {ROW(HTTP_DELETE, "/api/groups/{id}", remove_one), .confirmed = true,
     .doc = {.summary = "Remove a group; its members lose what it carried", .statuses = "204"}},
    {ROW(HTTP_GET, "/api/groups/{id}/members", members), .doc = {.summary = "Who is in a group",
                                                                 .query = "UserQuery",
                                                                 .reply = "GroupMembers",
                                                                 .statuses = "200"}},
    {ROW(HTTP_POST, "/api/groups/{id}/members", move), .body_limit = ROUTE_JSON_BODY,
     .confirmed = true,
     .doc = {.summary = "Put users into a group, take users out",
             .body = "GroupMoves",
             .reply = "Group",
             .statuses = "200"}},
    {0},
};
