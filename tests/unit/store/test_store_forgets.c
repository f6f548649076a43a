/* What is forgotten or deleted takes its blocks along, also those that are recorded later. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "sql/chats/store_openai.h"
#include "sql/chats/store_responses.h"
#include "sql/chats/store_tree.h"
#include "sql/users/store_users.h"
#include "tests/unit/store/prompt_chains.h"

static void keep_response(struct fixture *f, const char *id)
{
    struct err e = {0};
    const int64_t now = clock_wall_ms();
    ASSERT_OK(store_response_add(f->store,
                                 &(struct store_response){.id = id,
                                                          .user_id = f->user,
                                                          .created_at = now,
                                                          .expires_at = now + 1000000,
                                                          .input = "[]",
                                                          .response = "{}"},
                                 &e));
}

static void forget(struct fixture *f, enum store_forget what, int64_t conversation,
                   const char *label)
{
    struct err e = {0};
    int64_t n;
    ASSERT_OK(store_prompts_forget(
        f->store,
        &(struct store_forgetting){
            .what = what, .user_id = f->user, .conversation_id = conversation, .label = label},
        &n, &e));
}

static int64_t last_deletion(struct fixture *f)
{
    struct err e = {0};
    int64_t n = -1;
    ASSERT_OK(store_forgets_seen(f->store, &n, &e));
    return n;
}

#define RESPONSE "resp_0123456789abcdef01234567"
#define OPENAI "conv_0123456789abcdef01234567"

/* Blocks are recorded a moment after their job, when what they belong to may be gone. */
static void test_what_is_recorded_after_it_was_forgotten_is_not_listed(void **state)
{
    static const char *const labels[] = {RESPONSE, RESPONSE ":0123456789abcdef",
                                         "k:0123456789abcdef", "", OPENAI ":0123456789abcdef"};
    struct fixture *f = *state;
    struct err e = {0};
    const struct store_openai_conversation made = {
        .id = OPENAI, .user_id = f->user, .created_at = 1, .metadata = "{}"};
    int64_t page = fixture_conversation(f, f->user, "a");
    const int64_t saw = last_deletion(f);
    ASSERT_OK(store_openai_conversation_add(
        f->store, &made,
        &(struct store_openai_addition){.user_id = f->user, .conversation_id = OPENAI}, &e));
    for (int way = 0; way < 6; way++) {
        keep_response(f, RESPONSE);
        if (way == 0)
            ASSERT_OK(store_response_remove(f->store, f->user, RESPONSE, &e));
        if (way == 1)
            forget(f, FORGET_LABEL, 0, "k:0123456789abcdef");
        if (way == 2)
            forget(f, FORGET_CONVERSATION, page, NULL);
        if (way == 3)
            forget(f, FORGET_USER, 0, NULL);
        if (way == 4)
            forget(f, FORGET_ALL, 0, NULL);
        if (way == 5)
            ASSERT_OK(store_openai_conversation_remove(f->store, f->user, OPENAI, &e));
        for (int i = 0; i < 6; i++) {
            const bool gone = way == 3 || way == 4 || (way == 0 && i < 2) ||
                              (way == 1 && (i == 1 || i == 2 || i == 4)) || (way == 2 && i == 5) ||
                              (way == 5 && i == 4);
            struct chain c = {.user = f->user,
                              .name = 10 * way + i,
                              .label = i < 5 ? labels[i] : "",
                              .conversation = i == 5 ? page : 0,
                              .saw = &saw};
            chain_add(f, &c, 3);
            assert_int_equal(chain_found(f, &c, 3), gone ? 0 : 3);
            assert_int_equal(chain_removals(f), gone ? 3 : 0);
            c.saw = NULL; /* text that was read after it */
            c.name += 5000;
            chain_add(f, &c, 3);
            assert_int_equal(chain_found(f, &c, 3), way == 5 && i == 4 ? 0 : 3);
            chain_run(f, "DELETE FROM prompt_blocks");
            chain_run(f, "DELETE FROM prompt_block_removals");
        }
        chain_run(f, "DELETE FROM prompt_forgets");
        chain_run(f, "DELETE FROM responses");
        chain_run(f, "DELETE FROM prompt_forgets");
    }
    forget(f, FORGET_USER, 0, NULL);
    chain_run(f, "UPDATE prompt_forgets SET forgotten_at = forgotten_at - 86400001");
    chain_clear_all(f);
    assert_int_equal(chain_number(f, "SELECT count(*) FROM prompt_forgets"), 0);
}

/* Rows that were read before a deletion, and whose job came after it, are of a text that is gone:
 * what had been recorded by then goes, and what comes is not listed. */
static void test_what_was_read_before_a_deletion_is_not_kept(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    const int64_t page = fixture_conversation(f, f->user, "a");
    const struct store_posted first = fixture_post(f, f->user, page, 0, "one");
    fixture_finish(f, first.message_id, "two");
    const struct store_posted second = fixture_post(f, f->user, page, first.message_id, "three");
    fixture_finish(f, second.message_id, "four");
    ASSERT_OK(store_openai_conversation_add(
        f->store,
        &(struct store_openai_conversation){
            .id = OPENAI, .user_id = f->user, .created_at = 1, .metadata = "{}"},
        &(struct store_openai_addition){
            .user_id = f->user,
            .conversation_id = OPENAI,
            .items = &(struct store_openai_item){.id = "msg_1", .item = "{\"id\":\"msg_1\"}"},
            .n = 1},
        &e));
    for (int way = 0; way < 3; way++) {
        struct chain c = {.user = f->user, .name = 10 * way + 1};
        const int64_t saw = last_deletion(f);
        c.conversation = way < 2 ? page : 0;
        c.label = way < 2 ? "" : OPENAI;
        chain_add(f, &c, 700);
        if (way == 0)
            ASSERT_OK(store_message_take_out(f->store, f->user, second.message_id, &e));
        if (way == 1)
            ASSERT_OK(store_message_remove(f->store, f->user, first.user_message_id, &e));
        if (way == 2)
            ASSERT_OK(store_openai_item_remove(f->store, f->user, OPENAI, "msg_1", &e));
        assert_true(last_deletion(f) > saw);
        assert_int_equal(chain_removals(f), 700);
        chain_run(f, "DELETE FROM prompt_block_removals");
        c.name++;
        c.saw = &saw;
        chain_add(f, &c, 3);
        assert_int_equal(chain_found(f, &c, 3), 0);
        assert_int_equal(chain_removals(f), 3);
        c.name++;
        c.saw = NULL;
        chain_add(f, &c, 3);
        assert_int_equal(chain_found(f, &c, 3), 3);
        chain_run(f, "DELETE FROM prompt_blocks");
        chain_run(f, "DELETE FROM prompt_block_removals");
    }
    const int64_t last = last_deletion(f); /* the number goes on when the notes are cleared away */
    chain_run(f, "DELETE FROM prompt_forgets");
    assert_int_equal(last_deletion(f), last);
    forget(f, FORGET_CONVERSATION, page, NULL);
    assert_true(last_deletion(f) > last);
}

static void test_a_conversation_of_v1_takes_its_blocks_along(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct chain c = {.user = f->user, .label = OPENAI}, k = c, other = c;
    k.name = 1;
    k.label = OPENAI ":0123456789abcdef";
    other.name = 2;
    other.label = "conv_0123456789abcdef01234568";
    for (int i = 0; i < 2; i++)
        ASSERT_OK(store_openai_conversation_add(
            f->store,
            &(struct store_openai_conversation){.id = i ? other.label : OPENAI,
                                                .user_id = f->user,
                                                .created_at = 1,
                                                .metadata = "{}"},
            &(struct store_openai_addition){.user_id = f->user,
                                            .conversation_id = i ? other.label : OPENAI},
            &e));
    chain_add(f, &c, 700);
    chain_add(f, &k, 5);
    chain_add(f, &other, 5);
    forget(f, FORGET_OWNED, 0, OPENAI); /* an item was deleted */
    assert_int_equal(chain_removals(f), 705);
    chain_run(f, "DELETE FROM prompt_block_removals");
    chain_add(f, &c, 700);
    ASSERT_OK(store_openai_conversation_remove(f->store, f->user, OPENAI, &e));
    chain_clear_all(f);
    assert_int_equal(chain_removals(f), 700);
    assert_int_equal(chain_found(f, &other, 5), 5);
    assert_int_equal(chain_number(f, "SELECT count(*) FROM openai_conversations"), 1);
    fixture_check_whole(f->path);
}

static int64_t allowed(struct store *s, int64_t user)
{
    struct err e = {0};
    struct store_user_limits l;
    bool own;
    ASSERT_OK(store_limits_get(s, user, &l, &own, &e));
    return l.max_jobs;
}

static void allow(struct store *s, int64_t user, int64_t jobs)
{
    struct err e = {0};
    const struct store_user_limits l = {.max_jobs = jobs};
    const struct store_user_change change = {.has_limits = true, .limits = &l};
    ASSERT_OK(store_user_change(s, user, &change, &e));
}

/* What a request reads before its job is of one moment; what it writes rests on nothing older. */
static void test_a_snapshot_ends_when_it_is_let_go_or_something_is_written(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store *others = fixture_open(f, false);
    int64_t n;
    allow(others, f->user, 1);
    ASSERT_OK(store_forgets_snapshot(f->store, &n, &e));
    allow(others, f->user, 2);
    assert_int_equal(allowed(f->store, f->user), 1);
    store_snapshot_end(f->store);
    assert_int_equal(allowed(f->store, f->user), 2);
    ASSERT_OK(store_forgets_snapshot(f->store, &n, &e));
    allow(others, f->user, 3);
    ASSERT_OK(store_forgets_snapshot(f->store, &n, &e)); /* another request's */
    assert_int_equal(allowed(f->store, f->user), 3);
    allow(others, f->user, 4);
    allow(f->store, f->other, 9); /* would fail on what it read before others wrote */
    assert_int_equal(allowed(f->store, f->user), 4);
    store_close(&others);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_what_is_recorded_after_it_was_forgotten_is_not_listed),
        T(test_what_was_read_before_a_deletion_is_not_kept),
        T(test_a_conversation_of_v1_takes_its_blocks_along),
        T(test_a_snapshot_ends_when_it_is_let_go_or_something_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
