/* Truth, equality, order, membership and walking, as Python has them. */
#include <math.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/jinja/jinja_builder.h"
#include "engine/jinja/jinja_run.h"

static const char *const type_names[J__N] = {
    [J_MISSING] = "missing",
    [J_UNDEFINED] = "Undefined",
    [J_NONE] = "NoneType",
    [J_BOOL] = "bool",
    [J_INT] = "int",
    [J_BIG] = "int",
    [J_FLOAT] = "float",
    [J_STRING] = "str",
    [J_BYTES] = "bytes",
    [J_LIST] = "list",
    [J_TUPLE] = "tuple",
    [J_DICT] = "dict",
    [J_RANGE] = "range",
    [J_ITERATOR] = "generator",
    [J_VIEW] = "dict_items",
    [J_NAMESPACE] = "Namespace",
    [J_FUNCTION] = "function",
    [J_METHOD] = "builtin_function_or_method",
    [J_MACRO] = "Macro",
    [J_LOOP] = "LoopContext",
    [J_CYCLER] = "Cycler",
    [J_JOINER] = "Joiner",
    [J_TEMPLATE] = "TemplateReference",
};

const char *jinja_type_name(struct jvalue v)
{
    return v.type < J__N ? type_names[v.type] : "?";
}

bool jinja_is_number(struct jvalue v)
{
    return v.type == J_INT || v.type == J_FLOAT || v.type == J_BOOL || v.type == J_BIG;
}

double jinja_double(struct jvalue v)
{
    switch (v.type) {
    case J_BOOL:
        return v.as.b;
    case J_INT:
        return (double)v.as.i;
    case J_FLOAT:
        return v.as.f;
    case J_BIG: { /* digits without an end in memory: at most a few hundred matter */
        double d = 0;
        const struct jstring *s = v.as.s;
        for (uint32_t i = s->data[0] == '-'; i < s->len; i++)
            d = d * 10 + (s->data[i] - '0');
        return s->data[0] == '-' ? -d : d;
    }
    default:
        return 0;
    }
}

bool jinja_is_text(struct jvalue v, const char *s)
{
    return v.type == J_STRING && v.as.s->len == strlen(s) && !memcmp(v.as.s->data, s, v.as.s->len);
}

static int64_t range_length(const struct jrange *g)
{
    if (g->step > 0)
        return g->stop > g->start ? (g->stop - g->start - 1) / g->step + 1 : 0;
    return g->start > g->stop ? (g->start - g->stop - 1) / -g->step + 1 : 0;
}

int64_t jinja_length(struct jvalue v)
{
    switch (v.type) {
    case J_UNDEFINED:
        return 0;
    case J_STRING:
        return v.as.s->n_chars;
    case J_BYTES:
        return v.as.s->len;
    case J_LIST:
    case J_TUPLE:
        return v.as.l->n;
    case J_DICT:
    case J_VIEW:
        return v.as.d->n;
    case J_RANGE:
        return range_length(v.as.range);
    case J_LOOP:
        return v.as.loop->items->n;
    default:
        return -1;
    }
}

bool jinja_true(struct jinja_run *r, struct jvalue v)
{
    (void)r;
    switch (v.type) {
    case J_MISSING:
    case J_UNDEFINED:
    case J_NONE:
        return false;
    case J_BOOL:
        return v.as.b;
    case J_INT:
        return v.as.i != 0;
    case J_FLOAT:
        return v.as.f != 0;
    default: {
        int64_t n = jinja_length(v);
        return n != 0;
    }
    }
}

static bool equal_numbers(struct jvalue a, struct jvalue b)
{
    if (a.type == J_BIG || b.type == J_BIG) {
        if (a.type == b.type)
            return a.as.s->len == b.as.s->len && !memcmp(a.as.s->data, b.as.s->data, a.as.s->len);
        return (a.type == J_FLOAT || b.type == J_FLOAT) && jinja_double(a) == jinja_double(b);
    }
    if (a.type == J_FLOAT || b.type == J_FLOAT)
        return jinja_double(a) == jinja_double(b);
    return (a.type == J_BOOL ? a.as.b : a.as.i) == (b.type == J_BOOL ? b.as.b : b.as.i);
}

static bool equal_lists(struct jinja_run *r, const struct jlist *a, const struct jlist *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (!jinja_equal(r, a->at[i], b->at[i]))
            return false;
    return true;
}

static bool equal_dicts(struct jinja_run *r, const struct jdict *a, const struct jdict *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct jvalue *other = jinja_dict_get(r, b, a->at[i].key);
        if (!other || !jinja_equal(r, a->at[i].value, *other))
            return false;
    }
    return true;
}

bool jinja_equal(struct jinja_run *r, struct jvalue a, struct jvalue b)
{
    if (jinja_is_number(a) && jinja_is_number(b))
        return equal_numbers(a, b);
    if (a.type != b.type)
        return false;
    switch (a.type) {
    case J_UNDEFINED:
    case J_NONE:
        return true;
    case J_STRING:
    case J_BYTES:
        return a.as.s == b.as.s || (a.as.s->len == b.as.s->len && jinja_charge(r, a.as.s->len) &&
                                    !memcmp(a.as.s->data, b.as.s->data, a.as.s->len));
    case J_RANGE:
        return range_length(a.as.range) == range_length(b.as.range) &&
               (range_length(a.as.range) == 0 ||
                (a.as.range->start == b.as.range->start &&
                 (range_length(a.as.range) == 1 || a.as.range->step == b.as.range->step)));
    case J_LIST:
    case J_TUPLE:
    case J_DICT: {
        if (a.as.p == b.as.p)
            return true;
        if (!jinja_step(r, 1) || !jinja_enter(r))
            return false;
        bool same =
            a.type == J_DICT ? equal_dicts(r, a.as.d, b.as.d) : equal_lists(r, a.as.l, b.as.l);
        jinja_leave(r);
        return same;
    }
    default:
        return a.as.p == b.as.p;
    }
}

static int order_strings(const struct jstring *a, const struct jstring *b)
{
    /* UTF-8 sorts as its code points do */
    uint32_t n = a->len < b->len ? a->len : b->len;
    int c = memcmp(a->data, b->data, n);
    return c ? c : (a->len > b->len) - (a->len < b->len);
}

static bool less_lists(struct jinja_run *r, const struct jlist *a, const struct jlist *b,
                       const char *operator)
{
    for (uint32_t i = 0; i < a->n && i < b->n; i++)
        if (!jinja_equal(r, a->at[i], b->at[i]))
            return jinja_less(r, a->at[i], b->at[i], operator);
    return a->n < b->n;
}

bool jinja_less(struct jinja_run *r, struct jvalue a, struct jvalue b, const char *operator)
{
    if (!jinja_defined(r, a) || !jinja_defined(r, b) || !jinja_step(r, 1))
        return false;
    if (jinja_is_number(a) && jinja_is_number(b)) {
        if (a.type == J_INT && b.type == J_INT)
            return a.as.i < b.as.i;
        return jinja_double(a) < jinja_double(b);
    }
    if (a.type == J_STRING && b.type == J_STRING)
        return jinja_charge(r, a.as.s->len < b.as.s->len ? a.as.s->len : b.as.s->len) &&
               order_strings(a.as.s, b.as.s) < 0;
    if (a.type == b.type && (a.type == J_LIST || a.type == J_TUPLE)) {
        if (!jinja_enter(r))
            return false;
        bool less = less_lists(r, a.as.l, b.as.l, operator);
        jinja_leave(r);
        return less;
    }
    jinja_type_error(r, "'%s' not supported between instances of '%s' and '%s'", operator,
                     jinja_type_name(a), jinja_type_name(b));
    return false;
}

bool jinja_compare(struct jinja_run *r, enum joperator op, struct jvalue a, struct jvalue b)
{
    switch (op) {
    case OP_EQ:
        return jinja_equal(r, a, b);
    case OP_NE:
        return !jinja_equal(r, a, b);
    case OP_LT:
        return jinja_less(r, a, b, "<");
    case OP_GT:
        return jinja_less(r, b, a, ">");
    case OP_LE:
        if (jinja_is_number(a) && jinja_is_number(b))
            return jinja_double(a) <= jinja_double(b);
        return !jinja_less(r, b, a, "<=");
    case OP_GE:
        if (jinja_is_number(a) && jinja_is_number(b))
            return jinja_double(a) >= jinja_double(b);
        return !jinja_less(r, a, b, ">=");
    case OP_IN:
        return jinja_contains(r, b, a);
    default:
        return !jinja_contains(r, b, a);
    }
}

static bool contains_text(struct jinja_run *r, const struct jstring *s, struct jvalue item)
{
    if (item.type != J_STRING) {
        jinja_type_error(r, "'in <string>' requires string as left operand, not %s",
                         jinja_type_name(item));
        return false;
    }
    jinja_charge(r, s->len);
    return item.as.s->len == 0 || memmem(s->data, s->len, item.as.s->data, item.as.s->len) != NULL;
}

bool jinja_contains(struct jinja_run *r, struct jvalue container, struct jvalue item)
{
    switch (container.type) {
    case J_STRING:
        return contains_text(r, container.as.s, item);
    case J_DICT:
        return jinja_dict_get(r, container.as.d, item) != NULL;
    case J_RANGE: {
        const struct jrange *g = container.as.range;
        if (!jinja_is_number(item))
            return false;
        double d = jinja_double(item);
        if (d != floor(d) || fabs(d) > 9e15)
            return false;
        int64_t i = (int64_t)d;
        return (g->step > 0 ? i >= g->start && i < g->stop : i <= g->start && i > g->stop) &&
               (i - g->start) % g->step == 0;
    }
    case J_UNDEFINED:
        return false;
    default:
        break;
    }
    if (container.type < J_STRING || container.type > J_VIEW || container.type == J_BYTES) {
        jinja_type_error(r, "argument of type '%s' is not iterable", jinja_type_name(container));
        return false;
    }
    struct jlist *l = jinja_items(r, container);
    for (uint32_t i = 0; l && i < l->n && jinja_step(r, 1); i++)
        if (jinja_equal(r, l->at[i], item))
            return true;
    return false;
}

uint64_t jinja_hash(struct jinja_run *r, struct jvalue v)
{
    switch (v.type) {
    case J_STRING:
        return hash64(v.as.s->data, v.as.s->len, 0);
    case J_BOOL:
    case J_INT:
    case J_FLOAT:
    case J_BIG: { /* 1, 1.0 and True are one key */
        double d = jinja_double(v) + 0.0;
        return hash64(&d, sizeof d, 1);
    }
    case J_NONE:
        return 7;
    case J_UNDEFINED:
        return 8;
    case J_TUPLE: {
        uint64_t h = 9;
        if (!jinja_enter(r))
            return h;
        for (uint32_t i = 0; i < v.as.l->n && jinja_step(r, 1); i++) {
            uint64_t x = jinja_hash(r, v.as.l->at[i]);
            h = hash64(&x, sizeof x, h);
        }
        jinja_leave(r);
        return h;
    }
    case J_LIST:
    case J_DICT:
    case J_BYTES:
        jinja_type_error(r, "unhashable type: '%s'", jinja_type_name(v));
        return 0;
    default:
        return hash64(&v.as.p, sizeof v.as.p, 2);
    }
}

/* ---- walking */

static struct jlist *items_of_text(struct jinja_run *r, const struct jstring *s)
{
    struct jvalue out = jinja_list(r, J_LIST, s->n_chars);
    if (!jinja_step(r, s->n_chars))
        return NULL;
    for (uint32_t at = 0; at < s->len && !jinja_failed(r);) {
        uint32_t code, n = jinja_decode(s->data + at, s->len - at, &code);
        struct jvalue c = jinja_part(r, s, at, at + n);
        if (s->markup && !jinja_failed(r))
            c.as.s->markup = false;
        jinja_push(r, out, c);
        at += n;
    }
    return jinja_failed(r) ? NULL : out.as.l;
}

static struct jlist *items_of_dict(struct jinja_run *r, const struct jdict *d, int kind)
{
    struct jvalue out = jinja_list(r, J_LIST, d->n);
    for (uint32_t i = 0; i < d->n && jinja_step(r, 1); i++) {
        struct jvalue v = kind == 'v' ? d->at[i].value : d->at[i].key;
        if (kind == 'i') {
            v = jinja_list(r, J_TUPLE, 2);
            if (jinja_failed(r))
                return NULL;
            v.as.l->outside = d->outside;
            jinja_push(r, v, d->at[i].key);
            jinja_push(r, v, d->at[i].value);
        }
        jinja_push(r, out, v);
    }
    if (jinja_failed(r))
        return NULL;
    out.as.l->outside = d->outside;
    return out.as.l;
}

static struct jlist *items_of_range(struct jinja_run *r, const struct jrange *g)
{
    int64_t n = range_length(g);
    struct jvalue out = jinja_list(r, J_LIST, (uint32_t)n);
    for (int64_t i = 0; i < n && jinja_step(r, 1); i++)
        jinja_push(r, out, jinja_int(g->start + i * g->step));
    return jinja_failed(r) ? NULL : out.as.l;
}

struct jlist *jinja_items(struct jinja_run *r, struct jvalue v)
{
    if (jinja_failed(r))
        return NULL;
    switch (v.type) {
    case J_LIST:
    case J_TUPLE:
        return v.as.l;
    case J_ITERATOR: { /* hand out the rest once */
        struct jlist *l = v.as.l;
        struct jvalue rest = jinja_list(r, J_LIST, 0);
        if (jinja_failed(r))
            return NULL;
        *rest.as.l = (struct jlist){.at = l->n ? l->at + l->pos : NULL,
                                    .n = l->n - l->pos,
                                    .cap = l->n - l->pos,
                                    .outside = l->outside};
        l->pos = l->n;
        return rest.as.l;
    }
    case J_STRING:
        return items_of_text(r, v.as.s);
    case J_DICT:
        return items_of_dict(r, v.as.d, 'k');
    case J_VIEW:
        return items_of_dict(r, v.as.d, v.aux);
    case J_RANGE:
        return items_of_range(r, v.as.range);
    case J_UNDEFINED: {
        struct jvalue none = jinja_list(r, J_LIST, 0);
        return jinja_failed(r) ? NULL : none.as.l;
    }
    default:
        jinja_type_error(r, "'%s' object is not iterable", jinja_type_name(v));
        return NULL;
    }
}
