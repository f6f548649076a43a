/* Invitations, limits, sessions as they are seen, bytes that are kept, the audit log's search. */
#include <liboath/oath.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "sql/chats/store_tree.h"
#include "sql/users/store_factor.h"
#include "sql/users/store_invites.h"
#include "sql/users/store_limits.h"
#include "sql/users/store_users.h"
#include "tests/unit/store/store_fixture.h"

#define DAY_MS ((int64_t)24 * 3600 * 1000)

static bool set_admin(struct fixture *f, int64_t id, bool admin, struct err *e)
{
    return store_user_change(f->store, id,
                             &(struct store_user_change){.has_role = true, .admin = admin}, e);
}

static bool set_limits_of(struct fixture *f, int64_t id, const struct store_user_limits *l,
                          struct err *e)
{
    return store_user_change(f->store, id,
                             &(struct store_user_change){.has_limits = true, .limits = l}, e);
}

static bool first_invite(void *context, const struct store_invite *n)
{
    struct store_invite *out = context;
    *out = *n;
    out->note = out->made_by_name = NULL;
    assert_string_equal(n->used_by_name, n->used_at ? "carol" : "");
    return false;
}

static bool accept(struct fixture *f, const unsigned char *hash, const char *name,
                   struct store_user *out, struct err *e)
{
    *out = (struct store_user){.name = name, .password_hash = fixture_hash};
    return store_invite_accept(f->store, hash, out, e);
}

static void test_an_invitation_makes_one_account(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_invite n, shown;
    struct store_user u;
    unsigned char hash[SECRET_HASH_BYTES] = {1}, other[SECRET_HASH_BYTES] = {2},
                  late[SECRET_HASH_BYTES] = {3};
    const int64_t soon = clock_wall_ms() + DAY_MS;
    int64_t id, second, user;
    struct store_user accepted;
    ASSERT_OK(store_invite_add(
        f->store,
        &(struct store_invite){
            .admin = true, .note = "for Carol", .made_by = f->user, .expires_at = soon},
        hash, &id, &e));
    ASSERT_OK(store_invite_add(f->store,
                               &(struct store_invite){.made_by = f->user, .expires_at = soon},
                               other, &second, &e));
    ASSERT_OK(store_invite_add(
        f->store, &(struct store_invite){.made_by = f->user, .expires_at = clock_wall_ms() - 1},
        late, &user, &e));
    ASSERT_ERR(store_invite_add(
                   f->store,
                   &(struct store_invite){.note = "a\nb", .made_by = f->user, .expires_at = soon},
                   late, &user, &e),
               ERR_INPUT);
    ASSERT_OK(store_invite_open(f->store, hash, &n, &e));
    assert_true(n.admin && n.expires_at == soon);
    ASSERT_ERR(accept(f, late, "late", &accepted, &e), ERR_NOTFOUND);
    /* a name that is taken leaves the invitation good */
    ASSERT_ERR(accept(f, hash, "ADA", &accepted, &e), ERR_CONFLICT);
    ASSERT_ERR(accept(f, hash, "", &accepted, &e), ERR_INPUT);
    ASSERT_OK(accept(f, hash, "carol", &accepted, &e));
    assert_true(accepted.admin);
    ASSERT_OK(store_user_by_name(f->store, f->arena, "carol", &u, &e));
    assert_true(u.admin && u.id == accepted.id);
    ASSERT_ERR(accept(f, hash, "dora", &accepted, &e), ERR_NOTFOUND);
    ASSERT_OK(store_invite_list(f->store, &(struct store_invite_page){.before = second, .limit = 1},
                                first_invite, &shown, &e));
    assert_true(shown.id == id && shown.used_at);
    ASSERT_OK(store_invite_revoke(f->store, second, &e));
    ASSERT_ERR(store_invite_revoke(f->store, second, &e), ERR_NOTFOUND);
    ASSERT_ERR(store_invite_revoke(f->store, id, &e), ERR_NOTFOUND);
    ASSERT_ERR(store_invite_open(f->store, other, &n, &e), ERR_NOTFOUND);
    ASSERT_ERR(accept(f, other, "dora", &accepted, &e), ERR_NOTFOUND);
}

/* Demoted, disabled, removed: the admins that they invited do not come; the users that they invited
 * do. */
static void test_who_was_an_admin_makes_no_more(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_invite n;
    for (int way = 0; way < 3; way++) {
        unsigned char admins[SECRET_HASH_BYTES] = {1, (unsigned char)way},
                      users[SECRET_HASH_BYTES] = {2, (unsigned char)way};
        const char *const names[] = {"carol", "dora", "eve"};
        int64_t id, boss;
        ASSERT_OK(store_user_add(
            f->store,
            &(struct store_user){.name = names[way], .password_hash = fixture_hash, .admin = true},
            &boss, &e));
        struct store_invite i = {
            .admin = true, .made_by = boss, .expires_at = clock_wall_ms() + DAY_MS};
        ASSERT_OK(store_invite_add(f->store, &i, admins, &id, &e));
        i.admin = false;
        ASSERT_OK(store_invite_add(f->store, &i, users, &id, &e));
        ASSERT_OK(store_invite_open(f->store, admins, &n, &e));
        if (way == 0)
            ASSERT_OK(set_admin(f, boss, false, &e));
        else if (way == 1)
            ASSERT_OK(store_user_set_disabled(f->store, boss, true, &e));
        else
            ASSERT_OK(store_user_remove(f->store, boss, &e));
        ASSERT_ERR(store_invite_open(f->store, admins, &n, &e), ERR_NOTFOUND);
        ASSERT_OK(store_invite_open(f->store, users, &n, &e));
    }
}

static int64_t bytes_of(struct fixture *f, int64_t user)
{
    struct err e = {0};
    int64_t n = -1;
    ASSERT_OK(store_used_bytes(f->store, user, &n, &e));
    return n;
}

/* The counter against the texts themselves, through everything that writes or deletes them. */
static void check_bytes(struct fixture *f)
{
    char sql[600];
    for (int64_t user = f->user; user <= f->other; user++) {
        snprintf(sql, sizeof sql,
                 "WITH own AS (SELECT * FROM messages WHERE conversation_id IN (SELECT id FROM "
                 "conversations WHERE user_id = %lld)), "
                 "texts (t) AS (SELECT content FROM own UNION ALL SELECT reasoning FROM own UNION "
                 "ALL SELECT tool_calls FROM own "
                 "UNION ALL SELECT tool_call_id FROM own UNION ALL SELECT error FROM own UNION ALL "
                 "SELECT model FROM own "
                 "UNION ALL SELECT job_key FROM own UNION ALL SELECT parser FROM own UNION ALL "
                 "SELECT timings FROM own UNION ALL SELECT error_detail FROM own) "
                 "SELECT coalesce(sum(length(CAST(t AS BLOB))), 0) FROM texts",
                 (long long)user);
        assert_int_equal(bytes_of(f, user), fixture_number(f->path, sql));
    }
}

/* A column of text that comes later is counted, or stands here with its reason. */
static void test_every_text_of_a_message_is_counted(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(
        fixture_number(
            f->path,
            "SELECT count(*) FROM pragma_table_info('messages') WHERE type IN ('TEXT', 'BLOB') "
            "AND name NOT IN ('role', 'status') AND instr((SELECT sql FROM sqlite_schema WHERE "
            "name = 'message_bytes'), 'm.' || name) = 0"),
        0);
}

static void test_all_that_came_of_an_answer_counts(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t c = fixture_conversation(f, f->user, "one");
    struct store_posted p = fixture_post(f, f->user, c, 0, "x");
    const int64_t before = bytes_of(f, f->user);
    check_bytes(f);
    bool gone;
    ASSERT_OK(store_record_begin(f->store, true, &e));
    ASSERT_OK(store_record_write(f->store,
                                 &(struct store_answer){.id = p.message_id,
                                                        .status = MESSAGE_ERROR,
                                                        .content = "abc",
                                                        .content_len = 3,
                                                        .reasoning = "de",
                                                        .reasoning_len = 2,
                                                        .tool_calls = "[{\"f\":1}]",
                                                        .error = "too \xc3\xa4",
                                                        .timings = "{\"queue_ms\":1}"},
                                 &gone, &e));
    ASSERT_OK(store_record_end(f->store, &e));
    check_bytes(f);
    assert_int_equal(bytes_of(f, f->user), before + 3 + 2 + 9 + 6 + 14);
}

/* Who would go over by a message, a copy, an import is refused in the transaction that writes it,
 * and nothing of it stays. */
static void test_the_quota_holds_where_it_is_written(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_posted p;
    int64_t c = fixture_conversation(f, f->user, "one"), fork;
    const struct store_posted first = fixture_post(f, f->user, c, 0, "0123456789");
    fixture_finish(f, first.message_id, "an answer");
    const int64_t used = bytes_of(f, f->user);
    struct store_post post = {.user_id = f->user,
                              .conversation_id = c,
                              .content = "0123456789",
                              .job_key = "quota",
                              .model = "m",
                              .storage_bytes = used + 15}; /* 10, 5, 1 */
    ASSERT_ERR(store_message_post(f->store, &post, &p, &e), ERR_LIMIT);
    assert_string_equal(e.field, STORE_QUOTA_FIELD);
    assert_int_equal(bytes_of(f, f->user), used);
    ASSERT_ERR(store_conversation_fork(f->store,
                                       &(struct store_fork){.user_id = f->user,
                                                            .conversation_id = c,
                                                            .message_id = first.message_id,
                                                            .storage_bytes = used + 18},
                                       &fork, &e),
               ERR_LIMIT);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM conversations"), 1);
    post.storage_bytes++;
    ASSERT_OK(store_message_post(f->store, &post, &p, &e));
    assert_int_equal(bytes_of(f, f->user), used + 16);
    check_bytes(f);
}

static void test_bytes_are_those_of_the_texts(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    bool more = true;
    assert_int_equal(bytes_of(f, f->user), 0);
    int64_t c = fixture_conversation(f, f->user, "one"),
            d = fixture_conversation(f, f->other, "two");
    struct store_posted p = fixture_post(f, f->user, c, 0, "h\xc3\xa9llo"),
                        q = fixture_post(f, f->other, d, 0, "xyz");
    check_bytes(f);
    fixture_finish(f, p.message_id, "a longer answer");
    fixture_finish(f, q.message_id, "no");
    assert_true(bytes_of(f, f->user) > 6 + 15 && bytes_of(f, f->other) > 5);
    check_bytes(f);
    p = fixture_post(f, f->user, c, p.message_id, "more");
    fixture_finish(f, p.message_id, "and more");
    check_bytes(f);
    ASSERT_OK(store_message_remove(f->store, f->user, p.user_message_id, &e));
    check_bytes(f);
    ASSERT_OK(store_conversation_remove(f->store, f->user, c, &e));
    while (more)
        ASSERT_OK(store_clear(f->store, &more, &e));
    assert_int_equal(bytes_of(f, f->user), 0);
    check_bytes(f);
}

static bool count_session(void *context, const struct store_session_seen *n)
{
    snprintf(context, 17, "%s", n->id);
    return n->current; /* goes on to the other one */
}

static void test_sessions_are_ended_by_their_owner_alone(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_user u;
    struct store_session mine = {.user_id = f->other}, there = {.user_id = f->other};
    char id[17] = "";
    int n = -1;
    memset(mine.token_hash, 1, sizeof mine.token_hash);
    memset(there.token_hash, 2, sizeof there.token_hash);
    ASSERT_OK(store_session_add(f->store, &mine, &e));
    ASSERT_OK(store_session_add(f->store, &there, &e));
    ASSERT_OK(store_session_list(
        f->store, &(struct store_session_viewer){.user_id = f->other, .current = mine.token_hash},
        count_session, id, &e));
    if (!strcmp(id, "0101010101010101"))
        strcpy(id, "0202020202020202");
    assert_string_equal(id, "0202020202020202");
    ASSERT_ERR(store_session_end(f->store, f->user, id, &e), ERR_NOTFOUND);
    ASSERT_ERR(store_session_end(f->store, f->other, "02", &e), ERR_NOTFOUND);
    ASSERT_OK(store_session_end(f->store, f->other, id, &e));
    ASSERT_ERR(store_session_find(f->store, f->arena, there.token_hash, &u, &e), ERR_AUTH);
    ASSERT_OK(store_session_add(f->store, &there, &e));
    ASSERT_OK(store_session_end_all(f->store, f->other, mine.token_hash, &n, &e));
    assert_int_equal(n, 1);
    ASSERT_OK(store_session_end_all(f->store, f->other, mine.token_hash, &n, &e));
    assert_int_equal(n, 0);
    ASSERT_OK(store_session_find(f->store, f->arena, mine.token_hash, &u, &e));
    ASSERT_OK(store_session_end_all(f->store, f->other, NULL, &n, &e));
    ASSERT_ERR(store_session_find(f->store, f->arena, mine.token_hash, &u, &e), ERR_AUTH);
}

static bool note_end(void *context, const struct store_session_seen *n)
{
    *(int64_t *)context = n->expires_at;
    return true;
}

/* However often it is used, and whatever an older program wrote as its expiry. */
static void test_session_ends_90_days_after_login(void **state)
{
    const int64_t now = clock_wall_ms();
    struct fixture *f = *state;
    struct err e = {0};
    struct store_user u;
    struct store_session late = {.user_id = f->other, .created_at = now - 89 * DAY_MS};
    struct store_session over = {.user_id = f->other, .created_at = now - 90 * DAY_MS - 1};
    const struct store_session_viewer viewer = {.user_id = f->other, .current = over.token_hash};
    int64_t end = 0;
    memset(over.token_hash, 1, sizeof over.token_hash);
    late.expires_at = over.expires_at = now + 20 * DAY_MS;
    ASSERT_OK(store_session_add(f->store, &over, &e));
    ASSERT_ERR(store_session_find(f->store, f->arena, over.token_hash, &u, &e), ERR_AUTH);
    ASSERT_OK(store_session_list(f->store, &viewer, note_end, &end, &e));
    assert_int_equal(end, 0);
    ASSERT_OK(store_session_add(f->store, &late, &e));
    ASSERT_OK(store_session_list(f->store, &viewer, note_end, &end, &e));
    assert_int_equal(end, late.created_at + 90 * DAY_MS);
    ASSERT_OK(store_session_find(f->store, f->arena, late.token_hash, &u, &e));
    assert_int_equal(fixture_number(f->path, "SELECT min(expires_at) FROM sessions"),
                     late.created_at + 90 * DAY_MS);
}

static bool keep_overview(void *context, const struct store_user_overview *p)
{
    *(struct store_user_overview *)context = *p;
    return false;
}

static void test_roles_and_limits(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_user_overview p = {0};
    struct store_user_limits l = {.tokens_per_day = 5000, .storage_bytes = 7, .max_jobs = 2}, got;
    bool own;
    int64_t tokens;
    ASSERT_ERR(set_admin(f, f->user, false, &e), ERR_CONFLICT); /* the last admin */
    ASSERT_OK(set_admin(f, f->other, true, &e));
    ASSERT_OK(set_admin(f, f->user, false, &e));
    ASSERT_ERR(set_admin(f, 999, true, &e), ERR_NOTFOUND);
    ASSERT_OK(store_limits_get(f->store, f->user, &got, &own, &e));
    assert_false(own);
    ASSERT_OK(set_limits_of(f, f->user, &l, &e));
    ASSERT_ERR(set_limits_of(f, 999, &l, &e), ERR_NOTFOUND);
    ASSERT_OK(store_limits_get(f->store, f->user, &got, &own, &e));
    assert_true(own && got.tokens_per_day == 5000 && got.storage_bytes == 7 && got.max_jobs == 2);
    const int64_t today = clock_wall_s() / 86400;
    ASSERT_OK(store_usage_add(
        f->store,
        &(struct store_usage){
            .user_id = f->user, .prompt_tokens = 30, .cached_tokens = 20, .completion_tokens = 4},
        &e));
    ASSERT_OK(store_usage_add(
        f->store, &(struct store_usage){.user_id = f->user, .key_id = 3, .prompt_tokens = 1}, &e));
    ASSERT_OK(store_usage_add(
        f->store, &(struct store_usage){.user_id = f->user, .day = today - 1, .prompt_tokens = 99},
        &e));
    ASSERT_OK(store_usage_add(f->store,
                              &(struct store_usage){.user_id = f->other, .prompt_tokens = 77}, &e));
    ASSERT_OK(store_used_tokens(f->store, f->user, today, &tokens, &e));
    assert_int_equal(tokens, 35);
    ASSERT_OK(store_user_overview_list(
        f->store, &(struct store_user_page){.limit = 5, .only = f->user}, keep_overview, &p, &e));
    assert_true(p.own_limits && p.limits.max_jobs == 2 && p.tokens_today == 35 && !p.user.admin);
    ASSERT_OK(set_limits_of(f, f->user, NULL, &e));
    ASSERT_OK(store_limits_get(f->store, f->user, &got, &own, &e));
    assert_true(!own && !got.max_jobs);
}

static void test_a_user_is_changed_whole_or_not_at_all(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_user u;
    struct store_user_limits l = {.max_jobs = 3}, got;
    bool own;
    /* the fourth of them is refused: the last admin */
    struct store_user_change c = {.password = {.hash = "$argon2id$another"},
                                  .has_limits = true,
                                  .limits = &l,
                                  .has_role = true,
                                  .admin = true,
                                  .has_disabled = true,
                                  .disabled = true};
    ASSERT_ERR(store_user_change(f->store, f->user, &c, &e), ERR_CONFLICT);
    ASSERT_OK(store_user_by_id(f->store, f->arena, f->user, &u, &e));
    assert_true(u.admin && !u.disabled && !strcmp(u.password_hash, fixture_hash));
    ASSERT_OK(store_limits_get(f->store, f->user, &got, &own, &e));
    assert_false(own);
    ASSERT_OK(set_admin(f, f->other, true, &e));
    c.admin = false;
    ASSERT_OK(store_user_change(f->store, f->user, &c, &e));
    ASSERT_OK(store_user_by_id(f->store, f->arena, f->user, &u, &e));
    assert_true(!u.admin && u.disabled && !strcmp(u.password_hash, "$argon2id$another"));
    ASSERT_OK(store_limits_get(f->store, f->user, &got, &own, &e));
    assert_true(own && got.max_jobs == 3);
    ASSERT_OK(store_user_change(f->store, f->user,
                                &(struct store_user_change){.has_disabled = true},
                                &e)); /* the rest stays */
    ASSERT_OK(store_user_by_id(f->store, f->arena, f->user, &u, &e));
    assert_true(!u.admin && !u.disabled && !strcmp(u.password_hash, "$argon2id$another"));
}

static bool count_row(void *context, const struct store_audit *a)
{
    return ++*(int *)context != 0;
}

static int search(struct fixture *f, struct store_audit_filter filter)
{
    struct err e = {0};
    int n = 0;
    filter.limit = 100;
    ASSERT_OK(store_audit_search(f->store, &filter, count_row, &n, &e));
    return n;
}

static void test_the_audit_log_is_searched_and_never_changed(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    static const char *const actions[] = {"login", "login.fail", "loginx", "key.add"};
    for (int i = 0; i < 4; i++)
        ASSERT_OK(store_audit_add(f->store,
                                  &(struct store_audit){.user_id = i,
                                                        .user = i % 2 ? "bob" : "ada",
                                                        .action = actions[i],
                                                        .target = "",
                                                        .address = "::1"},
                                  &e));
    assert_int_equal(search(f, (struct store_audit_filter){0}), 4);
    assert_int_equal(search(f, (struct store_audit_filter){.action = "login"}), 2);
    assert_int_equal(search(f, (struct store_audit_filter){.user = "BOB"}), 2);
    assert_int_equal(search(f, (struct store_audit_filter){.user = "bob", .action = "key"}), 1);
    assert_int_equal(search(f, (struct store_audit_filter){.before = 3}), 2);
    assert_int_equal(search(f, (struct store_audit_filter){.until = 1}), 0);
    assert_int_equal(search(f, (struct store_audit_filter){.since = clock_wall_ms() + 1000}), 0);
    assert_int_equal(search(f, (struct store_audit_filter){.action = "%"}), 0);
}

static void add_old_rows(struct fixture *f, int n, int64_t days)
{
    char sql[400];
    snprintf(sql, sizeof sql,
             "WITH RECURSIVE k (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < %d) "
             "INSERT INTO audit (at, user_id, user_name, action, target, address) "
             "SELECT %lld, 1, 'ada', 'login', '', '::1' FROM k",
             n, (long long)(clock_wall_ms() - days * DAY_MS - 60000));
    fixture_number(f->path, sql);
}

static void test_old_rows_of_the_audit_log_go_in_steps(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    const char *const count = "SELECT count(*) FROM audit";
    bool any;
    add_old_rows(f, STORE_AUDIT_STEP + 100, 30);
    add_old_rows(f, 10, 9);
    add_old_rows(f, 5, 0);
    ASSERT_OK(store_audit_expire(f->store, 31, &any, &e));
    assert_true(!any && fixture_number(f->path, count) == STORE_AUDIT_STEP + 115);
    ASSERT_OK(store_audit_expire(f->store, 10, &any, &e));
    assert_true(any && fixture_number(f->path, count) == 115);
    ASSERT_OK(store_audit_expire(f->store, 10, &any, &e));
    assert_true(any && fixture_number(f->path, count) == 15);
    ASSERT_OK(store_audit_expire(f->store, 10, &any, &e));
    assert_true(!any && fixture_number(f->path, count) == 15);
    ASSERT_OK(store_audit_expire(f->store, 1, &any, &e));
    assert_true(any && fixture_number(f->path, count) == 5);
    ASSERT_ERR(store_audit_expire(f->store, 0, &any, &e), ERR_INPUT);
    fixture_refused(f->path, "DELETE FROM audit");
    fixture_refused(f->path, "UPDATE audit SET at = 0");
    assert_int_equal(fixture_number(f->path, count), 5);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_an_invitation_makes_one_account),
        T(test_who_was_an_admin_makes_no_more),
        T(test_bytes_are_those_of_the_texts),
        T(test_every_text_of_a_message_is_counted),
        T(test_all_that_came_of_an_answer_counts),
        T(test_the_quota_holds_where_it_is_written),
        T(test_sessions_are_ended_by_their_owner_alone),
        T(test_session_ends_90_days_after_login),
        T(test_roles_and_limits),
        T(test_a_user_is_changed_whole_or_not_at_all),
        T(test_the_audit_log_is_searched_and_never_changed),
        T(test_old_rows_of_the_audit_log_go_in_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
