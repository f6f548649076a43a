/* /api/projects: folders of chats, with instructions and files. docs/API-pages.md is the contract.
 */
#include <string.h>

#include "engine/base/json/json.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/openai/chat_request.h"
#include "fcgi/process/worker.h"
#include "fcgi/projects/project.h"
#include "fcgi/projects/project_json.h"

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
    if (!store_project_get(r->store, r->arena, &project, &p, e) ||
        !store_project_files(r->store, r->arena, &project, &files, e))
        return false;
    project_json(&out, &p, &files);
    reply_json_buf(r, status, &out);
    buf_fini(&out);
    return true;
}

static bool put_row(void *context, const struct store_project *p)
{
    struct buf *out = context;
    if (!buf_ends_with(out, '['))
        buf_putc(out, ',');
    project_json(out, p, NULL);
    return !out->failed;
}

static bool list(struct request *r, struct err *e)
{
    struct buf out = {.limit = MAX_REPLY};
    buf_puts(&out, "{\"items\":[");
    bool ok = store_project_list(r->store, r->who.user_id, put_row, &out, e);
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
    return store_project_add(r->store, r->who.user_id, &c, &id, e) && send_one(r, 201, id, e);
}

static bool read_one(struct request *r, struct err *e)
{
    struct store_ref project;
    return ref(r, &project, e) && send_one(r, 200, project.id, e);
}

static bool change(struct request *r, struct err *e)
{
    struct store_ref project;
    struct store_project_change c = {0};
    return ref(r, &project, e) && read_change(r, &c, e) &&
           store_project_update(r->store, &project, &c, e) && send_one(r, 200, project.id, e);
}

static bool remove_one(struct request *r, struct err *e)
{
    struct store_ref project;
    struct store_project p;
    const char *chats = request_query(r, "chats");
    if (!ref(r, &project, e) || !store_project_get(r->store, r->arena, &project, &p, e))
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
    return store_project_get(r->store, r->arena, &project, &p, e) &&
           store_project_file_add(r->store, &f, e) && send_one(r, 201, project.id, e);
}

static bool remove_file(struct request *r, struct err *e)
{
    struct store_ref project;
    struct store_project_file_ref f = {.user_id = r->who.user_id};
    if (!ref(r, &project, e) || !path_id_param(r, "file", &f.attachment_id, e))
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
     .doc = {.summary = "List the own projects by name",
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
             .statuses = "200 413"}},
    {.method = HTTP_DELETE,
     .path = "/api/projects/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = remove_one,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Delete a project with its files; its chats are kept or go to the trash",
             .query = "ProjectDeletion",
             .statuses = "204"}},
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
             .statuses = "201 413"}},
    {.method = HTTP_DELETE,
     .path = "/api/projects/{id}/files/{file}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = remove_file,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Take a file out of the project", .statuses = "204"}},
    {0},
};
