/* shared.h: what proved itself a while ago. */
#include "fcgi/process/shared.h"

#include <stddef.h>

#include "engine/base/clock.h"

#define PROBES 8

static const struct shared_known *find_row(const struct shared *s, enum shared_known_kind kind,
                                           uint64_t key)
{
    for (uint64_t i = 0; i < PROBES; i++) {
        const struct shared_known *row = &s->known[kind][(key + i) % SHARED_KNOWN];
        if (row->key == key)
            return row;
    }
    return NULL;
}

/* The key's row, else the stalest of its places. Two processes may race for a place: one of the two
 * is not known then, and proves itself again. */
void shared_known_note(struct shared *s, enum shared_known_kind kind, uint64_t key)
{
    struct shared_known *place = NULL;
    for (uint64_t i = 0; i < PROBES; i++) {
        struct shared_known *row = &s->known[kind][(key + i) % SHARED_KNOWN];
        if (row->key == key) {
            place = row;
            break;
        }
        if (!place || row->last_ms < place->last_ms)
            place = row;
    }
    if (place->key != key) {
        place->last_ms = 0; /* or the new key could be taken for as fresh as the old one */
        place->key = key;
    }
    place->last_ms = clock_wall_ms();
}

void shared_known_forget(struct shared *s, enum shared_known_kind kind, uint64_t key)
{
    for (uint64_t i = 0; i < PROBES; i++) {
        struct shared_known *row = &s->known[kind][(key + i) % SHARED_KNOWN];
        if (row->key == key)
            row->last_ms = 0;
    }
}

bool shared_known_within(const struct shared *s, enum shared_known_kind kind, uint64_t key,
                         int64_t ms)
{
    const struct shared_known *row = find_row(s, kind, key);
    const int64_t last = row ? row->last_ms : 0, now = clock_wall_ms();
    return last > 0 && last <= now && now - last <= ms;
}
