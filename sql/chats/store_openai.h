/* Conversations of /v1/conversations: lists of items that programs add to, and that responses read
 * and continue. Apart from the page's conversations (store_conversations.h), which are trees of
 * messages. Rules as in sql/core/store.h: the SQL compares the user, a row of someone else is
 * ERR_NOTFOUND. They do not expire; what they hold counts into the user's bytes. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/store.h"

struct arena;
struct store;

#define STORE_OPENAI_BYTES                                                                         \
    ((int64_t)16 << 20)         /* of a conversation: what a request's body may have */
#define STORE_OPENAI_ID_MAX 128 /* characters of an item's id */

struct store_openai_item {
    const char *id;   /* unique in its conversation */
    int64_t position; /* ascending, never given out twice; ignored by functions that add */
    const char *item; /* JSON object, with its id in it */
};
struct store_openai_conversation {
    const char *id; /* "conv_...", unique */
    int64_t user_id, created_at;
    const char *metadata;  /* JSON object */
    int64_t last_position; /* of the newest item that there ever was; 0: none */
};
struct store_openai_addition { /* to a conversation that is there, or that is made with it */
    int64_t user_id;
    const char *conversation_id;
    const struct store_openai_item *items;
    int n;
    int64_t storage_bytes; /* that the user may keep in all, these with it; 0: no limit */
};

/* All of these are one transaction: everything or nothing, and never between the items of
 * another's. ERR_INPUT, field "items": an id that the conversation has. ERR_LIMIT: over
 * STORE_OPENAI_BYTES (field "items"), or with the field STORE_QUOTA_FIELD
 * (sql/users/store_limits.h). */
bool store_openai_conversation_add(struct store *s, const struct store_openai_conversation *c,
                                   const struct store_openai_addition *first, struct err *e);
bool store_openai_items_add(struct store *s, const struct store_openai_addition *a, struct err *e);

bool store_openai_conversation_get(struct store *s, struct arena *a,
                                   const struct store_text_ref *conversation,
                                   struct store_openai_conversation *out, struct err *e);
/* A new metadata; storage_bytes as above. */
bool store_openai_conversation_change(struct store *s, const struct store_openai_conversation *c,
                                      int64_t storage_bytes, struct err *e);
bool store_openai_conversation_remove(struct store *s, int64_t user_id, const char *id,
                                      struct err *e);
/* All of a user's, oldest first. fn false: enough. The row's texts live for the call. */
typedef bool (*store_openai_conversation_fn)(void *context,
                                             const struct store_openai_conversation *c);
bool store_openai_conversation_each(struct store *s, int64_t user_id,
                                    store_openai_conversation_fn fn, void *context, struct err *e);

struct store_openai_item_ref {
    int64_t user_id;
    const char *conversation_id, *id;
};
bool store_openai_item_get(struct store *s, struct arena *a,
                           const struct store_openai_item_ref *item, struct store_openai_item *out,
                           struct err *e);
bool store_openai_item_remove(struct store *s, int64_t user_id, const char *conversation_id,
                              const char *id, struct err *e);
struct store_openai_range {
    int64_t user_id;
    const char *conversation_id;
    int64_t from, until; /* positions: from < p <= until */
    int64_t limit;
    bool back; /* the newest first */
};
typedef bool (*store_openai_item_fn)(void *context, const struct store_openai_item *item);
bool store_openai_items_each(struct store *s, const struct store_openai_range *range,
                             store_openai_item_fn fn, void *context, struct err *e);
