/* access_cache.h: a small table; of those that share all their places, one goes after the other. */
#include "sql/core/access_cache.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "sql/core/statement.h"
#include "sql/core/store.h"

#define PLACES 32 /* of a thread's callers few ask at one time */
#define WAYS 8

struct place {
    char name[ACCESS_NAME_BYTES];
    size_t n_name; /* 0: free */
    enum access_kind kind;
    void *value;
};

struct access_cache {
    int64_t stamp;
    double read_ms; /* clock_ms; 0: the stamp is not known now */
    unsigned turn;
    struct place places[PLACES];
};

static void clear(struct access_cache *c)
{
    for (int i = 0; i < PLACES; i++) {
        free(c->places[i].value);
        c->places[i] = (struct place){0};
    }
}

void access_cache_begin(struct store *s, int64_t stamp)
{
    if (!s->access)
        s->access = calloc(1, sizeof *s->access);
    struct access_cache *c = s->access;
    if (!c)
        return;
    if (c->stamp != stamp)
        clear(c);
    c->stamp = stamp;
    c->read_ms = clock_ms();
}

void store_access_leave(struct store *s)
{
    if (s->access)
        s->access->read_ms = 0;
}

static bool is_usable(const struct store *s, const struct access_name *name)
{
    const struct access_cache *c = s->access;
    return c && c->read_ms > 0 && name->len && name->len <= ACCESS_NAME_BYTES &&
           (s->snapshot || (name->after && clock_ms() - c->read_ms < ACCESS_AFTER_MS));
}

/* The first of the WAYS places in which it may be. */
static struct place *first_place(struct access_cache *c, const struct access_name *name)
{
    const unsigned char *at = name->bytes;
    uint32_t h = 0x811C9DC5u ^ (uint32_t)name->kind; /* FNV-1a */
    for (size_t i = 0; i < name->len; i++)
        h = (h ^ at[i]) * 0x01000193u;
    return &c->places[(h ^ h >> 16) % (PLACES / WAYS) * WAYS];
}

static bool holds(const struct place *p, const struct access_name *name)
{
    return p->n_name == name->len && p->kind == name->kind &&
           !memcmp(p->name, name->bytes, name->len);
}

const void *access_cache_get(struct store *s, const struct access_name *name)
{
    if (!is_usable(s, name))
        return NULL;
    const struct place *p = first_place(s->access, name);
    for (int i = 0; i < WAYS; i++)
        if (holds(&p[i], name))
            return p[i].value;
    return NULL;
}

/* Where it is, or a free place, or whose turn it is. */
static struct place *place_for(struct access_cache *c, const struct access_name *name)
{
    struct place *p = first_place(c, name);
    for (int i = 0; i < WAYS; i++)
        if (holds(&p[i], name))
            return &p[i];
    for (int i = 0; i < WAYS; i++)
        if (!p[i].n_name)
            return &p[i];
    return &p[c->turn++ % WAYS];
}

void access_cache_put(struct store *s, const struct access_name *name, const void *value,
                      size_t len)
{
    void *copy = is_usable(s, name) ? malloc(len) : NULL;
    if (!copy)
        return;
    struct place *p = place_for(s->access, name);
    free(p->value);
    memcpy(copy, value, len);
    memcpy(p->name, name->bytes, name->len);
    p->n_name = name->len;
    p->kind = name->kind;
    p->value = copy;
}

void access_cache_drop(struct store *s, const struct access_name *name)
{
    if (!s->access)
        return;
    struct place *p = first_place(s->access, name);
    for (int i = 0; i < WAYS; i++)
        if (holds(&p[i], name)) {
            free(p[i].value);
            p[i] = (struct place){0};
        }
}

void access_cache_fini(struct store *s)
{
    if (s->access)
        clear(s->access);
    free(s->access);
    s->access = NULL;
}
