/* Answers of /v1/responses, kept until they expire so that later requests can build upon them.
 * Rules as in sql/core/store.h: the SQL compares the user, a row of someone else is ERR_NOTFOUND.
 * The recorder clears away what has expired. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/store.h"

struct arena;
struct store;

#define STORE_RESPONSE_BYTES ((size_t)4 << 20) /* of input and response together */

struct store_response {
    const char *id; /* "resp_...", unique */
    int64_t user_id;
    const char
        *previous_id; /* NULL: it begins a conversation, or was made in one of store_openai.h */
    const char *conversation_id;   /* of such a one, or NULL */
    int64_t conversation_position; /* of the last item there that came before it; not given by
                                      store_response_each */
    int64_t created_at, expires_at;
    const char *input;     /* JSON array: its own items */
    const char *response;  /* JSON object, as it was sent; its `output` are the items that follow */
    int64_t storage_bytes; /* only for store_response_add: that the user may keep in all, this with
                              it; 0: no limit */
};
/* ERR_LIMIT: over STORE_RESPONSE_BYTES, or with the field STORE_QUOTA_FIELD
 * (sql/users/store_limits.h). */
bool store_response_add(struct store *s, const struct store_response *row, struct err *e);
bool store_response_get(struct store *s, struct arena *a, const struct store_text_ref *response,
                        struct store_response *out, struct err *e);
/* All of a user's that have not expired, in the order they were kept; the row's texts live for the
 * call. fn false: enough. */
typedef bool (*store_response_fn)(void *context, const struct store_response *row);
bool store_response_each(struct store *s, int64_t user_id, store_response_fn fn, void *context,
                         struct err *e);
bool store_response_remove(struct store *s, int64_t user_id, const char *id, struct err *e);
/* One short step; *any: there was something. For store_clear. */
bool store_response_clear(struct store *s, bool *any, struct err *e);
