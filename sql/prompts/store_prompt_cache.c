/* Writes the prompt cache's list as the engine reports it, evicts, and clears away. */
#include "sql/prompts/store_prompt_cache.h"

#include <string.h>

#include "engine/base/clock.h"
#include "sql/core/statement.h"

#define EVICT_STEP 64 /* rows in one transaction: some milliseconds */

bool store_blocks_begin(struct store *s, struct err *e)
{
    return store_write_begin_unsynced(s, e);
}

bool store_blocks_end(struct store *s, bool ok, struct err *e)
{
    return store_write_end(s, ok, e);
}

static sqlite3_stmt *begin(struct store *s, enum query which, const struct store_block_ref *ref,
                           struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (!q)
        return NULL;
    statement_bind_blob(q, ":key", ref->key, sizeof ref->key);
    statement_bind_int(q, ":model_id", ref->model_id);
    statement_bind_int(q, ":segment", ref->place.segment);
    statement_bind_int(q, ":segment_offset", (int64_t)ref->place.offset);
    return q;
}

static bool add_row(struct store *s, const struct store_block *b, int *changed, struct err *e)
{
    sqlite3_stmt *q = begin(s, QUERY_PROMPT_BLOCK_ADD, &b->ref, e);
    if (!q)
        return false;
    statement_bind_blob(q, ":parent", b->parent, sizeof b->parent);
    statement_bind_int(q, ":user_id", b->user_id);
    statement_bind_id(q, ":conversation_id", b->conversation_id);
    statement_bind_text(q, ":label", b->label);
    statement_bind_int(q, ":identity", (int64_t)b->identity);
    statement_bind_int(q, ":end_tokens", b->end_tokens);
    statement_bind_int(q, ":bytes", b->ref.place.bytes);
    statement_bind_int(q, ":state_bytes", b->state_bytes);
    statement_bind_number(q, ":compute_ms", b->compute_ms);
    statement_bind_int(q, ":keep_seconds", b->keep_seconds);
    statement_bind_int(q, ":forgets_seen", b->forgets_seen);
    statement_bind_int(q, ":now", clock_wall_ms());
    return statement_run(s, q, changed, e);
}

bool store_block_add(struct store *s, const struct store_block *b, struct err *e)
{
    int changed = 0;
    if (!add_row(s, b, &changed, e))
        return false;
    if (changed)
        return true;
    sqlite3_stmt *q = begin(s, QUERY_PROMPT_REMOVAL_ADD, &b->ref, e);
    if (!q)
        return false;
    statement_bind_int(q, ":bytes", b->ref.place.bytes);
    return statement_run(s, q, NULL, e);
}

bool store_block_use(struct store *s, const unsigned char *key, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_PROMPT_BLOCK_USE, e);
    if (!q)
        return false;
    statement_bind_blob(q, ":key", key, STORE_PROMPT_KEY_BYTES);
    statement_bind_int(q, ":now", clock_wall_ms());
    return statement_run(s, q, NULL, e);
}

bool store_block_gone(struct store *s, const struct store_block_ref *ref, struct err *e)
{
    sqlite3_stmt *q = begin(s, QUERY_PROMPT_BLOCK_GONE, ref, e);
    return q && statement_run(s, q, NULL, e);
}

/* An event of a record that came back after its removal may have made a row again: it goes too, and
 * then its removal, which the row's end has left. */
bool store_block_forgotten(struct store *s, const struct store_block_ref *ref, struct err *e)
{
    if (!store_block_gone(s, ref, e))
        return false;
    sqlite3_stmt *q = begin(s, QUERY_PROMPT_REMOVAL_DONE, ref, e);
    return q && statement_run(s, q, NULL, e);
}

/* Columns: key, segment, segment_offset, bytes, from `first` on. */
static void read_ref(sqlite3_stmt *q, int first, int64_t model_id, struct store_block_ref *out)
{
    const void *key = sqlite3_column_blob(q, first);
    *out =
        (struct store_block_ref){.place = {.segment = (uint32_t)sqlite3_column_int64(q, first + 1),
                                           .offset = (uint64_t)sqlite3_column_int64(q, first + 2),
                                           .bytes = (uint32_t)sqlite3_column_int64(q, first + 3)},
                                 .model_id = model_id};
    if (key) /* else SQLite has no memory for it; the schema sees to its length */
        memcpy(out->key, key, sizeof out->key);
}

/* Rows of a statement whose last columns are read_ref's; *after: its first column, if not NULL. */
static int32_t read_page(struct store *s, sqlite3_stmt *q, const struct store_block_page *page,
                         int64_t *after, struct err *e)
{
    int32_t got = 0;
    int rc;
    statement_bind_int(q, ":model_id", page->model_id);
    statement_bind_int(q, ":limit", page->n);
    while ((rc = statement_step(s, q, e)) == 1) {
        if (after)
            *after = sqlite3_column_int64(q, 0);
        read_ref(q, after ? 1 : 0, page->model_id, &page->refs[got++]);
    }
    statement_end(q);
    return rc < 0 ? -1 : got;
}

int32_t store_removals(struct store *s, int64_t *after, const struct store_block_page *page,
                       struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_PROMPT_REMOVALS, e);
    if (!q)
        return -1;
    statement_bind_int(q, ":after", *after);
    return read_page(s, q, page, after, e);
}

bool store_removals_next(struct store *s, int64_t after, int64_t *model_id, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_PROMPT_REMOVALS_NEXT, e);
    if (!q)
        return false;
    statement_bind_int(q, ":after", after);
    return statement_int(s, q, model_id, e);
}

int32_t store_block_places(struct store *s, const unsigned char *after,
                           const struct store_block_page *page, struct err *e)
{
    sqlite3_stmt *q =
        statement_begin(s, page->model_id ? QUERY_PROMPT_PLACES_BESIDE : QUERY_PROMPT_PLACES, e);
    if (!q)
        return -1;
    statement_bind_blob(q, ":after", after ? (const char *)after : "",
                        after ? STORE_PROMPT_KEY_BYTES : 0);
    return read_page(s, q, page, NULL, e);
}

/* ---- eviction ---- */

struct totals {
    int64_t bytes;            /* of all */
    int64_t most, most_bytes; /* the user who keeps the most */
};

static bool add_total(void *context, int64_t user_id, const struct store_kept *kept)
{
    struct totals *t = context;
    t->bytes += kept->bytes;
    if (kept->bytes > t->most_bytes) {
        t->most = user_id;
        t->most_bytes = kept->bytes;
    }
    return true;
}

/* One row; *freed stays 0 where there is none. */
static bool evict_one(struct store *s, enum query which, int64_t user_id, int64_t *freed,
                      struct err *e)
{
    struct err none = {0};
    sqlite3_stmt *q = statement_begin(s, which, e);
    *freed = 0;
    if (!q)
        return false;
    statement_bind_int(q, ":now", clock_wall_ms());
    if (which == QUERY_PROMPT_EVICT)
        statement_bind_int(q, ":user_id", user_id);
    if (statement_int(s, q, freed, &none) || none.code == ERR_NOTFOUND)
        return true;
    *e = none;
    return false;
}

static bool evict_some(struct store *s, const struct store_prompt_budget *b, int64_t *freed,
                       struct err *e)
{
    for (int n = 0; n < EVICT_STEP; n++) {
        struct totals t = {0};
        int64_t one = 0;
        if (!store_prompt_totals(s, add_total, &t, e))
            return false;
        const bool over = t.bytes > b->bytes, user = b->user_bytes && t.most_bytes > b->user_bytes;
        if (!over && !user)
            return true;
        if (over && !evict_one(s, QUERY_PROMPT_EVICT_EXPIRED, 0, &one, e))
            return false;
        if (!one && !evict_one(s, QUERY_PROMPT_EVICT, t.most, &one, e))
            return false;
        if (!one)
            return true;
        *freed += one;
    }
    return true;
}

bool store_prompts_evict(struct store *s, const struct store_prompt_budget *b, int64_t *freed,
                         struct err *e)
{
    struct totals t = {0};
    *freed = 0;
    if (!store_prompt_totals(s, add_total, &t, e))
        return false;
    if (t.bytes <= b->bytes && (!b->user_bytes || t.most_bytes <= b->user_bytes))
        return true;
    return store_write_begin_unsynced(s, e) && store_write_end(s, evict_some(s, b, freed, e), e);
}

/* ---- clearing away ---- */

static bool clear_step(struct store *s, enum query which, int *removed, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, which, e);
    if (!q)
        return false;
    statement_bind_int(q, ":limit", STORE_PROMPT_STEP);
    return statement_run(s, q, removed, e);
}

static bool clear_some(struct store *s, struct err *e)
{
    static const enum query steps[] = {QUERY_PROMPT_CLEAR_CONVERSATIONS, QUERY_PROMPT_CLEAR_OPENAI,
                                       QUERY_PROMPT_CLEAR_USERS, QUERY_PROMPT_CLEAR_MODELS};
    int removed = 0;
    bool ok = true;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && ok && !removed; i++)
        ok = clear_step(s, steps[i], &removed, e);
    return ok;
}

bool store_prompts_clear(struct store *s, bool *more, struct err *e)
{
    static const struct statement_expiry old = {.find = QUERY_PROMPT_FORGETS_ANY_OLD,
                                                .remove = QUERY_PROMPT_FORGETS_REMOVE_OLD,
                                                .limit = STORE_PROMPT_STEP};
    int64_t any = 0;
    *more = false;
    if (!store_clear_expired(s, &old, more, e))
        return false;
    if (*more)
        return true;
    sqlite3_stmt *q = statement_begin(s, QUERY_PROMPT_ANY_DELETED, e);
    if (!q || !statement_int(s, q, &any, e))
        return false;
    *more = any;
    /* Not synced: they are deleted already, and what a power cut undoes is cleared again. */
    return !any || (store_write_begin_unsynced(s, e) && store_write_end(s, clear_some(s, e), e));
}
