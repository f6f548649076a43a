/* Kept responses: what goes in comes out, for its owner, until it expires. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "sql/chats/store_responses.h"
#include "sql/users/store_limits.h"
#include "tests/unit/store/store_fixture.h"

static struct store_response row_of(struct fixture *f, const char *id, int64_t lives_ms)
{
    return (struct store_response){.id = id,
                                   .user_id = f->user,
                                   .created_at = clock_wall_ms(),
                                   .expires_at = clock_wall_ms() + lives_ms,
                                   .input = "[]",
                                   .response = "{\"a\":1}"};
}

static void test_what_goes_in_comes_out(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_response row = row_of(f, "resp_1", 60000), out;
    row.previous_id = "resp_0";
    ASSERT_OK(store_response_add(f->store, &row, &e));
    ASSERT_OK(store_response_get(f->store, f->arena,
                                 &(struct store_text_ref){.user_id = f->user, .id = "resp_1"}, &out,
                                 &e));
    assert_string_equal(out.previous_id, "resp_0");
    assert_string_equal(out.input, "[]");
    assert_string_equal(out.response, "{\"a\":1}");
    assert_int_equal(out.expires_at, row.expires_at);
    ASSERT_OK(store_response_remove(f->store, f->user, "resp_1", &e));
    ASSERT_ERR(store_response_get(f->store, f->arena,
                                  &(struct store_text_ref){.user_id = f->user, .id = "resp_1"},
                                  &out, &e),
               ERR_NOTFOUND);
    ASSERT_ERR(store_response_remove(f->store, f->user, "resp_1", &e), ERR_NOTFOUND);
}

static void test_another_user_reaches_nothing(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_response row = row_of(f, "resp_1", 60000), out;
    ASSERT_OK(store_response_add(f->store, &row, &e));
    ASSERT_ERR(store_response_get(f->store, f->arena,
                                  &(struct store_text_ref){.user_id = f->other, .id = "resp_1"},
                                  &out, &e),
               ERR_NOTFOUND);
    ASSERT_ERR(store_response_remove(f->store, f->other, "resp_1", &e), ERR_NOTFOUND);
    ASSERT_OK(store_response_get(f->store, f->arena,
                                 &(struct store_text_ref){.user_id = f->user, .id = "resp_1"}, &out,
                                 &e));
}

static void test_what_expired_is_gone_and_then_cleared(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_response row = row_of(f, "resp_old", -1), out;
    bool more = true;
    ASSERT_OK(store_response_add(f->store, &row, &e));
    row = row_of(f, "resp_new", 60000);
    ASSERT_OK(store_response_add(f->store, &row, &e));
    ASSERT_ERR(store_response_get(f->store, f->arena,
                                  &(struct store_text_ref){.user_id = f->user, .id = "resp_old"},
                                  &out, &e),
               ERR_NOTFOUND);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM responses"), 2);
    for (int i = 0; more; i++) {
        assert_true(i < 10);
        ASSERT_OK(store_clear(f->store, &more, &e));
    }
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM responses"), 1);
    ASSERT_OK(store_response_get(f->store, f->arena,
                                 &(struct store_text_ref){.user_id = f->user, .id = "resp_new"},
                                 &out, &e));
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
    struct store_response row = row_of(f, "resp_1", 60000);
    const int64_t before = used(f, f->user), others = used(f, f->other),
                  bytes = (int64_t)(strlen(row.input) + strlen(row.response));
    ASSERT_OK(store_response_add(f->store, &row, &e));
    assert_int_equal(used(f, f->user), before + bytes);
    assert_int_equal(used(f, f->other), others);
    row.id = "resp_2";
    row.storage_bytes = before + 2 * bytes - 1;
    ASSERT_ERR(store_response_add(f->store, &row, &e), ERR_LIMIT);
    assert_string_equal(e.field, STORE_QUOTA_FIELD);
    assert_int_equal(used(f, f->user), before + bytes);
    row.storage_bytes++;
    ASSERT_OK(store_response_add(f->store, &row, &e));
    ASSERT_OK(store_response_remove(f->store, f->user, "resp_1", &e));
    assert_int_equal(used(f, f->user), before + bytes);
}

static void test_too_much_is_refused(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_response row = row_of(f, "resp_1", 60000);
    char *big = malloc(STORE_RESPONSE_BYTES + 1);
    assert_non_null(big);
    memset(big, ' ', STORE_RESPONSE_BYTES);
    big[0] = '[';
    big[STORE_RESPONSE_BYTES - 1] = ']';
    big[STORE_RESPONSE_BYTES] = '\0';
    row.input = big;
    ASSERT_ERR(store_response_add(f->store, &row, &e), ERR_LIMIT);
    free(big);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM responses"), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)
    const struct CMUnitTest tests[] = {
        T(test_what_goes_in_comes_out),
        T(test_another_user_reaches_nothing),
        T(test_what_expired_is_gone_and_then_cleared),
        T(test_what_is_kept_counts_for_its_owner),
        T(test_too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
