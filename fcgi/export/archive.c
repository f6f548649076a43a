/* Writes the ZIP archive: a JSON file for each conversation, the attachments' bytes, and an index
 * of both. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fcgi/export/export_internal.h"
#include "sql/chats/store_openai.h"
#include "sql/chats/store_responses.h"
#include "sql/chats/store_responses.h"
#include "sql/core/digest.h"
#include "sql/core/digest.h"
#include "sql/files/store_attachments.h"
#include "sql/files/store_attachments.h"

#define MAX_SLUG 48

const struct export_format export_zip = {
    .name = "zip", .media = "application/zip", .suffix = ".zip", .archive = true};

/* Small letters, digits and single dashes; what is not ASCII stays out: old unzip programs garble
 * it. */
static void put_slug(struct buf *out, const char *title)
{
    const size_t begin = out->len;
    bool dash = true;
    for (; *title && out->len - begin < MAX_SLUG; title++) {
        const char c = *title >= 'A' && *title <= 'Z' ? (char)(*title + 32) : *title;
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            buf_putc(out, c);
        else if (!dash)
            buf_putc(out, '-');
        dash = out->len == begin || out->data[out->len - 1] == '-';
    }
    while (out->len > begin && out->data[out->len - 1] == '-')
        out->data[--out->len] = '\0';
}

static void put_entry_name(struct buf *out, int64_t number, const char *title)
{
    const size_t begin = out->len;
    buf_printf(out, "conversations/%06lld-", (long long)number);
    put_slug(out, title);
    if (out->len > begin && out->data[out->len - 1] == '-')
        out->data[--out->len] = '\0';
    buf_puts(out, ".json");
}

/* A whole document for each conversation, so that each can be read alone. */
static bool put_file(void *context, const struct store_export_conversation *c)
{
    struct export *x = context;
    struct buf name = {0};
    const int64_t files = ++x->w.n_files;
    put_entry_name(&name, files, c->title);
    bool ok = !name.failed && zip_writer_entry(x->zip, name.data, c->updated_at, false, &x->e);
    buf_fini(&name);
    if (!ok)
        return false;
    export_open(x);
    return export_put(x, c) && export_close(x);
}

/* The bytes of each attachment once. One that was deleted since the snapshot is left out, and the
 * index says so. */
static bool put_bytes(struct export *x, const struct store_export_file *f, int fd)
{
    char name[16 + DIGEST_TEXT_SIZE], piece[16384];
    ssize_t n;
    snprintf(name, sizeof name, "attachments/%s", f->sha256);
    if (!zip_writer_entry(x->zip, name, f->created_at, strncmp(f->type, "text/", 5) != 0, &x->e))
        return false;
    while ((n = read(fd, piece, sizeof piece)) > 0)
        if (!zip_writer_write(x->zip, piece, (size_t)n, &x->e))
            return false;
    return n == 0 || err_errno(&x->e, "reading an attachment");
}

static bool put_attachment(void *context, const struct store_export_file *f)
{
    struct export *x = context;
    char path[STORE_PATH_SIZE];
    if (!store_attachment_path(x->p->store, f->sha256, path, &x->e))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT)
        return err_errno(&x->e, "opening an attachment");
    bool ok = fd < 0 || put_bytes(x, f, fd);
    buf_printf(&x->files, "%s\n{\"sha256\":\"%s\",\"mime\":", x->files.len ? "," : "", f->sha256);
    buf_json_string(&x->files, f->type, strlen(f->type));
    buf_printf(&x->files,
               fd < 0 ? ",\"size\":%lld,\"file\":null}"
                      : ",\"size\":%lld,\"file\":\"attachments/%s\"}",
               (long long)f->bytes, f->sha256);
    if (fd >= 0)
        close(fd);
    return ok &&
           (!x->files.failed || err_set(&x->e, ERR_NOMEM, "no memory for the archive's index"));
}

static bool put_account(struct export *x)
{
    const struct buf *text = x->p->account;
    return !text || (zip_writer_entry(x->zip, "account.json", x->p->exported_at, false, &x->e) &&
                     zip_writer_write(x->zip, text->data, text->len, &x->e));
}

static bool put_response(void *context, const struct store_response *row)
{
    struct export *x = context;
    struct buf *out = &x->w.out;
    buf_puts(out, "{\"id\":");
    buf_json_string(out, row->id, strlen(row->id));
    buf_puts(out, ",\"previous_id\":");
    if (row->previous_id)
        buf_json_string(out, row->previous_id, strlen(row->previous_id));
    else
        buf_puts(out, "null");
    buf_puts(out, ",\"conversation_id\":");
    if (row->conversation_id)
        buf_json_string(out, row->conversation_id, strlen(row->conversation_id));
    else
        buf_puts(out, "null");
    buf_printf(out,
               ",\"created_at\":%lld,\"expires_at\":%lld,\"input\":", (long long)row->created_at,
               (long long)row->expires_at);
    buf_puts(out, row->input);
    buf_puts(out, ",\"response\":");
    buf_puts(out, row->response);
    buf_puts(out, "}\n");
    return export_send(x, false);
}

/* What /v1/responses keeps for the account: an object a line. */
static bool put_responses(struct export *x)
{
    return !x->p->account ||
           (zip_writer_entry(x->zip, "responses.jsonl", x->p->exported_at, false, &x->e) &&
            store_response_each(x->p->store, x->p->which.user_id, put_response, x, &x->e) &&
            x->e.code == ERR_NONE && export_send(x, true));
}

static bool put_item(void *context, const struct store_openai_item *item)
{
    struct export *x = context;
    if (x->n_items++)
        buf_putc(&x->w.out, ',');
    buf_puts(&x->w.out, item->item);
    return export_send(x, false);
}

static bool put_openai_conversation(void *context, const struct store_openai_conversation *c)
{
    struct export *x = context;
    const struct store_openai_range all = {
        .user_id = c->user_id, .conversation_id = c->id, .until = INT64_MAX, .limit = -1};
    buf_puts(&x->w.out, "{\"id\":");
    buf_json_string(&x->w.out, c->id, strlen(c->id));
    buf_printf(&x->w.out, ",\"created_at\":%lld,\"metadata\":%s,\"items\":[",
               (long long)c->created_at, c->metadata);
    x->n_items = 0;
    if (!store_openai_items_each(x->p->store, &all, put_item, x, &x->e) || x->e.code != ERR_NONE)
        return false;
    buf_puts(&x->w.out, "]}\n");
    return export_send(x, false);
}

/* What /v1/conversations keeps for the account: an object a line. */
static bool put_openai_conversations(struct export *x)
{
    return !x->p->account ||
           (zip_writer_entry(x->zip, "api-conversations.jsonl", x->p->exported_at, false, &x->e) &&
            store_openai_conversation_each(x->p->store, x->p->which.user_id,
                                           put_openai_conversation, x, &x->e) &&
            x->e.code == ERR_NONE && export_send(x, true));
}

static bool put_index_row(void *context, const struct store_export_conversation *c)
{
    struct export *x = context;
    struct buf *out = &x->w.out;
    const int64_t files = ++x->w.n_files;
    buf_puts(out, files > 1 ? ",\n{\"key\":" : "\n{\"key\":");
    buf_json_string(out, c->key, strlen(c->key));
    buf_puts(out, ",\"title\":");
    buf_json_string(out, c->title, strlen(c->title));
    buf_printf(out, ",\"created_at\":%lld,\"updated_at\":%lld,\"file\":\"",
               (long long)c->created_at, (long long)c->updated_at);
    put_entry_name(out, files, c->title);
    buf_puts(out, "\"}");
    return export_send(x, false);
}

static bool put_index(struct export *x)
{
    if (!zip_writer_entry(x->zip, "index.json", x->p->exported_at, false, &x->e))
        return false;
    x->w.n_files = 0;
    buf_printf(&x->w.out,
               "{\"schema\":\"sluice-export-index\",\"version\":1,\"exported_at\":%lld,"
               "\"conversations\":[",
               (long long)x->p->exported_at);
    if (!store_export_each(x->p->store, &x->p->which, put_index_row, x, &x->e) ||
        x->e.code != ERR_NONE)
        return false;
    buf_puts(&x->w.out, "],\"attachments\":[");
    if (x->files.len)
        buf_append(&x->w.out, x->files.data, x->files.len);
    buf_puts(&x->w.out, "]}\n");
    return export_send(x, true);
}

bool export_archive(struct export *x)
{
    x->format = &export_json;
    x->zip = zip_writer_create(x->p->sink.write, x->p->sink.context, &x->e);
    return x->zip && store_export_each(x->p->store, &x->p->which, put_file, x, &x->e) &&
           x->e.code == ERR_NONE &&
           store_export_files(x->p->store, &x->p->which, put_attachment, x, &x->e) &&
           x->e.code == ERR_NONE && put_account(x) && put_responses(x) &&
           put_openai_conversations(x) && put_index(x) && zip_writer_finish(x->zip, &x->e);
}
