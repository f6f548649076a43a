/* /api/projects: folders of chats, with instructions and files. docs/API-pages.md is the contract.
 */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/auth/limits.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/worker.h"
#include "fcgi/projects/project.h"
#include "fcgi/projects/project_json.h"
#include "sql/projects/store_project_shares.h"
#include "sql/projects/store_vectors.h"
#include "sql/users/store_limits.h"

#define MAX_REPLY ((size_t)64 << 20)

static const struct field_row fields[] = {
    {"name", FIELD_READ}, {"colour", FIELD_READ}, {"instructions", FIELD_READ}, {0}};
static const struct field_row file_fields[] = {{"attachment_id", FIELD_READ}, {0}};

static bool ref(struct request *r, struct store_ref *out, struct err *e)
{
    out->user_id = r->who.user_id;
    return path_id_param(r, "id", &out->id, e);
}

static bool send_one(struct request *r, int status, int64_t id, struct err *e)
{
    const struct store_ref project = {.user_id = r->who.user_id, .id = id};
    struct store_project p;
    struct store_project_files files;
    struct buf out = {.limit = MAX_REPLY};
    const char *meaning = project_meaning(r);
    struct project_json_more more = {.files = &files, .by_meaning = meaning != NULL};
    if (!store_project_get(r->store, r->arena, &project, &p, e) ||
        !store_project_files(r->store, r->arena, &project, &files, e) ||
        (meaning && !store_vectors_waiting(r->store, &project, meaning, &more.waiting, e)))
        return false;
    project_json(&out, &p, &more);
    reply_json_buf(r, status, &out);
    buf_fini(&out);
    return true;
}

struct rows {
    struct buf *out;
    struct project_json_more more;
};

static bool put_row(void *context, const struct store_project *p)
{
    struct rows *rows = context;
    if (!buf_ends_with(rows->out, '['))
        buf_putc(rows->out, ',');
    project_json(rows->out, p, &rows->more);
    return !rows->out->failed;
}

static bool list(struct request *r, struct err *e)
{
    struct buf out = {.limit = MAX_REPLY};
    buf_puts(&out, "{\"items\":[");
    struct rows rows = {.out = &out, .more = {.by_meaning = project_meaning(r) != NULL}};
    bool ok = store_project_list(r->store, r->who.user_id, put_row, &rows, e);
    buf_puts(&out, "]}");
    if (ok)
        reply_json_buf(r, 200, &out);
    buf_fini(&out);
    return ok;
}

static bool read_change(struct request *r, struct store_project_change *c, struct err *e)
{
    int64_t colour = -1;
    const cJSON *body = request_json(r, e);
    if (!body || !fields_check(r, body, fields, e) || !json_get_string(body, "name", &c->name, e) ||
        !json_get_string(body, "instructions", &c->instructions, e) ||
        !json_get_int(body, "colour", 0, STORE_PROJECT_COLOURS - 1, &colour, e))
        return false;
    c->colour = (int)colour;
    c->storage_bytes = r->who.limits.storage_bytes;
    return true;
}

static bool add(struct request *r, struct err *e)
{
    int64_t id;
    struct store_project_change c = {0};
    if (!read_change(r, &c, e))
        return false;
    if (!c.name)
        return err_field(e, ERR_INPUT, "name", "is needed");
    return (store_project_add(r->store, r->who.user_id, &c, &id, e) ||
            limits_storage_refused(r, e)) &&
           send_one(r, 201, id, e);
}

static bool read_one(struct request *r, struct err *e)
{
    struct store_ref project;
    return ref(r, &project, e) && send_one(r, 200, project.id, e);
}

/* A project that the caller may read, of which they need this access. */
static bool allowed(struct request *r, const struct store_ref *project, int access,
                    struct store_project *p, struct err *e)
{
    if (!store_project_get(r->store, r->arena, project, p, e))
        return false;
    if (p->access < access && access == STORE_PROJECT_OWNER)
        return err_set(e, ERR_FORBIDDEN, "only the project's owner may delete it") ||
               err_reason(e, "project_not_yours");
    return p->access >= access ||
           err_set(e, ERR_FORBIDDEN, "you may use this project, but not change it") ||
           err_reason(e, "project_read_only");
}

/* What stands in a project counts as its owner's. */
static bool owners_quota(struct request *r, const struct store_project *p, int64_t *bytes,
                         struct err *e)
{
    struct store_user_limits l;
    bool own;
    if (!limits_of_user(r, p->owner_id, &l, &own, e))
        return false;
    *bytes = l.storage_bytes;
    return true;
}

/* Always false. How much an owner keeps is not for others to know. */
static bool over_quota(struct request *r, const struct store_project *p, struct err *e)
{
    if (p->owner_id == r->who.user_id)
        return limits_storage_refused(r, e);
    if (e->code == ERR_LIMIT && !strcmp(e->field, STORE_QUOTA_FIELD)) {
        r->error_override.status = 413;
        err_set(e, ERR_LIMIT, "the project's owner has no room left for it");
        err_reason(e, "project_owner_full");
    }
    return false;
}

static bool change(struct request *r, struct err *e)
{
    struct store_ref project;
    struct store_project p;
    struct store_project_change c = {0};
    if (!ref(r, &project, e) || !read_change(r, &c, e) ||
        !allowed(r, &project, STORE_PROJECT_EDITOR, &p, e) ||
        !owners_quota(r, &p, &c.storage_bytes, e))
        return false;
    return (store_project_update(r->store, &project, &c, e) || over_quota(r, &p, e)) &&
           send_one(r, 200, project.id, e);
}

static bool remove_one(struct request *r, struct err *e)
{
    struct store_ref project;
    struct store_project p;
    const char *chats = request_query(r, "chats");
    if (!ref(r, &project, e) || !allowed(r, &project, STORE_PROJECT_OWNER, &p, e))
        return false;
    if (!chats || (strcmp(chats, "keep") != 0 && strcmp(chats, "trash") != 0))
        return err_field(e, ERR_INPUT, "chats", "must be keep or trash");
    if (!store_project_remove(r->store, &project, !strcmp(chats, "trash"), e))
        return false;
    audit_record_id(r, "project.delete", "project", project.id);
    return reply_empty(r, 204);
}

static bool add_file(struct request *r, struct err *e)
{
    struct store_ref project;
    const char *id = NULL;
    struct store_project_file_ref f = {.user_id = r->who.user_id};
    const cJSON *body = request_json(r, e);
    if (!body || !ref(r, &project, e) || !fields_check(r, body, file_fields, e) ||
        !json_get_string(body, "attachment_id", &id, e))
        return false;
    if (!id || !path_id_parse(id, &f.attachment_id))
        return err_field(e, ERR_INPUT, "attachment_id", "must be the id of an own attachment");
    f.project_id = project.id;
    struct store_project p; /* whose it is comes first: another user's is not there at all */
    return allowed(r, &project, STORE_PROJECT_EDITOR, &p, e) &&
           owners_quota(r, &p, &f.storage_bytes, e) &&
           (store_project_file_add(r->store, &f, e) || over_quota(r, &p, e)) &&
           send_one(r, 201, project.id, e);
}

static bool remove_file(struct request *r, struct err *e)
{
    struct store_ref project;
    struct store_project_file_ref f = {.user_id = r->who.user_id};
    struct store_project p;
    if (!ref(r, &project, e) || !path_id_param(r, "file", &f.attachment_id, e) ||
        !allowed(r, &project, STORE_PROJECT_EDITOR, &p, e))
        return false;
    f.project_id = project.id;
    return store_project_file_remove(r->store, &f, e) && reply_empty(r, 204);
}

const struct route api_projects_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/projects",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = list,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "List by name the own projects and those that are shared with the caller",
             .reply = "ProjectList",
             .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/projects",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = add,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Make a project",
             .body = "ProjectRequest",
             .reply = "Project",
             .statuses = "201 413"}},
    {.method = HTTP_GET,
     .path = "/api/projects/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = read_one,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "A project with its files", .reply = "Project", .statuses = "200"}},
    {.method = HTTP_PATCH,
     .path = "/api/projects/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = change,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Change name, colour or instructions",
             .body = "ProjectRequest",
             .reply = "Project",
             .statuses = "200 403 413"}},
    {.method = HTTP_DELETE,
     .path = "/api/projects/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = remove_one,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Delete a project with its files; its chats are kept or go to the trash",
             .query = "ProjectDeletion",
             .statuses = "204 403"}},
    {.method = HTTP_POST,
     .path = "/api/projects/{id}/files",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = ROUTE_JSON_BODY,
     .handler = add_file,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Make an uploaded attachment a file of the project",
             .body = "ProjectFileRequest",
             .reply = "Project",
             .statuses = "201 403 413"}},
    {.method = HTTP_DELETE,
     .path = "/api/projects/{id}/files/{file}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = remove_file,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Take a file out of the project", .statuses = "204 403"}},
    {0},
};
