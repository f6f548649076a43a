/* The recorder's part of the prompt cache's list: it notes what the engine has stored, used and
 * removed, keeps the sum below the budget, and clears away what was deleted. Rules as in
 * sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/prompts/store_prompt_blocks.h"

struct store;

struct store_block_ref {
    unsigned char key[STORE_PROMPT_KEY_BYTES];
    struct store_block_place place;
    int64_t model_id; /* row of the model in whose folder it lies; 0: the first model's */
};

struct store_block { /* a record that is on disk */
    struct store_block_ref ref;
    unsigned char parent[STORE_PROMPT_KEY_BYTES];
    int64_t user_id, conversation_id; /* conversation 0: an API's */
    const char *label;                /* or "" */
    uint64_t identity;
    int32_t end_tokens;
    uint32_t state_bytes;
    int64_t keep_seconds; /* after each use; 0: as long as there is room */
    int64_t forgets_seen; /* store_forgets_seen, before its job's text was read */
    double compute_ms;
};

/* Events of one turn in one transaction, without fsync: what a power cut undoes, the engine's next
 * reconciliation repairs. */
bool store_blocks_begin(struct store *s, struct err *e);
bool store_blocks_end(struct store *s, bool ok, struct err *e);
/* Inside: a row; or a removal where its user or conversation is gone, or where what it belongs to
 * was forgotten after its text had been read. The same record twice is one row; a newer record of a
 * block takes the row over, and the older one is removed. */
bool store_block_add(struct store *s, const struct store_block *b, struct err *e);
bool store_block_use(struct store *s, const unsigned char *key, struct err *e);
/* Inside: the record is damaged or missing. */
bool store_block_gone(struct store *s, const struct store_block_ref *ref, struct err *e);
/* Inside: the record's bytes are no longer on disk. */
bool store_block_forgotten(struct store *s, const struct store_block_ref *ref, struct err *e);

/* A part of the list, of one model's folder. */
struct store_block_page {
    int64_t model_id;             /* 0: the first model's */
    struct store_block_ref *refs; /* [n]: out */
    int32_t n;
};
/* Up to n removals whose number is above *after, which moves on; -1: *e. */
int32_t store_removals(struct store *s, int64_t *after, const struct store_block_page *page,
                       struct err *e);
/* The next model above `after` (-1: the first) in whose folder records are to be removed. False
 * with ERR_NOTFOUND: there is none. */
bool store_removals_next(struct store *s, int64_t after, int64_t *model_id, struct err *e);
/* Up to n rows in the order of their keys, above `after` (NULL: from the first on); -1: *e. */
int32_t store_block_places(struct store *s, const unsigned char *after,
                           const struct store_block_page *page, struct err *e);

struct store_prompt_budget {
    int64_t bytes;      /* of all */
    int64_t user_bytes; /* of one user; 0: no limit of its own */
};
/* One short transaction towards the budget: removes what has expired, then of the user who is above
 * the limit, or else keeps the most, what saves the least time for its bytes. Only ends of chains
 * go, so that no row is left without those before it. *freed: bytes; 0: within the budget. */
bool store_prompts_evict(struct store *s, const struct store_prompt_budget *b, int64_t *freed,
                         struct err *e);

/* One step of clearing away the rows of deleted conversations, users and models; *more: call again.
 */
bool store_prompts_clear(struct store *s, bool *more, struct err *e);
