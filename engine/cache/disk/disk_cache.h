/* The prompt cache on disk: stored blocks in segment files. A writer's thread appends what the loop
 * thread hands over, and does what the recorder asks for; two readers' threads bring records back
 * and check them. The loop thread never waits for any of them: it is told by `wake`.
 *
 * What is on disk is known by keys: those stored since the start, and those that the recorder's
 * rows named when it reconciled. There is no list on disk.
 *
 * A record is announced (CACHE_STORED) after fdatasync has returned for it, and for the file that
 * it is in. So what a row names survives a loss of power, as far as the disk keeps its word; a
 * record that was being written is named by nothing, and its space is given back when rows are next
 * reconciled. Every byte that is loaded was checked against the record's checksum. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/cache/disk/record_form.h"
#include "engine/cache/disk/record_feed.h"

struct disk_cache;

struct disk_cache_params {
    const char *dir;
    const char
        *others;     /* what other models' folders are named by: this, "-", a number. NULL: dir */
    uint64_t budget; /* bytes on disk; beyond it nothing is stored */
    uint64_t ram_budget; /* bytes of copies in RAM (record_ram.h); 0: there are none */
    uint64_t identity;
    uint32_t block_bytes, state_bytes;
    struct record_feed *feed;
    void (*wake)(
        void *context); /* any thread: a write or a read has ended, or keys are forgotten */
    void *wake_context;
};

struct disk_counters {
    uint64_t budget, disk_bytes, records; /* now */
    uint64_t stored, refused, damaged, forgotten;
    uint64_t loaded; /* records that were read and are whole */
    uint64_t read_bytes, written_bytes;
    uint64_t ram_budget, ram_bytes;     /* now */
    double read_seconds, write_seconds; /* with at least one read or write under way */
    char note[160];                     /* why nothing is stored now; "": it is */
};

/* ERR_CONFLICT: another engine uses the folder. */
struct disk_cache *disk_cache_open(const struct disk_cache_params *p, struct err *e);
/* Writes what was handed over before, then ends the threads. */
void disk_cache_close(struct disk_cache **c);
void disk_cache_set_budget(struct disk_cache *c, uint64_t bytes);
void disk_cache_counters(struct disk_cache *c, struct disk_counters *out); /* any thread */
/* Bytes per second that reads have brought lately, checked; a guess before the first. */
double disk_cache_read_rate(struct disk_cache *c);

/* --- the loop thread: storing */

struct disk_write {        /* a record that is being filled */
    unsigned char *record; /* content goes to record_block() and record_state() */
    struct record_about about;
    uint64_t user;
    struct prompt_seal seal;
    char owner[ENGINE_CACHE_OWNER_SIZE];
    int64_t keep_seconds, forgets_seen;
    double compute_ms;
};

/* False: it is on disk, or on its way there; with the state that is now at hand, if one is. */
bool disk_cache_wants(struct disk_cache *c, const struct prompt_key *key, bool with_state);
enum disk_room { DISK_ROOM, DISK_WAIT, DISK_NO_ROOM };
/* Memory for a record of this size. WAIT: none until a write has ended, which wakes. NO_ROOM: the
 * budget, the disk or the feed is full, which is counted. */
enum disk_room disk_cache_begin_write(struct disk_cache *c, bool with_state, struct disk_write **w);
/* Hands it over; or gives it up, where it could not be filled. */
void disk_cache_end_write(struct disk_cache *c, struct disk_write *w, bool ok);
bool disk_cache_writing(struct disk_cache *c); /* writes were handed over and have not ended */
/* More will be handed over: until then the feed is not settled. */
void disk_cache_note_pending(struct disk_cache *c, bool pending);

/* --- the loop thread: loading */

struct disk_load;

struct disk_block { /* that is to be loaded */
    struct prompt_key key;
    struct stored_place place; /* its size says whether it has a state */
};

struct disk_load_params {
    const struct disk_block *blocks; /* [n], as all below copied */
    int32_t n;
    struct prompt_key parent; /* of the first */
    const int32_t *tokens;    /* [n * ENGINE_STORED_TOKENS] */
    int32_t end;              /* of the first: tokens of the chain up to its end */
    int32_t variant;
    const char *scope;
    const struct prompt_seal *seal; /* NULL or not on: they are not sealed */
};

/* Where the record of this key lies, if it was stored or reconciled since the opening. */
bool disk_cache_find(struct disk_cache *c, const struct prompt_key *key,
                     struct stored_place *place);
bool disk_cache_in_ram(struct disk_cache *c, const struct stored_ref *ref);
/* NULL: no memory. */
struct disk_load *disk_cache_load(struct disk_cache *c, const struct disk_load_params *p);
enum disk_next { DISK_NOT_YET, DISK_LOADED, DISK_DAMAGED, DISK_END };
/* The next block in order. Its content stays until the next call. DAMAGED: no more will come; the
 * recorder has been told. */
enum disk_next disk_load_next(struct disk_load *l, const unsigned char **block,
                              const unsigned char **state);
bool disk_load_from_ram(const struct disk_load *l); /* the block that came last */
void disk_load_close(struct disk_load **l);         /* cancels what is left; accepts NULL */
/* Tells that a job continued from this block. */
void disk_cache_note_use(struct disk_cache *c, const struct disk_block *block);
/* Up to `most` keys whose content must also be dropped elsewhere. */
int32_t disk_cache_take_forgotten(struct disk_cache *c, struct prompt_key *keys, int32_t most);
