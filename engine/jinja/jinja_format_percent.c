/* "%s" % x: the part of Python's printf-style formatting that templates use. */
#include <math.h>
#include <string.h>

#include "engine/jinja/jinja_format.h"

struct percent {
    struct jinja_run *r;
    struct jvalue arg;
    uint32_t next; /* of a tuple */
    bool mapped;
};

static struct jvalue next_argument(struct percent *p)
{
    if (p->arg.type == J_TUPLE) {
        if (p->next < p->arg.as.l->n)
            return p->arg.as.l->at[p->next++];
    } else if (p->next++ == 0) {
        return p->arg;
    }
    return jinja_type_error(p->r, "not enough arguments for format string");
}

static int64_t star_or_number(struct percent *p, const struct jstring *f, uint32_t *at)
{
    if (*at < f->len && f->data[*at] == '*') {
        int64_t v;
        ++*at;
        if (!jinja_format_to_integer(next_argument(p), &v))
            jinja_type_error(p->r, "* wants int");
        return v;
    }
    int64_t n = 0;
    while (*at < f->len && f->data[*at] >= '0' && f->data[*at] <= '9' && n < JINJA_MAX_TEXT)
        n = n * 10 + (f->data[(*at)++] - '0');
    while (*at < f->len && f->data[*at] >= '0' && f->data[*at] <= '9')
        ++*at;
    return n;
}

static void put_percent(struct percent *p, struct jbuilder *b, const struct jformat *s,
                        struct jvalue v)
{
    struct jvalue text;
    int64_t i;
    switch (s->kind) {
    case 's':
        text = jinja_format_cut(p->r, s, jinja_str(p->r, v));
        break;
    case 'r':
    case 'a':
        text = jinja_format_cut(p->r, s, jinja_format_repr(p->r, v));
        break;
    case 'c':
        text = jinja_format_char(p->r, v);
        break;
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        if (v.type == J_FLOAT && strchr("diu", s->kind) && fabs(v.as.f) < 9e18)
            v = jinja_int((int64_t)v.as.f);
        if (v.type == J_BIG && strchr("diu", s->kind))
            text = jinja_part(p->r, v.as.s, 0, v.as.s->len);
        else if (jinja_format_to_integer(v, &i))
            text = jinja_format_integer(p->r, s, i);
        else
            text = jinja_type_error(p->r, "%%%c format: a number is required, not %s", s->kind,
                                    jinja_type_name(v));
        break;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        text = jinja_is_number(v)
                   ? jinja_format_float(p->r, s, jinja_double(v))
                   : jinja_type_error(p->r, "must be real number, not %s", jinja_type_name(v));
        break;
    default:
        text = jinja_type_error(p->r, "unsupported format character '%c'",
                                s->kind > 31 ? s->kind : '?');
    }
    if (!jinja_failed(p->r))
        jinja_format_pad(b, s, text, !strchr("srac", s->kind));
}

/* One specification behind the '%' at *at. */
static void percent_item(struct percent *p, struct jbuilder *b, const struct jstring *f,
                         uint32_t *at)
{
    struct jformat s = {.precision = -1};
    struct jvalue v = {0};
    if (*at < f->len && f->data[*at] == '(') {
        const char *close = memchr(f->data + *at, ')', f->len - *at);
        if (!close || p->arg.type != J_DICT) {
            jinja_type_error(p->r, close ? "format requires a mapping" : "incomplete format key");
            return;
        }
        uint32_t end = (uint32_t)(close - f->data);
        struct jvalue *found = jinja_dict_find(p->arg.as.d, f->data + *at + 1, end - *at - 1);
        if (!found) {
            jinja_type_error(p->r, "KeyError: '%.*s'",
                             (int)(end - *at - 1 < 60 ? end - *at - 1 : 60), f->data + *at + 1);
            return;
        }
        v = *found;
        p->mapped = true;
        *at = end + 1;
    }
    for (; *at < f->len && f->data[*at] && strchr("-+ 0#", f->data[*at]); ++*at) {
        char c = f->data[*at];
        s.left |= c == '-';
        s.plus |= c == '+';
        s.space |= c == ' ';
        s.zero |= c == '0';
        s.alternate |= c == '#';
    }
    s.width = star_or_number(p, f, at);
    if (s.width < 0) {
        s.left = true;
        s.width = -s.width;
    }
    if (*at < f->len && f->data[*at] == '.') {
        ++*at;
        s.precision = star_or_number(p, f, at);
    }
    while (*at < f->len && f->data[*at] && strchr("hlL", f->data[*at]))
        ++*at;
    if (*at >= f->len) {
        jinja_type_error(p->r, "incomplete format");
        return;
    }
    s.kind = f->data[(*at)++];
    if (s.kind == '%') {
        jinja_puts(b, "%");
        return;
    }
    if (v.type == J_MISSING)
        v = next_argument(p);
    if (!jinja_failed(p->r))
        put_percent(p, b, &s, v);
}

struct jvalue jinja_format_percent(struct jinja_run *r, const struct jstring *f, struct jvalue arg)
{
    struct percent p = {.r = r, .arg = arg};
    struct jbuilder b;
    jinja_builder_init(&b, r);
    for (uint32_t at = 0; at < f->len && !jinja_failed(r);) {
        const char *sign = memchr(f->data + at, '%', f->len - at);
        uint32_t end = sign ? (uint32_t)(sign - f->data) : f->len;
        jinja_put_part(&b, f, at, end);
        at = end + 1;
        if (sign)
            percent_item(&p, &b, f, &at);
    }
    bool unused = arg.type == J_TUPLE
                      ? p.next < arg.as.l->n
                      : !p.mapped && p.next == 0 && arg.type != J_DICT && arg.type != J_LIST;
    if (unused)
        jinja_type_error(r, "not all arguments converted during string formatting");
    return jinja_builder_take(&b);
}
