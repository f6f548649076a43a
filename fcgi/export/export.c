/* Reads conversation by conversation, hands the rows to the format and sends on what the format
 * wrote. */
#include "fcgi/export/export.h"

#include <stdio.h>
#include <string.h>

#include "fcgi/export/format.h"
#include "fcgi/export/export_internal.h"

#define FLUSH_BYTES (64 << 10)
#define MAX_NAME 48 /* bytes of a title in a file's name */

static const struct export_format *const formats[] = {&export_json, &export_jsonl, &export_markdown,
                                                      &export_html, &export_text,  &export_zip};

const struct export_format *export_format_find(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (!strcmp(formats[i]->name, name))
            return formats[i];
    return NULL;
}

const char *export_format_media(const struct export_format *f)
{
    return f->media;
}

bool export_format_plain(const struct export_format *f)
{
    return !f->archive;
}

/* Sends the writer's text on once there is enough of it. */
bool export_send(struct export *x, bool all)
{
    struct buf *out = &x->w.out;
    if (out->failed)
        return err_set(&x->e, ERR_NOMEM, "no memory for the export");
    if (!out->len || (!all && out->len < FLUSH_BYTES))
        return true;
    bool ok = x->zip ? zip_writer_write(x->zip, out->data, out->len, &x->e)
                     : x->p->sink.write(x->p->sink.context, out->data, out->len, &x->e);
    if (out->cap > 16 * FLUSH_BYTES) /* one very long message does not keep its memory */
        buf_fini(out);
    else
        buf_clear(out);
    return ok;
}

static bool put_message(void *context, const struct store_message *m)
{
    struct export *x = context;
    const uint32_t number = ++x->number;
    if (number > x->tree.n || x->tree.places[number - 1].id != m->id)
        return err_set(&x->e, ERR_INTERNAL, "a conversation changed within its snapshot");
    if (x->format->shown_only && !x->tree.places[number - 1].shown)
        return true;
    x->w.n_messages++;
    x->format->message(&x->w, &x->tree, number, m);
    return export_send(x, false);
}

bool export_put(struct export *x, const struct store_export_conversation *c)
{
    const struct export_params *p = x->p;
    if (!export_tree_read(&x->tree, p->store, p->which.user_id, c, &x->e))
        return false;
    x->w.n_conversations++;
    x->w.n_messages = 0;
    x->number = 0;
    x->format->open(&x->w, c, &x->tree);
    if (!store_export_messages(p->store,
                               &(struct store_ref){.user_id = p->which.user_id, .id = c->id},
                               put_message, x, &x->e) ||
        x->e.code != ERR_NONE)
        return false;
    if (x->format->close)
        x->format->close(&x->w);
    return export_send(x, false);
}

static bool put_conversation(void *context, const struct store_export_conversation *c)
{
    return export_put(context, c);
}

void export_open(struct export *x)
{
    x->w.format = x->format;
    x->w.n_conversations = 0;
    if (x->format->begin)
        x->format->begin(&x->w);
}

bool export_close(struct export *x)
{
    if (x->format->end)
        x->format->end(&x->w);
    return export_send(x, true);
}

static bool put_one_document(struct export *x)
{
    export_open(x);
    return store_export_each(x->p->store, &x->p->which, put_conversation, x, &x->e) &&
           x->e.code == ERR_NONE && export_close(x);
}

bool export_run(const struct export_params *p, struct err *e)
{
    struct export x = {.p = p, .format = p->format, .w = {.exported_at = p->exported_at}};
    bool ok = p->format->archive ? export_archive(&x) : put_one_document(&x);
    zip_writer_destroy(&x.zip);
    export_tree_fini(&x.tree);
    buf_fini(&x.w.out);
    buf_fini(&x.files);
    if (!ok && e)
        *e = x.e;
    return ok;
}

static bool count_bytes(void *context, const void *data, size_t len, struct err *e)
{
    *(uint64_t *)context += len;
    return true;
}

bool export_measure(const struct export_params *p, uint64_t *bytes, struct err *e)
{
    struct export_params counted = *p;
    *bytes = 0;
    counted.sink = (struct export_sink){count_bytes, bytes};
    return export_run(&counted, e);
}

/* Letters of any script stay. */
static void put_title(struct buf *out, const char *title)
{
    const size_t begin = out->len;
    for (; *title && (out->len - begin < MAX_NAME || ((unsigned char)*title & 0xc0) == 0x80);
         title++)
        buf_putc(out, (unsigned char)*title < ' ' || *title == 0x7f || strchr("/\\:*?\"<>|", *title)
                          ? '-'
                          : *title);
}

void export_file_name(struct buf *out, const struct export_format *f, const char *title,
                      int64_t exported_at)
{
    char time[EXPORT_TIME_SIZE];
    if (title && *title && *title != '.')
        put_title(out, title);
    else
        buf_printf(out, "sluice-%.10s", export_time(exported_at, time));
    buf_puts(out, f->suffix);
}
