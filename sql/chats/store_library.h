/* What a user keeps for later use, by name: presets (settings as a JSON object) and prompts (text
 * with {{variables}}). Every function takes the user's id, and the SQL itself compares it. Rules as
 * in sql/core/store.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

struct arena;
struct store;

#define STORE_LIBRARY_MAX 500 /* of one kind */
#define STORE_LIBRARY_NAME 64 /* characters */
#define STORE_LIBRARY_BYTES 65536

enum store_kind { KIND_PRESET, KIND_PROMPT };

/* One user's entry of one kind; where all of a kind are meant or one is made, without id. */
struct store_entry_ref {
    int64_t user_id;
    enum store_kind kind;
    int64_t id;
};

struct store_entry {
    int64_t id;
    const char *name, *body;
    int64_t created_at, updated_at;
};

/* In the order of their names. */
typedef bool (*store_entry_fn)(void *context, const struct store_entry *entry); /* false: enough */
bool store_library_list(struct store *s, const struct store_entry_ref *ref, store_entry_fn fn,
                        void *context, struct err *e);
bool store_library_get(struct store *s, struct arena *a, const struct store_entry_ref *ref,
                       struct store_entry *out, struct err *e);
/* Of *entry: name and body. ERR_CONFLICT: the name is taken (ASCII case ignored); ERR_LIMIT: there
 * are STORE_LIBRARY_MAX already. */
bool store_library_add(struct store *s, const struct store_entry_ref *ref,
                       const struct store_entry *entry, int64_t *id, struct err *e);
/* Of *entry: name and body, each left as it is where it is NULL. */
bool store_library_change(struct store *s, const struct store_entry_ref *ref,
                          const struct store_entry *entry, struct err *e);
bool store_library_remove(struct store *s, const struct store_entry_ref *ref, struct err *e);
