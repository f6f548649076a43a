/* "{}".format(x): the part of Python's format strings that templates use. */
#include <stdlib.h>
#include <string.h>

#include "engine/jinja/jinja_format.h"

/* "[[fill]align][sign][#][0][width][,][.precision][type]" */
static bool parse_spec(const char *t, size_t len, struct jformat *s)
{
    size_t at = 0;
    *s = (struct jformat){.precision = -1};
    uint32_t code, n = len ? jinja_decode(t, len, &code) : 0;
    if (n && n < len && strchr("<>=^", t[n]) && t[n]) {
        memcpy(s->fill, t, n);
        s->fill_len = n;
        at = n;
    }
    if (at < len && t[at] && strchr("<>=^", t[at])) {
        s->left = t[at] == '<';
        s->center = t[at] == '^';
        s->equal = t[at] == '=';
        at++;
    }
    if (at < len && t[at] && strchr("+- ", t[at])) {
        s->plus = t[at] == '+';
        s->space = t[at] == ' ';
        at++;
    }
    if (at < len && t[at] == '#') {
        s->alternate = true;
        at++;
    }
    if (at < len && t[at] == '0') {
        s->zero = true;
        at++;
    }
    while (at < len && t[at] >= '0' && t[at] <= '9' && s->width < JINJA_MAX_TEXT)
        s->width = s->width * 10 + (t[at++] - '0');
    if (at < len && (t[at] == ',' || t[at] == '_')) {
        s->comma = t[at] == ',';
        s->underscore = t[at] == '_';
        at++;
    }
    if (at < len && t[at] == '.') {
        s->precision = 0;
        for (at++; at < len && t[at] >= '0' && t[at] <= '9' && s->precision < JINJA_MAX_TEXT; at++)
            s->precision = s->precision * 10 + (t[at] - '0');
    }
    s->kind = at < len ? t[at++] : 0;
    return at == len;
}

static void put_formatted(struct jinja_run *r, struct jbuilder *b, struct jvalue v, const char *t,
                          size_t len)
{
    struct jformat s;
    if (len == 0) {
        jinja_put_str(b, v);
        return;
    }
    if (!parse_spec(t, len, &s)) {
        jinja_type_error(r, "Invalid format specifier");
        return;
    }
    bool aligned = t[0] == '<' || t[0] == '>' || t[0] == '^' || t[0] == '=' || s.fill_len;
    bool number = jinja_is_number(v) && v.type != J_BIG;
    struct jvalue text;
    int64_t i;
    if (!number && v.type != J_STRING) {
        jinja_type_error(r, "unsupported format string passed to %s.__format__",
                         jinja_type_name(v));
        return;
    }
    if (!number) {
        if (s.kind && s.kind != 's') {
            jinja_type_error(r, "Unknown format code '%c' for object of type '%s'",
                             s.kind > 31 ? s.kind : '?', jinja_type_name(v));
            return;
        }
        if (s.plus || s.space || s.alternate || s.equal || s.comma || s.underscore) {
            jinja_type_error(r, "Sign not allowed in string format specifier");
            return;
        }
        text = jinja_format_cut(r, &s, jinja_str(r, v));
        s.left |= !aligned;
    } else if (s.kind && strchr("eEfFgG%", s.kind)) {
        text = jinja_format_float(r, &s, jinja_double(v));
    } else if (jinja_format_to_integer(v, &i) && (!s.kind || strchr("dxXobcn", s.kind))) {
        text = s.kind == 'c' ? jinja_format_char(r, v) : jinja_format_integer(r, &s, i);
    } else if (v.type == J_FLOAT && !s.kind) {
        s.kind = 'g';
        text = s.precision < 0 ? jinja_format_float_repr(r, &s, v.as.f)
                               : jinja_format_float(r, &s, v.as.f);
    } else {
        text = jinja_type_error(r, "Unknown format code '%c'", s.kind > 31 ? s.kind : '?');
    }
    if (!jinja_failed(r))
        jinja_format_pad(b, &s, text, number);
}

struct braces {
    struct jinja_run *r;
    const struct jargs *args;
    int next;
};

/* "0.name[key]" */
static struct jvalue find_field(struct braces *f, const char *t, size_t len)
{
    size_t n = 0;
    while (n < len && t[n] != '.' && t[n] != '[')
        n++;
    struct jvalue v = {0};
    if (n == 0 || strspn(t, "0123456789") >= n) {
        long i = n ? strtol(t, NULL, 10) : f->next++;
        if (i < 0 || i >= f->args->n)
            return jinja_type_error(
                f->r, "Replacement index %ld out of range for positional args tuple", i);
        v = f->args->at[i];
    }
    for (int k = 0; v.type == J_MISSING && k < f->args->n_keyword; k++) {
        const struct jstring *name = f->args->keyword[k].name.as.s;
        if (name->len == n && !memcmp(name->data, t, n))
            v = f->args->keyword[k].value;
    }
    if (v.type == J_MISSING)
        return jinja_type_error(f->r, "KeyError: '%.*s'", (int)(n < 60 ? n : 60), t);
    while (n < len && !jinja_failed(f->r)) {
        size_t from = n + 1, to = from;
        if (t[n] == '[') {
            while (to < len && t[to] != ']')
                to++;
            bool digits =
                to > from && strspn(t + from, "0123456789") >= to - from && to - from < 10;
            v = jinja_getitem(f->r, v,
                              digits ? jinja_int(strtol(t + from, NULL, 10))
                                     : jinja_text(f->r, t + from, to - from));
            n = to + 1;
        } else {
            while (to < len && t[to] != '.' && t[to] != '[')
                to++;
            v = jinja_getattr(f->r, v, jinja_text(f->r, t + from, to - from).as.s);
            n = to;
        }
    }
    return v;
}

static void put_field(struct braces *f, struct jbuilder *b, const char *t, size_t len)
{
    size_t name = 0;
    while (name < len && t[name] != '!' && t[name] != ':')
        name++;
    struct jvalue v = find_field(f, t, name);
    if (jinja_failed(f->r))
        return;
    if (name + 1 < len && t[name] == '!') {
        v = t[name + 1] == 'r' ? jinja_format_repr(f->r, v) : jinja_str(f->r, v);
        name += 2;
    }
    const char *spec = name < len && t[name] == ':' ? t + name + 1 : t + len;
    put_formatted(f->r, b, v, spec, (size_t)(t + len - spec));
}

struct jvalue jinja_format_braces(struct jinja_run *r, const struct jstring *s,
                                  const struct jargs *args)
{
    struct braces f = {.r = r, .args = args};
    struct jbuilder b;
    jinja_builder_init(&b, r);
    for (uint32_t at = 0; at < s->len && !jinja_failed(r);) {
        char c = s->data[at];
        if ((c == '{' || c == '}') && at + 1 < s->len && s->data[at + 1] == c) {
            jinja_put_part(&b, s, at, at + 1);
            at += 2;
        } else if (c == '}') {
            jinja_type_error(r, "Single '}' encountered in format string");
        } else if (c == '{') {
            const char *close = memchr(s->data + at, '}', s->len - at);
            if (!close) {
                jinja_type_error(r, "expected '}' before end of string");
                break;
            }
            put_field(&f, &b, s->data + at + 1, (size_t)(close - s->data) - at - 1);
            at = (uint32_t)(close - s->data) + 1;
        } else {
            uint32_t end = at;
            while (end < s->len && s->data[end] != '{' && s->data[end] != '}')
                end++;
            jinja_put_part(&b, s, at, end);
            at = end;
        }
    }
    return jinja_builder_take(&b);
}
