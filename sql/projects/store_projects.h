/* Projects: folders of chats with a name, a colour and instructions. Which chats are in one is a
 * column of conversations (sql/chats); the files are in store_project_files.h. Its owner may share
 * it (store_project_shares.h): who may read it finds it here as well, and nobody else. Rules as in
 * sql/core/store.h: a row that the user may not read, or not change so, is ERR_NOTFOUND. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/store.h"

struct arena;
struct store;

#define STORE_PROJECTS_MAX 200
#define STORE_PROJECT_NAME 64 /* characters */
#define STORE_PROJECT_COLOURS 8
#define STORE_PROJECT_INSTRUCTIONS 16384 /* bytes: each answer keeps those that it was given */

struct store_project {
    int64_t id;
    const char *key; /* its name in exports */
    const char *name, *instructions;
    int colour; /* 0 to STORE_PROJECT_COLOURS - 1 */
    int64_t created_at, updated_at;
    int64_t n_chats; /* the caller's, outside the trash */
    int64_t n_files;
    bool indexing; /* a search over its files misses some passages yet */
    int64_t owner_id;
    const char *owner_name;
    int access;       /* the caller's: enum store_project_access */
    int64_t n_shares; /* with how many users and groups */
};

/* Those that the user may read, by name. */
typedef bool (*store_project_fn)(void *context, const struct store_project *p); /* false: enough */
bool store_project_list(struct store *s, int64_t user_id, store_project_fn fn, void *context,
                        struct err *e);
bool store_project_get(struct store *s, struct arena *a, const struct store_ref *project,
                       struct store_project *out, struct err *e);
/* The project that a conversation is in; id 0: none (also of a conversation that is not there). */
bool store_project_of_chat(struct store *s, struct arena *a, const struct store_ref *conversation,
                           struct store_project *out, struct err *e);
/* Of the user's project with this key; 0: there is none. */
bool store_project_by_key(struct store *s, int64_t user_id, const char *key, int64_t *id,
                          struct err *e);

struct store_project_change {       /* of an existing one NULL, and colour -1, leave as it is */
    const char *name;               /* 1 to STORE_PROJECT_NAME characters */
    const char *instructions, *key; /* key: only of a new one; NULL: made up */
    int colour;
    int64_t storage_bytes; /* that the owner may keep in all; 0: no limit */
};
/* Whether name, instructions and colour may be; without a store. ERR_INPUT or ERR_LIMIT, with the
 * field. */
bool store_project_check(const struct store_project_change *c, struct err *e);
/* ERR_LIMIT: there are STORE_PROJECTS_MAX already, or field STORE_QUOTA_FIELD. */
bool store_project_add(struct store *s, int64_t user_id, const struct store_project_change *c,
                       int64_t *id, struct err *e);
bool store_project_update(struct store *s, const struct store_ref *project,
                          const struct store_project_change *c, struct err *e);
/* Its owner's alone to do. Its files go unless a message or another project has them. Its chats
 * stay, without a project; or the owner's go into the trash, never others'. */
bool store_project_remove(struct store *s, const struct store_ref *project, bool trash_chats,
                          struct err *e);
