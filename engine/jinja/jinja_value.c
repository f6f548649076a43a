/* Making values, lists and dicts; failures and limits of a run. */
#include "engine/jinja/jinja_value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/hash.h"
#include "engine/jinja/jinja_builder.h"
#include "engine/jinja/jinja_run.h"

#define SMALL_DICT 8 /* up to here a walk is faster than an index */

void jinja_fail(struct jinja_run *r, enum jinja_outcome why, const char *fmt, ...)
{
    if (r->failure != JINJA_DONE)
        return;
    char text[sizeof((struct err *)0)->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    r->failure = why;
    enum err_code code = why == JINJA_LIMIT   ? ERR_LIMIT
                         : why == JINJA_NOMEM ? ERR_NOMEM
                                              : ERR_INPUT;
    err_set(r->e, code, "%s", text);
}

bool jinja_failed(const struct jinja_run *r)
{
    return r->failure != JINJA_DONE;
}

bool jinja_step(struct jinja_run *r, uint64_t n)
{
    r->steps += n;
    if (r->steps > r->step_limit)
        jinja_fail(r, JINJA_LIMIT, "the template ran over its limit of %llu steps",
                   (unsigned long long)r->step_limit);
    return r->failure == JINJA_DONE;
}

bool jinja_charge(struct jinja_run *r, uint64_t bytes)
{
    return jinja_step(r, bytes / 8);
}

bool jinja_enter(struct jinja_run *r)
{
    if (r->failure != JINJA_DONE)
        return false;
    if (r->depth >= JINJA_MAX_DEPTH) {
        jinja_fail(r, JINJA_LIMIT, "the template nests deeper than %d", JINJA_MAX_DEPTH);
        return false;
    }
    r->depth++;
    return true;
}

void jinja_leave(struct jinja_run *r)
{
    r->depth--;
}

void *jinja_alloc(struct jinja_run *r, size_t size)
{
    void *p = arena_alloc(r->arena, size);
    if (!p)
        jinja_fail(r, JINJA_LIMIT, "the template used more memory than it may");
    return p;
}

const char *jinja_printf(struct jinja_run *r, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const char *copy = arena_strdup(r->arena, text);
    return copy ? copy : "";
}

struct jvalue jinja_type_error(struct jinja_run *r, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    jinja_fail(r, JINJA_RUNTIME, "%s", text);
    return jinja_none();
}

struct jvalue jinja_none(void)
{
    return (struct jvalue){.type = J_NONE};
}

struct jvalue jinja_bool(bool b)
{
    return (struct jvalue){.type = J_BOOL, .as.b = b};
}

struct jvalue jinja_int(int64_t i)
{
    return (struct jvalue){.type = J_INT, .as.i = i};
}

struct jvalue jinja_float(double f)
{
    return (struct jvalue){.type = J_FLOAT, .as.f = f};
}

/* Returned after a failure by functions that must return a string; nothing writes to it. */
struct jvalue jinja_empty(void)
{
    static const struct jstring empty = {.data = ""};
    return (struct jvalue){.type = J_STRING, .as.s = (struct jstring *)&empty};
}

struct jvalue jinja_borrow(struct jinja_run *r, const char *data, size_t len, bool outside)
{
    if (len > JINJA_MAX_TEXT) {
        jinja_fail(r, JINJA_LIMIT, "a text of %zu bytes is over the template's limit", len);
        len = 0;
    }
    struct jstring *s = jinja_alloc(r, sizeof *s);
    if (!s)
        return jinja_empty();
    *s = (struct jstring){.data = data,
                          .len = (uint32_t)len,
                          .outside = outside,
                          .n_chars = jinja_count_chars(data, len)};
    return (struct jvalue){.type = J_STRING, .as.s = s};
}

struct jvalue jinja_text(struct jinja_run *r, const char *data, size_t len)
{
    char *copy = jinja_alloc(r, len + 1);
    if (!copy)
        return jinja_empty();
    memcpy(copy, data, len);
    return jinja_borrow(r, copy, len, false);
}

struct jvalue jinja_literal(struct jinja_run *r, const char *s)
{
    return jinja_borrow(r, s, strlen(s), false);
}

struct jvalue jinja_list(struct jinja_run *r, enum jtype type, uint32_t room)
{
    struct jlist *l = jinja_alloc(r, sizeof *l);
    if (!l)
        return jinja_none();
    if (room) {
        l->at = jinja_alloc(r, (size_t)room * sizeof *l->at);
        l->cap = l->at ? room : 0;
    }
    return (struct jvalue){.type = (uint8_t)type, .as.l = l};
}

bool jinja_push(struct jinja_run *r, struct jvalue list, struct jvalue item)
{
    if (jinja_failed(r))
        return false;
    struct jlist *l = list.as.l;
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 4;
        struct jvalue *at = cap > l->cap ? jinja_alloc(r, (size_t)cap * sizeof *at) : NULL;
        if (!at)
            return false;
        if (l->n)
            memcpy(at, l->at, l->n * sizeof *at);
        l->at = at;
        l->cap = cap;
    }
    l->at[l->n++] = item;
    return true;
}

static struct jvalue make_undefined(struct jinja_run *r, struct jundefined u)
{
    struct jundefined *copy = jinja_alloc(r, sizeof *copy);
    if (!copy)
        return jinja_none();
    *copy = u;
    return (struct jvalue){.type = J_UNDEFINED, .as.undefined = copy};
}

struct jvalue jinja_undefined(struct jinja_run *r, const struct jstring *name, enum jtype owner)
{
    return make_undefined(r, (struct jundefined){.name = name, .owner_type = (uint8_t)owner});
}

struct jvalue jinja_undefined_text(struct jinja_run *r, const char *text)
{
    return make_undefined(r, (struct jundefined){.text = text});
}

struct jvalue jinja_hidden(struct jinja_run *r, const struct jstring *name, enum jtype owner)
{
    return make_undefined(
        r, (struct jundefined){.name = name, .owner_type = (uint8_t)owner, .unsafe = true});
}

bool jinja_defined(struct jinja_run *r, struct jvalue v)
{
    if (v.type != J_UNDEFINED)
        return true;
    const struct jundefined *u = v.as.undefined;
    int len = u->name ? (int)(u->name->len < 200 ? u->name->len : 200) : 0;
    const char *name = u->name ? u->name->data : "";
    const char *owner = jinja_type_name((struct jvalue){.type = u->owner_type});
    if (u->unsafe)
        jinja_fail(r, JINJA_SECURITY, "access to attribute '%.*s' of '%s' object is unsafe.", len,
                   name, owner);
    else if (u->text)
        jinja_fail(r, JINJA_RUNTIME, "%s", u->text);
    else if (u->owner_type == J_MISSING)
        jinja_fail(r, JINJA_RUNTIME, "'%.*s' is undefined", len, name);
    else
        jinja_fail(r, JINJA_RUNTIME, "'%s object' has no attribute '%.*s'", owner, len, name);
    return false;
}

/* ---- dicts: a list of entries in order of insertion, with an index once they are many */

struct jvalue jinja_dict(struct jinja_run *r)
{
    struct jdict *d = jinja_alloc(r, sizeof *d);
    return d ? (struct jvalue){.type = J_DICT, .as.d = d} : jinja_none();
}

static bool index_rebuild(struct jinja_run *r, struct jdict *d)
{
    uint32_t size = 16;
    while (size < d->cap * 2)
        size *= 2;
    if (size != d->n_index) {
        d->index = jinja_alloc(r, (size_t)size * sizeof *d->index);
        if (!d->index) {
            d->n_index = 0;
            return false;
        }
        d->n_index = size;
    } else {
        memset(d->index, 0, (size_t)size * sizeof *d->index);
    }
    for (uint32_t i = 0; i < d->n; i++) {
        uint32_t at = (uint32_t)d->at[i].hash & (size - 1);
        while (d->index[at])
            at = (at + 1) & (size - 1);
        d->index[at] = i + 1;
    }
    return true;
}

static struct jentry *find_entry(struct jinja_run *r, const struct jdict *d, struct jvalue key,
                                 uint64_t hash)
{
    if (!d->index) {
        for (uint32_t i = 0; i < d->n; i++)
            if (d->at[i].hash == hash && jinja_equal(r, d->at[i].key, key))
                return &d->at[i];
        return NULL;
    }
    uint32_t probes = 0; /* keys chosen to collide cost their sender steps */
    for (uint32_t at = (uint32_t)hash & (d->n_index - 1); d->index[at];
         at = (at + 1) & (d->n_index - 1)) {
        struct jentry *e = &d->at[d->index[at] - 1];
        if (e->hash == hash && jinja_equal(r, e->key, key))
            return e;
        if (++probes % 16 == 0 && !jinja_step(r, 1))
            return NULL;
    }
    return NULL;
}

bool jinja_dict_set(struct jinja_run *r, struct jdict *d, struct jvalue key, struct jvalue value)
{
    uint64_t hash = jinja_hash(r, key);
    if (jinja_failed(r))
        return false;
    struct jentry *e = find_entry(r, d, key, hash);
    if (e) {
        e->value = value;
        return true;
    }
    if (d->n == d->cap) {
        uint32_t cap = d->cap ? d->cap * 2 : 4;
        struct jentry *at = cap > d->cap ? jinja_alloc(r, (size_t)cap * sizeof *at) : NULL;
        if (!at)
            return false;
        if (d->n)
            memcpy(at, d->at, d->n * sizeof *at);
        d->at = at;
        d->cap = cap;
        if (cap > SMALL_DICT && !index_rebuild(r, d))
            return false;
    }
    d->at[d->n++] = (struct jentry){.key = key, .value = value, .hash = hash};
    if (d->index) {
        uint32_t at = (uint32_t)hash & (d->n_index - 1);
        while (d->index[at])
            at = (at + 1) & (d->n_index - 1);
        d->index[at] = d->n;
    }
    return true;
}

struct jvalue *jinja_dict_get(struct jinja_run *r, const struct jdict *d, struct jvalue key)
{
    uint64_t hash = jinja_hash(r, key);
    if (jinja_failed(r))
        return NULL;
    struct jentry *e = find_entry(r, d, key, hash);
    return e ? &e->value : NULL;
}

struct jvalue *jinja_dict_find(const struct jdict *d, const char *key, size_t len)
{
    if (d->index) { /* the same walk as find_entry, without making a value of the key */
        uint64_t hash = hash64(key, len, 0);
        for (uint32_t at = (uint32_t)hash & (d->n_index - 1); d->index[at];
             at = (at + 1) & (d->n_index - 1)) {
            struct jentry *e = &d->at[d->index[at] - 1];
            if (e->hash == hash && e->key.type == J_STRING && e->key.as.s->len == len &&
                !memcmp(e->key.as.s->data, key, len))
                return &e->value;
        }
        return NULL;
    }
    for (uint32_t i = 0; i < d->n; i++) {
        const struct jvalue *k = &d->at[i].key;
        if (k->type == J_STRING && k->as.s->len == len && !memcmp(k->as.s->data, key, len))
            return &d->at[i].value;
    }
    return NULL;
}

bool jinja_dict_remove(struct jinja_run *r, struct jdict *d, struct jvalue key, struct jvalue *was)
{
    uint64_t hash = jinja_hash(r, key);
    struct jentry *e = jinja_failed(r) ? NULL : find_entry(r, d, key, hash);
    if (!e)
        return false;
    *was = e->value;
    uint32_t at = (uint32_t)(e - d->at);
    jinja_step(r, d->n);
    memmove(e, e + 1, (d->n - at - 1) * sizeof *e);
    d->n--;
    return d->index ? index_rebuild(r, d) : true;
}
