/* Looking up chains of stored blocks, what is kept of whom, and forgetting it. */
#include "sql/prompts/store_prompt_blocks.h"

#include "sql/core/statement.h"

static struct store_block_place read_place(sqlite3_stmt *q)
{
    return (struct store_block_place){.segment = (uint32_t)sqlite3_column_int64(q, 0),
                                      .offset = (uint64_t)sqlite3_column_int64(q, 1),
                                      .bytes = (uint32_t)sqlite3_column_int64(q, 2)};
}

int32_t store_chain_find(struct store *s, const struct store_chain *c,
                         struct store_block_place *places, struct err *e)
{
    int32_t n = 0;
    int rc;
    sqlite3_stmt *q = statement_begin(s, QUERY_PROMPT_CHAIN, e);
    if (!q)
        return -1;
    statement_bind_int(q, ":user_id", c->user_id);
    statement_bind_int(q, ":identity", (int64_t)c->identity);
    statement_bind_blob(q, ":keys", c->keys, (size_t)c->n * STORE_PROMPT_KEY_BYTES);
    while ((rc = statement_step(s, q, e)) == 1 && n < c->n)
        places[n++] = read_place(q);
    statement_end(q);
    return rc < 0 ? -1 : n;
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

static bool forget_step(struct store *s, const struct store_forgetting *f, int *removed,
                        struct err *e)
{
    static const enum query queries[] = {[FORGET_CONVERSATION] = QUERY_PROMPT_FORGET_CONVERSATION,
                                         [FORGET_LABEL] = QUERY_PROMPT_FORGET_LABEL,
                                         [FORGET_USER] = QUERY_PROMPT_FORGET_USER,
                                         [FORGET_ALL] = QUERY_PROMPT_FORGET_ALL};
    sqlite3_stmt *q = statement_begin(s, queries[f->what], e);
    if (!q)
        return false;
    statement_bind_int(q, ":limit", STORE_PROMPT_STEP);
    if (f->what != FORGET_ALL)
        statement_bind_int(q, ":user_id", f->user_id);
    if (f->what == FORGET_CONVERSATION)
        statement_bind_int(q, ":conversation_id", f->conversation_id);
    if (f->what == FORGET_LABEL)
        statement_bind_text(q, ":label", f->label);
    return statement_run(s, q, removed, e);
}

bool store_prompts_forget(struct store *s, const struct store_forgetting *f, int64_t *removed,
                          struct err *e)
{
    int step = 0;
    *removed = 0;
    do {
        if (step)
            store_give_way();
        if (!store_write_begin(s, e) || !store_write_end(s, forget_step(s, f, &step, e), e))
            return false;
        *removed += step;
    } while (step == STORE_PROMPT_STEP);
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
