/* Arithmetic and what + * % mean for text and lists. Integers have 64 bits; sums that leave them
 * become J_BIG, which is printed right; other overflow is refused. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/jinja/jinja_run.h"

static const char *const names[] = {
    [OP_ADD] = "+",       [OP_SUB] = "-", [OP_MUL] = "*",           [OP_DIV] = "/",
    [OP_FLOORDIV] = "//", [OP_MOD] = "%", [OP_POW] = "** or pow()",
};

static struct jvalue unsupported(struct jinja_run *r, enum joperator op, struct jvalue a,
                                 struct jvalue b)
{
    if (op == OP_ADD && a.type == J_STRING)
        return jinja_type_error(r, "can only concatenate str (not \"%s\") to str",
                                jinja_type_name(b));
    return jinja_type_error(r, "unsupported operand type(s) for %s: '%s' and '%s'", names[op],
                            jinja_type_name(a), jinja_type_name(b));
}

static struct jvalue too_large(struct jinja_run *r)
{
    jinja_fail(r, JINJA_LIMIT, "an integer outside 64 bits");
    return jinja_none();
}

struct jvalue jinja_parse_int(struct jinja_run *r, const char *digits, size_t len)
{
    char text[128];
    size_t n = 0;
    for (size_t i = 0; i < len && n + 1 < sizeof text; i++)
        if (digits[i] != '_')
            text[n++] = digits[i];
    text[n] = 0;
    int base = 10;
    const char *s = text;
    if (text[0] == '0' && n > 2) {
        base = (text[1] | 32) == 'x'   ? 16
               : (text[1] | 32) == 'o' ? 8
               : (text[1] | 32) == 'b' ? 2
                                       : 10;
        s += base != 10 ? 2 : 0;
    }
    errno = 0;
    long long v = strtoll(s, NULL, base);
    if (!errno)
        return jinja_int(v);
    if (base != 10 || n + 1 >= sizeof text)
        return too_large(r);
    bool negative = *s == '-';
    s += negative;
    while (*s == '0')
        s++;
    struct jvalue big =
        jinja_text(r, jinja_printf(r, "%s%s", negative ? "-" : "", s), strlen(s) + negative);
    big.type = J_BIG;
    return big;
}

/* a + b or a - b, past 64 bits: the magnitude still fits an unsigned one, but for one case. */
static struct jvalue add_wide(struct jinja_run *r, int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? -(uint64_t)a : (uint64_t)a, y = b < 0 ? -(uint64_t)b : (uint64_t)b;
    if (y > UINT64_MAX - x)
        return too_large(r);
    char text[32];
    snprintf(text, sizeof text, "%s%llu", a < 0 ? "-" : "", (unsigned long long)(x + y));
    struct jvalue big = jinja_text(r, text, strlen(text));
    big.type = J_BIG;
    return big;
}

static struct jvalue add_int(struct jinja_run *r, int64_t a, int64_t b)
{
    if ((b > 0 && a > INT64_MAX - b) || (b < 0 && a < INT64_MIN - b))
        return add_wide(r, a, b); /* both have one sign */
    return jinja_int(a + b);
}

static bool multiply(int64_t a, int64_t b, int64_t *out)
{
    if (a && b) {
        if (a == INT64_MIN || b == INT64_MIN) {
            if (a != 1 && b != 1)
                return false;
        } else if (llabs(a) > INT64_MAX / llabs(b)) {
            return false;
        }
    }
    *out = a * b;
    return true;
}

static struct jvalue power_int(struct jinja_run *r, int64_t base, int64_t n)
{
    if (n < 0)
        return base ? jinja_float(pow((double)base, (double)n))
                    : jinja_type_error(r, "0.0 cannot be raised to a negative power");
    if (base == 0 || base == 1)
        return jinja_int(n == 0 ? 1 : base);
    if (base == -1)
        return jinja_int(n % 2 ? -1 : 1);
    int64_t v = 1;
    while (n-- > 0)
        if (!multiply(v, base, &v))
            return too_large(r);
    return jinja_int(v);
}

static struct jvalue divide_int(struct jinja_run *r, enum joperator op, int64_t a, int64_t b)
{
    if (b == 0)
        return jinja_type_error(r, op == OP_MOD ? "integer modulo by zero"
                                                : "integer division or modulo by zero");
    if (b == -1) {
        if (op == OP_MOD)
            return jinja_int(0);
        return a == INT64_MIN ? too_large(r) : jinja_int(-a);
    }
    int64_t q = a / b, m = a % b;
    if (m != 0 && (m < 0) != (b < 0)) { /* Python rounds down */
        q--;
        m += b;
    }
    return jinja_int(op == OP_MOD ? m : q);
}

static struct jvalue math_int(struct jinja_run *r, enum joperator op, int64_t a, int64_t b)
{
    int64_t v;
    switch (op) {
    case OP_ADD:
        return add_int(r, a, b);
    case OP_SUB:
        return b == INT64_MIN ? too_large(r) : add_int(r, a, -b);
    case OP_MUL:
        return multiply(a, b, &v) ? jinja_int(v) : too_large(r);
    case OP_DIV:
        return b ? jinja_float((double)a / (double)b) : jinja_type_error(r, "division by zero");
    case OP_POW:
        return power_int(r, a, b);
    default:
        return divide_int(r, op, a, b);
    }
}

static struct jvalue math_float(struct jinja_run *r, enum joperator op, double a, double b)
{
    double m;
    switch (op) {
    case OP_ADD:
        return jinja_float(a + b);
    case OP_SUB:
        return jinja_float(a - b);
    case OP_MUL:
        return jinja_float(a * b);
    case OP_POW:
        if (a == 0 && b < 0)
            return jinja_type_error(r, "0.0 cannot be raised to a negative power");
        if (a < 0 && b != floor(b))
            return jinja_type_error(r, "a negative number to a fractional power is complex");
        return jinja_float(pow(a, b));
    default:
        if (b == 0)
            return jinja_type_error(r, op == OP_DIV   ? "float division by zero"
                                       : op == OP_MOD ? "float modulo"
                                                      : "float floor division by zero");
        if (op == OP_DIV)
            return jinja_float(a / b);
        m = fmod(a, b);
        if (m != 0 && (m < 0) != (b < 0))
            m += b;
        return jinja_float(op == OP_MOD ? m : floor((a - m) / b + 0.5));
    }
}

static struct jvalue math(struct jinja_run *r, enum joperator op, struct jvalue a, struct jvalue b)
{
    struct jvalue v;
    if (a.type == J_FLOAT || b.type == J_FLOAT)
        v = math_float(r, op, jinja_double(a), jinja_double(b));
    else if (a.type == J_BIG || b.type == J_BIG)
        v = too_large(r);
    else
        v = math_int(r, op, a.type == J_BOOL ? a.as.b : a.as.i, b.type == J_BOOL ? b.as.b : b.as.i);
    v.outside = a.outside || b.outside;
    return v;
}

static struct jvalue join_lists(struct jinja_run *r, struct jvalue a, struct jvalue b)
{
    const struct jlist *x = a.as.l, *y = b.as.l;
    if (!jinja_step(r, ((uint64_t)x->n + y->n) / 4))
        return jinja_none();
    struct jvalue out = jinja_list(r, a.type, x->n + y->n);
    for (uint32_t i = 0; i < x->n; i++)
        jinja_push(r, out, x->at[i]);
    for (uint32_t i = 0; i < y->n; i++)
        jinja_push(r, out, y->at[i]);
    if (!jinja_failed(r))
        out.as.l->outside = x->outside && y->outside;
    return out;
}

static struct jvalue join_texts(struct jinja_run *r, struct jvalue a, struct jvalue b)
{
    bool markup = a.as.s->markup || b.as.s->markup;
    if (markup) { /* what is not markup yet becomes it */
        a = jinja_escape(r, a);
        b = jinja_escape(r, b);
    }
    if (b.as.s->len == 0 || a.as.s->len == 0)
        return b.as.s->len == 0 ? a : b;
    struct jbuilder out;
    jinja_builder_init(&out, r);
    jinja_put_string(&out, a.as.s);
    jinja_put_string(&out, b.as.s);
    struct jvalue v = jinja_builder_take(&out);
    if (markup && !jinja_failed(r))
        v.as.s->markup = true;
    return v;
}

static struct jvalue repeat(struct jinja_run *r, struct jvalue v, int64_t n)
{
    uint64_t size = v.type == J_STRING ? v.as.s->len : v.as.l->n;
    if (n < 0)
        n = 0;
    if (size && (uint64_t)n > JINJA_MAX_TEXT / size) {
        jinja_fail(r, JINJA_LIMIT, "a repetition of %lld times is over the template's limit",
                   (long long)n);
        return jinja_none();
    }
    if (v.type == J_STRING) {
        struct jbuilder b;
        jinja_builder_init(&b, r);
        if (jinja_charge(r, size * (uint64_t)n))
            for (int64_t i = 0; i < n && size && jinja_put_string(&b, v.as.s); i++)
                ;
        struct jvalue out = jinja_builder_take(&b);
        if (!jinja_failed(r))
            out.as.s->markup = v.as.s->markup;
        return out;
    }
    if (!jinja_step(r, size * (uint64_t)n))
        return jinja_none();
    struct jvalue out = jinja_list(r, v.type, (uint32_t)(size * (uint64_t)n));
    for (int64_t i = 0; i < n && size; i++)
        for (uint32_t k = 0; k < v.as.l->n && !jinja_failed(r); k++)
            jinja_push(r, out, v.as.l->at[k]);
    return out;
}

static bool repeats(struct jvalue v)
{
    return v.type == J_STRING || v.type == J_LIST || v.type == J_TUPLE;
}

struct jvalue jinja_binary(struct jinja_run *r, enum joperator op, struct jvalue a, struct jvalue b)
{
    bool markup_format = op == OP_MOD && a.type == J_STRING;
    if (!jinja_defined(r, a) || (!markup_format && !jinja_defined(r, b)))
        return jinja_none();
    if (jinja_is_number(a) && jinja_is_number(b))
        return math(r, op, a, b);
    if (op == OP_ADD && a.type == b.type && a.type == J_STRING)
        return join_texts(r, a, b);
    if (op == OP_ADD && a.type == b.type && (a.type == J_LIST || a.type == J_TUPLE))
        return join_lists(r, a, b);
    if (op == OP_MUL && repeats(a) && (b.type == J_INT || b.type == J_BOOL))
        return repeat(r, a, b.type == J_INT ? b.as.i : b.as.b);
    if (op == OP_MUL && repeats(b) && (a.type == J_INT || a.type == J_BOOL))
        return repeat(r, b, a.type == J_INT ? a.as.i : a.as.b);
    if (op == OP_MOD && a.type == J_STRING)
        return jinja_format_percent(r, a.as.s, b);
    return unsupported(r, op, a, b);
}

struct jvalue jinja_unary(struct jinja_run *r, enum joperator op, struct jvalue a)
{
    struct jvalue v = jinja_none();
    if (!jinja_defined(r, a))
        return v;
    if (a.type == J_FLOAT)
        v = jinja_float(op == OP_NEG ? -a.as.f : a.as.f);
    else if (a.type == J_INT || a.type == J_BOOL) {
        int64_t i = a.type == J_INT ? a.as.i : a.as.b;
        v = op == OP_NEG && i == INT64_MIN ? too_large(r) : jinja_int(op == OP_NEG ? -i : i);
    } else if (a.type == J_BIG) {
        v = op == OP_NEG ? too_large(r) : a;
    } else {
        v = jinja_type_error(r, "bad operand type for unary %s: '%s'", op == OP_NEG ? "-" : "+",
                             jinja_type_name(a));
    }
    v.outside = a.outside;
    return v;
}
