/* Conversations of /v1/conversations: items in their order, for their owner, until they are
 * deleted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sql/chats/store_openai.h"
#include "sql/chats/store_responses.h"
#include "sql/users/store_limits.h"
#include "sql/users/store_users.h"
#include "tests/unit/store/store_fixture.h"

static const struct store_openai_item two[] = {{.id = "msg_1", .item = "{\"n\":1}"},
                                               {.id = "msg_2", .item = "{\"n\":2}"}};

static void begin(struct fixture *f, int64_t user, const char *id, int n)
{
    struct err e = {0};
    const struct store_openai_conversation c = {
        .id = id, .user_id = user, .created_at = 5, .metadata = "{}"};
    ASSERT_OK(store_openai_conversation_add(
        f->store, &c,
        &(struct store_openai_addition){
            .user_id = user, .conversation_id = id, .items = two, .n = n},
        &e));
}

static bool note(void *context, const struct store_openai_item *item)
{
    char *out = context;
    snprintf(out + strlen(out), 200 - strlen(out), "%s@%lld ", item->id, (long long)item->position);
    return true;
}

static void list(struct fixture *f, const char *id, struct store_openai_range range, char out[200])
{
    struct err e = {0};
    out[0] = '\0';
    range.user_id = f->user;
    range.conversation_id = id;
    ASSERT_OK(store_openai_items_each(f->store, &range, note, out, &e));
}

static const struct store_openai_range all = {.until = INT64_MAX, .limit = -1};

static void test_items_keep_their_order_and_pages(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_openai_conversation c;
    struct store_openai_item item;
    const struct store_openai_item more = {.id = "msg_3", .item = "{\"n\":3}"};
    char got[200];
    begin(f, f->user, "conv_a", 2);
    ASSERT_OK(store_openai_items_add(
        f->store,
        &(struct store_openai_addition){
            .user_id = f->user, .conversation_id = "conv_a", .items = &more, .n = 1},
        &e));
    list(f, "conv_a", all, got);
    assert_string_equal(got, "msg_1@1 msg_2@2 msg_3@3 ");
    list(f, "conv_a", (struct store_openai_range){.until = 2, .limit = 5, .back = true}, got);
    assert_string_equal(got, "msg_2@2 msg_1@1 ");
    list(f, "conv_a", (struct store_openai_range){.from = 1, .until = 3, .limit = 1}, got);
    assert_string_equal(got, "msg_2@2 ");
    ASSERT_OK(store_openai_item_get(f->store, f->arena,
                                    &(struct store_openai_item_ref){.user_id = f->user,
                                                                    .conversation_id = "conv_a",
                                                                    .id = "msg_2"},
                                    &item, &e));
    assert_string_equal(item.item, "{\"n\":2}");
    ASSERT_OK(store_openai_conversation_get(
        f->store, f->arena, &(struct store_text_ref){.user_id = f->user, .id = "conv_a"}, &c, &e));
    assert_int_equal(c.created_at, 5);
    assert_int_equal(c.last_position, 3);
}

/* A kept response says up to which position it was given a conversation: so none may mean another
 * item later. */
static void test_a_position_is_never_given_out_twice(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    const struct store_openai_item more = {.id = "msg_2", .item = "{\"n\":9}"};
    char got[200];
    begin(f, f->user, "conv_a", 2);
    ASSERT_OK(store_openai_item_remove(f->store, f->user, "conv_a", "msg_2", &e));
    ASSERT_ERR(store_openai_item_remove(f->store, f->user, "conv_a", "msg_2", &e), ERR_NOTFOUND);
    ASSERT_OK(store_openai_items_add(
        f->store,
        &(struct store_openai_addition){
            .user_id = f->user, .conversation_id = "conv_a", .items = &more, .n = 1},
        &e));
    list(f, "conv_a", all, got);
    assert_string_equal(got, "msg_1@1 msg_2@3 ");
}

static void test_an_id_that_is_there_undoes_the_whole_addition(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    const struct store_openai_item some[] = {{.id = "msg_new", .item = "{}"},
                                             {.id = "msg_2", .item = "{}"}};
    begin(f, f->user, "conv_a", 2);
    ASSERT_ERR(store_openai_items_add(
                   f->store,
                   &(struct store_openai_addition){
                       .user_id = f->user, .conversation_id = "conv_a", .items = some, .n = 2},
                   &e),
               ERR_INPUT);
    assert_string_equal(e.field, "items");
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM openai_conversation_items"), 2);
    begin(f, f->user, "conv_b", 2); /* the same ids elsewhere */
}

static bool never(void *context, const struct store_openai_item *item)
{
    fail_msg("an item of another user: %s", item->id);
    return true;
}

static bool never_conversation(void *context, const struct store_openai_conversation *c)
{
    fail_msg("a conversation of another user: %s", c->id);
    return true;
}

static void test_another_user_reaches_nothing(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_openai_conversation c;
    struct store_openai_item item;
    const struct store_openai_addition more = {
        .user_id = f->other,
        .conversation_id = "conv_a",
        .items = &(struct store_openai_item){.id = "x", .item = "{}"},
        .n = 1};
    begin(f, f->user, "conv_a", 2);
    ASSERT_ERR(store_openai_conversation_get(
                   f->store, f->arena,
                   &(struct store_text_ref){.user_id = f->other, .id = "conv_a"}, &c, &e),
               ERR_NOTFOUND);
    ASSERT_ERR(store_openai_conversation_change(
                   f->store,
                   &(struct store_openai_conversation){
                       .id = "conv_a", .user_id = f->other, .metadata = "{\"a\":\"b\"}"},
                   0, &e),
               ERR_NOTFOUND);
    ASSERT_ERR(store_openai_conversation_remove(f->store, f->other, "conv_a", &e), ERR_NOTFOUND);
    ASSERT_ERR(store_openai_items_add(f->store, &more, &e), ERR_NOTFOUND);
    ASSERT_ERR(store_openai_item_get(f->store, f->arena,
                                     &(struct store_openai_item_ref){.user_id = f->other,
                                                                     .conversation_id = "conv_a",
                                                                     .id = "msg_1"},
                                     &item, &e),
               ERR_NOTFOUND);
    ASSERT_ERR(store_openai_item_remove(f->store, f->other, "conv_a", "msg_1", &e), ERR_NOTFOUND);
    struct store_openai_range others = all;
    others.user_id = f->other;
    others.conversation_id = "conv_a";
    ASSERT_OK(store_openai_items_each(f->store, &others, never, NULL, &e));
    ASSERT_OK(store_openai_conversation_each(f->store, f->other, never_conversation, NULL, &e));
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM openai_conversation_items"), 2);
    assert_int_equal(
        fixture_number(f->path, "SELECT count(*) FROM openai_conversations WHERE metadata = '{}'"),
        1);
}

static int64_t used(struct fixture *f, int64_t user)
{
    struct err e = {0};
    int64_t bytes;
    ASSERT_OK(store_used_bytes(f->store, user, &bytes, &e));
    return bytes;
}

static void test_what_is_kept_counts_for_its_owner(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    const int64_t before = used(f, f->user), others = used(f, f->other);
    const struct store_openai_conversation tagged = {
        .id = "conv_a", .user_id = f->user, .metadata = "{\"a\":\"bc\"}"};
    begin(f, f->user, "conv_a", 2);
    assert_int_equal(used(f, f->user), before + 2 + 14);
    ASSERT_OK(store_openai_conversation_change(f->store, &tagged, before + 24, &e));
    assert_int_equal(used(f, f->user), before + 10 + 14);
    ASSERT_ERR(store_openai_conversation_change(f->store, &tagged, before + 23, &e), ERR_LIMIT);
    const struct store_openai_item more = {.id = "msg_3", .item = "{\"n\":3}"};
    struct store_openai_addition a = {.user_id = f->user,
                                      .conversation_id = "conv_a",
                                      .items = &more,
                                      .n = 1,
                                      .storage_bytes = before + 30};
    ASSERT_ERR(store_openai_items_add(f->store, &a, &e), ERR_LIMIT);
    assert_string_equal(e.field, STORE_QUOTA_FIELD);
    a.storage_bytes++;
    ASSERT_OK(store_openai_items_add(f->store, &a, &e));
    ASSERT_OK(store_openai_item_remove(f->store, f->user, "conv_a", "msg_1", &e));
    assert_int_equal(used(f, f->user), before + 24);
    ASSERT_OK(store_openai_conversation_remove(f->store, f->user, "conv_a", &e));
    for (bool any = true; any;)
        ASSERT_OK(store_clear(f->store, &any, &e));
    assert_int_equal(used(f, f->user), before);
    assert_int_equal(used(f, f->other), others);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM openai_conversation_items"), 0);
}

static void test_too_much_is_refused_whole(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char *big = malloc(STORE_OPENAI_BYTES + 1);
    assert_non_null(big);
    memset(big, ' ', STORE_OPENAI_BYTES);
    big[0] = '{';
    big[STORE_OPENAI_BYTES - 1] = '}';
    big[STORE_OPENAI_BYTES] = '\0';
    begin(f, f->user, "conv_a", 0);
    const struct store_openai_item item = {.id = "msg_big", .item = big};
    ASSERT_ERR(store_openai_items_add(
                   f->store,
                   &(struct store_openai_addition){
                       .user_id = f->user, .conversation_id = "conv_a", .items = &item, .n = 1},
                   &e),
               ERR_LIMIT);
    assert_string_equal(e.field, "items");
    free(big);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM openai_conversation_items"), 0);
}

static void test_a_removed_user_takes_them_along(void **state)
{
    struct fixture *f = *state;
    begin(f, f->other, "conv_b", 2);
    begin(f, f->user, "conv_a", 1);
    struct err e = {0};
    bool more = true;
    ASSERT_OK(store_user_remove(f->store, f->other, &e));
    for (int i = 0; more; i++) {
        assert_true(i < 20);
        ASSERT_OK(store_clear(f->store, &more, &e));
    }
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM openai_conversations"), 1);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM openai_conversation_items"), 1);
}

/* Two who add at once: each one's items stay together. */
static void test_additions_at_once_do_not_mix(void **state)
{
    struct fixture *f = *state;
    enum { WRITERS = 4, ROUNDS = 25 };
    begin(f, f->user, "conv_a", 0);
    for (int w = 0; w < WRITERS; w++) {
        if (fork())
            continue;
        struct err e = {0};
        struct store *s = store_open(&(struct store_params){.path = f->path}, &e);
        for (int i = 0; s && i < ROUNDS; i++) {
            char ids[3][48], text[24];
            struct store_openai_item items[3];
            snprintf(text, sizeof text, "{\"w\":%d}", w);
            for (int k = 0; k < 3; k++) {
                snprintf(ids[k], sizeof ids[k], "m%d_%d_%d", w, i, k);
                items[k] = (struct store_openai_item){.id = ids[k], .item = text};
            }
            if (!store_openai_items_add(
                    s,
                    &(struct store_openai_addition){
                        .user_id = f->user, .conversation_id = "conv_a", .items = items, .n = 3},
                    &e))
                _exit(2);
        }
        _exit(s ? 0 : 1);
    }
    for (int w = 0, status; w < WRITERS; w++) {
        wait(&status);
        assert_int_equal(status, 0);
    }
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM openai_conversation_items"),
                     WRITERS * ROUNDS * 3);
    assert_int_equal(fixture_number(f->path, "SELECT count(DISTINCT item || '/' || ((position - 1) "
                                             "/ 3)) FROM openai_conversation_items"),
                     WRITERS * ROUNDS);
}

static void test_a_response_knows_its_place_in_a_conversation(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_response out;
    const struct store_response row = {.id = "resp_1",
                                       .user_id = f->user,
                                       .conversation_id = "conv_a",
                                       .conversation_position = 7,
                                       .created_at = 1,
                                       .expires_at = INT64_MAX,
                                       .input = "[]",
                                       .response = "{}"};
    ASSERT_OK(store_response_add(f->store, &row, &e));
    ASSERT_OK(store_response_get(f->store, f->arena,
                                 &(struct store_text_ref){.user_id = f->user, .id = "resp_1"}, &out,
                                 &e));
    assert_string_equal(out.conversation_id, "conv_a");
    assert_int_equal(out.conversation_position, 7);
    assert_null(out.previous_id);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_items_keep_their_order_and_pages),
        T(test_a_position_is_never_given_out_twice),
        T(test_an_id_that_is_there_undoes_the_whole_addition),
        T(test_another_user_reaches_nothing),
        T(test_what_is_kept_counts_for_its_owner),
        T(test_too_much_is_refused_whole),
        T(test_a_removed_user_takes_them_along),
        T(test_additions_at_once_do_not_mix),
        T(test_a_response_knows_its_place_in_a_conversation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
