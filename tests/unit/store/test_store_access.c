/* What a connection keeps of who may do what (access_cache.h): found without reading as long as
 * nobody has changed any of it, whoever writes, and not a moment longer. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "sql/models/store_models.h"
#include "sql/prompts/store_prompt_blocks.h"
#include "tests/unit/store/store_fixture.h"

static const unsigned char hash[SECRET_HASH_BYTES] = {9};

static int64_t add_key(struct fixture *f)
{
    struct err e = {0};
    int64_t id;
    const struct store_key k = {.user_id = f->other, .name = "laptop", .prefix = "sk-sluice-abc"};
    ASSERT_OK(store_key_add(f->store, &k, hash, &id, &e));
    return id;
}

static int64_t add_model(struct fixture *f, const char *name)
{
    struct err e = {0};
    int64_t id;
    const struct store_model m = {.name = name, .everyone = true, .tools = true};
    ASSERT_OK(store_model_add(f->store, &m, &id, &e));
    return id;
}

static void begin_request(struct fixture *f)
{
    struct err e = {0};
    int64_t n;
    store_access_leave(f->store);
    ASSERT_OK(store_forgets_snapshot(f->store, &n, &e));
}

static bool key_is_valid(struct fixture *f, struct store_key_found *out)
{
    struct err e = {0};
    if (store_key_find(f->store, f->arena, hash, out, &e))
        return true;
    assert_int_equal(e.code, ERR_AUTH);
    return false;
}

static int64_t jobs_allowed(struct fixture *f)
{
    struct err e = {0};
    struct store_limits_given g;
    ASSERT_OK(store_limits_given(f->store, f->other, &g, &e));
    return g.limits.max_jobs;
}

/* -1: it is not there, or not for bob. */
static int64_t context_of(struct fixture *f, const char *name)
{
    struct err e = {0};
    struct store_model m;
    const struct store_model_ask ask = {.user_id = f->other, .name = name};
    if (!store_model_find(f->store, f->arena, &ask, &m, &e))
        return -1;
    assert_string_equal(m.name, "far");
    assert_string_equal(m.kind, "chat");
    assert_string_equal(m.aliases, "[\"near\"]");
    assert_true(m.tools && !m.path && !m.defaults && !m.groups);
    return m.context;
}

static void set(struct fixture *f, const char *sql)
{
    fixture_number(f->path, sql);
}

/* Behind the triggers' back, so that a second reading would show it. */
static void test_what_nobody_changed_is_not_read_again(void **state)
{
    struct fixture *f = *state;
    struct store_key_found k;
    add_key(f);
    add_model(f, "far");
    set(f, "INSERT INTO model_aliases VALUES ('near', 1)");
    set(f, "DROP TRIGGER access_models_changed");
    set(f, "DROP TRIGGER access_api_keys_changed");
    set(f, "DROP TRIGGER access_user_limits_added");
    begin_request(f);
    assert_true(key_is_valid(f, &k)); /* notes its use, and what is written ends the snapshot */
    for (int i = 0; i < 3; i++) {
        begin_request(f);
        assert_true(key_is_valid(f, &k));
        assert_string_equal(k.user.name, "bob");
        assert_int_equal(k.user.id, f->other);
        assert_false(k.user.admin);
        assert_int_equal(k.key.terms.max_jobs, 0);
        assert_int_equal(jobs_allowed(f), STORE_LIMIT_UNSAID);
        store_snapshot_end(f->store);
        assert_int_equal(context_of(f, "far"), 0);
        assert_int_equal(context_of(f, "near"), 0);
        set(f, "UPDATE models SET context = 77");
        set(f, "UPDATE api_keys SET max_jobs = 5");
        set(f, "INSERT OR IGNORE INTO user_limits VALUES (2, 1, 2, 3, 4, 5)");
    }
    store_access_leave(f->store); /* a request that took no snapshot reads all of it */
    assert_true(key_is_valid(f, &k));
    assert_int_equal(k.key.terms.max_jobs, 5);
    assert_int_equal(jobs_allowed(f), 3);
    assert_int_equal(context_of(f, "far"), 77);
    begin_request(f);
    store_snapshot_end(f->store); /* keys and limits hold in the snapshot alone */
    assert_true(key_is_valid(f, &k));
    assert_int_equal(k.key.terms.max_jobs, 5);
    assert_int_equal(jobs_allowed(f), 3);
}

/* Another process's change holds for the next request, and not for the one that runs. */
static void test_a_change_holds_from_the_next_request_on(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_key_found k;
    struct store *others = fixture_open(f, false);
    const int64_t key = add_key(f), model = add_model(f, "far");
    set(f, "INSERT INTO model_aliases VALUES ('near', 1)");
    for (int i = 0; i < 2; i++) {
        begin_request(f);
        assert_true(key_is_valid(f, &k));
        assert_int_equal(context_of(f, "far"), 0);
    }
    ASSERT_OK(store_key_remove(others, f->other, key, &e));
    assert_true(key_is_valid(f, &k)); /* of the moment at which the request began */
    begin_request(f);
    assert_false(key_is_valid(f, &k));
    assert_int_equal(context_of(f, "far"), 0);
    ASSERT_OK(store_model_remove(others, model, &e));
    begin_request(f);
    assert_int_equal(context_of(f, "far"), -1);
    store_close(&others);
}

/* Whoever edits the file by hand may take the stamp away; then everything is read. */
static void test_without_a_stamp_nothing_is_kept(void **state)
{
    struct fixture *f = *state;
    struct store_key_found k;
    add_key(f);
    begin_request(f);
    assert_true(key_is_valid(f, &k));
    set(f, "DELETE FROM access_stamp");
    begin_request(f);
    assert_true(key_is_valid(f, &k));
    set(f, "UPDATE api_keys SET max_jobs = 5");
    begin_request(f);
    assert_true(key_is_valid(f, &k));
    assert_int_equal(k.key.terms.max_jobs, 5);
}

/* What this connection writes itself ends what it kept. */
static void test_an_own_change_holds_at_once(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    const int64_t model = add_model(f, "far");
    set(f, "INSERT INTO model_aliases VALUES ('near', 1)");
    begin_request(f);
    assert_int_equal(context_of(f, "far"), 0);
    struct store_model_change c = {STORE_MODEL_UNCHANGED};
    c.context = 4096;
    ASSERT_OK(store_model_change(f->store, model, &c, &e));
    assert_int_equal(context_of(f, "far"), 4096);
}

/* Its use is noted once a minute, although it is not read meanwhile. */
static void test_the_use_of_a_key_is_still_noted(void **state)
{
    struct fixture *f = *state;
    struct store_key_found k;
    add_key(f);
    for (int i = 0; i < 2; i++) {
        begin_request(f);
        assert_true(key_is_valid(f, &k));
    }
    assert_true(clock_wall_ms() - fixture_number(f->path, "SELECT used_at FROM api_keys") < 60000);
    set(f, "UPDATE api_keys SET used_at = 1, expires_at = 1"); /* changes its terms as well */
    begin_request(f);
    assert_false(key_is_valid(f, &k));
}

static void test_the_use_of_a_key_is_noted_as_soon_as_another_has_written(void **state)
{
    struct fixture *f = *state;
    struct store_key_found k;
    sqlite3 *other;
    add_key(f);
    assert_int_equal(sqlite3_open(f->path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    begin_request(f);
    assert_true(key_is_valid(f, &k));
    sqlite3_close(other);
    assert_int_equal(fixture_number(f->path, "SELECT used_at FROM api_keys"), 0);
    begin_request(f);
    assert_true(key_is_valid(f, &k));
    assert_true(fixture_number(f->path, "SELECT used_at FROM api_keys") > 0);
}

static int64_t stamp(struct fixture *f)
{
    return fixture_number(f->path, "SELECT stamp FROM access_stamp");
}

static void test_each_change_of_access_is_told_and_no_other(void **state)
{
    static const char *const told[] = {
        "UPDATE users SET role = 'user' WHERE id = 1",
        "UPDATE users SET disabled = 1 WHERE id = 2",
        "UPDATE users SET name = 'rob' WHERE id = 2",
        "UPDATE users SET deleted_at = 1 WHERE id = 2",
        "UPDATE api_keys SET scopes = 1",
        "UPDATE api_keys SET strict_parameters = 1",
        "INSERT INTO user_limits VALUES (2, 1, 2, 3, 4, 5)",
        "UPDATE user_limits SET max_jobs = 9",
        "DELETE FROM user_limits",
        "INSERT INTO user_groups (name, created_at) VALUES ('g', 1)", /* with the next: a member */
        "INSERT INTO group_members VALUES (1, 2, 0)",
        "UPDATE user_groups SET max_jobs = 4",
        "INSERT INTO model_groups VALUES (1, 1)",
        "DELETE FROM model_groups",
        "DELETE FROM group_members",
        "DELETE FROM user_groups",
        "INSERT INTO model_users VALUES (1, 2)",
        "DELETE FROM model_users",
        "INSERT INTO model_aliases VALUES ('near', 1)",
        "UPDATE model_aliases SET alias = 'nearer'",
        "DELETE FROM model_aliases",
        "INSERT INTO local_models (model_id, path) VALUES (1, '/m')",
        "UPDATE local_models SET pinned = 1",
        "DELETE FROM local_models",
        "UPDATE models SET everyone = 0",
        "DELETE FROM models",
        "INSERT OR REPLACE INTO api_keys SELECT * FROM api_keys",
        "DELETE FROM api_keys",
        "DELETE FROM users WHERE id = 2",
    };
    static const char *const other[] = {
        "UPDATE api_keys SET used_at = 5",
        "UPDATE users SET settings = '{\"a\":1}'",
        "UPDATE users SET preferences = '{\"a\":1}'",
    };
    struct fixture *f = *state;
    add_key(f);
    add_model(f, "far");
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        const int64_t before = stamp(f);
        set(f, other[i]);
        if (stamp(f) != before)
            fail_msg("%s", other[i]);
    }
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        const int64_t before = stamp(f);
        set(f, told[i]);
        if (stamp(f) == before && !strstr(told[i], "INTO user_groups"))
            fail_msg("%s", told[i]);
    }
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_what_nobody_changed_is_not_read_again),
        T(test_a_change_holds_from_the_next_request_on),
        T(test_without_a_stamp_nothing_is_kept),
        T(test_an_own_change_holds_at_once),
        T(test_the_use_of_a_key_is_still_noted),
        T(test_the_use_of_a_key_is_noted_as_soon_as_another_has_written),
        T(test_each_change_of_access_is_told_and_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
