/* prompt_chains.h: adds chains of rows, and looks them up. */
#include "tests/unit/store/prompt_chains.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "sql/core/statement.h"

void chain_key(const struct chain *c, int i, unsigned char key[16])
{
    memset(key, 0, 16);
    if (i < 0) /* what a chain begins with */
        snprintf((char *)key, 16, "begin");
    else
        snprintf((char *)key, 16, "%d.%d", i < c->fork ? 0 : c->name, i);
}

struct store_block chain_block(const struct chain *c, int i)
{
    struct store_block b = {.user_id = c->user,
                            .conversation_id = c->conversation,
                            .label = c->label ? c->label : "",
                            .identity = CHAIN_IDENTITY,
                            .end_tokens = (i + 1) * STORE_BLOCK_TOKENS,
                            .keep_seconds = c->keep_seconds,
                            .forgets_seen = c->saw ? *c->saw : INT64_MAX,
                            .compute_ms = c->compute_ms > 0 ? c->compute_ms : 1};
    b.ref.place = (struct store_block_place){
        .segment = 1, .bytes = 1000, .offset = (uint64_t)(c->name * 100000 + i) * 1000};
    chain_key(c, i, b.ref.key);
    chain_key(c, i - 1, b.parent);
    return b;
}

void chain_add(struct fixture *f, const struct chain *c, int n)
{
    struct err e = {0};
    ASSERT_OK(store_blocks_begin(f->store, &e));
    for (int i = c->fork; i < n; i++) {
        struct store_block b = chain_block(c, i);
        ASSERT_OK(store_block_add(f->store, &b, &e));
    }
    ASSERT_OK(store_blocks_end(f->store, true, &e));
}

int chain_look_up(struct fixture *f, const struct chain *c, int n, struct store_block_place *places)
{
    struct err e = {0};
    unsigned char *keys = calloc((size_t)n, 16);
    for (int i = 0; i < n; i++)
        chain_key(c, i, keys + (size_t)i * 16);
    int got = store_chain_find(
        f->store,
        &(struct store_chain){.user_id = c->user, .identity = CHAIN_IDENTITY, .keys = keys, .n = n},
        places, &e);
    if (got < 0)
        fail_msg("%s", e.text);
    free(keys);
    return got;
}

int chain_found(struct fixture *f, const struct chain *c, int n)
{
    struct store_block_place *places = calloc((size_t)n, sizeof *places);
    int got = chain_look_up(f, c, n, places);
    for (int i = 0; i < got; i++)
        assert_int_equal(places[i].offset, chain_block(c, i).ref.place.offset);
    free(places);
    return got;
}

int64_t chain_number(struct fixture *f, const char *sql)
{
    return fixture_number(f->path, sql);
}

void chain_run(struct fixture *f, const char *sql)
{
    struct err e = {0};
    ASSERT_OK(store_write_begin(f->store, &e));
    ASSERT_OK(store_write_end(f->store, store_exec(f->store, sql, &e), &e));
}

int chain_removals(struct fixture *f)
{
    struct err e = {0};
    struct store_block_ref refs[64];
    const struct store_block_page page = {.refs = refs, .n = 64};
    int64_t after = 0;
    int n = 0, got;
    while ((got = store_removals(f->store, &after, &page, &e)) > 0)
        n += got;
    assert_int_equal(got, 0);
    return n;
}

void chain_clear_all(struct fixture *f)
{
    struct err e = {0};
    bool more = true;
    while (more)
        ASSERT_OK(store_clear(f->store, &more, &e));
}
