/* Builds text that knows which of its bytes are untrusted, and does the small arithmetic of UTF-8
 * that goes with it. */
#include "engine/jinja/jinja_builder.h"

#include <stdlib.h>
#include <string.h>

#include "engine/jinja/jinja_run.h"

void jinja_builder_init(struct jbuilder *b, struct jinja_run *r)
{
    *b = (struct jbuilder){.r = r};
}

void jinja_builder_fini(struct jbuilder *b)
{
    free(b->data);
    free(b->mark);
    *b = (struct jbuilder){.r = b->r};
}

static bool reserve(struct jbuilder *b, size_t more)
{
    if (b->cap - b->len >= more)
        return true;
    if (more > JINJA_MAX_TEXT || b->len + more > JINJA_MAX_TEXT) {
        jinja_fail(b->r, JINJA_LIMIT, "a text is over the template's limit");
        return false;
    }
    size_t cap = b->cap * 2 > 64 ? b->cap * 2 : 64;
    while (cap < b->len + more)
        cap *= 2;
    char *data = realloc(b->data, cap);
    if (data)
        b->data = data;
    unsigned char *mark = b->mark ? realloc(b->mark, cap) : NULL;
    if (mark)
        b->mark = mark;
    if (!data || (b->mark && !mark)) {
        jinja_fail(b->r, JINJA_NOMEM, "memory ran out in a template");
        return false;
    }
    b->cap = cap;
    return true;
}

/* Changes from one origin for all bytes to a mark for each. */
static bool split_origin(struct jbuilder *b)
{
    b->mark = malloc(b->cap);
    if (!b->mark) {
        jinja_fail(b->r, JINJA_NOMEM, "memory ran out in a template");
        return false;
    }
    memset(b->mark, b->outside, b->len);
    return true;
}

bool jinja_put(struct jbuilder *b, const char *data, size_t len, bool outside)
{
    if (len == 0)
        return true;
    if (!jinja_charge(b->r, len) || !reserve(b, len))
        return false;
    if (b->len == 0 && !b->mark)
        b->outside = outside;
    if (!b->mark && b->outside != outside && !split_origin(b))
        return false;
    memcpy(b->data + b->len, data, len);
    if (b->mark)
        memset(b->mark + b->len, outside, len);
    b->len += len;
    return true;
}

bool jinja_puts(struct jbuilder *b, const char *s)
{
    return jinja_put(b, s, strlen(s), false);
}

bool jinja_put_part(struct jbuilder *b, const struct jstring *s, uint32_t from, uint32_t to)
{
    if (!s->mark)
        return jinja_put(b, s->data + from, to - from, s->outside);
    while (from < to) { /* runs of one origin */
        uint32_t end = from + 1;
        while (end < to && s->mark[end] == s->mark[from])
            end++;
        if (!jinja_put(b, s->data + from, end - from, s->mark[from]))
            return false;
        from = end;
    }
    return true;
}

bool jinja_put_string(struct jbuilder *b, const struct jstring *s)
{
    return jinja_put_part(b, s, 0, s->len);
}

bool jinja_put_like(struct jbuilder *b, const char *data, size_t len, const struct jstring *s,
                    uint32_t at)
{
    bool outside = s->mark && at < s->len ? s->mark[at] : s->outside;
    return jinja_put(b, data, len, outside);
}

bool jinja_put_fill(struct jbuilder *b, const char *c, size_t c_len, int64_t n)
{
    if (n <= 0)
        return true;
    if (n > JINJA_MAX_TEXT || !jinja_step(b->r, (uint64_t)n / 4)) {
        jinja_fail(b->r, JINJA_LIMIT, "a width of %lld is over the template's limit", (long long)n);
        return false;
    }
    while (n-- > 0)
        if (!jinja_put(b, c, c_len, false))
            return false;
    return true;
}

#define KEEP_FROM 4096 /* shorter texts are copied into the arena, tightly */

/* The builder's memory becomes the run's, without a copy. */
static bool keep_block(struct jinja_run *r, void *memory, size_t size)
{
    struct jblock *block =
        size <= r->block_limit - r->block_bytes ? jinja_alloc(r, sizeof *block) : NULL;
    if (!block) {
        jinja_fail(r, JINJA_LIMIT, "the template used more memory than it may");
        return false;
    }
    *block = (struct jblock){.next = r->blocks, .memory = memory};
    r->blocks = block;
    r->block_bytes += size;
    return true;
}

static struct jvalue take_whole(struct jbuilder *b)
{
    struct jinja_run *r = b->r;
    struct jvalue v = jinja_empty();
    if (keep_block(r, b->data, b->cap)) {
        v = jinja_borrow(r, b->data, b->len, b->outside);
        b->data = NULL;
        if (b->mark && !jinja_failed(r) && keep_block(r, b->mark, b->cap)) {
            v.as.s->mark = b->mark;
            b->mark = NULL;
        }
    }
    jinja_builder_fini(b);
    return v;
}

struct jvalue jinja_builder_take(struct jbuilder *b)
{
    if (b->len >= KEEP_FROM && b->r->block_limit && !jinja_failed(b->r))
        return take_whole(b);
    struct jinja_run *r = b->r;
    struct jvalue v = jinja_empty();
    if (!jinja_failed(r)) {
        v = jinja_text(r, b->data ? b->data : "", b->len);
        if (!jinja_failed(r) && b->mark) {
            unsigned char *mark = jinja_alloc(r, b->len);
            if (mark)
                memcpy(mark, b->mark, b->len);
            v.as.s->mark = mark;
        } else if (!jinja_failed(r)) {
            v.as.s->outside = b->outside;
        }
    }
    jinja_builder_fini(b);
    return v;
}

/* ---- UTF-8 */

uint32_t jinja_decode(const char *data, size_t len, uint32_t *code)
{
    const unsigned char *p = (const unsigned char *)data;
    *code = p[0];
    if (p[0] < 0x80)
        return 1;
    uint32_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc2 ? 2 : 1;
    if (n > len || n == 1 || p[0] > 0xf4)
        return 1;
    uint32_t c = p[0] & (0xffu >> (n + 1));
    for (uint32_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 1;
        c = c << 6 | (p[i] & 0x3f);
    }
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 1;
    *code = c;
    return n;
}

uint32_t jinja_count_chars(const char *data, size_t len)
{
    size_t at = 0, n = 0;
    while (at < len) {
        uint32_t code;
        at += (unsigned char)data[at] < 0x80 ? 1 : jinja_decode(data + at, len - at, &code);
        n++;
    }
    return (uint32_t)n;
}

size_t jinja_encode(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

uint32_t jinja_offset(const struct jstring *s, uint32_t n)
{
    if (s->n_chars == s->len)
        return n < s->len ? n : s->len;
    uint32_t at = 0;
    while (n-- > 0 && at < s->len) {
        uint32_t code;
        at += jinja_decode(s->data + at, s->len - at, &code);
    }
    return at;
}

struct jvalue jinja_part(struct jinja_run *r, const struct jstring *s, uint32_t from, uint32_t to)
{
    struct jstring *p = jinja_alloc(r, sizeof *p);
    if (!p)
        return jinja_empty();
    *p = *s;
    p->data += from;
    p->len = to - from;
    p->mark = s->mark ? s->mark + from : NULL;
    p->n_chars = s->n_chars == s->len ? p->len : jinja_count_chars(p->data, p->len);
    jinja_charge(r, s->n_chars == s->len ? 0 : p->len);
    return (struct jvalue){.type = J_STRING, .as.s = p};
}
