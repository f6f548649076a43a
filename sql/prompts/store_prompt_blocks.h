/* The list of the prompt cache on disk (engine/wire/prompt_cache.h): which blocks there are, whose
 * they are, and which records the engine still has to remove. Workers look up chains and forget;
 * the recorder adds, evicts and removes. A row that goes leaves its record's place among the
 * removals in the same transaction, whoever removes it. Rules as in sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct store;

#define STORE_PROMPT_KEY_BYTES 16
#define STORE_PROMPT_LABEL 47 /* characters */
#define STORE_PROMPT_STEP 500 /* rows that one transaction removes: some milliseconds */
#define STORE_BLOCK_TOKENS 32 /* of a block */

struct store_block_place { /* of a record in the engine's segment files */
    uint32_t segment, bytes;
    uint64_t offset;
};

/* ---- workers ---- */

/* Keys of a prompt's blocks in its order, one after the other. */
struct store_chain {
    int64_t user_id;
    int64_t model_id; /* row of a model beside the first; 0: the first */
    uint64_t identity;
    const unsigned char *keys; /* [n * STORE_PROMPT_KEY_BYTES] */
    int32_t n;
};
/* Fills places[n] for the blocks that there are from the first on without a gap; -1: *e. Only rows
 * of the user. */
int32_t store_chain_find(struct store *s, const struct store_chain *c,
                         struct store_block_place *places, struct err *e);

struct store_kept {
    int64_t blocks, bytes;
};
/* What a conversation's jobs were the first to store; zero for another user's. */
bool store_kept_of_conversation(struct store *s, int64_t user_id, int64_t conversation_id,
                                struct store_kept *out, struct err *e);
bool store_kept_of_user(struct store *s, int64_t user_id, struct store_kept *out, struct err *e);

enum store_forget { FORGET_CONVERSATION, FORGET_LABEL, FORGET_OWNED, FORGET_USER, FORGET_ALL };
struct store_forgetting {
    enum store_forget what;
    int64_t user_id;         /* for all but FORGET_ALL */
    int64_t conversation_id; /* FORGET_CONVERSATION */
    const char *label;       /* FORGET_LABEL; FORGET_OWNED: id of a response or a conversation of
                                /v1 that labels begin with */
};
/* Removes their rows in transactions of STORE_PROMPT_STEP; what is done when it fails stays done.
 * Before that it notes what is forgotten: blocks of jobs whose text was read earlier are not listed
 * any more; and with all of a user's the key goes that they were sealed with. */
bool store_prompts_forget(struct store *s, const struct store_forgetting *f, int64_t *removed,
                          struct err *e);

/* The same within the write transaction that deletes the text, so that whoever read the text had
 * not seen this one. What was recorded long before is removed by store_prompts_forget before it, in
 * its small steps: rows of the last moment are few. */
bool store_prompts_forget_within(struct store *s, const struct store_forgetting *f, struct err *e);
/* The number of the last deletion, to be read before any text that goes into a job. */
bool store_forgets_seen(struct store *s, int64_t *number, struct err *e);
/* The same, and what is read next is of the same moment and needs no lock of its own, until
 * store_snapshot_end or the connection's next write. Keys, limits and models that were read before
 * are not read again while nobody has changed any (sql/core/access_cache.h). */
bool store_forgets_snapshot(struct store *s, int64_t *number, struct err *e);

struct store_prompt_facts { /* for the admin page, metrics and doctor */
    int64_t blocks, bytes, users;
    int64_t removals, removal_bytes; /* records that the engine has yet to remove */
};
bool store_prompt_facts(struct store *s, struct store_prompt_facts *out, struct err *e);
/* The next model beside the first, by row, that blocks are kept of; name: "" if it is not in the
 * list any more. False with ERR_NOTFOUND: there is none above `after`. */
struct store_prompt_model {
    int64_t id;
    char name[129];
    struct store_kept kept;
};
bool store_prompt_model_next(struct store *s, int64_t after, struct store_prompt_model *out,
                             struct err *e);
/* Every user that has blocks. */
typedef bool (*store_prompt_total_fn)(void *context, int64_t user_id,
                                      const struct store_kept *kept); /* false: enough */
bool store_prompt_totals(struct store *s, store_prompt_total_fn fn, void *context, struct err *e);
