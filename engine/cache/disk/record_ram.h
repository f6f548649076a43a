/* The prompt cache's tier in RAM, where the KV cache is a GPU's: copies of records as they lie on
 * disk, of those that were written or read lately. Beyond its budget those go that were not used
 * for the longest time. Any thread; no call waits for another's copying. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/wire/prompt_cache.h"

struct record_ram;

struct record_ram_counters {
    uint64_t budget, bytes, records; /* now */
    uint64_t read;                   /* records that were found */
};

struct record_ram *record_ram_create(uint64_t budget); /* NULL: no memory */
void record_ram_destroy(struct record_ram **r);        /* accepts NULL */
/* Keeps a copy of place->bytes. Nothing, where that is more than the budget, or there is no memory.
 */
void record_ram_put(struct record_ram *r, const struct prompt_key *key,
                    const struct stored_place *place, const void *record);
bool record_ram_has(struct record_ram *r, const struct prompt_key *key,
                    const struct stored_place *place);
/* False: there is none. */
bool record_ram_get(struct record_ram *r, const struct prompt_key *key,
                    const struct stored_place *place, void *record);
void record_ram_drop(struct record_ram *r, const struct prompt_key *key,
                     const struct stored_place *place);
void record_ram_counters(struct record_ram *r, struct record_ram_counters *out);
