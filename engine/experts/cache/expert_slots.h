/* The memory of records: one slot for each, of the size of its layer's records. Address space is
 * reserved for all experts; pages are populated when a slot is taken and returned when it is
 * released. Taken slots are locked where the system allows it, so that they are never swapped out.
 *
 * The cache's lock guards it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/experts/io/expert_reader.h"
#include "engine/experts/pack/expert_layout.h"

enum slot_state {
    SLOT_FREE,
    SLOT_READING,
    SLOT_READY,
    SLOT_SPARE
}; /* spare: populated memory without a record */

struct expert_slot {
    uint8_t *memory;
    uint32_t bytes;
    int32_t size_class;
    int32_t layer, expert; /* layer's index in the layout */
    enum slot_state state;
    int32_t pins;          /* > 0: the running layer holds it */
    int32_t want;          /* index in the running layer's wants, or -1 */
    bool prefetched;       /* its layer has not come yet */
    bool locked;           /* its memory */
    bool checksum_pending; /* its checksum is still to be computed */
    int32_t at;            /* position in the list of taken slots */
    struct expert_job job;
};

struct slot_class {
    uint32_t bytes;
    int32_t n, first; /* slots, and the first one's index */
    uint8_t *memory;
    int32_t *unused; /* [n_unused] a stack, lowest index on top at first */
    int32_t n_unused;
};

struct expert_slots {
    struct expert_slot *slots;
    int32_t n;
    struct slot_class *classes;
    int32_t n_classes;
    int32_t *class_of; /* [n_layers] */
    int32_t *taken;    /* [n_taken] slots that are not free */
    int32_t n_taken, n_spare;
    uint64_t bytes, locked_bytes; /* of taken slots */
    bool no_lock;                 /* the limit of locked memory was reached once */
};

/* Maps address space for records, aligned to huge pages: a disk that takes a limited number of
 * segments per request reads records twice as fast into memory that is not scattered in pages of 4
 * KiB. NULL: *e. */
void *expert_slots_map(size_t bytes, struct err *e);
void expert_slots_unmap(void *memory, size_t bytes); /* NULL: nothing */
/* Slots that a layout needs at most: one per expert. */
int32_t expert_slots_count(const struct expert_layout *l);
bool expert_slots_init(struct expert_slots *s, const struct expert_layout *l, struct err *e);
void expert_slots_fini(
    struct expert_slots *s); /* after the reader is closed; accepts a zeroed struct */
/* A slot for a record of this layer, or NULL when memory can't be had. */
struct expert_slot *expert_slots_take(struct expert_slots *s, int32_t layer);
/* Keeps the memory of a taken slot for another record, until it is reused. */
void expert_slots_spare(struct expert_slots *s, struct expert_slot *slot);
void expert_slots_unspare(struct expert_slots *s, struct expert_slot *slot);
struct expert_slot *expert_slots_find_spare(const struct expert_slots *s,
                                            int32_t size_class); /* negative: of any size */
/* A spare slot of this layer's size, taken up again, or NULL. */
struct expert_slot *expert_slots_reuse(struct expert_slots *s, int32_t layer);
/* True if records of this size have at least their proportional share of the taken slots. Less than
 * one slot below it is enough: otherwise two sizes that share an odd number of slots would evict
 * each other in turns. */
bool expert_slots_has_share(const struct expert_slots *s, int32_t size_class);
/* Gives the memory back to the system. */
void expert_slots_release(struct expert_slots *s, struct expert_slot *slot);
