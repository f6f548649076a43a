/* Splits a stream of JSON into its conversations without parsing it, so that memory holds one at a
 * time. */
#include "fcgi/import/split.h"

#include <string.h>

#include "fcgi/import/import.h"

#define ENVELOPE_BYTES 4096
#define LIST_KEY "\"conversations\""

void split_begin(struct split *s, split_read_fn read, void *context)
{
    memset(s, 0, sizeof *s);
    s->read = read;
    s->context = context;
    s->item.limit = IMPORT_ITEM_BYTES;
    s->envelope.limit = ENVELOPE_BYTES;
}

void split_fini(struct split *s)
{
    buf_fini(&s->item);
    buf_fini(&s->envelope);
}

/* The byte at the front: 0 to 255, -1 at the end, -2: *e. */
static int front(struct split *s, struct err *e)
{
    if (s->pos == s->end) {
        s->offset += (int64_t)s->end;
        s->pos = s->end = 0;
        int64_t n = s->read(s->context, s->in, sizeof s->in, e);
        if (n <= 0)
            return n == 0 ? -1 : -2;
        s->end = (size_t)n;
    }
    return (unsigned char)s->in[s->pos];
}

static int past_space(struct split *s, struct err *e)
{
    int c;
    while ((c = front(s, e)) == ' ' || c == '\t' || c == '\n' || c == '\r')
        s->pos++;
    return c;
}

static bool broken(const struct split *s, const char *what, struct err *e)
{
    return err_set(e, ERR_INPUT, "this is not JSON: %s, at byte %lld", what,
                   (long long)(s->offset + (int64_t)s->pos));
}

int split_peek(struct split *s, struct err *e)
{
    int c = front(s, e);
    if (c == 0xEF && s->offset + (int64_t)s->pos == 0 && s->end >= 3 &&
        !memcmp(s->in, "\xEF\xBB\xBF", 3))
        s->pos = 3;
    c = past_space(s, e);
    return c == -1 ? 0 : c == -2 ? -1 : c;
}

struct cut {                      /* a value while it is being cut */
    char open[IMPORT_TREE_DEPTH]; /* its open brackets; deeper ones are only counted */
    int depth;
    bool quoted, escaped;
    bool lists;    /* an object that may hold the list of conversations */
    bool at_list;  /* that list's bracket was the last byte */
    size_t key_at; /* where in the item its last string at depth 1 begins */
};

static void keep(struct split *s, const char *to)
{
    const size_t n = (size_t)(to - (s->in + s->pos));
    if (!s->too_large && !buf_append(&s->item, s->in + s->pos, n))
        s->too_large = true;
    s->pos += n;
}

/* True when the item ends with `"conversations":`. */
static bool after_list_key(const struct split *s, const struct cut *c)
{
    const char *p = s->item.data + c->key_at, *end = s->item.data + s->item.len;
    const size_t n = sizeof LIST_KEY - 1;
    if (s->too_large || (size_t)(end - p) <= n || memcmp(p, LIST_KEY, n) != 0)
        return false;
    int colons = 0;
    for (p += n; p < end; p++)
        if (*p == ':')
            colons++;
        else if (!strchr(" \t\r\n", *p))
            return false;
    return colons == 1;
}

static bool open_bracket(struct split *s, struct cut *c, char bracket, struct err *e)
{
    if (c->depth >= IMPORT_DEPTH)
        s->deep = true;
    if (c->depth < IMPORT_TREE_DEPTH)
        c->open[c->depth] = bracket;
    else
        s->too_deep = true;
    return ++c->depth < 1 << 30 || broken(s, "too many open brackets", e);
}

static bool close_bracket(struct split *s, struct cut *c, char bracket, struct err *e)
{
    c->depth--;
    return c->depth >= IMPORT_TREE_DEPTH || c->open[c->depth] == (bracket == '}' ? '{' : '[') ||
           broken(s, "brackets that do not match", e);
}

static void cut_string(struct split *s, struct cut *c)
{
    const char *p = s->in + s->pos, *end = s->in + s->end;
    for (; p < end && c->quoted; p++)
        if (c->escaped)
            c->escaped = false;
        else if (*p == '\\')
            c->escaped = true;
        else if (*p == '"')
            c->quoted = false;
    keep(s, p);
}

/* Outside strings, up to one, to the value's end, or to the end of what was read. */
static bool cut_brackets(struct split *s, struct cut *c, struct err *e)
{
    const char *p = s->in + s->pos, *end = s->in + s->end;
    while (p < end && !c->quoted && !c->at_list) {
        const char b = *p;
        if (b == '"') {
            c->quoted = true;
            if (c->depth == 1)
                c->key_at = s->item.len + (size_t)(p - (s->in + s->pos));
        } else if (b == '{' || b == '[') {
            if (b == '[' && c->lists && c->depth == 1) {
                keep(s, p);
                c->at_list = after_list_key(s, c);
            }
            if (!open_bracket(s, c, b, e))
                return false;
        } else if (b == '}' || b == ']') {
            if (!close_bracket(s, c, b, e))
                return false;
        }
        p++;
        if (!c->depth)
            break;
    }
    keep(s, p);
    return true;
}

/* A number, a word or a string where a conversation should be: for the reader to refuse. */
static bool cut_scalar(struct split *s, struct cut *c, struct err *e)
{
    int b = front(s, e);
    if ((c->quoted = b == '"'))
        keep(s, s->in + s->pos + 1);
    while (c->quoted) {
        cut_string(s, c);
        if (c->quoted && (b = front(s, e)) < 0)
            return b == -1 && broken(s, "it ends inside a string", e);
        if (!c->quoted)
            return true;
    }
    for (; (b = front(s, e)) >= 0 && !strchr(" \t\r\n,]}[{\"", b); keep(s, s->in + s->pos + 1))
        ;
    return b != -2 && (s->item.len || s->too_large || broken(s, "a value is missing", e));
}

static bool cut_value(struct split *s, struct cut *c, struct err *e)
{
    const int first = front(s, e);
    if (!c->depth && first != '{' && first != '[')
        return cut_scalar(s, c, e);
    do {
        int b = front(s, e);
        if (b < 0)
            return b == -1 && broken(s, "it ends inside a value", e);
        if (c->quoted)
            cut_string(s, c);
        else if (!cut_brackets(s, c, e))
            return false;
    } while ((c->depth || c->quoted) && !c->at_list);
    return true;
}

/* The list's array has ended: the rest of the envelope. */
static bool close_envelope(struct split *s, struct err *e)
{
    struct cut c = {.open = {'{', '['}, .depth = 2};
    buf_clear(&s->item);
    s->too_large = s->deep = s->too_deep = false;
    if (!buf_append(&s->item, s->envelope.data, s->envelope.len) || !cut_value(s, &c, e))
        return s->item.failed ? err_set(e, ERR_NOMEM, "memory ran out") : false;
    s->place = SPLIT_TOP;
    s->in_envelope = true;
    return true;
}

static bool next_element(struct split *s, bool *more, bool *done, struct err *e)
{
    int b = past_space(s, e);
    *done = false;
    if (b == ',' && s->element_open) {
        s->pos++;
        b = past_space(s, e);
        if (b == ']')
            return broken(s, "a comma before the end of a list", e);
    } else if (b == ']') {
        *done = true;
        if (s->place == SPLIT_ENVELOPE)
            return close_envelope(s, e);
        s->pos++;
        s->place = SPLIT_TOP;
        *more = false;
        return true;
    } else if (s->element_open) {
        return b == -2
                   ? false
                   : broken(s, b == -1 ? "it ends inside a list" : "a comma is missing in a list",
                            e);
    }
    if (b == -2)
        return false;
    if (b == -1 || b == ',')
        return broken(s, b == -1 ? "it ends inside a list" : "a comma too many in a list", e);
    s->element_open = true;
    return true;
}

bool split_next(struct split *s, bool *more, struct err *e)
{
    *more = true;
    for (;;) {
        struct cut c = {.lists = s->place == SPLIT_TOP};
        bool done = false;
        buf_clear(&s->item);
        s->too_large = s->deep = s->too_deep = s->in_envelope = false;
        if (s->place != SPLIT_TOP) {
            if (!next_element(s, more, &done, e))
                return false;
            if (done && s->in_envelope)
                return true;
            if (done)
                continue;
        } else {
            int b = split_peek(s, e);
            if (b <= 0) {
                *more = false;
                return b == 0;
            }
            if (b == '[') {
                s->pos++;
                s->place = SPLIT_ARRAY;
                s->element_open = false;
                continue;
            }
        }
        if (!cut_value(s, &c, e))
            return false;
        if (c.at_list) {
            buf_clear(&s->envelope);
            if (!buf_append(&s->envelope, s->item.data, s->item.len))
                return err_set(e, ERR_INPUT,
                               "more than %d bytes stand before the list of conversations",
                               ENVELOPE_BYTES);
            s->place = SPLIT_ENVELOPE;
            s->element_open = false;
            s->n_envelopes++;
            continue;
        }
        s->n_items++;
        *more = true;
        return true;
    }
}
