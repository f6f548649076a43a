/* GET /api/export: the caller's conversations as one file; GET /api/account/export: all that is
 * theirs. It is written as it is read, within one snapshot; nginx takes it off our hands at the
 * disk's speed (its buffering is on for this path), so that a slow client holds no snapshot. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "fcgi/auth/usage_ledger.h"
#include "fcgi/conversations/conversation.h"
#include "fcgi/export/account.h"
#include "fcgi/export/export.h"
#include "fcgi/http/file_name.h"
#include "fcgi/http/path_id.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/reply_stream.h"
#include "fcgi/http/request.h"
#include "fcgi/process/state.h"
#include "fcgi/process/worker.h"
#include "sql/chats/store_conversations.h"
#include "sql/chats/store_export.h"

#define LOG_MODULE "export"
#define MAX_IDS 2000
#define RETRY_S 5

/* One export at a time for each user: a lock on the byte that has the user's number, gone with the
 * process. */
static int lock_user(struct request *r, struct err *e)
{
    char path[PATH_MAX];
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = r->who.user_id, .l_len = 1};
    if (!file_join(path, sizeof path, r->worker->run_dir, STATE_EXPORT_LOCK, e))
        return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        err_errno(e, "the lock of exports");
        return -1;
    }
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return fd;
    close(fd);
    r->error_override.status = 429;
    r->error_override.code = "export_running";
    r->error_override.retry_after_s = RETRY_S;
    err_set(e, ERR_BUSY, "another export of yours is being made");
    return -1;
}

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static bool bad_ids(struct err *e)
{
    return err_field(e, ERR_INPUT, "conversation",
                     "must be \"all\" or at most %d ids with commas between them", MAX_IDS);
}

/* "12,7,12" -> "[7,12]" in the arena, *n 2. */
static bool read_ids(struct request *r, const char *text, const char **json, int *n, struct err *e)
{
    int64_t *ids = arena_alloc(r->arena, MAX_IDS * sizeof *ids);
    struct buf out = {0};
    int count = 0;
    char *copy = arena_strdup(r->arena, text), *save = NULL;
    if (!ids || !copy)
        return err_set(e, ERR_NOMEM, "no memory for the ids");
    if (!*text || *text == ',' || text[strlen(text) - 1] == ',' || strstr(text, ",,"))
        return bad_ids(e);
    for (char *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save))
        if (count == MAX_IDS || !path_id_parse(p, &ids[count++]))
            return bad_ids(e);
    qsort(ids, (size_t)count, sizeof *ids, by_number);
    for (int i = *n = 0; i < count; i++)
        if (!i || ids[i] != ids[i - 1])
            buf_printf(&out, "%c%lld", (*n)++ ? ',' : '[', (long long)ids[i]);
    buf_putc(&out, ']');
    *json = out.failed ? NULL : arena_strdup(r->arena, out.data);
    buf_fini(&out);
    return *json || err_set(e, ERR_NOMEM, "no memory for the ids");
}

static bool read_which(struct request *r, const char *name, enum store_which absent,
                       enum store_which *out, struct err *e)
{
    const char *v = request_query(r, name);
    *out = !v ? absent : !strcmp(v, "1") ? WHICH_YES : !strcmp(v, "0") ? WHICH_NO : WHICH_ANY;
    return !v || *out != WHICH_ANY || !strcmp(v, "any") ||
           err_field(e, ERR_INPUT, name, "must be 0, 1 or any");
}

struct export_request {
    struct export_params p;
    int n_ids; /* 0: all */
    struct store_export_counts counts;
    int64_t n_files;   /* of an archive */
    const char *title; /* of the only one; or NULL */
};

static bool read_request(struct request *r, struct export_request *w, struct err *e)
{
    const char *format = request_query(r, "format"), *ids = request_query(r, "conversation");
    w->p.store = r->store;
    w->p.exported_at = clock_wall_ms();
    w->p.which.user_id = r->who.user_id;
    w->p.format = export_format_find(format ? format : "json");
    if (!w->p.format)
        return err_field(e, ERR_INPUT, "format", "must be one of " EXPORT_FORMATS);
    if (!read_which(r, "archived", WHICH_ANY, &w->p.which.archived, e) ||
        !read_which(r, "trash", WHICH_NO, &w->p.which.trashed, e))
        return false;
    if (!ids || !strcmp(ids, "all"))
        return true;
    /* Conversations that are named by id are exported wherever they are. */
    if (request_query(r, "archived") || request_query(r, "trash"))
        return err_field(e, ERR_INPUT, request_query(r, "trash") ? "trash" : "archived",
                         "goes with \"all\" only");
    w->p.which.archived = w->p.which.trashed = WHICH_ANY;
    return read_ids(r, ids, &w->p.which.ids, &w->n_ids, e);
}

static bool count_file(void *context, const struct store_export_file *f)
{
    ++*(int64_t *)context;
    return true;
}

/* Conversations, attachments, the index, the account, its responses and the API's conversations: so
 * that whoever receives the archive knows how far it is. */
static bool count_files(struct export_request *w, struct err *e)
{
    w->n_files = w->counts.conversations + (w->p.account ? 4 : 1);
    return store_export_files(w->p.store, &w->p.which, count_file, &w->n_files, e);
}

static bool find(struct request *r, struct export_request *w, struct err *e)
{
    struct store_conversation c;
    if (!store_export_count(r->store, &w->p.which, &w->counts, e))
        return false;
    if (w->n_ids && w->counts.conversations != w->n_ids)
        return err_field(e, ERR_NOTFOUND, "conversation", "there is no such conversation");
    if (!export_format_plain(w->p.format) && !count_files(w, e))
        return false;
    if (w->n_ids != 1)
        return true;
    if (!store_conversation_get(r->store, r->arena,
                                &(struct store_ref){.user_id = r->who.user_id,
                                                    .id = strtoll(w->p.which.ids + 1, NULL, 10)},
                                &c, e))
        return false;
    w->title = c.title;
    return true;
}

static void put_head(struct request *r, const struct export_request *w, uint64_t bytes)
{
    char number[24];
    struct buf name = {0};
    export_file_name(&name, w->p.format, w->title, w->p.exported_at);
    if (!name.failed) {
        char clean[FILE_NAME_SIZE], header[FILE_DISPOSITION_SIZE];
        file_name_clean(name.data, name.len, clean);
        file_name_disposition("attachment", clean, header);
        reply_header(r, "Content-Disposition", header);
    }
    buf_fini(&name);
    snprintf(number, sizeof number, "%lld", (long long)w->counts.conversations);
    reply_header(r, "X-Export-Conversations", number);
    snprintf(number, sizeof number, "%lld", (long long)w->counts.messages);
    reply_header(r, "X-Export-Messages", number);
    if (export_format_plain(w->p.format)) {
        snprintf(number, sizeof number, "%llu", (unsigned long long)bytes);
        reply_header(r, "Content-Length", number);
    } else {
        snprintf(number, sizeof number, "%lld", (long long)w->n_files);
        reply_header(r, "X-Export-Files", number);
    }
    reply_header(r, "Cache-Control", "no-store, no-transform");
    reply_header(r, "Content-Security-Policy", "sandbox; default-src 'none'");
}

static bool write_on(void *context, const void *data, size_t len, struct err *e)
{
    return reply_stream_write(context, data, len, e);
}

/* What fails before the first byte is an error as any other; after it the reply is cut off: short
 * of its Content-Length, or a ZIP without its directory, which no program opens. */
static bool send_export(struct request *r, struct export_request *w, struct err *e)
{
    uint64_t bytes = 0;
    w->p.sink = (struct export_sink){write_on, r};
    if (!find(r, w, e) || (export_format_plain(w->p.format) && !export_measure(&w->p, &bytes, e)))
        return false;
    put_head(r, w, bytes);
    if (!reply_stream_begin(r, 200, export_format_media(w->p.format)) || r->method == HTTP_HEAD)
        return true;
    struct err why = {0};
    if (export_run(&w->p, &why)) {
        reply_stream_end(r);
        return true;
    }
    if (why.code != ERR_CANCELLED)
        log_error("id=%s the export broke off: %s", r->id, why.text);
    reply_stream_break(r);
    return true;
}

/* All that belongs to the account, from the same moment. */
static bool add_account(struct request *r, struct export_request *w, struct buf *account,
                        struct err *e)
{
    w->p.account = account;
    return export_account(account, &w->p, r->arena, e);
}

static bool serve(struct request *r, struct export_request *w, bool whole_account, struct err *e)
{
    struct buf account = {0};
    int lock = lock_user(r, e);
    if (lock < 0)
        return false;
    bool ok = store_export_begin(r->store, e) &&
              (!whole_account || add_account(r, w, &account, e)) && send_export(r, w, e);
    store_export_end(r->store);
    buf_fini(&account);
    close(lock);
    return ok;
}

static bool export_conversations(struct request *r, struct err *e)
{
    struct export_request w = {0};
    return read_request(r, &w, e) && serve(r, &w, false, e);
}

static bool export_own_account(struct request *r, struct err *e)
{
    struct export_request w = {.p = {.store = r->store,
                                     .which = {.user_id = r->who.user_id},
                                     .format = export_format_find("zip"),
                                     .exported_at = clock_wall_ms()}};
    struct err uncounted = {0};
    usage_ledger_count(r->worker->shared, r->store,
                       &uncounted); /* else it comes without the last */
    return serve(r, &w, true, e);
}

const struct route api_export_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/export",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .handler = export_conversations,
     .scope = SCOPE_HISTORY,
     .doc = {.summary = "The own conversations as one file",
             .query = "ExportQuery",
             .media = "*/*",
             .statuses = "200 429"}},
    {.method = HTTP_GET,
     .path = "/api/account/export",
     .auth = ROUTE_USER,
     .pool = POOL_STREAM,
     .handler = export_own_account,
     .scope = SCOPE_HISTORY | SCOPE_ADMIN,
     .doc = {.summary = "All that belongs to the own account as one archive",
             .media = "application/zip",
             .statuses = "200 429"}},
    {0},
};
