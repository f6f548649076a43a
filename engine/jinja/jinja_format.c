/* "%s" % x and "{}".format(x): the parts of Python's two formatting languages that text needs. Widths are
 * charged like everything else; numbers go through printf with a precision of 100 at most. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/jinja/jinja_run.h"

#define MAX_PRECISION 100

struct spec {
    bool left, plus, space, zero, alternate, comma, underscore, center, equal;
    char fill[4];
    size_t fill_len;
    int64_t width, precision; /* -1: none */
    char kind;
};

static void put_padded(struct jbuilder *b, const struct spec *s, struct jvalue text, bool number)
{
    int64_t more = s->width - text.as.s->n_chars;
    int64_t before = more <= 0 || s->left ? 0 : s->center ? more / 2 : more;
    const char *fill = s->fill_len ? s->fill : " ";
    size_t n = s->fill_len ? s->fill_len : 1;
    const struct jstring *t = text.as.s;
    uint32_t sign = number && (s->zero || s->equal) && t->len && strchr("+- ", t->data[0]) ? 1 : 0;
    if (number && s->zero && !s->left && !s->fill_len)
        fill = "0";
    jinja_put_part(b, t, 0, sign);
    jinja_put_fill(b, fill, n, before);
    jinja_put_part(b, t, sign, t->len);
    jinja_put_fill(b, fill, n, more > 0 ? more - before : 0);
}

/* Digits of an integer in a base, with its sign and, for '#', its prefix. */
static struct jvalue integer_text(struct jinja_run *r, const struct spec *s, int64_t v)
{
    char digits[80], out[128];
    uint64_t u = v < 0 ? -(uint64_t)v : (uint64_t)v;
    int n = 0, base = s->kind == 'x' || s->kind == 'X' ? 16 : s->kind == 'o' ? 8 : s->kind == 'b' ? 2 : 10;
    int group = s->comma || s->underscore ? (base == 10 ? 3 : 4) : 0, count = 0;
    do {
        if (group && count && count % group == 0)
            digits[n++] = s->comma ? ',' : '_';
        digits[n++] = (s->kind == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[u % (uint64_t)base];
        u /= (uint64_t)base;
        count++;
    } while (u && n < (int)sizeof digits - 2);
    size_t at = 0;
    if (v < 0 || s->plus || s->space)
        out[at++] = v < 0 ? '-' : s->plus ? '+' : ' ';
    if (s->alternate && base != 10) {
        out[at++] = '0';
        out[at++] = s->kind;
    }
    while (n)
        out[at++] = digits[--n];
    return jinja_text(r, out, at);
}

static struct jvalue float_text(struct jinja_run *r, const struct spec *s, double v)
{
    char format[16], out[512];
    int precision = s->precision < 0 ? 6 : s->precision > MAX_PRECISION ? MAX_PRECISION : (int)s->precision;
    char kind = s->kind == '%' ? 'f' : s->kind;
    snprintf(format, sizeof format, "%%%s%s.*%c", s->alternate ? "#" : "", s->plus ? "+" : s->space ? " " : "", kind);
    snprintf(out, sizeof out, format, precision, s->kind == '%' ? v * 100 : v);
    if (s->kind == '%')
        strcat(out, "%");
    if (!s->comma && !s->underscore)
        return jinja_text(r, out, strlen(out));
    char grouped[700]; /* thousands in the integer part */
    size_t n = 0, start = strspn(out, "+- "), digits = strspn(out + start, "0123456789");
    memcpy(grouped, out, start);
    n = start;
    for (size_t i = 0; i < digits; i++) {
        if (i && (digits - i) % 3 == 0)
            grouped[n++] = s->comma ? ',' : '_';
        grouped[n++] = out[start + i];
    }
    n += (size_t)snprintf(grouped + n, sizeof grouped - n, "%s", out + start + digits);
    return jinja_text(r, grouped, n);
}

/* As repr, with the sign that the format asks for. */
static struct jvalue float_repr_text(struct jinja_run *r, const struct spec *s, double v)
{
    char out[40];
    bool sign = (s->plus || s->space) && !signbit(v);
    out[0] = s->plus ? '+' : ' ';
    jinja_float_repr(v, out + sign);
    return jinja_text(r, out, strlen(out));
}

static bool to_integer(struct jvalue v, int64_t *out)
{
    *out = v.type == J_BOOL ? v.as.b : v.type == J_INT ? v.as.i : (int64_t)0;
    return v.type == J_BOOL || v.type == J_INT;
}

static struct jvalue cut_text(struct jinja_run *r, const struct spec *s, struct jvalue text)
{
    if (s->precision < 0 || s->precision >= text.as.s->n_chars)
        return text;
    return jinja_part(r, text.as.s, 0, jinja_offset(text.as.s, (uint32_t)s->precision));
}

static struct jvalue repr_text(struct jinja_run *r, struct jvalue v)
{
    struct jbuilder b;
    jinja_builder_init(&b, r);
    jinja_put_repr(&b, v);
    return jinja_builder_take(&b);
}

static struct jvalue char_text(struct jinja_run *r, struct jvalue v)
{
    char out[4];
    if (v.type == J_STRING && v.as.s->n_chars == 1)
        return v;
    if (v.type == J_BOOL)
        v = jinja_int(v.as.b);
    if (v.type != J_INT || v.as.i < 0 || v.as.i > 0x10ffff || (v.as.i >= 0xd800 && v.as.i < 0xe000))
        return jinja_type_error(r, "%%c requires an int or a unicode character");
    return jinja_text(r, out, jinja_encode((uint32_t)v.as.i, out));
}

/* ---- % */

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
        if (!to_integer(next_argument(p), &v))
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

static void put_percent(struct percent *p, struct jbuilder *b, const struct spec *s, struct jvalue v)
{
    struct jvalue text;
    int64_t i;
    switch (s->kind) {
    case 's': text = cut_text(p->r, s, jinja_str(p->r, v)); break;
    case 'r':
    case 'a': text = cut_text(p->r, s, repr_text(p->r, v)); break;
    case 'c': text = char_text(p->r, v); break;
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
        else if (to_integer(v, &i))
            text = integer_text(p->r, s, i);
        else
            text = jinja_type_error(p->r, "%%%c format: a number is required, not %s", s->kind, jinja_type_name(v));
        break;
    case 'e': case 'E': case 'f': case 'F': case 'g': case 'G':
        text = jinja_is_number(v) ? float_text(p->r, s, jinja_double(v))
                                  : jinja_type_error(p->r, "must be real number, not %s", jinja_type_name(v));
        break;
    default: text = jinja_type_error(p->r, "unsupported format character '%c'", s->kind > 31 ? s->kind : '?');
    }
    if (!jinja_failed(p->r))
        put_padded(b, s, text, !strchr("srac", s->kind));
}

/* One specification behind the '%' at *at. */
static void percent_item(struct percent *p, struct jbuilder *b, const struct jstring *f, uint32_t *at)
{
    struct spec s = {.precision = -1};
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
            jinja_type_error(p->r, "KeyError: '%.*s'", (int)(end - *at - 1 < 60 ? end - *at - 1 : 60), f->data + *at + 1);
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
    bool unused = arg.type == J_TUPLE ? p.next < arg.as.l->n
                : !p.mapped && p.next == 0 && arg.type != J_DICT && arg.type != J_LIST;
    if (unused)
        jinja_type_error(r, "not all arguments converted during string formatting");
    return jinja_builder_take(&b);
}

/* ---- {} */

/* "[[fill]align][sign][#][0][width][,][.precision][type]" */
static bool parse_spec(const char *t, size_t len, struct spec *s)
{
    size_t at = 0;
    *s = (struct spec){.precision = -1};
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

static void put_formatted(struct jinja_run *r, struct jbuilder *b, struct jvalue v, const char *t, size_t len)
{
    struct spec s;
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
        jinja_type_error(r, "unsupported format string passed to %s.__format__", jinja_type_name(v));
        return;
    }
    if (!number) {
        if (s.kind && s.kind != 's') {
            jinja_type_error(r, "Unknown format code '%c' for object of type '%s'", s.kind > 31 ? s.kind : '?',
                             jinja_type_name(v));
            return;
        }
        if (s.plus || s.space || s.alternate || s.equal || s.comma || s.underscore) {
            jinja_type_error(r, "Sign not allowed in string format specifier");
            return;
        }
        text = cut_text(r, &s, jinja_str(r, v));
        s.left |= !aligned;
    } else if (s.kind && strchr("eEfFgG%", s.kind)) {
        text = float_text(r, &s, jinja_double(v));
    } else if (to_integer(v, &i) && (!s.kind || strchr("dxXobcn", s.kind))) {
        text = s.kind == 'c' ? char_text(r, v) : integer_text(r, &s, i);
    } else if (v.type == J_FLOAT && !s.kind) {
        s.kind = 'g';
        text = s.precision < 0 ? float_repr_text(r, &s, v.as.f) : float_text(r, &s, v.as.f);
    } else {
        text = jinja_type_error(r, "Unknown format code '%c'", s.kind > 31 ? s.kind : '?');
    }
    if (!jinja_failed(r))
        put_padded(b, &s, text, number);
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
            return jinja_type_error(f->r, "Replacement index %ld out of range for positional args tuple", i);
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
            bool digits = to > from && strspn(t + from, "0123456789") >= to - from && to - from < 10;
            v = jinja_getitem(f->r, v, digits ? jinja_int(strtol(t + from, NULL, 10))
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
        v = t[name + 1] == 'r' ? repr_text(f->r, v) : jinja_str(f->r, v);
        name += 2;
    }
    const char *spec = name < len && t[name] == ':' ? t + name + 1 : t + len;
    put_formatted(f->r, b, v, spec, (size_t)(t + len - spec));
}

struct jvalue jinja_format_braces(struct jinja_run *r, const struct jstring *s, const struct jargs *args)
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
