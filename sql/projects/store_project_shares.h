/* Whom a project is shared with: users, and groups of them, as readers (they chat with its files
 * and instructions) or editors (they change these, too). Who may do what is decided by one view
 * (project_access in schema.sql), which every statement on projects asks. Chats in a project stay
 * their users' own. What an editor adds is the owner's: it counts as theirs, and goes with the
 * project. Rules as in sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/store.h"

struct store;

#define STORE_PROJECT_SHARES 100 /* of one project */

enum store_project_access { STORE_PROJECT_READER, STORE_PROJECT_EDITOR, STORE_PROJECT_OWNER };

struct store_project_share {
    int64_t id;
    int64_t user_id, group_id; /* one of them is 0 */
    const char *name;          /* of the user or the group */
    bool editor;
    int64_t n_members; /* of a group */
    int64_t created_at;
};
typedef bool (*store_project_share_fn)(void *context, const struct store_project_share *x);
/* Of the owner's project; of somebody else's there is none to see. */
bool store_project_share_list(struct store *s, const struct store_ref *project,
                              store_project_share_fn fn, void *context, struct err *e);
/* Of *x: user_id or group_id, and editor; again: changes editor. Only the owner shares; with groups
 * that they are in themselves, an admin with all. ERR_NOTFOUND: the project, or the group;
 * ERR_INPUT "user": it is the owner; ERR_LIMIT. */
bool store_project_share_add(struct store *s, const struct store_ref *project,
                             const struct store_project_share *x, struct err *e);
bool store_project_share_remove(struct store *s, const struct store_ref *project, int64_t share,
                                struct err *e);
/* Somebody wants it no more: they are out of it until it is shared with them by name.
 * ERR_NOTFOUND; ERR_CONFLICT: it is their own. */
bool store_project_leave(struct store *s, const struct store_ref *project, struct err *e);

/* Whose attachment it is, for a user who may read it: their own, or a file of a project that they
 * may read. ERR_NOTFOUND. */
bool store_attachment_owner(struct store *s, const struct store_ref *attachment, int64_t *owner,
                            struct err *e);
