/* str() and repr() of values, byte for byte as Python prints them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "engine/jinja/jinja_run.h"

void jinja_float_repr(double v, char *out)
{
    if (isnan(v) || isinf(v)) {
        snprintf(out, 32, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    int digits = 1;
    do /* the fewest digits that read back as the same number */
        snprintf(out, 32, "%.*e", digits - 1, v);
    while (strtod(out, NULL) != v && ++digits <= 17);
    int exponent = atoi(strchr(out, 'e') + 1);
    if (exponent < -4 || exponent >= 16)
        return; /* d.ddde+XX is Python's form too */
    if (exponent >= digits - 1)
        snprintf(out, 32, "%.1f", v);
    else
        snprintf(out, 32, "%.*f", digits - 1 - exponent, v);
}

static bool printable(uint32_t c)
{
    if (c < 0x20 || c == 0x7f)
        return false;
    if (c < 0x7f)
        return true;
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

static void escape_char(uint32_t c, char quote, bool bytes, char *out)
{
    if (c == (unsigned char)quote || c == '\\')
        snprintf(out, 16, "\\%c", (int)c);
    else if (c == '\n' || c == '\r' || c == '\t')
        snprintf(out, 16, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    else if (c < 0x100)
        snprintf(out, 16, bytes && printable(c) && c < 0x7f ? "%c" : "\\x%02x", c);
    else
        snprintf(out, 16, c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
}

static bool put_quoted(struct jbuilder *b, const struct jstring *s, bool bytes)
{
    char quote = memchr(s->data, '\'', s->len) && !memchr(s->data, '"', s->len) ? '"' : '\'';
    jinja_put_like(b, &quote, 1, s, 0);
    uint32_t start = 0;
    for (uint32_t at = 0; at < s->len;) {
        uint32_t c, n = bytes ? 1 : jinja_decode(s->data + at, s->len - at, &c);
        if (bytes)
            c = (unsigned char)s->data[at];
        if (c == (unsigned char)quote || c == '\\' || !printable(c) || (bytes && c > 0x7e)) {
            char text[16];
            escape_char(c, quote, bytes, text);
            if (!jinja_put_part(b, s, start, at) || !jinja_put_like(b, text, strlen(text), s, at))
                return false;
            start = at + n;
        }
        at += n;
    }
    return jinja_put_part(b, s, start, s->len) && jinja_put_like(b, &quote, 1, s, 0);
}

static bool put_items(struct jbuilder *b, const struct jlist *l, const char *open,
                      const char *close)
{
    bool out = l->outside;
    jinja_put(b, open, strlen(open), out);
    for (uint32_t i = 0; i < l->n; i++)
        if ((i && !jinja_put(b, ", ", 2, out)) || !jinja_put_repr(b, l->at[i]))
            return false;
    if (close[0] == ')' && l->n == 1)
        jinja_put(b, ",", 1, out);
    return jinja_put(b, close, strlen(close), out);
}

static bool put_dict(struct jbuilder *b, const struct jdict *d)
{
    jinja_put(b, "{", 1, d->outside);
    for (uint32_t i = 0; i < d->n; i++)
        if ((i && !jinja_put(b, ", ", 2, d->outside)) || !jinja_put_repr(b, d->at[i].key) ||
            !jinja_put(b, ": ", 2, d->outside) || !jinja_put_repr(b, d->at[i].value))
            return false;
    return jinja_put(b, "}", 1, d->outside);
}

static bool put_view(struct jbuilder *b, struct jvalue v)
{
    struct jlist *l = jinja_items(b->r, v);
    jinja_puts(b, v.aux == 'k' ? "dict_keys(" : v.aux == 'v' ? "dict_values(" : "dict_items(");
    return l && put_items(b, l, "[", "]") && jinja_puts(b, ")");
}

static bool put_container(struct jbuilder *b, struct jvalue v)
{
    if (!jinja_step(b->r, 1) || !jinja_enter(b->r))
        return false;
    bool ok;
    switch (v.type) {
    case J_LIST:
        ok = put_items(b, v.as.l, "[", "]");
        break;
    case J_TUPLE:
        ok = put_items(b, v.as.l, "(", ")");
        break;
    case J_DICT:
        ok = put_dict(b, v.as.d);
        break;
    case J_VIEW:
        ok = put_view(b, v);
        break;
    default:
        ok = jinja_puts(b, "<Namespace ") && put_dict(b, v.as.d) && jinja_puts(b, ">");
    }
    jinja_leave(b->r);
    return ok;
}

static bool put_range(struct jbuilder *b, const struct jrange *g)
{
    char text[80];
    if (g->step == 1)
        snprintf(text, sizeof text, "range(%lld, %lld)", (long long)g->start, (long long)g->stop);
    else
        snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)g->start,
                 (long long)g->stop, (long long)g->step);
    return jinja_puts(b, text);
}

bool jinja_put_repr(struct jbuilder *b, struct jvalue v)
{
    char text[48];
    switch (v.type) {
    case J_UNDEFINED:
        return jinja_puts(b, "Undefined");
    case J_NONE:
        return jinja_put(b, "None", 4, v.outside);
    case J_BOOL:
        return jinja_put(b, v.as.b ? "True" : "False", v.as.b ? 4 : 5, v.outside);
    case J_INT:
        snprintf(text, sizeof text, "%lld", (long long)v.as.i);
        return jinja_put(b, text, strlen(text), v.outside);
    case J_FLOAT:
        jinja_float_repr(v.as.f, text);
        return jinja_put(b, text, strlen(text), v.outside);
    case J_BIG:
        return jinja_put_string(b, v.as.s);
    case J_STRING:
        if (!v.as.s->markup)
            return put_quoted(b, v.as.s, false);
        return jinja_puts(b, "Markup(") && put_quoted(b, v.as.s, false) && jinja_puts(b, ")");
    case J_BYTES:
        return jinja_puts(b, "b") && put_quoted(b, v.as.s, true);
    case J_LIST:
    case J_TUPLE:
    case J_DICT:
    case J_VIEW:
    case J_NAMESPACE:
        return put_container(b, v);
    case J_RANGE:
        return put_range(b, v.as.range);
    case J_TEMPLATE:
        return jinja_puts(b, "<TemplateReference None>");
    case J_LOOP:
        snprintf(text, sizeof text, "<LoopContext %u/%u>", v.as.loop->i + 1, v.as.loop->items->n);
        return jinja_puts(b, text);
    default:
        return jinja_puts(b, "<") && jinja_puts(b, jinja_type_name(v)) && jinja_puts(b, " object>");
    }
}

bool jinja_put_str(struct jbuilder *b, struct jvalue v)
{
    if (v.type == J_STRING)
        return jinja_put_string(b, v.as.s);
    if (v.type == J_UNDEFINED || v.type == J_MISSING)
        return true;
    return jinja_put_repr(b, v);
}

struct jvalue jinja_str(struct jinja_run *r, struct jvalue v)
{
    if (v.type == J_STRING)
        return v;
    struct jbuilder b;
    jinja_builder_init(&b, r);
    jinja_put_str(&b, v);
    return jinja_builder_take(&b);
}

struct jvalue jinja_escape(struct jinja_run *r, struct jvalue v)
{
    if (v.type == J_STRING && v.as.s->markup)
        return v;
    struct jvalue text = jinja_str(r, v);
    if (jinja_failed(r))
        return jinja_none();
    const struct jstring *s = text.as.s;
    struct jbuilder b;
    jinja_builder_init(&b, r);
    uint32_t start = 0;
    for (uint32_t i = 0; i < s->len; i++) {
        const char *entity = s->data[i] == '&'    ? "&amp;"
                             : s->data[i] == '<'  ? "&lt;"
                             : s->data[i] == '>'  ? "&gt;"
                             : s->data[i] == '\'' ? "&#39;"
                             : s->data[i] == '"'  ? "&#34;"
                                                  : NULL;
        if (!entity)
            continue;
        jinja_put_part(&b, s, start, i);
        jinja_put_like(&b, entity, strlen(entity), s, i);
        start = i + 1;
    }
    jinja_put_part(&b, s, start, s->len);
    struct jvalue out = jinja_builder_take(&b);
    if (!jinja_failed(r))
        out.as.s->markup = true;
    return out;
}
