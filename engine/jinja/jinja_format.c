/* What both of Python's formatting languages do with one value: numbers, text, width and fill.
 * Widths are charged like everything else; numbers go through printf with a precision of 100 at
 * most. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/jinja/jinja_format.h"

#define MAX_PRECISION 100

void jinja_format_pad(struct jbuilder *b, const struct jformat *s, struct jvalue text, bool number)
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
struct jvalue jinja_format_integer(struct jinja_run *r, const struct jformat *s, int64_t v)
{
    char digits[80], out[128];
    uint64_t u = v < 0 ? -(uint64_t)v : (uint64_t)v;
    int n = 0, base = s->kind == 'x' || s->kind == 'X' ? 16
                      : s->kind == 'o'                 ? 8
                      : s->kind == 'b'                 ? 2
                                                       : 10;
    int group = s->comma || s->underscore ? (base == 10 ? 3 : 4) : 0, count = 0;
    do {
        if (group && count && count % group == 0)
            digits[n++] = s->comma ? ',' : '_';
        digits[n++] =
            (s->kind == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[u % (uint64_t)base];
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

struct jvalue jinja_format_float(struct jinja_run *r, const struct jformat *s, double v)
{
    char format[16], out[512];
    int precision = s->precision < 0               ? 6
                    : s->precision > MAX_PRECISION ? MAX_PRECISION
                                                   : (int)s->precision;
    char kind = s->kind == '%' ? 'f' : s->kind;
    snprintf(format, sizeof format, "%%%s%s.*%c", s->alternate ? "#" : "",
             s->plus    ? "+"
             : s->space ? " "
                        : "",
             kind);
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

/* Prints like repr, with the sign that the format asks for. */
struct jvalue jinja_format_float_repr(struct jinja_run *r, const struct jformat *s, double v)
{
    char out[40];
    bool sign = (s->plus || s->space) && !signbit(v);
    out[0] = s->plus ? '+' : ' ';
    jinja_float_repr(v, out + sign);
    return jinja_text(r, out, strlen(out));
}

bool jinja_format_to_integer(struct jvalue v, int64_t *out)
{
    *out = v.type == J_BOOL ? v.as.b : v.type == J_INT ? v.as.i : (int64_t)0;
    return v.type == J_BOOL || v.type == J_INT;
}

struct jvalue jinja_format_cut(struct jinja_run *r, const struct jformat *s, struct jvalue text)
{
    if (s->precision < 0 || s->precision >= text.as.s->n_chars)
        return text;
    return jinja_part(r, text.as.s, 0, jinja_offset(text.as.s, (uint32_t)s->precision));
}

struct jvalue jinja_format_repr(struct jinja_run *r, struct jvalue v)
{
    struct jbuilder b;
    jinja_builder_init(&b, r);
    jinja_put_repr(&b, v);
    return jinja_builder_take(&b);
}

struct jvalue jinja_format_char(struct jinja_run *r, struct jvalue v)
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
