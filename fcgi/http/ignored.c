/* ignored.h: the list of a request's fields that had no effect, and how its answer names them. */
#include "fcgi/http/ignored.h"

#include <stdio.h>
#include <string.h>

#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"

bool ignored_strict(const struct request *r)
{
    return r->strict_parameters;
}

void ignored_warn(struct request *r, const char *field, const char *message, bool dropped)
{
    struct ignored *l = &r->ignored;
    for (int i = 0; i < l->n; i++)
        if (!strncmp(l->at[i].field, field, IGNORED_FIELD_BYTES - 1))
            return;
    if (!l->at)
        l->at = arena_alloc(r->arena, IGNORED_MAX * sizeof *l->at);
    if (!l->at || l->n == IGNORED_MAX) {
        l->more++;
        return;
    }
    struct ignored_field *f = &l->at[l->n++];
    snprintf(f->field, sizeof f->field, "%s", field);
    snprintf(f->message, sizeof f->message, "%s", message);
    f->dropped = dropped;
}

bool ignored_add(struct request *r, const char *field, const char *why, struct err *e)
{
    char message[IGNORED_MESSAGE_BYTES];
    if (ignored_strict(r))
        return err_field(e, ERR_UNSUPPORTED, field,
                         "has no effect here and is refused, since parameters are strict: %s", why);
    snprintf(message, sizeof message, "ignored: %s", why);
    ignored_warn(r, field, message, true);
    return true;
}

void ignored_write(struct buf *b, const struct request *r)
{
    const struct ignored *l = &r->ignored;
    if (!l->n)
        return;
    buf_puts(b, ",\"warnings\":[");
    for (int i = 0; i < l->n; i++) {
        const struct ignored_field *f = &l->at[i];
        buf_puts(b, i ? ",{\"field\":" : "{\"field\":");
        buf_json_string(b, f->field, strlen(f->field));
        buf_puts(b, ",\"message\":");
        buf_json_string(b, f->message, strlen(f->message));
        buf_putc(b, '}');
    }
    if (l->more)
        buf_printf(b, ",{\"field\":null,\"message\":\"%d more fields were ignored\"}", l->more);
    buf_putc(b, ']');
}

/* A name may hold anything that JSON may; in a header only what a list of names can. */
static void put_name(struct buf *b, const char *name)
{
    for (const char *c = name; *c; c++)
        buf_putc(b, *c > ' ' && *c < 0x7f && *c != ',' ? *c : '?');
}

void ignored_header(struct request *r)
{
    const struct ignored *l = &r->ignored;
    struct buf names = {0};
    for (int i = 0; i < l->n; i++) {
        if (!l->at[i].dropped)
            continue;
        if (names.len)
            buf_puts(&names, ", ");
        put_name(&names, l->at[i].field);
    }
    if (names.len && !names.failed)
        reply_header(r, "X-Sluice-Ignored", names.data);
    buf_fini(&names);
}
