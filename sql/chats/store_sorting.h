/* Putting conversations in order: many at once, the names of tags, the trash. Rules as in
 * sql/chats/store_conversations.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/chats/store_conversations.h"

#define STORE_BULK_MAX 1000 /* conversations that one call changes */

struct store_bulk { /* WHICH_ANY, NULL, false: left as it is */
    int64_t user_id;
    const int64_t *ids;
    int n; /* 1..STORE_BULK_MAX */
    enum store_which pinned, archived, trashed;
    int64_t project_id;                 /* as in store_conversation_change; 0: left as it is */
    const char *add_tags, *remove_tags; /* JSON arrays of texts, as in store_conversation_change */
    bool remove;                        /* delete them for good; the rest is then without effect */
};
/* One transaction: all or none. *changed: how many of them are the user's and were there; the
 * others are passed over. ERR_INPUT "add_tags": one of them would have more than STORE_TAGS_MAX
 * tags. */
bool store_conversation_bulk(struct store *s, const struct store_bulk *b, int *changed,
                             struct err *e);

/* The user's tags in their order, with the conversations outside the trash that have each. */
typedef bool (*store_tag_fn)(void *context, const char *tag,
                             int64_t conversations); /* false: enough */
bool store_tag_list(struct store *s, int64_t user_id, store_tag_fn fn, void *context,
                    struct err *e);

/* Deletes what is in the user's trash, in several short transactions. *removed: how many
 * conversations. */
bool store_trash_empty(struct store *s, int64_t user_id, int *removed, struct err *e);
