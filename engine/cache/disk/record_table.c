/* Linear probing; removal shifts what follows back, so that no slot is ever dead. */
#include "engine/cache/disk/record_table.h"

#include <stdlib.h>
#include <string.h>

void record_table_fini(struct record_table *t)
{
    free(t->slots);
    *t = (struct record_table){0};
}

/* A key is a hash already. */
static uint32_t home(const struct record_table *t, const struct prompt_key *key)
{
    uint32_t h;
    memcpy(&h, key->bytes, sizeof h);
    return h & (t->cap - 1);
}

static bool is_used(const struct record_entry *entry)
{
    return entry->place.bytes > 0;
}

/* The key's slot, or the empty one where it would go. */
static struct record_entry *slot_of(const struct record_table *t, const struct prompt_key *key)
{
    uint32_t i = home(t, key);
    while (is_used(&t->slots[i]) && memcmp(&t->slots[i].key, key, sizeof *key) != 0)
        i = (i + 1) & (t->cap - 1);
    return &t->slots[i];
}

struct record_entry *record_table_find(const struct record_table *t, const struct prompt_key *key)
{
    if (!t->n)
        return NULL;
    struct record_entry *slot = slot_of(t, key);
    return is_used(slot) ? slot : NULL;
}

static bool grow(struct record_table *t)
{
    struct record_table larger = {.cap = t->cap ? t->cap * 2 : 256, .n = t->n};
    larger.slots = calloc(larger.cap, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (uint32_t i = 0; i < t->cap; i++)
        if (is_used(&t->slots[i]))
            *slot_of(&larger, &t->slots[i].key) = t->slots[i];
    free(t->slots);
    *t = larger;
    return true;
}

struct record_entry *record_table_put(struct record_table *t, const struct prompt_key *key)
{
    if ((t->n + 1) * 4 > t->cap * 3 && !grow(t))
        return NULL;
    struct record_entry *slot = slot_of(t, key);
    if (!is_used(slot)) {
        *slot = (struct record_entry){.key = *key, .place.bytes = 1};
        t->n++;
    }
    return slot;
}

void record_table_remove(struct record_table *t, struct record_entry *entry)
{
    uint32_t mask = t->cap - 1, hole = (uint32_t)(entry - t->slots);
    for (uint32_t i = (hole + 1) & mask; is_used(&t->slots[i]); i = (i + 1) & mask) {
        uint32_t from = home(t, &t->slots[i].key);
        /* moved back only if its home does not lie behind the hole */
        if (((i - from) & mask) >= ((i - hole) & mask)) {
            t->slots[hole] = t->slots[i];
            hole = i;
        }
    }
    t->slots[hole] = (struct record_entry){0};
    t->n--;
}
