/* The prompt cache's list: chains, whose they are, what removes them, and what is evicted first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "tests/unit/store/prompt_chains.h"

#define MANY 2000
#define CHAIN_MS 5.0

static void test_a_chain_is_found_as_far_as_it_goes(void **state)
{
    struct fixture *f = *state;
    struct chain c = {.user = f->user}, theirs = {.user = f->other};
    struct err e = {0};
    chain_add(f, &c, 10);
    assert_int_equal(chain_found(f, &c, 20), 10);
    assert_int_equal(chain_found(f, &c, 4), 4);
    assert_int_equal(chain_found(f, &theirs, 20), 0);
    unsigned char key[16];
    chain_key(&c, 0, key);
    struct store_block_place place;
    assert_int_equal(
        store_chain_find(
            f->store, &(struct store_chain){.user_id = f->user, .identity = 1, .keys = key, .n = 1},
            &place, &e),
        0); /* another model */
    struct store_block middle = chain_block(&c, 5);
    ASSERT_OK(store_blocks_begin(f->store, &e));
    ASSERT_OK(store_block_gone(f->store, &middle.ref, &e));
    ASSERT_OK(store_blocks_end(f->store, true, &e));
    assert_int_equal(chain_found(f, &c, 20), 5);
    chain_add(f, &c, 6); /* the others are there still: each event came twice */
    assert_int_equal(chain_found(f, &c, 20), 10);
    assert_int_equal(chain_number(f, "SELECT count(*) FROM prompt_blocks"), 10);
    assert_int_equal(chain_number(f, "SELECT sum(children) FROM prompt_blocks"), 9);
}

/* Rows of a chain lie side by side mostly, and must be found anywhere. */
static void test_a_chain_is_found_wherever_its_blocks_lie(void **state)
{
    enum { N = 300 };
    struct fixture *f = *state;
    struct err e = {0};
    struct chain c = {.user = f->user}, beside = {.user = f->other, .name = 1};
    struct store_block_place places[N], wanted[N];
    ASSERT_OK(store_blocks_begin(f->store, &e));
    for (int i = 0; i < N; i++) {
        struct store_block b = chain_block(&c, i), other = chain_block(&beside, i);
        const int at = i < 100 ? i : i < 200 ? 299 - i : i * 50; /* forth, back, far apart */
        b.ref.place.segment = other.ref.place.segment = 1 + (uint32_t)(at % 3 == 0);
        b.ref.place.offset = (uint64_t)(2 * at + 1) * 1000;
        other.ref.place.offset = (uint64_t)(2 * at) * 1000;
        wanted[i] = b.ref.place;
        ASSERT_OK(store_block_add(f->store, &b, &e));
        ASSERT_OK(store_block_add(f->store, &other, &e));
    }
    ASSERT_OK(store_blocks_end(f->store, true, &e));
    assert_int_equal(chain_look_up(f, &c, N, places), N);
    assert_memory_equal(places, wanted, sizeof wanted);
}

/* Of this thread's own work: others on the machine do not count. */
static double thread_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void test_two_thousand_keys_take_milliseconds(void **state)
{
    struct fixture *f = *state;
    struct chain c = {.user = f->user, .conversation = fixture_conversation(f, f->user, "long")};
    double best = 1e9;
    chain_add(f, &c, MANY);
    for (int i = 0; i < 9; i++) {
        double began = thread_ms();
        assert_int_equal(chain_found(f, &c, MANY), MANY);
        double took = thread_ms() - began;
        best = took < best ? took : best;
    }
    print_message("%d keys: %.2f ms\n", MANY, best);
    assert_true(best < 10 * CHAIN_MS); /* a busy machine; quadratic would be far above */
}

static void test_what_is_deleted_takes_its_blocks_along(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct chain a = {.user = f->user, .conversation = fixture_conversation(f, f->user, "a")};
    struct chain b = {.user = f->user, .name = 1, .label = "k:1"};
    struct chain theirs = {.user = f->other, .name = 2};
    chain_add(f, &a, 700); /* more than a step */
    chain_add(f, &b, 10);
    chain_add(f, &theirs, 5);
    ASSERT_OK(store_conversation_remove(f->store, f->user, a.conversation, &e));
    assert_int_equal(chain_found(f, &a, 700), 0); /* at once, before anything is cleared */
    chain_clear_all(f);
    assert_int_equal(chain_removals(f), 700);
    assert_int_equal(chain_number(f, "SELECT count(*) FROM conversations"), 0);
    assert_int_equal(chain_number(f, "SELECT count(*) FROM prompt_blocks"), 15);
    chain_add(f, &a, 1); /* the engine tells of it late */
    assert_int_equal(chain_removals(f), 700);
    struct chain late = a;
    late.name = 3;
    chain_add(f, &late, 1);
    assert_int_equal(chain_removals(f), 701);
    ASSERT_OK(store_user_remove(f->store, f->other, &e));
    chain_clear_all(f);
    assert_int_equal(chain_removals(f), 706);
    assert_int_equal(chain_number(f, "SELECT count(*) FROM users"), 1);
    assert_int_equal(chain_number(f, "SELECT sum(bytes) FROM prompt_block_totals"), 10000);
    fixture_check_whole(f->path);
}

static void test_forgetting_is_for_ones_own(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t n = 0;
    struct store_kept kept;
    struct chain a = {.user = f->user, .conversation = fixture_conversation(f, f->user, "a")};
    struct chain b = {.user = f->user, .name = 1, .label = "k:1"};
    chain_add(f, &a, 600);
    chain_add(f, &b, 10);
    ASSERT_OK(store_kept_of_conversation(f->store, f->user, a.conversation, &kept, &e));
    assert_int_equal(kept.blocks, 600);
    assert_int_equal(kept.bytes, 600000);
    ASSERT_OK(store_kept_of_conversation(f->store, f->other, a.conversation, &kept, &e));
    assert_int_equal(kept.blocks, 0);
    struct store_forgetting forget = {
        .what = FORGET_CONVERSATION, .user_id = f->other, .conversation_id = a.conversation};
    ASSERT_OK(store_prompts_forget(f->store, &forget, &n, &e));
    assert_int_equal(n, 0);
    forget.user_id = f->user;
    ASSERT_OK(store_prompts_forget(f->store, &forget, &n, &e));
    assert_int_equal(n, 600);
    assert_int_equal(chain_removals(f), 600);
    forget = (struct store_forgetting){.what = FORGET_LABEL, .user_id = f->other, .label = "k:1"};
    ASSERT_OK(store_prompts_forget(f->store, &forget, &n, &e));
    assert_int_equal(n, 0);
    forget.user_id = f->user;
    ASSERT_OK(store_prompts_forget(f->store, &forget, &n, &e));
    assert_int_equal(n, 10);
    ASSERT_OK(store_kept_of_user(f->store, f->user, &kept, &e));
    assert_int_equal(kept.blocks + kept.bytes, 0);
}

/* A kill between any two steps leaves a state from which the same events lead to the same end. */
static void test_events_that_come_again_change_nothing(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct chain c = {.user = f->user};
    struct store_block b = chain_block(&c, 0), newer = b;
    newer.ref.place.offset = 777000;
    chain_add(f, &c, 1);
    ASSERT_OK(store_blocks_begin(f->store, &e));
    ASSERT_OK(store_block_add(f->store, &newer, &e));
    ASSERT_OK(store_blocks_end(f->store, true, &e));
    assert_int_equal(chain_number(f, "SELECT segment_offset FROM prompt_blocks"), 777000);
    assert_int_equal(chain_removals(f), 1); /* the older record's place */
    ASSERT_OK(store_blocks_begin(f->store, &e));
    ASSERT_OK(store_block_gone(f->store, &b.ref, &e)); /* of the older one: the row stays */
    ASSERT_OK(store_block_forgotten(f->store, &b.ref, &e));
    ASSERT_OK(store_blocks_end(f->store, true, &e));
    assert_int_equal(chain_removals(f), 0);
    assert_int_equal(chain_number(f, "SELECT count(*) FROM prompt_blocks"), 1);
    /* STORED was committed, the block evicted and forgotten; then STORED comes again. */
    int64_t n;
    ASSERT_OK(store_prompts_forget(
        f->store, &(struct store_forgetting){.what = FORGET_USER, .user_id = f->user}, &n, &e));
    ASSERT_OK(store_blocks_begin(f->store, &e));
    ASSERT_OK(store_block_add(f->store, &newer, &e));
    ASSERT_OK(store_block_forgotten(f->store, &newer.ref, &e));
    ASSERT_OK(store_blocks_end(f->store, true, &e));
    assert_int_equal(chain_removals(f), 0);
    assert_int_equal(chain_number(f, "SELECT count(*) FROM prompt_blocks"), 0);
    assert_int_equal(chain_number(f, "SELECT bytes + blocks FROM prompt_block_totals"), 0);
}

static void evict_to(struct fixture *f, int64_t bytes, int64_t user_bytes)
{
    struct err e = {0};
    int64_t freed = 1;
    while (freed)
        ASSERT_OK(store_prompts_evict(
            f->store, &(struct store_prompt_budget){.bytes = bytes, .user_bytes = user_bytes},
            &freed, &e));
}

static void age(struct fixture *f, const char *which, int64_t ms)
{
    char sql[200];
    snprintf(sql, sizeof sql,
             "UPDATE prompt_blocks SET used_at = used_at - %lld, keep_until = keep_until - %lld "
             "WHERE CAST(key AS TEXT) GLOB '%s'",
             (long long)ms, (long long)ms, which);
    chain_run(f, sql);
}

static void test_eviction_takes_ends_of_chains_that_save_least(void **state)
{
    struct fixture *f = *state;
    struct chain old = {.user = f->user, .name = 0}, fresh = {.user = f->user, .name = 1};
    struct chain dear = {.user = f->user, .name = 2, .compute_ms = 1000};
    chain_add(f, &old, 20);
    chain_add(f, &fresh, 20);
    chain_add(f, &dear, 20);
    age(f, "0.*", 3600 * 1000);
    age(f, "2.*", 3600 * 1000);
    evict_to(f, 50000, 0);
    assert_int_equal(chain_found(f, &old, 20), 10); /* from its end */
    assert_int_equal(chain_found(f, &fresh, 20), 20);
    assert_int_equal(chain_found(f, &dear, 20), 20); /* as old, but slow to compute */
    evict_to(f, 25000, 0);
    assert_int_equal(chain_found(f, &old, 20), 0);
    assert_int_equal(chain_found(f, &fresh, 20), 5);
    assert_int_equal(chain_found(f, &dear, 20), 20);
    assert_int_equal(chain_removals(f), 35);
}

static void test_a_shared_beginning_outlives_its_branches(void **state)
{
    struct fixture *f = *state;
    struct chain trunk = {.user = f->user, .name = 0};
    chain_add(f, &trunk, 10);
    for (int i = 1; i <= 5; i++)
        chain_add(f, &(struct chain){.user = f->user, .name = i, .fork = 10}, 20);
    evict_to(f, 12000, 0);
    assert_int_equal(chain_found(f, &trunk, 10), 10);
    assert_int_equal(
        chain_number(f, "SELECT count(*) FROM prompt_blocks b WHERE end_tokens > 32 AND NOT "
                        "EXISTS (SELECT 1 FROM prompt_blocks p WHERE p.key = b.parent)"),
        0);
}

static void test_who_keeps_most_gives_way_and_what_expired_goes_first(void **state)
{
    struct fixture *f = *state;
    struct chain much = {.user = f->user}, little = {.user = f->other, .name = 1};
    struct chain brief = {.user = f->other, .name = 2, .keep_seconds = 60, .compute_ms = 1000};
    chain_add(f, &little, 10);
    chain_add(f, &brief, 10);
    age(f, "1.*", (int64_t)30 * 86400 * 1000);
    chain_add(f, &much, 40);
    evict_to(f, 55000, 0);
    assert_int_equal(chain_found(f, &much, 40), 35);
    assert_int_equal(chain_found(f, &little, 10), 10);
    age(f, "2.*", 61000);
    evict_to(f, 45000, 0);
    assert_int_equal(chain_found(f, &brief, 10), 0);
    assert_int_equal(chain_found(f, &much, 40), 35);
    evict_to(f, 45000, 20000); /* nobody may keep more */
    assert_int_equal(chain_found(f, &much, 40), 20);
    assert_int_equal(chain_found(f, &little, 10), 10);
}

static int look_up_of(struct fixture *f, const struct chain *c, int64_t model, int n)
{
    struct err e = {0};
    unsigned char keys[16 * 16];
    struct store_block_place places[16];
    for (int i = 0; i < n; i++)
        chain_key(c, i, keys + 16 * i);
    return store_chain_find(f->store,
                            &(struct store_chain){.user_id = c->user,
                                                  .model_id = model,
                                                  .identity = CHAIN_IDENTITY,
                                                  .keys = keys,
                                                  .n = n},
                            places, &e);
}

static int listed_of(struct fixture *f, int64_t model, bool removals)
{
    struct err e = {0};
    struct store_block_ref refs[64];
    const struct store_block_page page = {.model_id = model, .refs = refs, .n = 64};
    int64_t after = 0;
    const int n = removals ? store_removals(f->store, &after, &page, &e)
                           : store_block_places(f->store, NULL, &page, &e);
    for (int i = 0; i < n; i++)
        assert_int_equal(refs[i].model_id, model);
    return n;
}

/* Each model's records lie in a folder of its own, and places mean something there alone. */
static void test_models_rows_are_told_apart_and_go_with_their_model(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct chain c = {.user = f->user}, first = {.user = f->user, .name = 1};
    struct store_prompt_model kept;
    int64_t next = 0;
    chain_run(f, "INSERT INTO models (id, name, created_at) VALUES (7, 'small', 0);"
                 "INSERT INTO local_models (model_id, path) VALUES (7, '/small')");
    chain_add(f, &first, 4);
    ASSERT_OK(store_blocks_begin(f->store, &e));
    for (int i = 0; i < 10; i++) {
        struct store_block b = chain_block(&c, i);
        b.ref.model_id = 7;
        ASSERT_OK(store_block_add(f->store, &b, &e));
    }
    ASSERT_OK(store_blocks_end(f->store, true, &e));
    assert_int_equal(look_up_of(f, &c, 7, 10), 10);
    assert_int_equal(look_up_of(f, &c, 0, 10), 0);
    assert_int_equal(listed_of(f, 7, false), 10);
    assert_int_equal(listed_of(f, 0, false), 4);
    ASSERT_OK(store_prompt_model_next(f->store, 0, &kept, &e));
    assert_int_equal(kept.id, 7);
    assert_string_equal(kept.name, "small");
    assert_int_equal(kept.kept.blocks, 10);
    assert_false(store_prompt_model_next(f->store, 7, &kept, &e));
    assert_int_equal(e.code, ERR_NOTFOUND);
    struct store_block b = chain_block(&c, 9); /* the same model as the first one stores it again */
    ASSERT_OK(store_blocks_begin(f->store, &e));
    ASSERT_OK(store_block_add(f->store, &b, &e));
    ASSERT_OK(store_blocks_end(f->store, true, &e));
    assert_int_equal(look_up_of(f, &c, 7, 10), 9);
    assert_int_equal(listed_of(f, 7, true), 1);
    chain_clear_all(f);
    assert_int_equal(listed_of(f, 7, false), 9);
    chain_run(f, "DELETE FROM models WHERE id = 7");
    chain_clear_all(f);
    assert_int_equal(listed_of(f, 7, false), 0);
    assert_int_equal(listed_of(f, 7, true), 10);
    assert_int_equal(listed_of(f, 0, false), 5);
    ASSERT_OK(store_removals_next(f->store, 0, &next, &e));
    assert_int_equal(next, 7);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_a_chain_is_found_as_far_as_it_goes),
        T(test_a_chain_is_found_wherever_its_blocks_lie),
        T(test_two_thousand_keys_take_milliseconds),
        T(test_what_is_deleted_takes_its_blocks_along),
        T(test_forgetting_is_for_ones_own),
        T(test_events_that_come_again_change_nothing),
        T(test_eviction_takes_ends_of_chains_that_save_least),
        T(test_a_shared_beginning_outlives_its_branches),
        T(test_who_keeps_most_gives_way_and_what_expired_goes_first),
        T(test_models_rows_are_told_apart_and_go_with_their_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
