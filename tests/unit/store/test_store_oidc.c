/* Accounts at a provider of sign-ins, sign-ins that are under way, and settings that are secrets.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sql/users/store_oidc.h"
#include "tests/unit/store/store_fixture.h"

#define ISSUER "https://id.example.org"

static struct store_oidc_identity account(int64_t user, const char *subject)
{
    return (struct store_oidc_identity){
        .user_id = user, .issuer = ISSUER, .subject = subject, .label = "ada@example.org"};
}

static bool count_one(void *context, const struct store_oidc_identity *i)
{
    assert_string_equal(i->issuer, ISSUER);
    ++*(int *)context;
    return true;
}

static int count_of(struct fixture *f, int64_t user)
{
    struct err e = {0};
    int n = 0;
    ASSERT_OK(store_oidc_list(f->store, user, count_one, &n, &e));
    return n;
}

static bool unlink_of(struct fixture *f, int64_t user, struct err *e)
{
    return store_oidc_unlink(f->store, &(struct store_oidc_end){.user_id = user, .issuer = ISSUER},
                             e);
}

static void test_an_account_is_one_users_and_known_by_issuer_and_subject(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_user u;
    const struct store_oidc_identity ada = account(f->user, "s-1"), bob = account(f->other, "s-1");
    const struct store_oidc_identity case_of = account(0, "S-1"), second = account(f->user, "s-2");
    struct store_oidc_identity elsewhere = account(f->other, "s-1");
    elsewhere.issuer = ISSUER "/";
    ASSERT_ERR(store_oidc_find(f->store, f->arena, &ada, &u, &e), ERR_NOTFOUND);
    ASSERT_OK(store_oidc_link(f->store, &ada, &e));
    ASSERT_OK(store_oidc_find(f->store, f->arena, &bob, &u, &e));
    assert_int_equal(u.id, f->user);
    ASSERT_ERR(store_oidc_link(f->store, &bob, &e), ERR_CONFLICT);
    ASSERT_ERR(store_oidc_link(f->store, &second, &e), ERR_CONFLICT);
    ASSERT_ERR(store_oidc_find(f->store, f->arena, &case_of, &u, &e), ERR_NOTFOUND);
    ASSERT_ERR(store_oidc_find(f->store, f->arena, &elsewhere, &u, &e), ERR_NOTFOUND);
    ASSERT_OK(store_oidc_link(f->store, &elsewhere, &e));
    assert_int_equal(count_of(f, f->user), 1);
    ASSERT_ERR(unlink_of(f, f->other, &e), ERR_NOTFOUND);
    assert_int_equal(count_of(f, f->user), 1);
    ASSERT_OK(unlink_of(f, f->user, &e));
    assert_int_equal(count_of(f, f->user), 0);
    ASSERT_OK(store_oidc_link(f->store, &bob, &e));
}

static void test_a_user_is_made_with_the_account_or_not_at_all(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_user u, made = {.name = "carl", .password_hash = secret_no_password()};
    struct store_user bob = {.name = "BOB", .password_hash = secret_no_password()};
    const struct store_oidc_identity who = account(0, "s-3");
    int64_t id = 0;
    ASSERT_ERR(store_oidc_create(f->store, &bob, &who, &id, &e), ERR_CONFLICT);
    assert_string_equal(e.field, "name");
    ASSERT_OK(store_oidc_create(f->store, &made, &who, &id, &e));
    ASSERT_OK(store_oidc_find(f->store, f->arena, &who, &u, &e));
    assert_true(u.id == id && !u.admin && !u.disabled);
    assert_false(secret_password_verify("", u.password_hash));
    const int64_t carl = id;
    made.name = "dora";
    ASSERT_ERR(store_oidc_create(f->store, &made, &who, &id, &e), ERR_CONFLICT);
    ASSERT_ERR(store_user_by_name(f->store, f->arena, "dora", &u, &e), ERR_NOTFOUND);
    ASSERT_OK(store_user_remove(f->store, carl, &e));
    ASSERT_ERR(store_oidc_find(f->store, f->arena, &who, &u, &e), ERR_NOTFOUND);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM oidc_identities"), 0);
}

static struct store_oidc_flow flow(const char *state, const char *browser)
{
    struct store_oidc_flow f = {0};
    secret_hash(state, f.state_hash);
    secret_hash(browser, f.browser_hash);
    return f;
}

static void test_a_sign_in_is_given_out_once_and_to_its_browser(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_oidc_flow a = flow("state", "browser"), b = flow("state", "other");
    struct store_oidc_flow linking = flow("state 2", "browser");
    ASSERT_OK(store_oidc_flow_add(f->store, &a, &e));
    ASSERT_ERR(store_oidc_flow_take(f->store, &b, &e), ERR_NOTFOUND);
    a.links = true;
    ASSERT_OK(store_oidc_flow_take(f->store, &a, &e));
    assert_false(a.links);
    ASSERT_ERR(store_oidc_flow_take(f->store, &a, &e), ERR_NOTFOUND);
    linking.links = true;
    memset(linking.session_hash, 7, sizeof linking.session_hash);
    ASSERT_OK(store_oidc_flow_add(f->store, &linking, &e));
    linking = flow("state 2", "browser");
    ASSERT_OK(store_oidc_flow_take(f->store, &linking, &e));
    assert_true(linking.links && linking.session_hash[31] == 7);
}

static void test_of_many_who_take_a_sign_in_at_once_one_gets_it(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_oidc_flow a = flow("state", "browser");
    int in = 0, status;
    ASSERT_OK(store_oidc_flow_add(f->store, &a, &e));
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            struct store *mine = fixture_open(f, false);
            struct err why = {0};
            _exit(mine && store_oidc_flow_take(mine, &a, &why));
        }
    while (wait(&status) > 0)
        in += WEXITSTATUS(status);
    assert_int_equal(in, 1);
}

static void test_a_sign_in_ends_and_there_is_a_bound(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_oidc_flow a = flow("late", "browser"), b = flow("new", "browser");
    ASSERT_OK(store_oidc_flow_add(f->store, &a, &e));
    fixture_number(f->path, "UPDATE oidc_flows SET expires_at = 1 RETURNING 1");
    ASSERT_ERR(store_oidc_flow_take(f->store, &a, &e), ERR_NOTFOUND);
    ASSERT_OK(store_oidc_flow_add(f->store, &b, &e));
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM oidc_flows"), 1);
    fixture_number(f->path, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE "
                            "i < 10000) INSERT INTO oidc_flows SELECT randomblob(32), "
                            "randomblob(32), NULL, 1 << 60 FROM n RETURNING 1");
    ASSERT_ERR(store_oidc_flow_add(f->store, &a, &e), ERR_BUSY);
}

static void test_a_secret_setting_opens_under_its_own_name_only(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    const char *secret = "the client's secret";
    unsigned char sealed[64], again[64];
    char text[64], path[512];
    struct store_sealed s = {.bytes = sealed, .len = strlen(secret) + STORE_SEALED_EXTRA};
    ASSERT_OK(store_setting_seal(f->store, "a", secret, sealed, &e));
    ASSERT_OK(store_setting_seal(f->store, "a", secret, again, &e));
    assert_memory_not_equal(sealed, again, s.len);
    assert_int_equal(store_setting_unseal(f->store, "a", &s, text, &e), 1);
    assert_string_equal(text, secret);
    assert_int_equal(store_setting_unseal(f->store, "b", &s, text, &e), 0);
    assert_string_equal(text, "");
    sealed[s.len - 1] ^= 1;
    assert_int_equal(store_setting_unseal(f->store, "a", &s, text, &e), 0);
    sealed[s.len - 1] ^= 1;
    for (size_t n = 0; n < STORE_SEALED_EXTRA; n++)
        assert_int_equal(store_setting_unseal(f->store, "a",
                                              &(struct store_sealed){.bytes = sealed, .len = n},
                                              text, &e),
                         0);
    snprintf(path, sizeof path, "%s/factor.key", f->folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(store_setting_unseal(f->store, "a", &s, text, &e), 0);
}

static void test_derived_tokens_tell_nothing_of_each_other(void **state)
{
    char token[SECRET_TOKEN_SIZE], a[SECRET_TOKEN_SIZE], b[SECRET_TOKEN_SIZE], c[SECRET_TOKEN_SIZE];
    secret_token(token);
    secret_derive(token, "a", a);
    secret_derive(token, "b", b);
    assert_string_not_equal(a, b);
    assert_string_not_equal(a, token);
    secret_derive(token, "a", c);
    assert_string_equal(a, c);
    token[42] = token[42] == 'A' ? 'B' : 'A';
    secret_derive(token, "a", c);
    assert_string_not_equal(a, c);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_an_account_is_one_users_and_known_by_issuer_and_subject),
        T(test_a_user_is_made_with_the_account_or_not_at_all),
        T(test_a_sign_in_is_given_out_once_and_to_its_browser),
        T(test_of_many_who_take_a_sign_in_at_once_one_gets_it),
        T(test_a_sign_in_ends_and_there_is_a_bound),
        T(test_a_secret_setting_opens_under_its_own_name_only),
        T(test_derived_tokens_tell_nothing_of_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
