/* The filters that take text: case, trimming, escaping, filling, wrapping. */
#include <stdio.h>
#include <string.h>

#include "engine/jinja/jinja_run.h"

/* str(value), which most text filters begin with. */
static const struct jstring *text_of(struct jcall *c)
{
    return jinja_str(c->r, c->self).as.s;
}

/* Some filters take text only, without str() first. */
static bool needs_text(struct jcall *c, const char *how)
{
    if (c->self.type != J_STRING && jinja_defined(c->r, c->self))
        jinja_type_error(c->r, "'%s' object %s", jinja_type_name(c->self), how);
    return !jinja_failed(c->r);
}

static struct jvalue filter_case(struct jcall *c)
{
    return jinja_change_case(c->r, text_of(c), c->op);
}

/* title(): a word begins behind white space, a hyphen or a bracket; unlike str.title, "it's" stays
 * one word. */
static struct jvalue filter_title(struct jcall *c)
{
    const struct jstring *s = text_of(c);
    struct jbuilder b;
    jinja_builder_init(&b, c->r);
    bool begins = true;
    for (uint32_t at = 0; at < s->len && !jinja_failed(c->r);) {
        uint32_t code, n = jinja_decode(s->data + at, s->len - at, &code);
        struct jvalue one = jinja_part(c->r, s, at, at + n);
        jinja_put_string(&b,
                         jinja_change_case(c->r, one.as.s, begins ? CASE_UPPER : CASE_LOWER).as.s);
        begins = jinja_is_space(code) || (code < 0x80 && code && strchr("-({[<", (int)code));
        at += n;
    }
    return jinja_builder_take(&b);
}

static struct jvalue filter_trim(struct jcall *c)
{
    const struct jstring *chars =
        jinja_given(c->p[0]) && c->p[0].type != J_NONE ? jinja_want_string(c, 0, "") : NULL;
    return jinja_strip(c->r, text_of(c), chars, STRIP_LEFT | STRIP_RIGHT);
}

static struct jvalue filter_replace(struct jcall *c)
{
    int64_t count = jinja_given(c->p[2]) && c->p[2].type != J_NONE ? jinja_want_int(c, 2, -1) : -1;
    const struct jstring *from = jinja_str(c->r, c->p[0]).as.s, *to = jinja_str(c->r, c->p[1]).as.s;
    return jinja_replace(c->r, text_of(c), from, to, count);
}

static struct jvalue filter_string(struct jcall *c)
{
    return jinja_str(c->r, c->self);
}

static struct jvalue filter_escape(struct jcall *c)
{
    if (c->op) { /* forceescape: what is markup, too */
        struct jstring plain = *text_of(c);
        plain.markup = false;
        return jinja_escape(c->r, (struct jvalue){.type = J_STRING, .as.s = &plain});
    }
    return jinja_escape(c->r, c->self);
}

static struct jvalue filter_safe(struct jcall *c)
{
    const struct jstring *s = text_of(c);
    struct jvalue v = jinja_part(c->r, s, 0, s->len);
    if (!jinja_failed(c->r))
        v.as.s->markup = true;
    return v;
}

static struct jvalue filter_format(struct jcall *c)
{
    struct jvalue arg;
    if (c->args->n_keyword && c->args->n)
        return jinja_type_error(c->r,
                                "can't handle positional and keyword arguments at the same time");
    if (c->args->n_keyword) {
        arg = jinja_dict(c->r);
        for (int i = 0; i < c->args->n_keyword && !jinja_failed(c->r); i++)
            jinja_dict_set(c->r, arg.as.d, c->args->keyword[i].name, c->args->keyword[i].value);
    } else {
        arg = jinja_list(c->r, J_TUPLE, 0);
        for (int i = 0; i < c->args->n; i++)
            jinja_push(c->r, arg, c->args->at[i]);
    }
    return jinja_failed(c->r) ? jinja_none() : jinja_format_percent(c->r, text_of(c), arg);
}

/* Lines as str.splitlines gives them. */
static struct jlist *split_lines(struct jcall *c, const struct jstring *s)
{
    struct jvalue self = {.type = J_STRING, .as.s = (struct jstring *)s};
    struct jvalue v = jinja_call_builtin(
        c->r, jinja_find_builtin(jinja_string_methods, "splitlines", 10), self, &(struct jargs){0});
    return v.type == J_LIST && !jinja_failed(c->r) ? v.as.l : NULL;
}

/* indent(width=4, first=false, blank=false) */
static struct jvalue filter_indent(struct jcall *c)
{
    const struct jstring *s = text_of(c), *fill;
    bool first = jinja_want_bool(c, 1, false), blank = jinja_want_bool(c, 2, false);
    struct jbuilder b;
    if (!needs_text(c, "can't be indented"))
        return jinja_none();
    jinja_builder_init(&b, c->r);
    if (c->p[0].type == J_STRING) {
        fill = c->p[0].as.s;
    } else {
        jinja_put_fill(&b, " ", 1, jinja_want_int(c, 0, 4));
        fill = jinja_builder_take(&b).as.s;
        jinja_builder_init(&b, c->r);
    }
    jinja_put_string(&b, s);
    jinja_put_like(&b, "\n", 1, s,
                   s->len ? s->len - 1 : 0); /* so that a last empty line is a line, too */
    s = jinja_builder_take(&b).as.s;
    struct jlist *lines = split_lines(c, s);
    jinja_builder_init(&b, c->r);
    for (uint32_t i = 0; lines && i < lines->n; i++) {
        const struct jstring *line = lines->at[i].as.s; /* shares the memory of s */
        if (i)
            jinja_put_like(&b, "\n", 1, s, (uint32_t)(line->data - s->data) - 1);
        if (i == 0 ? first : blank || line->len)
            jinja_put_string(&b, fill);
        jinja_put_string(&b, line);
    }
    return jinja_builder_take(&b);
}

static struct jvalue filter_center(struct jcall *c)
{
    const struct jstring *s = text_of(c);
    int64_t width = jinja_want_int(c, 0, 80), more = width - s->n_chars;
    int64_t left = more > 0 ? more / 2 + (more & width & 1) : 0;
    struct jbuilder b;
    jinja_builder_init(&b, c->r);
    jinja_put_fill(&b, " ", 1, left);
    jinja_put_string(&b, s);
    jinja_put_fill(&b, " ", 1, more - left);
    return jinja_builder_take(&b);
}

/* truncate(length=255, killwords=false, end="...", leeway=5) */
static struct jvalue filter_truncate(struct jcall *c)
{
    const struct jstring *s = text_of(c), *end = jinja_want_string(c, 2, "...");
    int64_t length = jinja_want_int(c, 0, 255), leeway = jinja_want_int(c, 3, 5);
    if (c->self.type != J_STRING && jinja_length(c->self) >= 0 &&
        jinja_length(c->self) <= length + leeway)
        return c->self; /* short enough, whatever it is */
    if (!needs_text(c, "can't be truncated"))
        return jinja_none();
    if (length < (int64_t)end->n_chars || leeway < 0)
        return jinja_type_error(c->r, "expected length >= %u, got %lld", end->n_chars,
                                (long long)length);
    if (s->n_chars <= length + leeway)
        return (struct jvalue){.type = J_STRING, .as.s = (struct jstring *)s};
    uint32_t cut = jinja_offset(s, (uint32_t)(length - end->n_chars));
    if (!jinja_want_bool(c, 1, false)) { /* back to the last space, if there is one */
        uint32_t space = cut;
        while (space > 0 && s->data[space - 1] != ' ')
            space--;
        cut = space ? space - 1 : cut;
    }
    struct jbuilder b;
    jinja_builder_init(&b, c->r);
    jinja_put_part(&b, s, 0, cut);
    jinja_put_string(&b, end);
    return jinja_builder_take(&b);
}

static struct jvalue filter_wordcount(struct jcall *c)
{
    const struct jstring *s = text_of(c);
    int64_t n = 0;
    bool inside = false;
    jinja_charge(c->r, s->len);
    for (uint32_t at = 0; at < s->len;) {
        uint32_t code, size = jinja_decode(s->data + at, s->len - at, &code);
        bool word = code == '_' || code >= 0x80 ? !jinja_is_space(code)
                                                : (code >= '0' && code <= '9') ||
                                                      ((code | 32) >= 'a' && (code | 32) <= 'z');
        n += word && !inside;
        inside = word;
        at += size;
    }
    return jinja_int(n);
}

struct wrapping {
    int64_t width;                   /* characters of a line */
    const struct jstring *separator; /* stands between the lines */
    bool break_long_words;
};

/* Breaks one line of text between its words. */
static void wrap_line(struct jcall *c, struct jbuilder *b, const struct jstring *s,
                      const struct wrapping *w)
{
    int64_t width = w->width;
    int64_t column = 0;
    uint32_t at = 0;
    while (at < s->len && !jinja_failed(c->r)) {
        uint32_t end = at;
        while (end < s->len && s->data[end] != ' ')
            end++;
        int64_t size = jinja_count_chars(s->data + at, end - at);
        if (column && column + 1 + size > width) {
            jinja_put_string(b, w->separator);
            column = 0;
        } else if (column) {
            jinja_put_part(b, s, at - 1, at);
            column++;
        }
        while (w->break_long_words && size > width) {
            struct jvalue rest = jinja_part(c->r, s, at, end);
            uint32_t cut = at + jinja_offset(rest.as.s, (uint32_t)width);
            jinja_put_part(b, s, at, cut);
            jinja_put_string(b, w->separator);
            size -= width;
            at = cut;
            if (!jinja_step(c->r, 1))
                return;
        }
        jinja_put_part(b, s, at, end);
        column += size;
        at = end + 1;
    }
}

/* wordwrap(width=79, break_long_words=true, wrapstring="\n") */
static struct jvalue filter_wordwrap(struct jcall *c)
{
    const struct jstring *s = text_of(c);
    int64_t width = jinja_want_int(c, 0, 79);
    const struct jstring *wrap = jinja_given(c->p[2]) && c->p[2].type != J_NONE
                                     ? jinja_want_string(c, 2, "\n")
                                     : jinja_literal(c->r, "\n").as.s;
    struct jbuilder b;
    jinja_builder_init(&b, c->r);
    if (needs_text(c, "has no attribute 'splitlines'") && width < 1)
        jinja_type_error(c->r, "invalid width %lld (must be > 0)", (long long)width);
    struct jlist *lines = jinja_failed(c->r) ? NULL : split_lines(c, s);
    for (uint32_t i = 0; lines && i < lines->n; i++) {
        if (i)
            jinja_put_string(&b, wrap);
        wrap_line(c, &b, lines->at[i].as.s,
                  &(struct wrapping){.width = width,
                                     .separator = wrap,
                                     .break_long_words = jinja_want_bool(c, 1, true)});
    }
    return jinja_builder_take(&b);
}

static struct jvalue filter_urlencode(struct jcall *c)
{
    const struct jstring *s = text_of(c);
    struct jbuilder b;
    if (c->self.type > J_BYTES)
        return jinja_type_error(c->r, "urlencode of a '%s' is not there", jinja_type_name(c->self));
    jinja_builder_init(&b, c->r);
    for (uint32_t i = 0; i < s->len && !jinja_failed(c->r); i++) {
        unsigned char ch = (unsigned char)s->data[i];
        char out[4];
        bool keep = (ch >= '0' && ch <= '9') || ((ch | 32) >= 'a' && (ch | 32) <= 'z') ||
                    (ch && strchr("_.-~/", ch));
        snprintf(out, sizeof out, keep ? "%c" : "%%%02X", ch);
        jinja_put_like(&b, out, strlen(out), s, i);
    }
    return jinja_builder_take(&b);
}

static struct jvalue filter_striptags(struct jcall *c)
{
    const struct jstring *s = text_of(c);
    struct jbuilder b;
    jinja_builder_init(&b, c->r);
    bool space = false, any = false;
    for (uint32_t at = 0; at < s->len && !jinja_failed(c->r);) {
        uint32_t code, n = jinja_decode(s->data + at, s->len - at, &code);
        const char *close = code == '<' ? memchr(s->data + at, '>', s->len - at) : NULL;
        if (close) {
            at = (uint32_t)(close - s->data) + 1;
            continue;
        }
        if (jinja_is_space(code)) {
            space = any;
        } else {
            if (space)
                jinja_puts(&b, " ");
            jinja_put_part(&b, s, at, at + n);
            space = false;
            any = true;
        }
        at += n;
    }
    return jinja_builder_take(&b);
}

const struct jbuiltin jinja_filters_text[] = {
    {"upper", "", filter_case, CASE_UPPER},
    {"lower", "", filter_case, CASE_LOWER},
    {"capitalize", "", filter_case, CASE_CAPITAL},
    {"title", "", filter_title, 0},
    {"trim", "chars", filter_trim, 0},
    {"replace", "old!,new!,count", filter_replace, 0},
    {"string", "", filter_string, 0},
    {"escape", "", filter_escape, 0},
    {"e", "", filter_escape, 0},
    {"forceescape", "", filter_escape, 1},
    {"safe", "", filter_safe, 0},
    {"format", "*", filter_format, 0},
    {"indent", "width,first,blank", filter_indent, 0},
    {"center", "width", filter_center, 0},
    {"truncate", "length,killwords,end,leeway", filter_truncate, 0},
    {"wordcount", "", filter_wordcount, 0},
    {"wordwrap", "width,break_long_words,wrapstring,break_on_hyphens", filter_wordwrap, 0},
    {"urlencode", "", filter_urlencode, 0},
    {"striptags", "", filter_striptags, 0},
    {NULL, NULL, NULL, 0},
};
