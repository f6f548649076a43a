/* The walk over a message's parts; what a part looks like is the format's. */
#include "fcgi/export/text_parts.h"

#include <stdlib.h>

/* On one line, for as long as *keep lives; NULL stays NULL. */
static const char *line(struct buf *keep, const char *text)
{
    if (!text)
        return NULL;
    export_line(keep, text);
    return keep->data ? keep->data : "";
}

void text_parts_open(struct export_writer *w, const struct store_export_conversation *c,
                     const struct export_tree *t)
{
    const struct text_parts *p = w->format->parts;
    char time[EXPORT_TIME_SIZE];
    struct buf title = {0};
    char *system = export_system(c->settings);
    p->title(&w->out, w->n_conversations == 1, line(&title, *c->title ? c->title : "Untitled"),
             export_time(c->created_at, time));
    if (system)
        p->system(&w->out, system);
    free(system);
    buf_fini(&title);
}

void text_parts_message(struct export_writer *w, const struct export_tree *t, uint32_t number,
                        const struct store_message *m)
{
    const struct text_parts *p = w->format->parts;
    char time[EXPORT_TIME_SIZE];
    struct buf model = {0}, names = {0}, error = {0};
    p->heading(&w->out, export_role(m->role), export_time(m->created_at, time),
               line(&model, m->model),
               m->status != MESSAGE_DONE ? store_status_name(m->status) : NULL);
    export_file_names(&names, m->attachments);
    if (names.len)
        p->files(&w->out, names.data);
    if (m->reasoning_len)
        p->reasoning(&w->out, m->reasoning, m->reasoning_len);
    if (m->content_len)
        p->content(&w->out, m->content, m->content_len);
    if (m->tool_calls)
        p->tool_calls(&w->out, m->tool_calls);
    if (m->error)
        p->error(&w->out, line(&error, m->error));
    w->out.failed |= model.failed || names.failed || error.failed;
    buf_fini(&model);
    buf_fini(&names);
    buf_fini(&error);
}
