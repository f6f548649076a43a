/* Schema versions: the frozen first one upgraded equals schema.sql; newer and foreign files are
 * refused. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "sql/core/factor_key.h"
#include "sql/core/migrate.h"
#include "sql/core/search_internal.h"
#include "sql/core/statement.h"
#include "tests/unit/store/store_fixture.h"

static const char *source_folder(void)
{
    const char *s = getenv("srcdir"); /* set by automake */
    return s ? s : ".";
}

static void make_rows(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    char *why = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why))
        fail_msg("%s", why);
    sqlite3_close(db);
}

static void make_file(const char *path, const char *sql)
{
    unlink(path);
    make_rows(path, sql);
}

/* All of the schema as one text, in the order of names. */
static void dump(const char *path, struct buf *out)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *q = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db,
                                        "SELECT type, name, sql FROM sqlite_schema "
                                        "WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name",
                                        -1, &q, NULL),
                     SQLITE_OK);
    while (sqlite3_step(q) == SQLITE_ROW)
        buf_printf(out, "%s %s\n%s\n", sqlite3_column_text(q, 0), sqlite3_column_text(q, 1),
                   sqlite3_column_text(q, 2));
    sqlite3_finalize(q);
    sqlite3_close(db);
}

static bool count_conversation(void *context, const struct store_conversation *c)
{
    *(int *)context += c->match_id == 4;
    return true;
}

static void test_frozen_first_version_becomes_the_schema(void **state)
{
    int found = 0;
    struct fixture *f = *state;
    struct err e = {0};
    struct buf v1 = {0}, old = {0}, new = {0};
    char path[400], name[400];
    snprintf(path, sizeof path, "%s/old.db", f->folder);
    snprintf(name, sizeof name, "%s/tests/store/v1.sql", source_folder());
    ASSERT_OK(file_read(name, 1 << 20, &v1, &e));
    make_file(path, v1.data);
    fixture_number(path, "UPDATE sqlite_sequence SET seq = seq + 5 WHERE name = 'api_keys'");
    int64_t keys_made =
        fixture_number(path, "SELECT seq FROM sqlite_sequence WHERE name = 'api_keys'");
    assert_true(keys_made > 5);
    struct store *s = store_open(&(struct store_params){.path = path}, &e);
    if (!s)
        fail_msg("%s", e.text);
    struct store_user u;
    struct store_message m;
    ASSERT_OK(store_user_by_name(s, f->arena, "ada", &u, &e));
    ASSERT_OK(
        store_message_get(s, f->arena, &(struct store_ref){.user_id = u.id, .id = 4}, &m, &e));
    assert_string_equal(m.content, "It's four.");
    assert_int_equal(m.completion_tokens, 5);
    /* messages from before the index are in it */
    ASSERT_OK(store_conversation_list(
        s, &(struct store_page){.user_id = u.id, .limit = 5, .text = "'s four"}, count_conversation,
        &found, &e));
    assert_int_equal(found, 1);
    store_close(&s);
    assert_int_equal(
        fixture_number(
            path,
            "SELECT count(*) FROM conversations WHERE key GLOB '[0-9a-f]*' AND length(key) = 32"),
        fixture_number(path, "SELECT count(*) FROM conversations"));
    /* an id is never given out twice, also not across a table that was made anew */
    assert_int_equal(
        fixture_number(path, "SELECT seq FROM sqlite_sequence WHERE name = 'api_keys'"), keys_made);
    fixture_check_whole(path);
    dump(path, &old);
    dump(f->path, &new);
    assert_string_equal(old.data, new.data);
    assert_int_equal(fixture_number(path, "PRAGMA user_version"),
                     fixture_number(f->path, "PRAGMA user_version"));
    buf_fini(&v1);
    buf_fini(&old);
    buf_fini(&new);
}

/* A secret from before they were sealed is the same one afterwards, for its user alone. */
static void check_sealed(struct store *s)
{
    struct err e = {0};
    unsigned char secret[OTP_SECRET_BYTES];
    sqlite3_stmt *q = NULL;
    assert_int_equal(sqlite3_prepare_v2(
                         s->db, "SELECT sealed, confirmed_at FROM second_factors WHERE user_id = 7",
                         -1, &q, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    assert_int_equal(sqlite3_column_bytes(q, 0), FACTOR_SEALED_BYTES);
    assert_int_equal(sqlite3_column_int(q, 1), 3);
    assert_int_equal(factor_open(s, 8, sqlite3_column_blob(q, 0), secret, &e), 0);
    assert_int_equal(factor_open(s, 7, sqlite3_column_blob(q, 0), secret, &e), 1);
    assert_memory_equal(secret, "12345678901234567890", OTP_SECRET_BYTES);
    sqlite3_finalize(q);
}

static void test_migrations_alone_make_the_schema(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct buf old = {0}, new = {0};
    char path[400];
    snprintf(path, sizeof path, "%s/steps.db", f->folder);
    unlink(path);
    for (const struct migration *m = migration_table; m->version; m++) {
        sqlite3 *db = NULL;
        char *why = NULL;
        assert_true(m->version > (m > migration_table ? m[-1].version : 0));
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        struct store s = {.db = db};
        ASSERT_OK(search_functions(&s, &e)); /* migrations fold texts with them */
        ASSERT_OK(factor_functions(&s, &e)); /* and seal secrets */
        if (sqlite3_exec(db, m->text, NULL, NULL, &why))
            fail_msg("%s: %s", m->name, why);
        if (!strcmp(m->name, "0009_people") &&
            sqlite3_exec(db,
                         "INSERT INTO users (id, name, role, password, created_at) VALUES (7, "
                         "'eve', 'user', '$argon2id$', 1);"
                         "INSERT INTO second_factors (user_id, secret, created_at, confirmed_at) "
                         "VALUES (7, CAST('12345678901234567890' AS BLOB), 2, 3);",
                         NULL, NULL, &why))
            fail_msg("%s", why);
        if (!m[1].version)
            check_sealed(&s);
        sqlite3_close(db);
        assert_int_equal(fixture_number(path, "PRAGMA user_version"), m->version);
        if (m->version == 9)
            make_rows(path, "INSERT INTO conversation_tags VALUES (1, 'Straße'), (1, 'STRASSE'), "
                            "(1, 'x'), (2, 'X')");
        if (m->version == 16)
            make_rows(path,
                      "INSERT INTO responses VALUES ('resp_1', 7, 'resp_0', 1, 2, '[12]', '{}')");
    }
    assert_int_equal(
        fixture_number(path, "SELECT count(*) FROM responses WHERE previous_id = 'resp_0' AND "
                             "input = '[12]' AND conversation_id IS NULL"),
        1);
    assert_int_equal(fixture_number(path, "SELECT bytes FROM user_texts WHERE user_id = 7"), 6);
    assert_int_equal(fixture_number(path, "SELECT count(*) FROM conversation_tags"), 3);
    assert_int_equal(
        fixture_number(path, "SELECT count(*) FROM conversation_tags WHERE folded = 'x'"), 2);
    dump(path, &old);
    dump(f->path, &new);
    assert_string_equal(old.data, new.data);
    buf_fini(&old);
    buf_fini(&new);
}

static void test_newer_and_foreign_files_are_refused(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char path[400];
    fixture_number(f->path, "PRAGMA user_version = 999");
    ASSERT_ERR(store_open(&(struct store_params){.path = f->path}, &e) != NULL, ERR_FORMAT);
    assert_non_null(strstr(e.text, "999"));
    snprintf(path, sizeof path, "%s/foreign.db", f->folder);
    make_file(path, "CREATE TABLE t (x); PRAGMA user_version = 1;");
    ASSERT_ERR(store_open(&(struct store_params){.path = path, .create = true}, &e) != NULL,
               ERR_FORMAT);
    assert_int_equal(fixture_number(path, "SELECT count(*) FROM sqlite_schema"), 1);
    struct err w = {0};
    assert_true(file_write_atomic(
        path, "this is no database at all, whatever its name says........", 56, 0600, &w));
    ASSERT_ERR(store_open(&(struct store_params){.path = path, .create = true}, &e) != NULL,
               ERR_FORMAT);
    snprintf(path, sizeof path, "%s/missing.db", f->folder);
    ASSERT_ERR(store_open(&(struct store_params){.path = path}, &e) != NULL, ERR_NOTFOUND);
    assert_int_equal(access(path, F_OK), -1);
}

static void test_failed_migration_leaves_the_file_as_it_was(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct buf before = {0}, after = {0};
    const int64_t v = fixture_number(f->path, "PRAGMA user_version");
    struct migration table[] = {
        {(int)v, "now", ""},
        {(int)v + 1, "good", "CREATE TABLE extra (x INTEGER) STRICT; PRAGMA user_version = 98;"},
        {(int)v + 2, "bad", "INSERT INTO nowhere VALUES (1);"},
        {0, 0, 0}};
    dump(f->path, &before);
    ASSERT_ERR(migrate(f->store, "", table, &e), ERR_INTERNAL);
    assert_non_null(strstr(e.text, "bad"));
    dump(f->path, &after);
    assert_string_equal(before.data, after.data);
    assert_int_equal(fixture_number(f->path, "PRAGMA user_version"), v);
    /* one that leaves a row pointing nowhere */
    table[2].text = "DELETE FROM users;";
    fixture_conversation(f, f->user, "x");
    ASSERT_ERR(migrate(f->store, "", table, &e), ERR_FORMAT);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM users"), 2);
    /* and the good one alone */
    table[2] = (struct migration){0};
    ASSERT_OK(migrate(f->store, "", table, &e));
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM extra"), 0);
    /* foreign keys hold again */
    int64_t id;
    ASSERT_ERR(
        store_conversation_add(
            f->store, &(struct store_conversation_new){.user_id = 999, .title = "x"}, &id, &e),
        ERR_NOTFOUND);
    fixture_number(f->path, "PRAGMA foreign_keys");
    buf_fini(&before);
    buf_fini(&after);
}

static void test_many_processes_make_one_database(void **state)
{
    struct fixture *f = *state;
    char path[400];
    for (int round = 0; round < 5; round++) {
        snprintf(path, sizeof path, "%s/race%d.db", f->folder, round);
        pid_t pids[6];
        for (int i = 0; i < 6; i++) {
            if ((pids[i] = fork()) == 0) {
                struct err e = {0};
                struct store *s =
                    store_open(&(struct store_params){.path = path, .create = true}, &e);
                struct store_first_admin a;
                bool made = false;
                if (!s || !store_first_admin(s, "admin", &a, &made, &e)) {
                    fprintf(stderr, "%s\n", e.text);
                    _exit(100);
                }
                store_close(&s);
                _exit(made ? 1 : 0);
            }
        }
        int made = 0;
        for (int i = 0; i < 6; i++) {
            int status;
            waitpid(pids[i], &status, 0);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
            made += WEXITSTATUS(status);
        }
        assert_int_equal(made, 1);
        assert_int_equal(fixture_number(path, "SELECT count(*) FROM users"), 1);
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
}

static void test_connection_does_not_cross_fork(void **state)
{
    struct fixture *f = *state;
    pid_t pid = fork();
    if (pid == 0) {
        struct err e = {0};
        int64_t id;
        bool refused =
            !store_conversation_add(
                f->store, &(struct store_conversation_new){.user_id = f->user, .title = "x"}, &id,
                &e) &&
            e.code == ERR_INTERNAL;
        store_close(&f->store); /* harmless */
        _exit(refused ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    fixture_conversation(f, f->user, "the parent goes on");
}

/* A statement that is left open is a read transaction that never ends: nobody could shrink the
 * write-ahead log. */
static void test_a_row_that_is_missing_is_an_error_and_ends_its_statement(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    sqlite3_stmt *q = statement_begin(f->store, QUERY_USER_BY_ID, &e);
    statement_bind_int(q, ":id", f->user + 1000);
    assert_false(statement_row(f->store, q, &e));
    assert_int_equal(e.code, ERR_NOTFOUND);
    assert_false(sqlite3_stmt_busy(q));
    q = statement_begin(f->store, QUERY_USER_BY_ID, &e);
    statement_bind_int(q, ":id", f->user);
    ASSERT_OK(statement_row(f->store, q, &e));
    assert_true(sqlite3_stmt_busy(q));
    statement_end(q);
    assert_false(sqlite3_stmt_busy(q));
}

/* What keeps it from being opened is told, not that there is none: whoever believes that makes a
 * new one. */
static void test_a_database_out_of_reach_is_not_called_missing(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char path[400];
    snprintf(path, sizeof path, "%s/below", f->path); /* f->path is a file */
    assert_null(store_open(&(struct store_params){.path = path}, &e));
    assert_int_not_equal(e.code, ERR_NOTFOUND);
    assert_non_null(strstr(e.text, "Not a directory"));
    const uid_t own = geteuid();
    assert_int_equal(chmod(f->folder, 0700), 0);
    if (own != 0 || seteuid(65534) != 0)
        return; /* nobody else to be */
    struct store *s = store_open(&(struct store_params){.path = f->path, .create = true}, &e);
    assert_int_equal(seteuid(own), 0);
    assert_null(s);
    assert_int_not_equal(e.code, ERR_NOTFOUND);
    assert_non_null(strstr(e.text, "Permission denied"));
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_frozen_first_version_becomes_the_schema),
        T(test_migrations_alone_make_the_schema),
        T(test_newer_and_foreign_files_are_refused),
        T(test_failed_migration_leaves_the_file_as_it_was),
        T(test_many_processes_make_one_database),
        T(test_connection_does_not_cross_fork),
        T(test_a_row_that_is_missing_is_an_error_and_ends_its_statement),
        T(test_a_database_out_of_reach_is_not_called_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
