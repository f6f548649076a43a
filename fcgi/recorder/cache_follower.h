/* The recorder's part of the prompt cache on disk: it follows one engine's feed and keeps the list
 * in SQLite. What the engine stored becomes a row, what it removed goes; rows that were removed by
 * anyone (a deleted conversation, forgetting) are told to the engine until it has answered; the sum
 * of bytes is kept below the engine's budget by eviction. Each turn is one small transaction, and
 * only after its commit are the events acknowledged: a kill between any two steps makes the same
 * events come again. Thread: the recorder's. Times are clock_ms. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

struct store;
struct store_block_ref;

#define CACHE_FOLLOWER_EVENTS 256 /* of one turn */

struct cache_follower {
    struct store *store;
    const char *engine_socket, *status_path;
    int64_t model_id; /* row of a model beside the first, whose engine it is; 0: the first's */
    const char *first_status; /* of such a model: the first one's, whose budget is that of all */
    struct cache_feed *feed;  /* NULL: not connected */
    enum {
        CACHE_FOLLOWER_ASKED, /* the engine has not said yet whether it may be followed */
        CACHE_FOLLOWER_SETTLING,
        CACHE_FOLLOWER_RECONCILING,
        CACHE_FOLLOWER_FOLLOWING
    } state;
    double followed_at, next_connect, next_turn, next_evict, retry_at;
    struct prompt_key reconciled; /* the last row that was sent; valid after the first batch */
    bool any_reconciled, more_to_read, failing;
    int64_t asked_removal; /* the newest one that this connection was asked for */
    struct cache_event events[CACHE_FOLLOWER_EVENTS];
    int n_events; /* read, and not yet committed */
};

/* The strings and the store belong to the caller and must outlive *c. */
void cache_follower_init(struct cache_follower *c, struct store *s, const char *engine_socket,
                         const char *status_path);
void cache_follower_run(struct cache_follower *c, double now);
/* The engine is followed, and may be asked to forget. */
bool cache_follower_ready(const struct cache_follower *c);
/* Rows' places as an engine takes them; n. */
int32_t cache_follower_take_refs(struct stored_ref *out, const struct store_block_ref *in,
                                 int32_t n);
/* When something is due next. */
double cache_follower_next(const struct cache_follower *c);
int cache_follower_fd(const struct cache_follower *c); /* for poll: POLLIN; -1: not connected */
/* Something may have been removed: the next run tells the engine at once. */
void cache_follower_request(struct cache_follower *c);
void cache_follower_fini(struct cache_follower *c);
