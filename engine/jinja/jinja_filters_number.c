/* The filters that give or take numbers: int and float with their defaults, abs, round and file
 * sizes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/jinja/jinja_run.h"

/* int("..."), float("..."): the whole text is a number, white space around it aside. */
static bool parse_text(struct jinja_run *r, struct jvalue v, int base, struct jvalue *out)
{
    char text[128];
    const struct jstring *s = jinja_strip(r, v.as.s, NULL, STRIP_LEFT | STRIP_RIGHT).as.s;
    if (s->len == 0 || s->len >= sizeof text)
        return false;
    size_t n = 0;
    for (uint32_t i = 0; i < s->len; i++)
        if (s->data[i] != '_')
            text[n++] = s->data[i];
    text[n] = 0;
    char *end;
    if (base < 0) {
        if (strpbrk(text, "xXpP"))
            return false;
        *out = jinja_float(strtod(text, &end));
        return *end == 0;
    }
    const char *digits = text + (text[0] == '-' || text[0] == '+');
    if (base == 10 && *digits && strspn(digits, "0123456789") == strlen(digits)) {
        *out = jinja_parse_int(r, text[0] == '+' ? digits : text, strlen(text) - (text[0] == '+'));
        return true;
    }
    if (base == 10)
        return false;
    const char *body = digits[0] == '0' && ((base == 2 && (digits[1] | 32) == 'b') ||
                                            (base == 8 && (digits[1] | 32) == 'o'))
                           ? digits + 2
                           : digits;
    long long value = strtoll(body, &end, base);
    *out = jinja_int(text[0] == '-' ? -value : value);
    return *end == 0 && end != body;
}

static struct jvalue float_to_int(struct jinja_run *r, double f, struct jvalue otherwise)
{
    if (isnan(f) || isinf(f))
        return otherwise;
    if (fabs(f) >= 9.2e18) {
        jinja_fail(r, JINJA_LIMIT, "an integer outside 64 bits");
        return otherwise;
    }
    return jinja_int((int64_t)f);
}

/* int(default=0, base=10) */
static struct jvalue filter_int(struct jcall *c)
{
    struct jvalue v = c->self, out, otherwise = jinja_given(c->p[0]) ? c->p[0] : jinja_int(0);
    int base = (int)jinja_want_int(c, 1, 10);
    if (!jinja_defined(c->r, v) || base < 2 || base > 36)
        return otherwise;
    switch (v.type) {
    case J_INT:
    case J_BIG:
        return v;
    case J_BOOL:
        return jinja_int(v.as.b);
    case J_FLOAT:
        out = float_to_int(c->r, v.as.f, otherwise);
        break;
    case J_STRING:
        if (!parse_text(c->r, v, base, &out)) {
            if (!parse_text(c->r, v, -1, &out))
                return otherwise;
            out = float_to_int(c->r, out.as.f, otherwise);
        }
        out.outside = v.as.s->outside;
        break;
    default:
        return otherwise;
    }
    return out;
}

static struct jvalue filter_float(struct jcall *c)
{
    struct jvalue v = c->self, out, otherwise = jinja_given(c->p[0]) ? c->p[0] : jinja_float(0);
    if (!jinja_defined(c->r, v))
        return otherwise;
    if (jinja_is_number(v))
        return jinja_float(jinja_double(v));
    return v.type == J_STRING && parse_text(c->r, v, -1, &out) ? out : otherwise;
}

static struct jvalue filter_abs(struct jcall *c)
{
    struct jvalue v = c->self;
    if (!jinja_defined(c->r, v))
        return v;
    if (v.type == J_FLOAT)
        return jinja_float(fabs(v.as.f));
    if (v.type == J_BOOL)
        return jinja_int(v.as.b);
    if (v.type != J_INT)
        return jinja_type_error(c->r, "bad operand type for abs(): '%s'", jinja_type_name(v));
    return v.as.i < 0 ? jinja_unary(c->r, OP_NEG, v) : v;
}

/* Rounds as Python's round(x, n) does: by the decimal digits, halves to even. */
static double round_even(double v, int64_t precision)
{
    char text[400];
    if (precision > 20 || precision < -20 || isnan(v) || isinf(v))
        return precision < 0 ? 0 : v;
    if (precision >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)precision, v); /* printf rounds the exact value */
        return strtod(text, NULL);
    }
    double p = pow(10, (double)-precision);
    return nearbyint(v / p) * p;
}

/* round(precision=0, method="common") */
static struct jvalue filter_round(struct jcall *c)
{
    struct jvalue v = c->self;
    const struct jstring *method = jinja_want_string(c, 1, "common");
    int64_t precision = jinja_want_int(c, 0, 0);
    struct jvalue m = {.type = J_STRING, .as.s = (struct jstring *)method};
    if (!jinja_defined(c->r, v))
        return v;
    if (!jinja_is_number(v))
        return jinja_type_error(c->r, "type %s doesn't define __round__ method",
                                jinja_type_name(v));
    if (jinja_is_text(m, "common"))
        return v.type == J_INT || v.type == J_BIG ? v
               : v.type == J_BOOL                 ? jinja_int(v.as.b)
                                                  : jinja_float(round_even(v.as.f, precision));
    if (!jinja_is_text(m, "ceil") && !jinja_is_text(m, "floor"))
        return jinja_type_error(c->r, "method must be common, ceil or floor");
    double p = pow(10, (double)precision), d = jinja_double(v) * p;
    return jinja_float((jinja_is_text(m, "ceil") ? ceil(d) : floor(d)) / p);
}

static struct jvalue filter_filesize(struct jcall *c)
{
    static const char *const decimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const binary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    if (!jinja_is_number(c->self) && c->self.type != J_STRING && jinja_defined(c->r, c->self))
        return jinja_type_error(c->r,
                                "float() argument must be a string or a real number, not '%s'",
                                jinja_type_name(c->self));
    struct jvalue number =
        filter_float(&(struct jcall){.r = c->r, .self = c->self, .p[0] = jinja_none()});
    if (number.type != J_FLOAT)
        return jinja_type_error(c->r, "could not convert string to float");
    double bytes = number.as.f, base = jinja_want_bool(c, 0, false) ? 1024 : 1000;
    if (bytes == 1)
        return jinja_literal(c->r, "1 Byte");
    if (bytes < base)
        return jinja_literal(c->r, jinja_printf(c->r, "%lld Bytes", (long long)bytes));
    double unit = base * base;
    int i = 0;
    for (; i < 7 && bytes >= unit; i++)
        unit *= base;
    return jinja_literal(c->r, jinja_printf(c->r, "%.1f %s", base * bytes / unit,
                                            base > 1000 ? binary[i] : decimal[i]));
}

const struct jbuiltin jinja_filters_number[] = {
    {"int", "default,base", filter_int, 0},
    {"float", "default", filter_float, 0},
    {"abs", "", filter_abs, 0},
    {"round", "precision,method", filter_round, 0},
    {"filesizeformat", "binary", filter_filesize, 0},
    {NULL, NULL, NULL, 0},
};
