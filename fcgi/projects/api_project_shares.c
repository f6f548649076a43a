/* /api/projects/{id}/shares: whom an owner shares a project with, and leaving what others share.
 * docs/API-pages.md is the contract. */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/json_put.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_request.h"
#include "sql/projects/store_project_shares.h"
#include "sql/projects/store_projects.h"
#include "sql/users/store_users.h"

static const struct field_row fields[] = {
    {"user", FIELD_READ}, {"group_id", FIELD_READ}, {"access", FIELD_READ}, {0}};

/* A project that the caller may read: others are not there. */
static bool ref(struct request *r, struct store_ref *out, struct err *e)
{
    struct store_project p;
    out->user_id = r->who.user_id;
    return path_id_param(r, "id", &out->id, e) && store_project_get(r->store, r->arena, out, &p, e);
}

static bool put_share(void *context, const struct store_project_share *x)
{
    cJSON *o = cJSON_CreateObject();
    json_put_id(o, "id", x->id);
    cJSON_AddStringToObject(o, "kind", x->user_id ? "user" : "group");
    cJSON_AddStringToObject(o, "name", x->name);
    cJSON_AddStringToObject(o, "access", x->editor ? "editor" : "reader");
    if (!x->user_id)
        cJSON_AddNumberToObject(o, "members", (double)x->n_members);
    json_put_time(o, "created_at", x->created_at);
    return cJSON_AddItemToArray(context, o);
}

static bool reply_list(struct request *r, int status, const struct store_ref *project,
                       struct err *e)
{
    cJSON *o = cJSON_CreateObject();
    const bool ok = store_project_share_list(r->store, project, put_share,
                                             cJSON_AddArrayToObject(o, "items"), e);
    if (ok)
        reply_json(r, status, o);
    cJSON_Delete(o);
    return ok;
}

static bool list(struct request *r, struct err *e)
{
    struct store_ref project;
    return ref(r, &project, e) && reply_list(r, 200, &project, e);
}

/* A user by their whole name: nobody can list the names. */
static bool read_share(struct request *r, struct store_project_share *x, struct err *e)
{
    const char *user = NULL, *group = NULL, *access = "reader";
    struct store_user found;
    struct err why = {0};
    const cJSON *body = request_json(r, e);
    if (!body || !fields_check(r, body, fields, e) || !json_get_string(body, "user", &user, e) ||
        !json_get_string(body, "group_id", &group, e) ||
        !json_get_string(body, "access", &access, e))
        return false;
    if (!user == !group)
        return err_field(e, ERR_INPUT, "user", "or group_id is needed, not both");
    if (strcmp(access, "reader") != 0 && strcmp(access, "editor") != 0)
        return err_field(e, ERR_INPUT, "access", "must be reader or editor");
    x->editor = !strcmp(access, "editor");
    if (group)
        return path_id_parse(group, &x->group_id) ||
               err_field(e, ERR_INPUT, "group_id", "must be the id of a group");
    if (!store_user_by_name(r->store, r->arena, user, &found, &why))
        return why.code == ERR_NOTFOUND
                   ? err_field(e, ERR_INPUT, "user", "there is no user of this name") ||
                         err_reason(e, "share_nobody")
                   : err_set(e, why.code, "%s", why.text);
    x->user_id = found.id;
    return true;
}

static bool add(struct request *r, struct err *e)
{
    struct store_ref project;
    struct store_project_share x = {0};
    if (!request_json(r, e) || !ref(r, &project, e) || !read_share(r, &x, e) ||
        !store_project_share_add(r->store, &project, &x, e))
        return false;
    audit_record_id(r, "project.share", "project", project.id);
    return reply_list(r, 201, &project, e);
}

static bool remove_one(struct request *r, struct err *e)
{
    int64_t share;
    struct store_ref project;
    if (!ref(r, &project, e) || !path_id_param(r, "share", &share, e) ||
        !store_project_share_remove(r->store, &project, share, e))
        return false;
    audit_record_id(r, "project.unshare", "project", project.id);
    return reply_empty(r, 204);
}

static bool leave(struct request *r, struct err *e)
{
    struct store_ref project;
    if (!ref(r, &project, e) || !store_project_leave(r->store, &project, e))
        return false;
    audit_record_id(r, "project.leave", "project", project.id);
    return reply_empty(r, 204);
}

#define ROW(m, p, h)                                                                               \
    .method = (m), .path = (p), .auth = ROUTE_USER, .pool = POOL_SHORT, .handler = (h),            \
    .scope = SCOPE_HISTORY

const struct route api_project_shares_routes[] = {
    {ROW(HTTP_GET, "/api/projects/{id}/shares", list),
     .doc = {.summary = "Whom the own project is shared with",
             .reply = "ProjectShareList",
             .statuses = "200"}},
    {ROW(HTTP_POST, "/api/projects/{id}/shares", add), .body_limit = ROUTE_JSON_BODY,
     .doc = {.summary = "Share the own project with a user or a group, or change how",
             .body = "ProjectShareRequest",
             .reply = "ProjectShareList",
             .statuses = "201 403 413"}},
    {ROW(HTTP_DELETE, "/api/projects/{id}/shares/{share}", remove_one),
     .doc = {.summary = "Share the own project with somebody no more; their chats stay",
             .statuses = "204 403"}},
    {ROW(HTTP_POST, "/api/projects/{id}/leave", leave),
     .doc = {.summary = "Leave a project that another shares; the own chats stay",
             .statuses = "204 409"}},
    {0},
};
