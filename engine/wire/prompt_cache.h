/* The prompt cache on disk, as both sides of the engine's socket see it.
 *
 * A stored block is the KV of ENGINE_STORED_TOKENS token positions (and, in models with recurrent
 * layers, the state after them where one was kept) as one record of a segment file that the engine
 * writes. Its key is a chain hash: of everything that determines KV (the identity on the status
 * page), the scope, the variant, and all tokens from the beginning to the block's end. The engine
 * owns the segment files and no list of them; the rows in SQLite are the list. So a worker looks
 * up a prompt's keys before it submits (struct engine_job_params: stored), the engine checks what
 * it loads against the record's own header (key, tokens, scope, checksum) and computes whatever
 * does not hold, and what it has stored or found damaged goes to the one client that follows
 * the cache feed: the recorder.
 *
 * Who decides: the engine whether loading beats computing, and whether a write fits its budget;
 * the recorder what is forgotten, by rows that it removes first and tells the engine of then. A
 * record without a row is forgotten at the next reconciliation; a row without a record is reported
 * as gone when it is used. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

#define ENGINE_STORED_TOKENS 32 /* of a block */
#define ENGINE_PROMPT_KEY_BYTES 16
#define ENGINE_MAX_STORED 65536 /* blocks that one job may name */
#define ENGINE_CACHE_OWNER_SIZE 48
#define ENGINE_SCOPE_SIZE 64

struct prompt_key {
    unsigned char bytes[ENGINE_PROMPT_KEY_BYTES];
};

/* A user's key for records on disk. */
struct prompt_seal {
    unsigned char key[32];
    bool on; /* false: they are not sealed */
};

/* The key before the first block. identity: status page's cache_identity. variant: experts per
 * token where the job asks for fewer than the engine runs with, else 0. Any thread. */
void prompt_key_begin(struct prompt_key *k, uint64_t identity, const char *scope, int32_t variant);
/* Moves the key behind the next ENGINE_STORED_TOKENS ids. Keys lie beside each other in clear, so
 * of sealed records they are made with the user's key: nobody without it can try text by them. seal
 * may be NULL. */
void prompt_key_next(struct prompt_key *k, const struct prompt_seal *seal, const int32_t *tokens);

struct stored_place { /* where a record lies */
    uint32_t segment; /* number of the segment file */
    uint32_t bytes;   /* of the whole record, header and padding included */
    uint64_t offset;
};

/* One block of a job's prompt that rows know of. The array in a job is in the prompt's order and
 * without gaps, from the prompt's first block on. */
struct stored_ref {
    struct prompt_key key;
    struct stored_place place;
};

enum cache_event_type {
    /* A record is on disk, whole. A key may be stored again at another place (with a state that the
     * old record has not; or since the engine does not know its old records before the first
     * reconciliation): the new one is the better, and the old one is to be forgotten. */
    CACHE_STORED,
    CACHE_USED,       /* a job continued from this block, loaded from disk: one event for the last
                         block of what it loaded */
    CACHE_GONE,       /* the record at `place` is damaged, foreign or missing: remove its row */
    CACHE_FORGOTTEN,  /* answer to cache_feed_forget and cache_feed_forget_of: its bytes are no
                         longer on disk */
    CACHE_RECONCILED, /* answer to cache_feed_reconcile_end: records without a row are gone */
};

struct cache_event { /* all strings are NUL-terminated */
    enum cache_event_type type;
    struct prompt_key key;
    struct stored_place place;
    int64_t model; /* FORGOTTEN: as it was asked for, 0: of this engine's own folder */
    /* STORED only */
    struct prompt_key parent; /* key before the block */
    int32_t end;              /* tokens of the chain up to the block's end */
    uint32_t state_bytes;     /* of the record: recurrent state; 0: none */
    uint64_t identity;
    uint64_t user;                       /* of the job */
    char owner[ENGINE_CACHE_OWNER_SIZE]; /* of the job: the conversation's id, or "" */
    int64_t keep_seconds;                /* of the job: cache_keep_seconds */
    int64_t forgets_seen;                /* of the job: cache_forgets_seen. What was forgotten since
                                            then is not wanted */
    double compute_ms;                   /* what computing the block took or would take */
};

struct cache_feed;

/* Connects and follows; the engine keeps at most one follower: a newer one replaces it. Events
 * that occur while nobody follows are kept, up to a bound; beyond it new blocks are not stored.
 * ERR_UNAVAILABLE: nobody listens, or the engine is still loading. ERR_UNSUPPORTED: this engine
 * keeps no cache on disk. One thread owns a feed. */
struct cache_feed *cache_feed_open(const char *socket_path, struct err *e);
/* The same without waiting for a reply: until cache_feed_open_poll returns 1, only that and
 * cache_feed_fd may be used. Later requests do not wait for an engine that hangs either: they fail.
 */
struct cache_feed *cache_feed_open_async(const char *socket_path, struct err *e);
/* 1: it follows; 0: no reply yet; -1: *e as cache_feed_open. */
int cache_feed_open_poll(struct cache_feed *f, struct err *e);
int cache_feed_fd(const struct cache_feed *f); /* for poll: POLLIN */
/* True when an event is complete in memory: call cache_feed_next before polling the descriptor. */
bool cache_feed_pending(const struct cache_feed *f);
/* 1: *ev is filled; 0: none within timeout_ms; -1: the connection broke (*e). */
int cache_feed_next(struct cache_feed *f, struct cache_event *ev, int timeout_ms, struct err *e);
/* The engine keeps an event until it is acknowledged, so that a recorder that is killed between
 * reading and committing reads it again: acknowledges all that cache_feed_next has returned. */
bool cache_feed_acknowledge(struct cache_feed *f, struct err *e);
/* Removes records from disk, RAM and device. Each is answered by CACHE_FORGOTTEN, also when there
 * was none. Only the record at the very place is removed, so that an old one of a key that was
 * stored again can be. */
bool cache_feed_forget(struct cache_feed *f, const struct stored_ref *refs, int32_t n,
                       struct err *e);
/* The same of records in the folder of another model (its row, above 0), whose engine does not run:
 * the folder is "prompt-cache-" and the row, in the engines' cache folder (without one, beside this
 * engine's own). No answer comes while somebody else has that folder: ask again. */
bool cache_feed_forget_of(struct cache_feed *f, int64_t model, const struct stored_ref *refs,
                          int32_t n, struct err *e);
/* All rows there are, in any number of calls between begin and end: every other record that was
 * complete at begin is removed. Rows whose record is missing are answered by CACHE_GONE. */
bool cache_feed_reconcile_begin(struct cache_feed *f, struct err *e);
bool cache_feed_reconcile(struct cache_feed *f, const struct stored_ref *refs, int32_t n,
                          struct err *e);
bool cache_feed_reconcile_end(struct cache_feed *f, struct err *e);
void cache_feed_close(struct cache_feed **f);
