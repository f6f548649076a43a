/* The recorder's side of the store, backups, and what a connection may and may not do. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "tests/unit/store/store_fixture.h"

static off_t file_size(const char *path, const char *suffix)
{
    char name[400];
    struct stat st;
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return stat(name, &st) ? -1 : st.st_size;
}

static void test_only_the_checkpointer_touches_the_wal(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_wal w;
    ASSERT_ERR(store_checkpoint(f->store, false, &w, &e), ERR_INTERNAL);
    off_t before = file_size(f->path, "-wal");
    assert_true(before > 0);
    store_close(&f->store); /* the last one: SQLite would check in and remove the WAL */
    assert_int_equal(file_size(f->path, "-wal"), before);
    f->store = fixture_open(f, false);
    struct store *recorder = fixture_open(f, true);
    ASSERT_OK(store_checkpoint(recorder, false, &w, &e));
    assert_true(w.frames > 0);
    assert_int_equal(w.checked_in, w.frames);
    ASSERT_OK(store_checkpoint(recorder, false, &w, &e)); /* no news: not even begun */
    assert_int_equal(w.frames, 0);
    fixture_conversation(f, f->user, "news");
    ASSERT_OK(store_checkpoint(recorder, false, &w, &e));
    assert_true(w.frames > 0);
    ASSERT_OK(store_checkpoint(recorder, true, &w, &e));
    assert_int_equal(file_size(f->path, "-wal"), 0);
    store_close(&recorder);
}

static void test_checkpoint_does_not_wait_for_readers(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_wal w;
    sqlite3 *reader = NULL;
    struct store *recorder = fixture_open(f, true);
    assert_int_equal(sqlite3_open(f->path, &reader), SQLITE_OK);
    sqlite3_db_config(reader, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM users", NULL, NULL, NULL);
    fixture_conversation(f, f->user, "behind the reader's snapshot");
    double begun = clock_ms();
    ASSERT_OK(store_checkpoint(recorder, true, &w, &e));
    assert_true(w.busy);
    assert_true(clock_ms() - begun < 4000); /* who waits for a lock gives up after 5 s */
    sqlite3_close(reader);
    ASSERT_OK(store_checkpoint(recorder, true, &w, &e));
    assert_false(w.busy);
    store_close(&recorder);
}

static bool count_running(void *context, const struct store_running *r)
{
    ++*(int *)context;
    assert_true(r->user_id > 0 && r->job_key[0]);
    return true;
}

static void test_tick_is_all_or_nothing(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_message m;
    int running = 0;
    bool gone;
    int64_t c = fixture_conversation(f, f->user, "x");
    struct store_posted p = fixture_post(f, f->user, c, 0, "q");
    struct store_answer a = {
        .id = p.message_id, .status = MESSAGE_RUNNING, .content = "some", .content_len = 4};
    ASSERT_OK(store_running_list(f->store, count_running, &running, &e));
    assert_int_equal(running, 1);
    ASSERT_OK(store_record_begin(f->store, false, &e));
    ASSERT_OK(store_record_write(f->store, &a, &gone, &e));
    store_record_undo(f->store);
    store_record_undo(f->store);
    ASSERT_OK(store_message_get(
        f->store, f->arena, &(struct store_ref){.user_id = f->user, .id = p.message_id}, &m, &e));
    assert_string_equal(m.content, "");
    ASSERT_OK(store_record_begin(f->store, false, &e));
    ASSERT_OK(store_record_write(f->store, &a, &gone, &e));
    ASSERT_OK(store_record_end(f->store, &e));
    assert_false(gone);
    /* an end that knows less than the row keeps the row's text */
    a = (struct store_answer){
        .id = p.message_id, .status = MESSAGE_ERROR, .error = "lost", .keep_text = true};
    ASSERT_OK(store_record_begin(f->store, true, &e));
    ASSERT_OK(store_record_write(f->store, &a, &gone, &e));
    ASSERT_OK(store_record_end(f->store, &e));
    ASSERT_OK(store_message_get(
        f->store, f->arena, &(struct store_ref){.user_id = f->user, .id = p.message_id}, &m, &e));
    assert_string_equal(m.content, "some");
    assert_string_equal(m.error, "lost");
    /* what has ended stays as it ended */
    a.status = MESSAGE_DONE;
    ASSERT_OK(store_record_begin(f->store, true, &e));
    ASSERT_OK(store_record_write(f->store, &a, &gone, &e));
    ASSERT_OK(store_record_end(f->store, &e));
    assert_true(gone);
    running = 0;
    ASSERT_OK(store_running_list(f->store, count_running, &running, &e));
    assert_int_equal(running, 0);
}

static void clear_all(struct fixture *f, int max_steps)
{
    struct err e = {0};
    bool more = true;
    for (int i = 0; more; i++) {
        assert_true(i < max_steps);
        ASSERT_OK(store_clear(f->store, &more, &e));
    }
}

static void test_clear_removes_in_steps_what_was_deleted(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t big = fixture_conversation(f, f->other, "big"),
            kept = fixture_conversation(f, f->user, "kept"), parent = 0;
    for (int i = 0; i < 400; i++) {
        struct store_posted p = fixture_post(f, f->other, big, parent, "q");
        fixture_finish(f, p.message_id, "a");
        parent = p.message_id;
    }
    fixture_finish(f, fixture_post(f, f->user, kept, 0, "q").message_id, "a");
    ASSERT_OK(store_conversation_remove(f->store, f->other, big, &e));
    bool more = false;
    ASSERT_OK(store_clear(f->store, &more, &e));
    assert_true(more);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM messages"),
                     502);        /* 800 - 300 + 2 */
    fixture_check_whole(f->path); /* also in the middle */
    clear_all(f, 10);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM messages"), 2);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM conversations"), 1);
    fixture_check_whole(f->path);
}

static void test_clear_waits_for_a_running_answer(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    bool more;
    int64_t c = fixture_conversation(f, f->user, "x");
    struct store_posted p = fixture_post(f, f->user, c, 0, "q");
    ASSERT_OK(store_conversation_remove(f->store, f->user, c, &e));
    ASSERT_OK(store_clear(f->store, &more, &e));
    assert_false(more);
    fixture_finish(f, p.message_id, "a");
    clear_all(f, 5);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM messages"), 0);
}

static void test_clear_that_cannot_write_says_so(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    bool more;
    sqlite3 *writer = NULL;
    int64_t c = fixture_conversation(f, f->user, "x");
    ASSERT_OK(store_conversation_change(
        f->store, f->user, c, &(struct store_conversation_change){.trashed = WHICH_YES}, &e));
    fixture_number(f->path, "UPDATE conversations SET trashed_at = 1");
    struct store *s = store_open(&(struct store_params){.path = f->path, .busy_ms = 20}, &e);
    assert_non_null(s);
    assert_int_equal(sqlite3_open(f->path, &writer), SQLITE_OK);
    sqlite3_db_config(writer, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    assert_int_equal(sqlite3_exec(writer, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    ASSERT_ERR(store_clear(s, &more, &e), ERR_BUSY);
    sqlite3_close(writer);
    ASSERT_OK(store_clear(s, &more, &e));
    assert_true(more);
    store_close(&s);
    clear_all(f, 5);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM conversations"), 0);
}

static void test_removed_user_leaves_nothing_but_the_audit(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    unsigned char hash[SECRET_HASH_BYTES] = {1};
    int64_t c = fixture_conversation(f, f->other, "x"), key;
    ASSERT_OK(store_key_add(f->store,
                            &(struct store_key){.user_id = f->other, .name = "k", .prefix = ""},
                            hash, &key, &e));
    ASSERT_OK(
        store_usage_add(f->store, &(struct store_usage){.user_id = f->other, .requests = 1}, &e));
    fixture_finish(f, fixture_post(f, f->other, c, 0, "q").message_id, "a");
    ASSERT_OK(store_user_remove(f->store, f->other, &e));
    clear_all(f, 10);
    assert_int_equal(
        fixture_number(
            f->path,
            "SELECT (SELECT count(*) FROM users WHERE id <> 1) + (SELECT count(*) FROM messages) "
            "+ (SELECT count(*) FROM conversations) + (SELECT count(*) FROM api_keys) "
            "+ (SELECT count(*) FROM usage)"),
        0);
}

static void test_clear_drops_expired_sessions(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_session n = {.user_id = f->user, .created_at = 1, .expires_at = 2};
    ASSERT_OK(store_session_add(f->store, &n, &e));
    n.token_hash[0] = 1;
    n.created_at = n.expires_at = 0;
    ASSERT_OK(store_session_add(f->store, &n, &e));
    clear_all(f, 5);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM sessions"), 1);
}

static void test_deleted_text_is_gone_from_the_file(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_wal w;
    int64_t c = fixture_conversation(f, f->user, "x");
    fixture_finish(f, fixture_post(f, f->user, c, 0, "XYZZY-very-secret").message_id,
                   "PLUGH-answer");
    struct store *recorder = fixture_open(f, true);
    ASSERT_OK(store_checkpoint(recorder, true, &w, &e));
    ASSERT_OK(store_conversation_remove(f->store, f->user, c, &e));
    clear_all(f, 5);
    ASSERT_OK(store_checkpoint(recorder, true, &w, &e));
    store_close(&recorder);
    store_close(&f->store);
    FILE *file = fopen(f->path, "rb");
    static char all[8 << 20];
    size_t n = fread(all, 1, sizeof all, file);
    fclose(file);
    assert_null(memmem(all, n, "XYZZY", 5));
    assert_null(memmem(all, n, "PLUGH", 5));
}

static void test_backup_is_whole_private_and_replaces(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char path[400];
    struct stat st;
    snprintf(path, sizeof path, "%s/backup.db", f->folder);
    fixture_finish(
        f, fixture_post(f, f->user, fixture_conversation(f, f->user, "x"), 0, "q").message_id, "a");
    ASSERT_OK(store_backup(f->store, path, &e));
    fixture_conversation(f, f->user, "later");
    ASSERT_OK(store_backup(f->store, path, &e));
    assert_int_equal(fixture_number(path, "SELECT count(*) FROM conversations"), 2);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    fixture_check_whole(path);
    struct store *copy = store_open(&(struct store_params){.path = path}, &e);
    assert_non_null(copy);
    store_close(&copy);
    snprintf(path, sizeof path, "%s/missing/backup.db", f->folder);
    ASSERT_ERR(store_backup(f->store, path, &e), ERR_NOTFOUND);
}

static void test_quick_check_finds_damage(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_wal w;
    for (int i = 0; i < 300; i++)
        fixture_conversation(f, f->user, "a row to fill some pages of the table with");
    ASSERT_OK(store_quick_check(f->store, &e));
    struct store *recorder = fixture_open(f, true);
    ASSERT_OK(store_checkpoint(recorder, true, &w, &e));
    store_close(&recorder);
    store_close(&f->store);
    FILE *file = fopen(f->path, "r+b");
    fseek(file, file_size(f->path, "") - 4096, SEEK_SET); /* the last page: the newest rows */
    for (int i = 0; i < 4096; i++)
        fputc(0xa5, file);
    fclose(file);
    struct store *s = store_open(&(struct store_params){.path = f->path}, &e);
    assert_non_null(s);
    ASSERT_ERR(store_quick_check(s, &e), ERR_FORMAT);
    store_close(&s);
}

static void test_facts_count(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_facts facts;
    fixture_post(f, f->user, fixture_conversation(f, f->user, "x"), 0, "q");
    ASSERT_OK(store_facts(f->store, &facts, &e));
    assert_int_equal(facts.users, 2);
    assert_int_equal(facts.conversations, 1);
    assert_int_equal(facts.messages, 2);
    assert_int_equal(facts.running, 1);
    assert_true(facts.schema_version >= 1 && facts.database_bytes > 0 && facts.wal_bytes > 0);
    assert_string_equal(facts.sqlite_version, sqlite3_libversion());
    if (sqlite3_libversion_number() < 3051003)
        assert_non_null(facts.sqlite_warning);
}

static void test_schema_refuses_what_the_store_never_writes(void **state)
{
    struct fixture *f = *state;
    int64_t c = fixture_conversation(f, f->user, "x");
    struct store_posted p = fixture_post(f, f->user, c, 0, "q");
    char sql[300];
    static const char *const bad[] = {
        "INSERT INTO messages (conversation_id, role, status, created_at, finished_at) VALUES "
        "(%lld, 'robot', 'done', 1, 1)",
        "INSERT INTO messages (conversation_id, role, status, created_at) VALUES (%lld, 'user', "
        "'done', 1)",
        "INSERT INTO messages (conversation_id, role, status, created_at) VALUES (%lld, "
        "'assistant', 'running', 1)",
        "INSERT INTO messages (id, parent_id, conversation_id, role, status, created_at, "
        "finished_at) "
        "VALUES (1000, 1001, %lld, 'user', 'done', 1, 1)",
        "UPDATE conversations SET settings = 'x' WHERE id = %lld",
        "UPDATE conversations SET created_at = 'soon' WHERE id = %lld",
    };
    int64_t before = fixture_number(f->path, "SELECT count(*) FROM messages");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(sql, sizeof sql, bad[i], (long long)c);
        fixture_refused(f->path, sql);
    }
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM messages"), before);
    assert_int_equal(fixture_number(f->path,
                                    "SELECT count(*) FROM conversations WHERE settings = '{}' "
                                    "AND typeof(created_at) = 'integer'"),
                     1);
    (void)p;
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_only_the_checkpointer_touches_the_wal),
        T(test_checkpoint_does_not_wait_for_readers),
        T(test_tick_is_all_or_nothing),
        T(test_clear_removes_in_steps_what_was_deleted),
        T(test_clear_waits_for_a_running_answer),
        T(test_clear_that_cannot_write_says_so),
        T(test_removed_user_leaves_nothing_but_the_audit),
        T(test_clear_drops_expired_sessions),
        T(test_deleted_text_is_gone_from_the_file),
        T(test_backup_is_whole_private_and_replaces),
        T(test_quick_check_finds_damage),
        T(test_facts_count),
        T(test_schema_refuses_what_the_store_never_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
