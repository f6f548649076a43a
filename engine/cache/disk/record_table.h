/* Which records there are, by key: an open hash table. It has no lock of its own. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/wire/prompt_cache.h"

struct record_entry {
    struct prompt_key key;
    struct stored_place place; /* bytes 0: the slot is empty; segment 0: not written yet */
    uint64_t event;            /* number of the event that announced it; 0: a row is known */
    bool has_state;
    bool seen; /* by the reconciliation that runs */
};

struct record_table {           /* zeroed = empty */
    struct record_entry *slots; /* [cap] a power of two */
    uint32_t cap, n;
};

void record_table_fini(struct record_table *t);
/* NULL: unknown. Valid until the next put or remove. */
struct record_entry *record_table_find(const struct record_table *t, const struct prompt_key *key);
/* The key's entry, made if there is none. NULL: no memory. */
struct record_entry *record_table_put(struct record_table *t, const struct prompt_key *key);
void record_table_remove(struct record_table *t, struct record_entry *entry);
