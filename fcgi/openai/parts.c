/* parts.h: a delta of another kind than the last part's closes that part and opens the next. */
#include "fcgi/openai/parts.h"

#include <stdlib.h>

static struct part *open_part(struct parts *p, enum part_kind kind)
{
    if (p->n == p->cap) {
        int cap = p->cap ? 2 * p->cap : 8;
        struct part *more = realloc(p->at, (size_t)cap * sizeof *more);
        if (!more) {
            p->failed = true;
            return NULL;
        }
        p->at = more;
        p->cap = cap;
    }
    struct part *part = &p->at[p->n++];
    *part = (struct part){.kind = kind};
    p->open = true;
    return part;
}

void parts_close(struct parts *p)
{
    if (!p->open)
        return;
    p->open = false;
    if (p->listener.closed)
        p->listener.closed(p->listener.context, &p->at[p->n - 1], p->n - 1);
}

/* The part that grows, opened when it is another than before. */
static struct part *part_for(struct parts *p, enum part_kind kind)
{
    if (p->open && p->at[p->n - 1].kind == kind)
        return &p->at[p->n - 1];
    parts_close(p);
    struct part *part = open_part(p, kind);
    if (part && p->listener.opened)
        p->listener.opened(p->listener.context, part, p->n - 1);
    return part;
}

static void grow(struct parts *p, struct part *part, const char *text, size_t len)
{
    if (!part || !len)
        return;
    if (part->kind != PART_CALL && !buf_append(&part->text, text, len))
        p->failed = true;
    if (p->listener.grown)
        p->listener.grown(p->listener.context, part, p->n - 1, text, len);
}

static void begin_call(struct parts *p, const struct generation *g, int index)
{
    parts_close(p);
    struct part *part = open_part(p, PART_CALL);
    if (!part)
        return;
    part->call = g->calls[index];
    if (p->listener.opened)
        p->listener.opened(p->listener.context, part, p->n - 1);
}

void parts_take(struct parts *p, const struct generation *g, const struct chat_delta *d)
{
    switch (d->type) {
    case CHAT_REASONING:
    case CHAT_CONTENT:
        if (d->len)
            grow(p, part_for(p, d->type == CHAT_CONTENT ? PART_TEXT : PART_REASONING), d->text,
                 d->len);
        break;
    case CHAT_CALL:
        begin_call(p, g, d->index);
        break;
    case CHAT_ARGUMENTS:
        if (p->open && p->at[p->n - 1].kind == PART_CALL)
            grow(p, &p->at[p->n - 1], d->text, d->len);
        break;
    default:
        parts_close(p);
    }
}

void parts_fini(struct parts *p)
{
    for (int i = 0; i < p->n; i++) {
        buf_fini(&p->at[i].text);
        buf_fini(&p->at[i].logprobs);
    }
    free(p->at);
    *p = (struct parts){0};
}

const char *part_text(const struct part *p, size_t *len)
{
    const struct buf *b = p->kind == PART_CALL ? &p->call->arguments : &p->text;
    *len = b->len;
    return b->data ? b->data : "";
}
