/* The methods of str as Python has them; those that ask what kind of text it is are in
 * jinja_string_checks.c. */
#include <string.h>

#include "engine/jinja/jinja_run.h"

#define SELF (c->self.as.s)

static struct jvalue strip(struct jcall *c)
{
    const struct jstring *chars =
        jinja_given(c->p[0]) && c->p[0].type != J_NONE ? jinja_want_string(c, 0, "") : NULL;
    return jinja_strip(c->r, SELF, chars, c->op);
}

static struct jvalue change_case(struct jcall *c)
{
    return jinja_change_case(c->r, SELF, c->op);
}

/* ---- split */

static void push_part(struct jcall *c, struct jvalue list, uint32_t from, uint32_t to)
{
    jinja_step(c->r, 1);
    jinja_push(c->r, list, jinja_part(c->r, SELF, from, to));
}

/* Where the white space or the word at `at` ends. */
static uint32_t run_end(const struct jstring *s, uint32_t at, bool space)
{
    while (at < s->len) {
        uint32_t code, n = jinja_decode(s->data + at, s->len - at, &code);
        if (jinja_is_space(code) != space)
            break;
        at += n;
    }
    return at;
}

static struct jvalue split_words(struct jcall *c, int64_t max)
{
    struct jvalue list = jinja_list(c->r, J_LIST, 0);
    uint32_t at = run_end(SELF, 0, true);
    while (at < SELF->len && max != 0 && !jinja_failed(c->r)) {
        uint32_t end = run_end(SELF, at, false);
        push_part(c, list, at, end);
        at = run_end(SELF, end, true);
        max--;
    }
    if (at < SELF->len && !jinja_failed(c->r)) {
        struct jvalue rest =
            jinja_strip(c->r, jinja_part(c->r, SELF, at, SELF->len).as.s, NULL, STRIP_RIGHT);
        jinja_push(c->r, list, rest);
    }
    return list;
}

static struct jvalue split(struct jcall *c)
{
    int64_t max = jinja_want_int(c, 1, -1);
    jinja_charge(c->r, SELF->len);
    if (c->p[0].type == J_MISSING || c->p[0].type == J_NONE)
        return split_words(c, max);
    const struct jstring *sep = jinja_want_string(c, 0, "");
    if (sep->len == 0)
        return jinja_type_error(c->r, "empty separator");
    struct jvalue list = jinja_list(c->r, J_LIST, 0);
    uint32_t at = 0;
    for (; max != 0 && !jinja_failed(c->r); max--) {
        const char *hit = memmem(SELF->data + at, SELF->len - at, sep->data, sep->len);
        if (!hit)
            break;
        push_part(c, list, at, (uint32_t)(hit - SELF->data));
        at = (uint32_t)(hit - SELF->data) + sep->len;
    }
    push_part(c, list, at, SELF->len);
    return list;
}

/* The last place of `what` in s[from, to), or -1. */
static int64_t find_last(const struct jstring *s, const struct jstring *what, uint32_t from,
                         uint32_t to)
{
    for (int64_t at = (int64_t)to - what->len; at >= from; at--)
        if (!memcmp(s->data + at, what->data, what->len))
            return at;
    return -1;
}

static void reverse_list(struct jlist *l)
{
    for (uint32_t i = 0; i < l->n / 2; i++) {
        struct jvalue v = l->at[i];
        l->at[i] = l->at[l->n - 1 - i];
        l->at[l->n - 1 - i] = v;
    }
}

/* Splits by words from the right: they are collected backwards, then reversed. */
static struct jvalue rsplit_words(struct jcall *c, int64_t max)
{
    struct jvalue all = split_words(c, -1), list = jinja_list(c->r, J_LIST, 0);
    if (jinja_failed(c->r) || max < 0 || max >= all.as.l->n)
        return all;
    uint32_t cut = all.as.l->n - (uint32_t)max;
    const struct jstring *last = all.as.l->at[cut - 1].as.s;
    uint32_t end = (uint32_t)(last->data + last->len - SELF->data);
    push_part(c, list, run_end(SELF, 0, true), end);
    for (uint32_t i = cut; i < all.as.l->n; i++)
        jinja_push(c->r, list, all.as.l->at[i]);
    return list;
}

static struct jvalue rsplit(struct jcall *c)
{
    int64_t max = jinja_want_int(c, 1, -1);
    jinja_charge(c->r, (uint64_t)SELF->len * 4);
    if (c->p[0].type == J_MISSING || c->p[0].type == J_NONE)
        return rsplit_words(c, max);
    const struct jstring *sep = jinja_want_string(c, 0, "");
    if (sep->len == 0)
        return jinja_type_error(c->r, "empty separator");
    struct jvalue list = jinja_list(c->r, J_LIST, 0);
    uint32_t end = SELF->len;
    for (; max != 0 && !jinja_failed(c->r); max--) {
        int64_t at = find_last(SELF, sep, 0, end);
        if (at < 0)
            break;
        push_part(c, list, (uint32_t)at + sep->len, end);
        end = (uint32_t)at;
    }
    push_part(c, list, 0, end);
    if (!jinja_failed(c->r))
        reverse_list(list.as.l);
    return list;
}

/* Line ends that str.splitlines knows; how many bytes, 0 for none. */
static uint32_t line_end(const struct jstring *s, uint32_t at)
{
    uint32_t code, n = jinja_decode(s->data + at, s->len - at, &code);
    if (code == '\r')
        return at + 1 < s->len && s->data[at + 1] == '\n' ? 2 : 1;
    return code == '\n' || code == 0x0b || code == 0x0c || (code >= 0x1c && code <= 0x1e) ||
                   code == 0x85 || code == 0x2028 || code == 0x2029
               ? n
               : 0;
}

static struct jvalue splitlines(struct jcall *c)
{
    bool keep = jinja_want_bool(c, 0, false);
    struct jvalue list = jinja_list(c->r, J_LIST, 0);
    uint32_t start = 0;
    jinja_charge(c->r, SELF->len);
    for (uint32_t at = 0; at < SELF->len && !jinja_failed(c->r);) {
        uint32_t end = line_end(SELF, at);
        if (end) {
            push_part(c, list, start, keep ? at + end : at);
            start = at + end;
        }
        at += end ? end : 1;
    }
    if (start < SELF->len)
        push_part(c, list, start, SELF->len);
    return list;
}

static struct jvalue partition(struct jcall *c)
{
    const struct jstring *sep = jinja_want_string(c, 0, "");
    struct jvalue list = jinja_list(c->r, J_TUPLE, 3);
    if (sep->len == 0)
        return jinja_type_error(c->r, "empty separator");
    jinja_charge(c->r, (uint64_t)SELF->len * 2);
    const char *hit = memmem(SELF->data, SELF->len, sep->data, sep->len);
    int64_t at = c->op == 'r' ? find_last(SELF, sep, 0, SELF->len) : hit ? hit - SELF->data : -1;
    if (at < 0) { /* the whole on the left, or on the right for rpartition */
        push_part(c, list, 0, c->op == 'r' ? 0 : SELF->len);
        push_part(c, list, 0, 0);
        push_part(c, list, c->op == 'r' ? 0 : SELF->len, SELF->len);
    } else {
        push_part(c, list, 0, (uint32_t)at);
        push_part(c, list, (uint32_t)at, (uint32_t)at + sep->len);
        push_part(c, list, (uint32_t)at + sep->len, SELF->len);
    }
    return list;
}

/* ---- searching; positions are of characters */

static void search_range(struct jcall *c, uint32_t *from, uint32_t *to)
{
    int64_t n = SELF->n_chars, start = jinja_want_int(c, 1, 0), stop = jinja_want_int(c, 2, n);
    start = start < 0 ? (start + n < 0 ? 0 : start + n) : start > n ? n : start;
    stop = stop < 0 ? (stop + n < 0 ? 0 : stop + n) : stop > n ? n : stop;
    *from = jinja_offset(SELF, (uint32_t)start);
    *to = stop < start ? *from : jinja_offset(SELF, (uint32_t)stop);
    jinja_charge(c->r, SELF->len);
}

static struct jvalue find(struct jcall *c)
{
    const struct jstring *what = jinja_want_string(c, 0, "");
    uint32_t from, to;
    search_range(c, &from, &to);
    int64_t at;
    if (c->op == 'r' || c->op == 'R') {
        at = what->len <= to - from ? find_last(SELF, what, from, to) : -1;
        jinja_charge(c->r, (uint64_t)SELF->len * 4);
    } else {
        const char *hit = what->len ? memmem(SELF->data + from, to - from, what->data, what->len)
                                    : SELF->data + from;
        at = hit ? hit - SELF->data : -1;
    }
    if (at < 0 && (c->op == 'i' || c->op == 'R'))
        return jinja_type_error(c->r, "substring not found");
    return jinja_int(at < 0 ? -1 : (int64_t)jinja_count_chars(SELF->data, (size_t)at));
}

static struct jvalue count(struct jcall *c)
{
    const struct jstring *what = jinja_want_string(c, 0, "");
    uint32_t from, to;
    search_range(c, &from, &to);
    if (what->len == 0)
        return jinja_int((int64_t)jinja_count_chars(SELF->data + from, to - from) + 1);
    int64_t n = 0;
    const char *hit;
    while (from < to && (hit = memmem(SELF->data + from, to - from, what->data, what->len))) {
        from = (uint32_t)(hit - SELF->data) + what->len;
        n++;
    }
    return jinja_int(n);
}

static bool has_end(const struct jstring *s, uint32_t from, uint32_t to, const struct jstring *what,
                    bool at_end)
{
    return what->len <= to - from &&
           !memcmp(s->data + (at_end ? to - what->len : from), what->data, what->len);
}

static struct jvalue starts_or_ends(struct jcall *c)
{
    uint32_t from, to;
    search_range(c, &from, &to);
    if (c->p[0].type != J_TUPLE) {
        if (c->p[0].type != J_STRING && jinja_defined(c->r, c->p[0]))
            return jinja_type_error(c->r, "%s first arg must be str or a tuple of str, not %s",
                                    c->op ? "endswith" : "startswith", jinja_type_name(c->p[0]));
        return jinja_bool(has_end(SELF, from, to, jinja_want_string(c, 0, ""), c->op));
    }
    for (uint32_t i = 0; i < c->p[0].as.l->n; i++) {
        struct jvalue v = c->p[0].as.l->at[i];
        if (v.type != J_STRING)
            return jinja_type_error(c->r, "tuple for startswith must only contain str, not %s",
                                    jinja_type_name(v));
        if (has_end(SELF, from, to, v.as.s, c->op))
            return jinja_bool(true);
    }
    return jinja_bool(false);
}

static struct jvalue remove_affix(struct jcall *c)
{
    const struct jstring *what = jinja_want_string(c, 0, "");
    if (!has_end(SELF, 0, SELF->len, what, c->op))
        return c->self;
    return jinja_part(c->r, SELF, c->op ? 0 : what->len, c->op ? SELF->len - what->len : SELF->len);
}

/* ---- joining and padding */

static struct jvalue join(struct jcall *c)
{
    struct jlist *l = jinja_items(c->r, c->p[0]);
    struct jbuilder b;
    jinja_builder_init(&b, c->r);
    for (uint32_t i = 0; l && i < l->n && jinja_step(c->r, 1); i++) {
        if (l->at[i].type != J_STRING) {
            jinja_type_error(c->r, "sequence item %u: expected str instance, %s found", i,
                             jinja_type_name(l->at[i]));
            break;
        }
        if (i)
            jinja_put_string(&b, SELF);
        jinja_put_string(&b, l->at[i].as.s);
    }
    return jinja_builder_take(&b);
}

static struct jvalue replace(struct jcall *c)
{
    return jinja_replace(c->r, SELF, jinja_want_string(c, 0, ""), jinja_want_string(c, 1, ""),
                         jinja_want_int(c, 2, -1));
}

static struct jvalue pad(struct jcall *c)
{
    int64_t width = jinja_want_int(c, 0, 0), more = width - SELF->n_chars;
    const struct jstring *fill = jinja_want_string(c, 1, " ");
    if (fill->n_chars != 1)
        return jinja_type_error(c->r, "The fill character must be exactly one character long");
    if (more <= 0)
        return c->self;
    int64_t left = c->op == 'r' ? more : c->op == 'l' ? 0 : more / 2 + (more & width & 1);
    struct jbuilder b;
    jinja_builder_init(&b, c->r);
    jinja_put_fill(&b, fill->data, fill->len, left);
    jinja_put_string(&b, SELF);
    jinja_put_fill(&b, fill->data, fill->len, more - left);
    return jinja_builder_take(&b);
}

static struct jvalue zfill(struct jcall *c)
{
    int64_t more = jinja_want_int(c, 0, 0) - SELF->n_chars;
    uint32_t sign = SELF->len && (SELF->data[0] == '-' || SELF->data[0] == '+');
    if (more <= 0)
        return c->self;
    struct jbuilder b;
    jinja_builder_init(&b, c->r);
    jinja_put_part(&b, SELF, 0, sign);
    jinja_put_fill(&b, "0", 1, more);
    jinja_put_part(&b, SELF, sign, SELF->len);
    return jinja_builder_take(&b);
}

static struct jvalue expandtabs(struct jcall *c)
{
    int64_t size = jinja_want_int(c, 0, 8), column = 0;
    struct jbuilder b;
    jinja_builder_init(&b, c->r);
    for (uint32_t at = 0; at < SELF->len && !jinja_failed(c->r);) {
        uint32_t code, n = jinja_decode(SELF->data + at, SELF->len - at, &code);
        if (code == '\t') {
            int64_t spaces = size > 0 ? size - column % size : 0;
            jinja_put_fill(&b, " ", 1, spaces);
            column += spaces;
        } else {
            jinja_put_part(&b, SELF, at, at + n);
            column = code == '\n' || code == '\r' ? 0 : column + 1;
        }
        at += n;
    }
    return jinja_builder_take(&b);
}

static struct jvalue format(struct jcall *c)
{
    return jinja_format_braces(c->r, SELF, c->args);
}

static struct jvalue encode(struct jcall *c)
{
    struct jvalue v = c->self;
    v.type = J_BYTES;
    return v;
}

const struct jbuiltin jinja_string_methods[] = {
    {"strip", "chars", strip, STRIP_LEFT | STRIP_RIGHT},
    {"lstrip", "chars", strip, STRIP_LEFT},
    {"rstrip", "chars", strip, STRIP_RIGHT},
    {"split", "sep,maxsplit", split, 0},
    {"rsplit", "sep,maxsplit", rsplit, 0},
    {"splitlines", "keepends", splitlines, 0},
    {"partition", "sep!", partition, 0},
    {"rpartition", "sep!", partition, 'r'},
    {"startswith", "prefix!,start,end", starts_or_ends, 0},
    {"endswith", "suffix!,start,end", starts_or_ends, 1},
    {"removeprefix", "prefix!", remove_affix, 0},
    {"removesuffix", "suffix!", remove_affix, 1},
    {"replace", "old!,new!,count", replace, 0},
    {"find", "sub!,start,end", find, 0},
    {"rfind", "sub!,start,end", find, 'r'},
    {"index", "sub!,start,end", find, 'i'},
    {"rindex", "sub!,start,end", find, 'R'},
    {"count", "sub!,start,end", count, 0},
    {"join", "iterable!", join, 0},
    {"upper", "", change_case, CASE_UPPER},
    {"lower", "", change_case, CASE_LOWER},
    {"title", "", change_case, CASE_TITLE},
    {"capitalize", "", change_case, CASE_CAPITAL},
    {"swapcase", "", change_case, CASE_SWAP},
    {"casefold", "", change_case, CASE_FOLD},
    {"ljust", "width!,fillchar", pad, 'l'},
    {"rjust", "width!,fillchar", pad, 'r'},
    {"center", "width!,fillchar", pad, 0},
    {"zfill", "width!", zfill, 0},
    {"expandtabs", "tabsize", expandtabs, 0},
    {"format", "*", format, 0},
    {"encode", "encoding,errors", encode, 0},
    {NULL, NULL, NULL, 0},
};
