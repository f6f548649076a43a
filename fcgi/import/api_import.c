/* /api/import: conversations from a file into the caller's history. One import of a user runs at a
 * time, which a lock on a file named by the user's id sees to. The upload is read as import.h says,
 * and a client that asks for events is told how far it is. */
#define LOG_MODULE "import"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "fcgi/attachments/attachment.h"
#include "fcgi/attachments/upload.h"
#include "fcgi/auth/limits.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/conversations/conversation.h"
#include "fcgi/http/audit.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/http/sse.h"
#include "fcgi/import/import.h"
#include "fcgi/process/state.h"
#include "fcgi/process/worker.h"
#include "sql/chats/store_import.h"
#include "sql/files/store_attachments.h"

#define EVENT_NS ((uint64_t)100000000)
#define PATH_BYTES 4096

struct upload {
    int lock;
    struct store_upload file;
};

static bool lock_user(struct request *r, struct upload *u, struct err *e)
{
    char folder[PATH_BYTES], path[PATH_BYTES], name[32];
    snprintf(name, sizeof name, "%lld.lock", (long long)r->who.user_id);
    if (!file_join(folder, sizeof folder, r->worker->state_dir, STATE_IMPORTS, e) ||
        !file_mkdirs(folder, 0700, e) || !file_join(path, sizeof path, folder, name, e))
        return false;
    u->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (u->lock < 0)
        return err_errno(e, "the lock of imports");
    return flock(u->lock, LOCK_EX | LOCK_NB) == 0 ||
           err_set(e, ERR_CONFLICT, "another import of yours is still running") ||
           err_reason(e, "import_running");
}

static void unlock(struct upload *u)
{
    if (u->lock >= 0)
        close(u->lock);
    u->lock = -1;
}

/* The upload loses its name at once: whatever happens to this process, nothing of it stays. */
static bool take_upload(struct request *r, struct upload *u, struct err *e)
{
    char name[FILE_NAME_SIZE];
    const int64_t limit = server_setting_int(r, SETTING_IMPORT_BYTES);
    if (limit <= 0)
        return err_set(e, ERR_FORBIDDEN, "imports are turned off on this server") ||
               err_reason(e, "imports_off");
    if (!lock_user(r, u, e) || !upload_take(r, (size_t)limit, &u->file, name, e))
        return false;
    unlink(u->file.path);
    u->file.path[0] = '\0';
    return true;
}

struct progress {
    struct sse sse;
    struct request *r;
    struct buf text;
    uint64_t told_ns;
    bool events, dry_run;
};

/* A file out of an own archive, before the conversation that names it. */
static bool take_file(void *context, struct store_upload *file, struct err *e)
{
    const struct progress *g = context;
    int64_t id;
    const struct attachment_source from = {.store = g->r->store,
                                           .user_id = g->r->who.user_id,
                                           .name = STORE_IMPORTED_FILE,
                                           .text = g->r->worker->text,
                                           .model_id = g->r->worker->model_id,
                                           .client = -1,
                                           .without_landlock = g->r->worker->without_landlock,
                                           .storage_bytes = g->r->who.limits.storage_bytes};
    return limits_storage(g->r, file->bytes, e) && attachment_take(NULL, &from, file, &id, e);
}

static bool check_settings(void *context, const cJSON *settings, struct arena *a, struct err *e)
{
    struct progress *g = context;
    return conversation_settings_check(g->r, settings, a, e);
}

static bool on_progress(void *context, const struct import_progress *p)
{
    struct progress *g = context;
    const uint64_t now = clock_ns();
    if (now - g->told_ns < EVENT_NS)
        return true;
    g->told_ns = now;
    if (!g->events)
        return !request_client_gone(g->r);
    buf_clear(&g->text);
    buf_printf(&g->text,
               "{\"bytes\":%lld,\"total_bytes\":%lld,\"conversations\":%lld,\"imported\":%lld,"
               "\"duplicates\":%lld,\"failed\":%lld}",
               (long long)p->bytes, (long long)p->total_bytes, (long long)p->report->conversations,
               (long long)p->report->imported, (long long)p->report->duplicates,
               (long long)p->report->failed);
    sse_event(&g->sse, "progress", g->text.data, g->text.len);
    return sse_flush(&g->sse);
}

/* The end of a stream is a report, or an error where nothing could be read at all. */
static void end_events(struct progress *g, const struct import_report *report, bool dry_run,
                       const struct err *why)
{
    const bool refused = why && !report->conversations;
    buf_clear(&g->text);
    if (refused)
        reply_error_object(&g->text, g->r, why);
    else
        import_report_json(&g->text, report, dry_run, why);
    sse_event(&g->sse, refused ? "error" : "done", g->text.data, g->text.len);
    sse_end(&g->sse);
}

static bool query_flag(struct request *r, const char *name, bool *out, struct err *e)
{
    int64_t v = 0;
    if (!request_query_int(r, name, 0, 1, &v, e))
        return false;
    *out = v != 0;
    return true;
}

static bool run_import(struct request *r, struct upload *u, struct progress *g,
                       struct import_report *report, struct err *e)
{
    struct err why = {0};
    if (!g->dry_run && !limits_storage(r, 1, e))
        return false;
    if (g->events && !sse_start(&g->sse, r))
        return true;
    const uint64_t began = clock_ns();
    bool ok = import_run(
        &(struct import_params){.store = r->store,
                                .user_id = r->who.user_id,
                                .fd = u->file.fd,
                                .dry_run = g->dry_run,
                                .take_file = take_file,
                                .check_settings = check_settings,
                                .max_file_bytes = server_setting_int(r, SETTING_ATTACHMENT_BYTES),
                                .storage_bytes = r->who.limits.storage_bytes,
                                .progress = on_progress,
                                .context = g},
        report, &why);
    if (!ok)
        limits_storage_refused(r, &why);
    unlock(u); /* before the reply: who has it may send the next one */
    log_info("user=%lld dry_run=%d format=%s conversations=%lld imported=%lld duplicates=%lld "
             "failed=%lld ms=%.0f%s%s",
             (long long)r->who.user_id, g->dry_run, report->format ? report->format : "-",
             (long long)report->conversations, (long long)report->imported,
             (long long)report->duplicates, (long long)report->failed,
             (double)(clock_ns() - began) / 1e6,
             ok ? "" : " ended=", ok ? "" : err_code_name(why.code));
    if (!g->dry_run && report->imported) {
        char target[64];
        snprintf(target, sizeof target, "conversations:%lld", (long long)report->imported);
        audit_record(r, r->who.user_id, r->who.name, "history.import", target);
    }
    if (g->events) {
        end_events(g, report, g->dry_run, ok ? NULL : &why);
        return true;
    }
    if (!ok && !report->conversations) { /* refused as a whole */
        *e = why;
        return false;
    }
    import_report_json(&g->text, report, g->dry_run, ok ? NULL : &why);
    return reply_json_buf(r, 200, &g->text);
}

static bool import(struct request *r, struct err *e)
{
    struct upload u = {.lock = -1, .file.fd = -1};
    struct progress g = {.r = r, .told_ns = clock_ns()};
    struct import_report *report = calloc(1, sizeof *report);
    bool ok = report || err_set(e, ERR_NOMEM, "memory ran out");
    ok = ok && query_flag(r, "dry_run", &g.dry_run, e) && query_flag(r, "events", &g.events, e) &&
         take_upload(r, &u, e) && run_import(r, &u, &g, report, e);
    store_upload_drop(&u.file);
    unlock(&u);
    buf_fini(&g.text);
    free(report);
    return ok;
}

/* nginx asks this before it takes a body that may be a gigabyte; clients may ask it as well. */
static bool may_import(struct request *r, struct err *e)
{
    struct buf out = {0};
    const int64_t limit = server_setting_int(r, SETTING_IMPORT_BYTES);
    if (limit <= 0)
        return err_set(e, ERR_FORBIDDEN, "imports are turned off on this server") ||
               err_reason(e, "imports_off");
    buf_printf(&out, "{\"object\":\"import.limits\",\"max_bytes\":%lld}", (long long)limit);
    reply_json_buf(r, 200, &out);
    buf_fini(&out);
    return true;
}

const struct route api_import_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/import",
     .auth = ROUTE_USER,
     .pool = POOL_SHORT,
     .handler = may_import,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "How large a file may be that is imported",
             .reply = "ImportLimits",
             .statuses = "200"}},
    {.method = HTTP_POST,
     .path = "/api/import",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .body_limit = (size_t)SETTING_IMPORT_MAX,
     .handler = import,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "Read conversations from a file of this or another program",
             .upload = "application/octet-stream",
             .query = "ImportQuery",
             .reply = "ImportReport",
             .statuses = "200 409",
             .streams = true}},
    {0},
};
