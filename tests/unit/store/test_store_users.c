/* Users, sessions, keys and secrets: what the store keeps of them, and what it refuses. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "sql/users/store_users.h"
#include "tests/unit/store/store_fixture.h"

static bool count_user(void *context, const struct store_user *u)
{
    ++*(int *)context;
    return true;
}

static void test_user_add_finds_by_name_and_id(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_user u;
    ASSERT_OK(store_user_by_name(f->store, f->arena, "ADA", &u, &e)); /* ASCII case ignored */
    assert_int_equal(u.id, f->user);
    assert_true(u.admin);
    assert_string_equal(u.password_hash, fixture_hash);
    ASSERT_OK(store_user_by_id(f->store, f->arena, f->other, &u, &e));
    assert_string_equal(u.name, "bob");
    assert_false(u.admin);
    ASSERT_ERR(store_user_by_name(f->store, f->arena, "eve", &u, &e), ERR_NOTFOUND);
    int n = 0;
    ASSERT_OK(store_user_list(f->store, count_user, &n, &e));
    assert_int_equal(n, 2);
}

static void test_user_add_refuses_bad_names(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t id;
    char longest[65], over[66];
    memset(longest, 'x', 64);
    longest[64] = 0;
    memset(over, 'x', 65);
    over[65] = 0;
    ASSERT_ERR(store_user_add(f->store,
                              &(struct store_user){.name = "Ada", .password_hash = fixture_hash},
                              &id, &e),
               ERR_CONFLICT);
    assert_string_equal(e.field, "name");
    static const char *const bad[] = {"", " x", "x ", "#3", "a\nb", "a\x7f"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ASSERT_ERR(
            store_user_add(f->store,
                           &(struct store_user){.name = bad[i], .password_hash = fixture_hash}, &id,
                           &e),
            ERR_INPUT);
    ASSERT_ERR(store_user_add(f->store,
                              &(struct store_user){.name = over, .password_hash = fixture_hash},
                              &id, &e),
               ERR_INPUT);
    ASSERT_OK(store_user_add(
        f->store, &(struct store_user){.name = longest, .password_hash = fixture_hash}, &id, &e));
    /* a plain password must never get in where a hash belongs */
    ASSERT_ERR(store_user_add(f->store,
                              &(struct store_user){.name = "eve", .password_hash = "hunter22"}, &id,
                              &e),
               ERR_CONFLICT);
}

static void test_last_admin_stays(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t second;
    ASSERT_ERR(store_user_remove(f->store, f->user, &e), ERR_CONFLICT);
    ASSERT_ERR(store_user_set_disabled(f->store, f->user, true, &e), ERR_CONFLICT);
    ASSERT_OK(store_user_add(
        f->store,
        &(struct store_user){.name = "carol", .password_hash = fixture_hash, .admin = true},
        &second, &e));
    ASSERT_OK(store_user_remove(f->store, f->user, &e));
    ASSERT_ERR(store_user_remove(f->store, second, &e), ERR_CONFLICT);
    ASSERT_ERR(store_user_remove(f->store, 999, &e), ERR_NOTFOUND);
}

static struct store_session session_of(int64_t user, unsigned char fill)
{
    struct store_session n = {.user_id = user, .address = "127.0.0.1", .agent = "test"};
    memset(n.token_hash, fill, sizeof n.token_hash);
    return n;
}

static void test_session_lives_until_removed_or_expired(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_user u;
    struct store_session n = session_of(f->other, 1), old = session_of(f->other, 2);
    old.created_at = clock_wall_ms() - 10000;
    old.expires_at = clock_wall_ms() - 1;
    ASSERT_OK(store_session_add(f->store, &n, &e));
    ASSERT_OK(store_session_add(f->store, &old, &e));
    ASSERT_OK(store_session_find(f->store, f->arena, n.token_hash, &u, &e));
    assert_int_equal(u.id, f->other);
    ASSERT_ERR(store_session_find(f->store, f->arena, old.token_hash, &u, &e), ERR_AUTH);
    ASSERT_OK(store_session_remove(f->store, n.token_hash, &e));
    ASSERT_OK(store_session_remove(f->store, n.token_hash, &e));
    ASSERT_ERR(store_session_find(f->store, f->arena, n.token_hash, &u, &e), ERR_AUTH);
}

static void test_session_use_pushes_expiry_out(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_user u;
    struct store_session n = session_of(f->other, 1);
    n.created_at = clock_wall_ms() - 7200 * 1000;
    n.expires_at = clock_wall_ms() + 60 * 1000;
    ASSERT_OK(store_session_add(f->store, &n, &e));
    ASSERT_OK(store_session_find(f->store, f->arena, n.token_hash, &u, &e));
    assert_true(fixture_number(f->path, "SELECT expires_at FROM sessions") >
                clock_wall_ms() + STORE_SESSION_MS - 10000);
}

static void test_session_long_agent_is_cut_at_a_character(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char agent[402];
    for (int i = 0; i < 200; i++)
        memcpy(agent + 1 + 2 * i, "\xc3\xa9", 2);
    agent[0] = 'x';
    agent[401] = 0;
    struct store_session n = session_of(f->other, 1);
    n.agent = agent;
    ASSERT_OK(store_session_add(f->store, &n, &e));
    assert_int_equal(fixture_number(f->path, "SELECT length(CAST(agent AS BLOB)) FROM sessions"),
                     199);
}

static void test_password_change_ends_other_sessions(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_user u;
    struct store_session here = session_of(f->other, 1), there = session_of(f->other, 2),
                         foreign = session_of(f->user, 3);
    ASSERT_OK(store_session_add(f->store, &here, &e));
    ASSERT_OK(store_session_add(f->store, &there, &e));
    ASSERT_OK(store_session_add(f->store, &foreign, &e));
    struct store_new_password fresh = {.hash = fixture_hash, .keep_session = here.token_hash};
    ASSERT_OK(store_user_set_password(f->store, f->other, &fresh, &e));
    ASSERT_OK(store_session_find(f->store, f->arena, here.token_hash, &u, &e));
    ASSERT_ERR(store_session_find(f->store, f->arena, there.token_hash, &u, &e), ERR_AUTH);
    ASSERT_OK(store_session_find(f->store, f->arena, foreign.token_hash, &u, &e));
    fresh.keep_session = NULL;
    ASSERT_OK(store_user_set_password(f->store, f->other, &fresh, &e));
    ASSERT_ERR(store_session_find(f->store, f->arena, here.token_hash, &u, &e), ERR_AUTH);
    ASSERT_ERR(store_user_set_password(f->store, 999, &fresh, &e), ERR_NOTFOUND);
}

static void test_disabled_or_removed_user_gets_nowhere(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_key_found by_key;
    struct store_user u;
    unsigned char hash[SECRET_HASH_BYTES] = {9};
    int64_t key, again;
    struct store_session n = session_of(f->other, 1);
    ASSERT_OK(store_session_add(f->store, &n, &e));
    ASSERT_OK(store_key_add(
        f->store, &(struct store_key){.user_id = f->other, .name = "k", .prefix = "sk-sluice-abc"},
        hash, &key, &e));
    ASSERT_OK(store_user_set_disabled(f->store, f->other, true, &e));
    ASSERT_ERR(store_session_find(f->store, f->arena, n.token_hash, &u, &e), ERR_AUTH);
    ASSERT_ERR(store_key_find(f->store, f->arena, hash, &by_key, &e), ERR_AUTH);
    ASSERT_OK(store_user_set_disabled(f->store, f->other, false, &e));
    ASSERT_OK(store_key_find(f->store, f->arena, hash, &by_key, &e));
    ASSERT_OK(store_user_remove(f->store, f->other, &e));
    ASSERT_ERR(store_key_find(f->store, f->arena, hash, &by_key, &e), ERR_AUTH);
    ASSERT_ERR(store_user_by_id(f->store, f->arena, f->other, &u, &e), ERR_NOTFOUND);
    ASSERT_ERR(store_key_add(f->store,
                             &(struct store_key){.user_id = f->other, .name = "k", .prefix = ""},
                             hash, &key, &e),
               ERR_NOTFOUND);
    /* the name is free, the id is not */
    ASSERT_OK(store_user_add(
        f->store, &(struct store_user){.name = "bob", .password_hash = fixture_hash}, &again, &e));
    assert_int_not_equal(again, f->other);
}

static bool keep_key(void *context, const struct store_key *k)
{
    *(int64_t *)context = k->last_used_at;
    return true;
}

static void test_key_find_notes_the_use(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_key_found by_key;
    unsigned char hash[SECRET_HASH_BYTES] = {9};
    int64_t id, used = -1;
    ASSERT_OK(store_key_add(
        f->store,
        &(struct store_key){.user_id = f->other, .name = "laptop", .prefix = "sk-sluice-abc"}, hash,
        &id, &e));
    ASSERT_OK(store_key_list(f->store, f->other, keep_key, &used, &e));
    assert_int_equal(used, 0);
    ASSERT_OK(store_key_find(f->store, f->arena, hash, &by_key, &e));
    assert_int_equal(by_key.key.id, id);
    assert_int_equal(by_key.key.terms.scopes, STORE_SCOPES);
    assert_int_equal(by_key.user.id, f->other);
    ASSERT_OK(store_key_list(f->store, f->other, keep_key, &used, &e));
    assert_true(clock_wall_ms() - used < 10000);
    ASSERT_OK(store_key_remove(f->store, f->other, id, &e));
    ASSERT_ERR(store_key_find(f->store, f->arena, hash, &by_key, &e), ERR_AUTH);
    ASSERT_ERR(store_key_remove(f->store, f->other, id, &e), ERR_NOTFOUND);
}

static void test_key_use_does_not_wait_for_a_writer(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_key_found by_key;
    unsigned char hash[SECRET_HASH_BYTES] = {9};
    int64_t id;
    struct store *writer = fixture_open(f, false);
    ASSERT_OK(store_key_add(
        f->store, &(struct store_key){.user_id = f->other, .name = "laptop", .prefix = ""}, hash,
        &id, &e));
    ASSERT_OK(store_record_begin(writer, false, &e));
    double begun = clock_ms();
    ASSERT_OK(store_key_find(f->store, f->arena, hash, &by_key, &e));
    assert_true(clock_ms() - begun < 4000); /* who waits for a lock gives up after 5 s */
    store_record_undo(writer);
    store_close(&writer);
}

static bool keep_whole(void *context, const struct store_key *k)
{
    *(struct store_key_terms *)context = k->terms;
    return true;
}

static void assert_same_terms(const struct store_key_terms *a, const struct store_key_terms *b)
{
    assert_int_equal(a->scopes, b->scopes);
    assert_int_equal(a->expires_at, b->expires_at);
    assert_int_equal(a->requests_per_minute, b->requests_per_minute);
    assert_int_equal(a->tokens_per_minute, b->tokens_per_minute);
    assert_int_equal(a->max_jobs, b->max_jobs);
    assert_int_equal(a->strict_parameters, b->strict_parameters);
}

static void test_key_terms_are_kept_and_obeyed(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_key_found by_key;
    struct store_key found;
    struct store_key_terms seen = {0};
    unsigned char hash[SECRET_HASH_BYTES] = {7};
    int64_t id;
    struct store_key k = {.user_id = f->other,
                          .name = "robot",
                          .prefix = "sk-sluice-abc",
                          .terms = {.scopes = STORE_INFERENCE,
                                    .requests_per_minute = 60,
                                    .tokens_per_minute = 1000,
                                    .max_jobs = 2,
                                    .strict_parameters = true,
                                    .expires_at = clock_wall_ms() + 60000}};
    ASSERT_OK(store_key_add(f->store, &k, hash, &id, &e));
    ASSERT_OK(store_key_find(f->store, f->arena, hash, &by_key, &e));
    assert_same_terms(&by_key.key.terms, &k.terms);
    ASSERT_OK(store_key_get(f->store, f->arena, &(struct store_ref){.user_id = f->other, .id = id},
                            &found, &e));
    assert_string_equal(found.name, "robot");
    assert_same_terms(&found.terms, &k.terms);
    ASSERT_ERR(store_key_get(f->store, f->arena, &(struct store_ref){.user_id = f->user, .id = id},
                             &found, &e),
               ERR_NOTFOUND);
    k.terms.expires_at = clock_wall_ms() - 1;
    ASSERT_ERR(store_key_change(f->store, f->user, id, &k.terms, &e), ERR_NOTFOUND);
    ASSERT_OK(store_key_change(f->store, f->other, id, &k.terms, &e));
    ASSERT_OK(store_key_list(f->store, f->other, keep_whole, &seen, &e));
    assert_same_terms(&seen, &k.terms);
    ASSERT_ERR(store_key_find(f->store, f->arena, hash, &by_key, &e), ERR_AUTH);
    assert_non_null(strstr(e.text, "expired"));
    k.terms.max_jobs = -1;
    ASSERT_ERR(store_key_change(f->store, f->other, id, &k.terms, &e), ERR_INPUT);
    assert_string_equal(e.field, "max_jobs");
    k.terms = (struct store_key_terms){.scopes = STORE_SCOPES_ALL + 1};
    ASSERT_ERR(store_key_change(f->store, f->other, id, &k.terms, &e), ERR_INPUT);
}

static void test_keys_are_bounded(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    unsigned char hash[SECRET_HASH_BYTES] = {0};
    int64_t id;
    for (int i = 0; i < 100; i++) {
        hash[0] = (unsigned char)i;
        ASSERT_OK(store_key_add(f->store,
                                &(struct store_key){.user_id = f->other, .name = "k", .prefix = ""},
                                hash, &id, &e));
    }
    hash[1] = 1;
    ASSERT_ERR(store_key_add(f->store,
                             &(struct store_key){.user_id = f->other, .name = "k", .prefix = ""},
                             hash, &id, &e),
               ERR_LIMIT);
}

static void test_secrets_hold_what_they_promise(void **state)
{
    struct err e = {0};
    char a[SECRET_TOKEN_SIZE], b[SECRET_TOKEN_SIZE], key[SECRET_KEY_SIZE],
        prefix[SECRET_PREFIX_SIZE];
    unsigned char h1[SECRET_HASH_BYTES], h2[SECRET_HASH_BYTES];
    char password[SECRET_PASSWORD_SIZE], hash[SECRET_PASSWORD_HASH_SIZE], over[1100];
    ASSERT_OK(secret_init(&e));
    secret_token(a);
    secret_token(b);
    assert_int_equal(strlen(a), 43);
    assert_string_not_equal(a, b);
    secret_hash(a, h1);
    secret_hash(b, h2);
    assert_memory_not_equal(h1, h2, sizeof h1);
    secret_csrf(h1, a);
    secret_csrf(h2, b);
    assert_string_not_equal(a, b);
    secret_api_key(key, prefix);
    assert_int_equal(strlen(key), SECRET_KEY_SIZE - 1);
    assert_memory_equal(key, prefix, strlen(prefix));
    assert_true(secret_equal("abc", "abc"));
    assert_false(secret_equal("abc", "abd"));
    assert_false(secret_equal("abc", "ab"));
    secret_password(password);
    assert_int_equal(strlen(password), 23);
    ASSERT_OK(secret_password_hash(password, hash, &e));
    assert_memory_equal(hash, "$argon2id$", 10);
    assert_true(secret_password_verify(password, hash));
    assert_false(secret_password_verify("wrong", hash));
    assert_false(secret_password_verify(password, NULL));
    ASSERT_ERR(secret_password_hash("short", hash, &e), ERR_INPUT);
    memset(over, 'x', sizeof over);
    over[1025] = 0;
    ASSERT_ERR(secret_password_hash(over, hash, &e), ERR_INPUT);
}

/* Processor time, which a busy machine does not change. */
static double cpu_ms(void)
{
    return (double)clock() * 1000.0 / CLOCKS_PER_SEC;
}

static void test_unknown_user_costs_the_same_time(void **state)
{
    struct err e = {0};
    char hash[SECRET_PASSWORD_HASH_SIZE];
    double known = 1e9, unknown = 1e9;
    ASSERT_OK(secret_password_hash("a password", hash, &e));
    for (int i = 0; i < 3; i++) {
        double t = cpu_ms();
        secret_password_verify("wrong password", hash);
        double u = cpu_ms();
        secret_password_verify("wrong password", NULL);
        double v = cpu_ms();
        known = u - t < known ? u - t : known;
        unknown = v - u < unknown ? v - u : unknown;
    }
    assert_true(unknown > known / 3 && unknown < known * 3);
}

static void test_first_admin_is_made_once(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_key_found by_key;
    struct store_first_admin a = {0};
    struct store_user u;
    unsigned char hash[SECRET_HASH_BYTES];
    bool made = true;
    ASSERT_OK(store_first_admin(f->store, "admin", &a, &made, &e));
    assert_false(made); /* users exist */
    store_close(&f->store);
    snprintf(f->path, sizeof f->path, "%.250s/second.db", f->folder);
    f->store = fixture_open(f, false);
    ASSERT_OK(store_first_admin(f->store, "admin", &a, &made, &e));
    assert_true(made);
    ASSERT_OK(store_user_by_name(f->store, f->arena, "admin", &u, &e));
    assert_true(u.admin);
    assert_true(secret_password_verify(a.password, u.password_hash));
    secret_hash(a.key, hash);
    ASSERT_OK(store_key_find(f->store, f->arena, hash, &by_key, &e));
    assert_string_equal(by_key.user.name, "admin");
    ASSERT_OK(store_first_admin(f->store, "admin", &a, &made, &e));
    assert_false(made);
}

static bool keep_audit(void *context, const struct store_audit *a)
{
    snprintf(context, 64, "%s %s %s", a->user, a->action, a->target);
    return false;
}

static void test_audit_only_grows(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char line[64] = "";
    ASSERT_OK(store_audit_add(
        f->store,
        &(struct store_audit){
            .user_id = f->user, .user = "ada", .action = "user.add", .target = "user:2"},
        &e));
    ASSERT_OK(store_audit_search(f->store, &(struct store_audit_filter){.limit = 10}, keep_audit,
                                 line, &e));
    assert_string_equal(line, "ada user.add user:2");
    fixture_refused(f->path, "DELETE FROM audit");
    fixture_refused(f->path, "UPDATE audit SET user_name = 'eve'");
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM audit WHERE user_name = 'ada'"),
                     1);
}

static bool keep_usage(void *context, const struct store_usage *u)
{
    *(struct store_usage *)context = *u;
    return true;
}

static void test_usage_adds_up(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_usage sum = {0}, one = {.user_id = f->user,
                                         .key_id = 4,
                                         .requests = 1,
                                         .prompt_tokens = 10,
                                         .cached_tokens = 2,
                                         .completion_tokens = 5};
    ASSERT_OK(store_usage_add(f->store, &one, &e));
    ASSERT_OK(store_usage_add(f->store, &one, &e));
    ASSERT_OK(store_usage_list(f->store, &(struct store_usage_filter){.user_id = f->user},
                               keep_usage, &sum, &e));
    assert_int_equal(sum.requests, 2);
    assert_int_equal(sum.prompt_tokens, 20);
    assert_int_equal(sum.day, clock_wall_s() / 86400);
    sum.requests = -1;
    ASSERT_OK(store_usage_list(f->store, &(struct store_usage_filter){.user_id = f->other},
                               keep_usage, &sum, &e));
    assert_int_equal(sum.requests, -1);
    one.user_id = 999; /* a user that is gone counts nowhere, and harms nobody */
    ASSERT_OK(store_usage_add(f->store, &one, &e));
}

static void test_setting_is_json_by_name(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    const char *v = NULL;
    ASSERT_ERR(store_setting_get(f->store, f->arena, "banner", &v, &e), ERR_NOTFOUND);
    ASSERT_OK(store_setting_set(f->store, "banner", "\"hello\"", &e));
    ASSERT_OK(store_setting_set(f->store, "banner", "\"hi\"", &e));
    ASSERT_OK(store_setting_get(f->store, f->arena, "banner", &v, &e));
    assert_string_equal(v, "\"hi\"");
    ASSERT_ERR(store_setting_set(f->store, "banner", "not json", &e), ERR_INPUT);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_user_add_finds_by_name_and_id),
        T(test_user_add_refuses_bad_names),
        T(test_last_admin_stays),
        T(test_session_lives_until_removed_or_expired),
        T(test_session_use_pushes_expiry_out),
        T(test_session_long_agent_is_cut_at_a_character),
        T(test_password_change_ends_other_sessions),
        T(test_disabled_or_removed_user_gets_nowhere),
        T(test_key_find_notes_the_use),
        T(test_key_use_does_not_wait_for_a_writer),
        T(test_key_terms_are_kept_and_obeyed),
        T(test_keys_are_bounded),
        cmocka_unit_test(test_secrets_hold_what_they_promise),
        cmocka_unit_test(test_unknown_user_costs_the_same_time),
        T(test_first_admin_is_made_once),
        T(test_audit_only_grows),
        T(test_usage_adds_up),
        T(test_setting_is_json_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
