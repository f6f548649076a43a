/* The tree of messages as a whole: a conversation that begins with another's branch, and a branch
 * cut off. Rules as in sql/chats/store_conversations.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct store;

#define STORE_TREE_MESSAGES 10000 /* that one call copies or removes; more: ERR_LIMIT */

struct store_fork {
    int64_t user_id, conversation_id;
    int64_t message_id;    /* the last one to take along, with all above it */
    const char *title;     /* NULL: the original's */
    int64_t storage_bytes; /* that the user may keep in all, the copies with it; 0: no limit */
};
/* A new conversation with copies of these messages, its settings and tags those of the original.
 * Where it is long it takes several transactions, between which others write; nobody sees it before
 * the last, and the recorder removes what a killed process leaves. Long texts are found once the
 * recorder has indexed them. ERR_NOTFOUND: conversation; ERR_INPUT "from_message_id": not in it;
 * ERR_CONFLICT: that answer is still running; ERR_LIMIT, field STORE_QUOTA_FIELD
 * (sql/users/store_limits.h). */
bool store_conversation_fork(struct store *s, const struct store_fork *f, int64_t *id,
                             struct err *e);

/* The message and all below it, gone; the recorder clears them from the disk. If the branch that is
 * shown ended there, the newest one beside it is shown, or what is left above. Where they are many
 * it takes several transactions, between which others write, from the ends up: if the process is
 * killed, what is left is a whole tree. ERR_CONFLICT: one of them is still running. */
bool store_message_remove(struct store *s, int64_t user_id, int64_t id, struct err *e);
/* The message alone, gone: what stood below it stands below what stood above it. ERR_CONFLICT: it
 * is running, a call or a tool's result, or the question with which a conversation begins. */
bool store_message_take_out(struct store *s, int64_t user_id, int64_t id, struct err *e);

struct store_version {
    int64_t user_id;
    int64_t message_id;  /* a finished answer: another is ERR_CONFLICT */
    const char *content; /* what stands in its place */
};
/* A sibling of that answer, which becomes the shown one; *id: its own. */
bool store_message_version(struct store *s, const struct store_version *v, int64_t *id,
                           struct err *e);
