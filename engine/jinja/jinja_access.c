/* Attributes, items and slices, in the order in which Jinja2's sandbox tries them. */
#include <stdlib.h>
#include <string.h>

#include "engine/jinja/jinja_run.h"

static struct jvalue make_method(struct jinja_run *r, struct jvalue self, const struct jbuiltin *b)
{
    struct jmethod *m = jinja_alloc(r, sizeof *m);
    if (!m)
        return jinja_none();
    *m = (struct jmethod){.self = self, .builtin = b};
    return (struct jvalue){.type = J_METHOD, .as.method = m};
}

/* The row of the type's own methods: op holds which types have it, see jinja_methods.c. */
static const struct jbuiltin *find_method(struct jvalue o, const struct jstring *name)
{
    const struct jbuiltin *b;
    if (o.type == J_STRING) {
        b = jinja_find_builtin(jinja_string_methods, name->data, name->len);
        return b ? b : jinja_find_builtin(jinja_string_checks, name->data, name->len);
    }
    for (b = jinja_container_methods; b->name; b++)
        if ((b->op & 0xff) == o.type && strlen(b->name) == name->len &&
            !memcmp(b->name, name->data, name->len))
            return b;
    return NULL;
}

struct jvalue jinja_loop_attribute(struct jinja_run *r, struct jvalue v, const struct jstring *name)
{
    const struct jloop *l = v.as.loop;
    struct jvalue key = {.type = J_STRING, .as.s = (struct jstring *)name};
    uint32_t n = l->items->n, i = l->i;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"index", i + 1},
        {"index0", i},
        {"revindex", (int64_t)n - i},
        {"revindex0", (int64_t)n - i - 1},
        {"length", n},
        {"depth", l->depth0 + 1},
        {"depth0", l->depth0},
    };
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        if (jinja_is_text(key, numbers[k].name))
            return jinja_int(numbers[k].value);
    if (jinja_is_text(key, "first"))
        return jinja_bool(i == 0);
    if (jinja_is_text(key, "last"))
        return jinja_bool(i + 1 >= n);
    if (jinja_is_text(key, "previtem"))
        return i > 0 ? l->items->at[i - 1] : jinja_undefined_text(r, "there is no previous item");
    if (jinja_is_text(key, "nextitem"))
        return i + 1 < n ? l->items->at[i + 1] : jinja_undefined_text(r, "there is no next item");
    const struct jbuiltin *b = find_method(v, name);
    return b ? make_method(r, v, b) : jinja_undefined(r, name, J_LOOP);
}

static struct jvalue macro_attribute(struct jinja_run *r, const struct jmacro *m,
                                     const struct jstring *name)
{
    struct jvalue key = {.type = J_STRING, .as.s = (struct jstring *)name};
    if (jinja_is_text(key, "name"))
        return (struct jvalue){.type = J_STRING,
                               .as.s = (struct jstring *)r->t->names[m->node->name]};
    if (jinja_is_text(key, "arguments")) {
        struct jvalue l = jinja_list(r, J_TUPLE, 0);
        for (const struct jnode *p = m->node->other; p && !jinja_failed(r); p = p->next)
            jinja_push(
                r, l,
                (struct jvalue){.type = J_STRING, .as.s = (struct jstring *)r->t->names[p->name]});
        return l;
    }
    if (jinja_is_text(key, "catch_kwargs") || jinja_is_text(key, "catch_varargs"))
        return jinja_bool(m->node->flags & (name->data[6] == 'k' ? MACRO_KWARGS : MACRO_VARARGS));
    if (jinja_is_text(key, "caller"))
        return jinja_bool(m->node->flags & MACRO_CALLER);
    return jinja_undefined(r, name, J_MACRO);
}

/* Looks up an attribute as Python's getattr does: methods before the dict's keys. J_MISSING: there
 * is none. */
static struct jvalue own_attribute(struct jinja_run *r, struct jvalue o, const struct jstring *name)
{
    if (o.type == J_NAMESPACE) {
        struct jvalue *v = jinja_dict_find(o.as.d, name->data, name->len);
        return v ? *v : (struct jvalue){0};
    }
    if (o.type == J_LOOP)
        return jinja_loop_attribute(r, o, name);
    if (o.type == J_MACRO)
        return macro_attribute(r, o.as.macro, name);
    if (o.type == J_TUPLE && o.aux == 'g' && o.as.l->n == 2) { /* what groupby gives */
        struct jvalue key = {.type = J_STRING, .as.s = (struct jstring *)name};
        if (jinja_is_text(key, "grouper") || jinja_is_text(key, "list"))
            return o.as.l->at[name->data[0] == 'l'];
    }
    const struct jbuiltin *b = find_method(o, name);
    if (!b)
        return (struct jvalue){0};
    if (b->op & 0x100) /* an attribute, not a method */
        return jinja_call_builtin(r, b, o, &(struct jargs){0});
    return make_method(r, o, b);
}

static bool is_hidden(const struct jstring *name)
{
    return name->len > 4 && !memcmp(name->data, "__", 2) &&
           !memcmp(name->data + name->len - 2, "__", 2);
}

struct jvalue jinja_getattr(struct jinja_run *r, struct jvalue o, const struct jstring *name)
{
    if (!jinja_defined(r, o))
        return jinja_none();
    if (is_hidden(name))
        return jinja_hidden(r, name, o.type);
    struct jvalue v = own_attribute(r, o, name);
    if (v.type != J_MISSING)
        return v;
    if (o.type == J_DICT) {
        struct jvalue *item = jinja_dict_find(o.as.d, name->data, name->len);
        if (item)
            return *item;
    }
    return jinja_undefined(r, name, o.type);
}

static struct jvalue list_item(const struct jlist *l, int64_t i)
{
    if (i < 0)
        i += l->n;
    return i >= 0 && i < l->n ? l->at[i] : (struct jvalue){0};
}

static struct jvalue text_item(struct jinja_run *r, const struct jstring *s, int64_t i)
{
    if (i < 0)
        i += s->n_chars;
    if (i < 0 || i >= s->n_chars)
        return (struct jvalue){0};
    uint32_t code, at = jinja_offset(s, (uint32_t)i);
    if (s->n_chars != s->len)
        jinja_charge(r, at);
    return jinja_part(r, s, at, at + jinja_decode(s->data + at, s->len - at, &code));
}

/* o[key] by position or key; J_MISSING: Python would raise. */
static struct jvalue item_of(struct jinja_run *r, struct jvalue o, struct jvalue key)
{
    if (o.type == J_DICT) {
        if (key.type == J_LIST || key.type == J_DICT)
            return (struct jvalue){0};
        struct jvalue *v = jinja_dict_get(r, o.as.d, key);
        return v ? *v : (struct jvalue){0};
    }
    if (key.type != J_INT && key.type != J_BOOL)
        return (struct jvalue){0};
    int64_t i = key.type == J_BOOL ? key.as.b : key.as.i;
    switch (o.type) {
    case J_LIST:
    case J_TUPLE:
        return list_item(o.as.l, i);
    case J_STRING:
        return text_item(r, o.as.s, i);
    case J_RANGE: {
        int64_t n = jinja_length(o);
        i += i < 0 ? n : 0;
        return i >= 0 && i < n ? jinja_int(o.as.range->start + i * o.as.range->step)
                               : (struct jvalue){0};
    }
    default:
        return (struct jvalue){0};
    }
}

struct jvalue jinja_getitem(struct jinja_run *r, struct jvalue o, struct jvalue key)
{
    if (!jinja_defined(r, o))
        return jinja_none();
    struct jvalue v = item_of(r, o, key);
    if (v.type != J_MISSING || jinja_failed(r))
        return v.type != J_MISSING ? v : jinja_none();
    if (key.type != J_STRING) {
        struct jvalue text = jinja_str(r, key);
        return jinja_undefined(r, text.as.s, o.type);
    }
    if (is_hidden(key.as.s))
        return jinja_hidden(r, key.as.s, o.type);
    v = own_attribute(r, o, key.as.s);
    return v.type != J_MISSING ? v : jinja_undefined(r, key.as.s, o.type);
}

/* ---- slices */

struct bounds {
    int64_t start, stop, step;
};

static bool bound(struct jinja_run *r, struct jvalue v, int64_t *out, int64_t otherwise)
{
    *out = otherwise;
    if (v.type == J_INT || v.type == J_BOOL)
        *out = v.type == J_INT ? v.as.i : v.as.b;
    else if (v.type != J_NONE) {
        if (jinja_defined(r, v))
            jinja_type_error(r,
                             "slice indices must be integers or None or have an __index__ method");
        return false;
    }
    return true;
}

static int64_t clamp(int64_t i, int64_t n, int64_t low, int64_t high)
{
    if (i < 0)
        i = i < -n ? low : i + n;
    return i < low ? low : i > high ? high : i;
}

/* Computes the same bounds as Python's slice.indices(n). */
static bool slice_bounds(struct jinja_run *r, const struct jvalue v[3], int64_t n, struct bounds *b)
{
    if (!bound(r, v[2], &b->step, 1))
        return false;
    if (b->step == 0) {
        jinja_type_error(r, "slice step cannot be zero");
        return false;
    }
    if (b->step <
        -n - 1) /* further than the whole is as good as the whole, and does not overflow */
        b->step = -n - 1;
    if (b->step > n + 1)
        b->step = n + 1;
    int64_t low = b->step < 0 ? -1 : 0, high = b->step < 0 ? n - 1 : n;
    if (!bound(r, v[0], &b->start, b->step < 0 ? INT64_MAX : 0) ||
        !bound(r, v[1], &b->stop, INT64_MAX))
        return false;
    b->start = clamp(b->start, n, low, high);
    b->stop = v[1].type == J_NONE ? (b->step < 0 ? -1 : n) : clamp(b->stop, n, low, high);
    return true;
}

static struct jvalue slice_list(struct jinja_run *r, struct jvalue o, const struct bounds *b)
{
    struct jvalue out = jinja_list(r, o.type, 0);
    if (jinja_failed(r))
        return jinja_none();
    out.as.l->outside = o.as.l->outside;
    for (int64_t i = b->start; b->step > 0 ? i < b->stop : i > b->stop; i += b->step)
        if (!jinja_push(r, out, o.as.l->at[i]))
            break;
    jinja_step(r, out.as.l->n / 4);
    return out;
}

static struct jvalue slice_text(struct jinja_run *r, const struct jstring *s,
                                const struct bounds *b)
{
    if (b->step == 1) {
        uint32_t from = jinja_offset(s, (uint32_t)b->start);
        uint32_t to = b->stop > b->start ? jinja_offset(s, (uint32_t)b->stop) : from;
        jinja_charge(r, s->n_chars == s->len ? 0 : to);
        return jinja_part(r, s, from, to);
    }
    uint32_t *at = jinja_alloc(r, ((size_t)s->n_chars + 1) * sizeof *at), n = 0;
    struct jbuilder out;
    jinja_builder_init(&out, r);
    for (uint32_t i = 0, code; at && i < s->len; i += jinja_decode(s->data + i, s->len - i, &code))
        at[n++] = i;
    if (at)
        at[n] = s->len;
    for (int64_t i = b->start; at && (b->step > 0 ? i < b->stop : i > b->stop); i += b->step)
        if (!jinja_step(r, 1) || !jinja_put_part(&out, s, at[i], at[i + 1]))
            break;
    return jinja_builder_take(&out);
}

struct jvalue jinja_slice(struct jinja_run *r, struct jvalue o, struct jvalue start,
                          struct jvalue stop, struct jvalue step)
{
    struct bounds b;
    int64_t n = jinja_length(o);
    if (!jinja_defined(r, o))
        return jinja_none();
    if (o.type != J_STRING && o.type != J_LIST && o.type != J_TUPLE && o.type != J_RANGE)
        return jinja_type_error(r,
                                o.type == J_DICT ? "unhashable type: 'slice'%.0s"
                                                 : "'%s' object is not subscriptable",
                                jinja_type_name(o));
    if (!slice_bounds(r, (struct jvalue[]){start, stop, step}, n, &b))
        return jinja_none();
    if (o.type == J_STRING)
        return slice_text(r, o.as.s, &b);
    if (o.type != J_RANGE)
        return slice_list(r, o, &b);
    struct jrange *g = jinja_alloc(r, sizeof *g);
    if (!g)
        return jinja_none();
    *g = (struct jrange){.start = o.as.range->start + b.start * o.as.range->step,
                         .stop = o.as.range->start + b.stop * o.as.range->step,
                         .step = b.step * o.as.range->step};
    return (struct jvalue){.type = J_RANGE, .as.range = g};
}

/* ---- paths */

static struct jvalue path_step(struct jinja_run *r, const char *part, size_t len)
{
    if (len && len < 10 && strspn(part, "0123456789") >= len)
        return jinja_int(strtol(part, NULL, 10));
    return jinja_text(r, part, len);
}

struct jvalue jinja_walk_path(struct jinja_run *r, struct jvalue v, struct jvalue path,
                              struct jvalue otherwise)
{
    if (path.type != J_STRING) {
        v = jinja_getitem(r, v, path);
    } else {
        const char *s = path.as.s->data, *end = s + path.as.s->len;
        for (;;) {
            const char *dot = memchr(s, '.', (size_t)(end - s));
            v = jinja_getitem(r, v, path_step(r, s, (size_t)((dot ? dot : end) - s)));
            if (v.type == J_UNDEFINED && otherwise.type != J_MISSING)
                return otherwise;
            if (!dot || jinja_failed(r))
                break;
            s = dot + 1;
        }
    }
    return v.type == J_UNDEFINED && otherwise.type != J_MISSING ? otherwise : v;
}
