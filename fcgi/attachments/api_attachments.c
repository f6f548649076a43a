/* /api/attachments: files that go along with messages. docs/API-pages.md is the contract. */
#include <stdio.h>
#include <string.h>

#include "fcgi/attachments/attachment.h"
#include "fcgi/attachments/upload.h"
#include "fcgi/auth/limits.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/http/work.h"
#include "fcgi/process/worker.h"
#include "sql/files/store_attachments.h"
#include "sql/projects/store_project_shares.h"

/* One that the caller may read: their own, or a file of a project. */
static bool readable(struct request *r, int64_t id, struct store_ref *out, struct err *e)
{
    *out = (struct store_ref){.user_id = r->who.user_id, .id = id};
    return store_attachment_owner(r->store, out, &out->user_id, e);
}

static bool send_row(struct request *r, int status, int64_t id, struct err *e)
{
    struct store_attachment a;
    struct store_ref ref;
    struct buf out = {0};
    if (!readable(r, id, &ref, e) || !store_attachment_get(r->store, r->arena, &ref, &a, e))
        return false;
    buf_printf(&out, "{\"id\":\"%lld\"", (long long)a.id);
    buf_json_member(&out, "name", a.name);
    buf_json_member(&out, "type", a.type);
    buf_printf(&out, ",\"bytes\":%lld", (long long)a.bytes);
    buf_json_member(&out, "sha256", a.sha256);
    if (a.tokens >= 0)
        buf_printf(&out, ",\"tokens\":%lld", (long long)a.tokens);
    else
        buf_puts(&out, ",\"tokens\":null");
    buf_json_member(&out, "model", a.model);
    buf_json_member(&out, "note", a.note);
    buf_printf(&out, ",\"created_at\":%lld}", (long long)a.created_at);
    reply_json_buf(r, status, &out);
    buf_fini(&out);
    return true;
}

static bool add(struct request *r, struct err *e)
{
    struct store_upload u = {.fd = -1};
    char name[FILE_NAME_SIZE];
    int64_t id, limit = server_setting_int(r, SETTING_ATTACHMENT_BYTES);
    if (limit <= 0)
        return err_set(e, ERR_FORBIDDEN, "attachments are turned off on this server") ||
               err_reason(e, "attachments_off");
    const struct attachment_source from = {.store = r->store,
                                           .user_id = r->who.user_id,
                                           .name = name,
                                           .text = r->worker->text,
                                           .model_id = r->worker->model_id,
                                           .client = request_client_fd(r),
                                           .without_landlock = r->worker->without_landlock,
                                           .storage_bytes = r->who.limits.storage_bytes};
    bool ok = work_begin(r, WORK_FILE, e) && upload_take(r, (size_t)limit, &u, name, e) &&
              limits_storage(r, u.bytes, e) &&
              (attachment_take(r, &from, &u, &id, e) || limits_storage_refused(r, e)) &&
              send_row(r, 201, id, e);
    store_upload_drop(&u);
    return ok;
}

static bool describe(struct request *r, struct err *e)
{
    int64_t id;
    return path_id_param(r, "id", &id, e) && send_row(r, 200, id, e);
}

static bool send_content(struct request *r, struct err *e)
{
    int64_t id;
    struct store_attachment a;
    struct store_ref ref;
    return path_id_param(r, "id", &id, e) && readable(r, id, &ref, e) &&
           store_attachment_get(r->store, r->arena, &ref, &a, e) && attachment_send(r, &a, e);
}

static bool reply_text(void *context, const char *name, const char *text)
{
    struct request *r = context;
    char disposition[FILE_DISPOSITION_SIZE];
    if (!text)
        return false;
    file_name_disposition("inline", name, disposition);
    reply_header(r, "Content-Disposition", disposition);
    reply_header(r, "Content-Security-Policy",
                 "default-src 'none'; sandbox; frame-ancestors 'none'");
    reply_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    reply_header(r, "Cache-Control", "no-store");
    return reply_bytes(r, 200, "text/plain; charset=utf-8", text, strlen(text));
}

static bool send_text(struct request *r, struct err *e)
{
    int64_t id;
    struct store_ref ref;
    if (!path_id_param(r, "id", &id, e) || !readable(r, id, &ref, e) ||
        !store_attachment_text(r->store, &ref, reply_text, r, e))
        return false;
    return r->replied || err_set(e, ERR_NOTFOUND, "an image has no text");
}

static bool remove_one(struct request *r, struct err *e)
{
    int64_t id;
    return path_id_param(r, "id", &id, e) &&
           store_attachment_remove(r->store, r->who.user_id, id, e) && reply_empty(r, 204);
}

#define UPLOAD_BODY ((size_t)32 << 20) /* as nginx; the setting says less */

const struct route api_attachments_routes[] = {
    {.method = HTTP_POST,
     .path = "/api/attachments",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .body_limit = UPLOAD_BODY,
     .handler = add,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Upload a file to go along with a message",
             .upload = "application/octet-stream",
             .query = "AttachmentQuery",
             .reply = "Attachment",
             .statuses = "201 403 413 415"}},
    {.method = HTTP_GET,
     .path = "/api/attachments/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = describe,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "What an own attachment is", .reply = "Attachment", .statuses = "200"}},
    {.method = HTTP_DELETE,
     .path = "/api/attachments/{id}",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = remove_one,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Delete an attachment that is in no message", .statuses = "204 409"}},
    {.method = HTTP_GET,
     .path = "/api/attachments/{id}/content",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = send_content,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "The file as it was uploaded",
             .media = "application/octet-stream",
             .statuses = "200 304"}},
    {.method = HTTP_GET,
     .path = "/api/attachments/{id}/text",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = send_text,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "The text that the model reads of it",
             .media = "text/plain",
             .statuses = "200"}},
    {0},
};
