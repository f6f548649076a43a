/* Looking up chains of stored blocks, what is kept of whom, and forgetting it. */
#include "sql/prompts/store_prompt_blocks.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "sql/core/access_cache.h"
#include "sql/core/statement.h"
#include "sql/core/store.h"

#define SKIP 16 /* rows of others that a walk passes by: cheaper than a look-up by key */

struct chain_walk {
    struct store *s;
    const struct store_chain *chain;
    struct store_block_place *places;
    int32_t n;            /* found */
    int64_t conversation; /* of the row before; 0: none */
    bool over;            /* the next one may not be used */
};

static const unsigned char *next_key(const struct chain_walk *w)
{
    return w->chain->keys + (size_t)w->n * STORE_PROMPT_KEY_BYTES;
}

/* Where the next block lies. 1, 0: it has no row, -1. */
static int find_place(const struct chain_walk *w, struct store_block_place *place, struct err *e)
{
    sqlite3_stmt *q = statement_begin(w->s, QUERY_PROMPT_BLOCK_PLACE, e);
    if (!q)
        return -1;
    statement_bind_blob(q, ":key", next_key(w), STORE_PROMPT_KEY_BYTES);
    statement_bind_int(q, ":user_id", w->chain->user_id);
    statement_bind_int(q, ":model_id", w->chain->model_id);
    const int rc = statement_step(w->s, q, e);
    if (rc == 1)
        *place = (struct store_block_place){.segment = (uint32_t)sqlite3_column_int64(q, 0),
                                            .offset = (uint64_t)sqlite3_column_int64(q, 1)};
    statement_end(q);
    return rc;
}

static bool is_deleted(const struct chain_walk *w, int64_t conversation, bool *deleted,
                       struct err *e)
{
    int64_t is = 0;
    sqlite3_stmt *q = statement_begin(w->s, QUERY_PROMPT_CONVERSATION_DELETED, e);
    if (!q)
        return false;
    statement_bind_int(q, ":id", conversation);
    statement_bind_int(q, ":user_id", w->chain->user_id);
    const bool ok = statement_int(w->s, q, &is, e);
    *deleted = is;
    return ok;
}

/* A row of the next block: of this user and model, and of no chat that is being cleared away? */
static bool take_row(struct chain_walk *w, sqlite3_stmt *q, uint32_t segment, struct err *e)
{
    const int64_t conversation = sqlite3_column_int64(q, 5);
    w->over = sqlite3_column_int64(q, 3) != w->chain->user_id ||
              (uint64_t)sqlite3_column_int64(q, 4) != w->chain->identity;
    if (!w->over && conversation && conversation != w->conversation &&
        !is_deleted(w, conversation, &w->over, e))
        return false;
    w->conversation = conversation;
    if (!w->over)
        w->places[w->n++] =
            (struct store_block_place){.segment = segment,
                                       .offset = (uint64_t)sqlite3_column_int64(q, 1),
                                       .bytes = (uint32_t)sqlite3_column_int64(q, 2)};
    return true;
}

static bool is_next(const struct chain_walk *w, sqlite3_stmt *q)
{
    const void *key = sqlite3_column_blob(q, 0);
    return key && memcmp(key, next_key(w), STORE_PROMPT_KEY_BYTES) == 0;
}

/* Blocks of a chain were mostly written one after the other: takes those that follow in the
 * segment. */
static bool walk(struct chain_walk *w, const struct store_block_place *from, struct err *e)
{
    sqlite3_stmt *q = statement_begin(w->s, QUERY_PROMPT_BLOCKS_FROM, e);
    int rc = 0, skipped = 0;
    bool ok = q != NULL;
    if (!ok)
        return false;
    statement_bind_int(q, ":model_id", w->chain->model_id);
    statement_bind_int(q, ":segment", from->segment);
    statement_bind_int(q, ":segment_offset", (int64_t)from->offset);
    while (ok && !w->over && w->n < w->chain->n && skipped < SKIP &&
           (rc = statement_step(w->s, q, e)) == 1) {
        const bool next = is_next(w, q);
        skipped = next ? 0 : skipped + 1;
        ok = !next || take_row(w, q, from->segment, e);
    }
    statement_end(q);
    return ok && rc >= 0;
}

int32_t store_chain_find(struct store *s, const struct store_chain *c,
                         struct store_block_place *places, struct err *e)
{
    struct chain_walk w = {.s = s, .chain = c, .places = places};
    struct store_block_place from;
    int rc = 1;
    for (int32_t before = -1; rc == 1 && !w.over && w.n < c->n && w.n > before;) {
        before = w.n;
        rc = find_place(&w, &from, e);
        if (rc == 1 && !walk(&w, &from, e))
            rc = -1;
    }
    return rc < 0 ? -1 : w.n;
}

/* Its row, or zeros where there is none. */
static bool read_kept(struct store *s, sqlite3_stmt *q, struct store_kept *out, struct err *e)
{
    const int rc = statement_step(s, q, e);
    *out = (struct store_kept){0};
    if (rc == 1)
        *out = (struct store_kept){.blocks = sqlite3_column_int64(q, 0),
                                   .bytes = sqlite3_column_int64(q, 1)};
    statement_end(q);
    return rc >= 0;
}

bool store_kept_of_conversation(struct store *s, int64_t user_id, int64_t conversation_id,
                                struct store_kept *out, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_PROMPT_OF_CONVERSATION, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    statement_bind_int(q, ":conversation_id", conversation_id);
    return read_kept(s, q, out, e);
}

bool store_kept_of_user(struct store *s, int64_t user_id, struct store_kept *out, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_PROMPT_OF_USER, e);
    if (!q)
        return false;
    statement_bind_int(q, ":user_id", user_id);
    return read_kept(s, q, out, e);
}

/* limit -1: all. */
static bool forget_step(struct store *s, const struct store_forgetting *f, int limit, int *removed,
                        struct err *e)
{
    static const enum query queries[] = {[FORGET_CONVERSATION] = QUERY_PROMPT_FORGET_CONVERSATION,
                                         [FORGET_LABEL] = QUERY_PROMPT_FORGET_LABEL,
                                         [FORGET_OWNED] = QUERY_PROMPT_FORGET_OWNED,
                                         [FORGET_USER] = QUERY_PROMPT_FORGET_USER,
                                         [FORGET_ALL] = QUERY_PROMPT_FORGET_ALL};
    sqlite3_stmt *q = statement_begin(s, queries[f->what], e);
    if (!q)
        return false;
    statement_bind_int(q, ":limit", limit);
    if (f->what != FORGET_ALL)
        statement_bind_int(q, ":user_id", f->user_id);
    if (f->what == FORGET_CONVERSATION)
        statement_bind_int(q, ":conversation_id", f->conversation_id);
    if (f->what == FORGET_LABEL || f->what == FORGET_OWNED)
        statement_bind_text(q, ":label", f->label);
    return statement_run(s, q, removed, e);
}

static bool note(struct store *s, const struct store_forgetting *f, struct err *e)
{
    char conversation[32];
    const bool all = f->what == FORGET_ALL;
    sqlite3_stmt *q =
        statement_begin(s, all ? QUERY_PROMPT_FORGETS_NOTE_ALL : QUERY_PROMPT_FORGETS_NOTE, e);
    if (!q)
        return false;
    snprintf(conversation, sizeof conversation, "c:%lld", (long long)f->conversation_id);
    statement_bind_int(q, ":now", clock_wall_ms());
    if (!all) {
        statement_bind_int(q, ":user_id", f->user_id);
        statement_bind_text(q, ":owner",
                            f->what == FORGET_USER           ? ""
                            : f->what == FORGET_CONVERSATION ? conversation
                                                             : f->label);
    }
    return statement_run(s, q, NULL, e);
}

/* With the key goes all that was sealed with it, wherever there is a copy. */
static bool forget_keys(struct store *s, const struct store_forgetting *f, struct err *e)
{
    const bool all = f->what == FORGET_ALL;
    if (!all && f->what != FORGET_USER)
        return true;
    sqlite3_stmt *q =
        statement_begin(s, all ? QUERY_PROMPT_SEAL_REMOVE_ALL : QUERY_PROMPT_SEAL_REMOVE, e);
    if (q && !all)
        statement_bind_int(q, ":user_id", f->user_id);
    return q && statement_run(s, q, NULL, e);
}

static bool forget_first(struct store *s, const struct store_forgetting *f, int *removed,
                         struct err *e)
{
    return note(s, f, e) && forget_keys(s, f, e) &&
           forget_step(s, f, STORE_PROMPT_STEP, removed, e);
}

bool store_prompts_forget(struct store *s, const struct store_forgetting *f, int64_t *removed,
                          struct err *e)
{
    int step = 0;
    *removed = 0;
    if (!store_write_begin(s, e) || !store_write_end(s, forget_first(s, f, &step, e), e))
        return false;
    *removed = step;
    while (step == STORE_PROMPT_STEP) {
        store_give_way();
        if (!store_write_begin(s, e) ||
            !store_write_end(s, forget_step(s, f, STORE_PROMPT_STEP, &step, e), e))
            return false;
        *removed += step;
    }
    return true;
}

bool store_prompts_forget_within(struct store *s, const struct store_forgetting *f, struct err *e)
{
    return note(s, f, e) && forget_keys(s, f, e) && forget_step(s, f, -1, NULL, e);
}

bool store_forgets_seen(struct store *s, int64_t *number, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_PROMPT_FORGETS_LAST, e);
    return q && statement_int(s, q, number, e);
}

bool store_forgets_snapshot(struct store *s, int64_t *number, struct err *e)
{
    store_snapshot_end(s);
    sqlite3_stmt *q = statement_begin(s, QUERY_PROMPT_FORGETS_LAST, e);
    if (!q || !statement_row(s, q, e))
        return false;
    *number = sqlite3_column_int64(q, 0);
    store_snapshot_hold(s, q);
    if (sqlite3_column_type(q, 1) == SQLITE_INTEGER)
        access_cache_begin(s, sqlite3_column_int64(q, 1));
    else
        store_access_leave(s); /* somebody took the row away: nothing would tell of changes */
    return true;
}

bool store_prompt_facts(struct store *s, struct store_prompt_facts *out, struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_PROMPT_FACTS, e);
    if (!q || !statement_row(s, q, e))
        return false;
    *out = (struct store_prompt_facts){.blocks = sqlite3_column_int64(q, 0),
                                       .bytes = sqlite3_column_int64(q, 1),
                                       .users = sqlite3_column_int64(q, 2),
                                       .removals = sqlite3_column_int64(q, 3),
                                       .removal_bytes = sqlite3_column_int64(q, 4)};
    statement_end(q);
    return true;
}

bool store_prompt_model_next(struct store *s, int64_t after, struct store_prompt_model *out,
                             struct err *e)
{
    sqlite3_stmt *q = statement_begin(s, QUERY_PROMPT_MODELS_NEXT, e);
    if (!q)
        return false;
    statement_bind_int(q, ":after", after);
    if (!statement_row(s, q, e))
        return false;
    const unsigned char *name = sqlite3_column_text(q, 1);
    *out = (struct store_prompt_model){
        .id = sqlite3_column_int64(q, 0),
        .kept = {.blocks = sqlite3_column_int64(q, 2), .bytes = sqlite3_column_int64(q, 3)}};
    snprintf(out->name, sizeof out->name, "%s", name ? (const char *)name : "");
    statement_end(q);
    return true;
}

bool store_prompt_totals(struct store *s, store_prompt_total_fn fn, void *context, struct err *e)
{
    int rc;
    sqlite3_stmt *q = statement_begin(s, QUERY_PROMPT_TOTALS, e);
    if (!q)
        return false;
    while ((rc = statement_step(s, q, e)) == 1) {
        const struct store_kept kept = {.blocks = sqlite3_column_int64(q, 1),
                                        .bytes = sqlite3_column_int64(q, 2)};
        if (kept.blocks && !fn(context, sqlite3_column_int64(q, 0), &kept))
            break;
    }
    statement_end(q);
    return rc >= 0;
}
