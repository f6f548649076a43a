/* The formats that people read as text, Markdown and plain: one walk over a message's parts, and
 * functions that write each part. A function is called only for a part that is there, in this
 * order; a name or a line holds no line breaks. */
#pragma once
#include "fcgi/export/format.h"

struct text_parts {
    void (*title)(struct buf *out, bool first, const char *title, const char *time);
    void (*system)(struct buf *out, const char *text);
    /* model, status: NULL when there is nothing to say */
    void (*heading)(struct buf *out, const char *role, const char *time, const char *model,
                    const char *status);
    void (*files)(struct buf *out, const char *names);
    void (*reasoning)(struct buf *out, const char *text, size_t len);
    void (*content)(struct buf *out, const char *text, size_t len);
    void (*tool_calls)(struct buf *out, const char *json);
    void (*error)(struct buf *out, const char *line);
};

/* `open` and `message` of a format that has `parts`. */
void text_parts_open(struct export_writer *w, const struct store_export_conversation *c,
                     const struct export_tree *t);
void text_parts_message(struct export_writer *w, const struct export_tree *t, uint32_t number,
                        const struct store_message *m);
