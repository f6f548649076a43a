/* Read-only links to conversations. A link shows the branch that ends with one message, as it was
 * when the link was made. Only the hash of its token is kept; a link that is revoked or has expired
 * is no row. Rules as in sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/secret.h"
#include "sql/files/store_attachments.h"

struct arena;
struct store;

#define STORE_SHARES_MAX 100 /* of one conversation */
#define STORE_SHARES_LISTED 1000

struct store_share {
    int64_t id, conversation_id;
    int64_t leaf_id;                /* the last message that is shown */
    const char *title;              /* the conversation's, when the link was made */
    int64_t created_at, expires_at; /* expires_at 0: never */
    bool files;                     /* the branch's attachments are shown too */
    int64_t user_id;                /* the owner; store_share_list leaves it 0 */
};

/* n: user_id, conversation_id, leaf_id, expires_at, files. ERR_NOTFOUND: no such conversation, or
 * it is in the trash; ERR_INPUT "leaf_id": no message of it; ERR_CONFLICT: that answer still runs;
 * ERR_LIMIT: STORE_SHARES_MAX links of it exist. */
bool store_share_add(struct store *s, const struct store_share *n,
                     const unsigned char token_hash[SECRET_HASH_BYTES], int64_t *id, struct err *e);
/* The user's links, newest first, at most STORE_SHARES_LISTED; the conversation's id 0: of all
 * conversations. */
typedef bool (*store_share_fn)(void *context, const struct store_share *share); /* false: enough */
bool store_share_list(struct store *s, const struct store_ref *conversation, store_share_fn fn,
                      void *context, struct err *e);
bool store_share_remove(struct store *s, int64_t user_id, int64_t id, struct err *e);
/* By the token that anyone may hold. ERR_NOTFOUND: none such, expired, or its conversation or owner
 * is gone, in the trash or disabled: all alike. */
bool store_share_find(struct store *s, struct arena *a,
                      const unsigned char token_hash[SECRET_HASH_BYTES], struct store_share *out,
                      struct err *e);
/* An attachment of the branch that `share` (of store_share_find) shows, by its content; that of the
 * lowest id, where several have it. ERR_NOTFOUND: none, or the link shows no files. */
bool store_share_file(struct store *s, const struct store_share *share, const char *sha256,
                      int64_t *attachment_id, struct err *e);
