/* store_fixture.h: a folder of its own with a real database in it, for the tests of sql/. */
#include "tests/unit/store/store_fixture.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <ftw.h>

const char fixture_hash[] = "$argon2id$v=19$m=65536,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$"
                            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

struct store *fixture_open(const struct fixture *f, bool checkpointer)
{
    struct err e = {0};
    struct store *s = store_open(
        &(struct store_params){.path = f->path, .create = true, .checkpointer = checkpointer}, &e);
    if (!s)
        fail_msg("%s", e.text);
    return s;
}

int fixture_up(void **state)
{
    struct err e = {0};
    struct fixture *f = calloc(1, sizeof *f);
    snprintf(f->folder, sizeof f->folder, "%s/sluice-store-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(f->folder))
        return -1;
    snprintf(f->path, sizeof f->path, "%s/sluice.db", f->folder);
    *state = f;
    f->arena = arena_create(0);
    f->store = fixture_open(f, false);
    ASSERT_OK(store_user_add(
        f->store, &(struct store_user){.name = "ada", .password_hash = fixture_hash, .admin = true},
        &f->user, &e));
    ASSERT_OK(store_user_add(f->store,
                             &(struct store_user){.name = "bob", .password_hash = fixture_hash},
                             &f->other, &e));
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *w)
{
    return remove(path);
}

int fixture_down(void **state)
{
    struct fixture *f = *state;
    store_close(&f->store);
    arena_destroy(&f->arena);
    nftw(f->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(f);
    return 0;
}

int64_t fixture_conversation(struct fixture *f, int64_t user, const char *title)
{
    struct err e = {0};
    int64_t id = 0;
    ASSERT_OK(store_conversation_add(
        f->store, &(struct store_conversation_new){.user_id = user, .title = title}, &id, &e));
    return id;
}

struct store_posted fixture_post(struct fixture *f, int64_t user, int64_t conversation,
                                 int64_t parent, const char *content)
{
    static int n;
    char key[48];
    struct err e = {0};
    struct store_posted out;
    snprintf(key, sizeof key, "test-%d-%d", (int)getpid(), n++);
    ASSERT_OK(store_message_post(f->store,
                                 &(struct store_post){.user_id = user,
                                                      .conversation_id = conversation,
                                                      .parent_id = parent,
                                                      .content = content,
                                                      .title = "titled",
                                                      .model = "demo",
                                                      .job_key = key,
                                                      .parser = "{\"format\":\"plain\"}"},
                                 &out, &e));
    return out;
}

void fixture_finish(struct fixture *f, int64_t message, const char *content)
{
    struct err e = {0};
    bool gone;
    ASSERT_OK(store_record_begin(f->store, true, &e));
    ASSERT_OK(store_record_write(f->store,
                                 &(struct store_answer){.id = message,
                                                        .status = MESSAGE_DONE,
                                                        .content = content,
                                                        .content_len = strlen(content),
                                                        .has_usage = true,
                                                        .prompt_tokens = 7,
                                                        .completion_tokens = 3},
                                 &gone, &e));
    ASSERT_OK(store_record_end(f->store, &e));
    assert_false(gone);
}

static int step(const char *path, const char *sql, int64_t *v, char *why, size_t size)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *q = NULL;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    /* Not this connection: the single checkpointer is another's business. */
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
    int rc = sqlite3_step(q);
    if (rc == SQLITE_ROW)
        *v = sqlite3_column_int64(q, 0);
    snprintf(why, size, "%s", sqlite3_errmsg(db));
    sqlite3_finalize(q);
    sqlite3_close(db);
    return rc;
}

int64_t fixture_number(const char *path, const char *sql)
{
    char why[256];
    int64_t v = INT64_MIN;
    const int rc = step(path, sql, &v, why, sizeof why);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        fail_msg("%s: %s", sql, why);
    return v;
}

void fixture_refused(const char *path, const char *sql)
{
    char why[256];
    int64_t v;
    const int rc = step(path, sql, &v, why, sizeof why);
    if (rc != SQLITE_CONSTRAINT)
        fail_msg("%s: was not refused (%s)", sql, why);
}

void fixture_check_whole(const char *path)
{
    assert_int_equal(fixture_number(path, "SELECT count(*) FROM pragma_quick_check "
                                          "WHERE quick_check <> 'ok'"),
                     0);
    assert_int_equal(fixture_number(path, "SELECT count(*) FROM pragma_integrity_check "
                                          "WHERE integrity_check <> 'ok'"),
                     0);
    assert_int_equal(fixture_number(path, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
    /* Every message hangs on a root of its own conversation; every leaf is one of its messages. */
    assert_int_equal(
        fixture_number(
            path, "WITH RECURSIVE t (id) AS (SELECT id FROM messages WHERE parent_id IS NULL "
                  "UNION ALL SELECT m.id FROM t JOIN messages p ON p.id = t.id JOIN messages m "
                  "ON m.parent_id = t.id AND m.conversation_id = p.conversation_id) "
                  "SELECT (SELECT count(*) FROM messages) - (SELECT count(*) FROM t)"),
        0);
    assert_int_equal(
        fixture_number(path, "SELECT count(*) FROM conversations c WHERE leaf_id IS NOT NULL "
                             "AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = c.leaf_id "
                             "AND m.conversation_id = c.id)"),
        0);
    /* An answer follows a user's message; nothing is half of a post. Of what is deleted any part
     * may be gone already. */
    assert_int_equal(
        fixture_number(path,
                       "SELECT count(*) FROM messages a WHERE role = 'assistant' AND NOT EXISTS "
                       "(SELECT 1 FROM messages u WHERE u.id = a.parent_id AND u.conversation_id = "
                       "a.conversation_id "
                       "AND u.role = 'user') AND conversation_id IN "
                       "(SELECT id FROM conversations WHERE deleted_at IS NULL)"),
        0);
    assert_int_equal(
        fixture_number(path, "SELECT count(*) FROM messages u WHERE role = 'user' AND NOT EXISTS "
                             "(SELECT 1 FROM messages a WHERE a.parent_id = u.id AND "
                             "a.conversation_id = u.conversation_id "
                             "AND a.role = 'assistant') AND conversation_id IN "
                             "(SELECT id FROM conversations WHERE deleted_at IS NULL)"),
        0);
}
