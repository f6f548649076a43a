/* Growing table of tensors with a hash index by name (open addressing, at most half full). */
#include "engine/format/tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"

void tensor_table_init(struct tensor_table *t, struct arena *arena)
{
    *t = (struct tensor_table){.arena = arena};
}

void tensor_table_fini(struct tensor_table *t)
{
    free(t->at);
    free(t->slots);
    *t = (struct tensor_table){0};
}

/* The slot that holds `name`, or the empty one where it belongs. */
static uint32_t slot_of(const struct tensor_table *t, const char *name)
{
    uint32_t mask = t->n_slots - 1;
    uint32_t s = (uint32_t)hash64(name, strlen(name), 0) & mask;
    while (t->slots[s] && strcmp(t->at[t->slots[s] - 1].name, name))
        s = (s + 1) & mask;
    return s;
}

static bool grow(struct tensor_table *t, struct err *e)
{
    int32_t cap = t->cap ? t->cap * 2 : 256;
    struct tensor *at = realloc(t->at, (size_t)cap * sizeof *at);
    if (!at)
        return err_set(e, ERR_NOMEM, "no memory for a table of %d tensors", cap);
    t->at = at;
    int32_t *slots = calloc((size_t)cap * 2, sizeof *slots);
    if (!slots)
        return err_set(e, ERR_NOMEM, "no memory for a table of %d tensors", cap);
    free(t->slots);
    t->slots = slots;
    t->cap = cap;
    t->n_slots = (uint32_t)cap * 2;
    for (int32_t i = 0; i < t->n; i++)
        t->slots[slot_of(t, t->at[i].name)] = i + 1;
    return true;
}

bool tensor_table_add(struct tensor_table *t, const struct tensor *one, struct err *e)
{
    if (t->n == TENSOR_MAX_COUNT)
        return err_set(e, ERR_LIMIT, "more than %d tensors", TENSOR_MAX_COUNT);
    if (t->n == t->cap && !grow(t, e))
        return false;
    uint32_t s = slot_of(t, one->name);
    if (t->slots[s])
        return err_field(e, ERR_FORMAT, one->name, "tensor %s is there twice", one->name);
    char *name = arena_strdup(t->arena, one->name);
    if (!name)
        return err_set(e, ERR_NOMEM, "no memory for tensor names");
    t->at[t->n] = *one;
    t->at[t->n].name = name;
    t->slots[s] = ++t->n;
    return true;
}

struct tensor *tensor_table_find(const struct tensor_table *t, const char *name)
{
    if (!t->n)
        return NULL;
    int32_t i = t->slots[slot_of(t, name)];
    return i ? &t->at[i - 1] : NULL;
}

int64_t tensor_count(const int64_t *dims, int n_dims)
{
    const int64_t max = INT64_C(1) << 53;
    int64_t n = 1;
    for (int i = 0; i < n_dims; i++) {
        if (dims[i] < 0 || (dims[i] && n > max / dims[i]))
            return -1;
        n *= dims[i];
    }
    return n;
}

const char *tensor_shape_text(const struct tensor *t, char *buf, size_t size)
{
    size_t at = 0;
    for (int i = 0; i < t->n_dims && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%" PRId64, i ? ", " : "[", t->dims[i]);
    if (at < size)
        snprintf(buf + at, size - at, t->n_dims ? "]" : "[]");
    return buf;
}
