/* Who waits for the disk: a commit does, and nobody else. In this program every fsync and
 * fdatasync, the store's and SQLite's, asks by a second connection whether others could write just
 * then. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "tests/unit/store/attachment_fixture.h"

static struct {
    sqlite3 *other; /* NULL: nobody asks */
    int syncs, locked, moved, moved_locked;
    bool fail;
} seen;

static bool is_locked(void)
{
    if (sqlite3_exec(seen.other, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return true;
    sqlite3_exec(seen.other, "ROLLBACK", NULL, NULL, NULL);
    return false;
}

static int sync_seen(long call, int fd)
{
    if (seen.other) {
        seen.syncs++;
        seen.locked += is_locked();
        if (seen.fail)
            return -1;
    }
    return (int)syscall(call, fd);
}

int fsync(int fd)
{
    return sync_seen(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return sync_seen(SYS_fdatasync, fd);
}

static void see_begin(const struct fixture *f)
{
    memset(&seen, 0, sizeof seen);
    assert_int_equal(sqlite3_open_v2(f->path, &seen.other, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_db_config(seen.other, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
}

static void see_end(void)
{
    sqlite3_close(seen.other);
    seen.other = NULL;
}

static void test_others_write_while_a_commit_waits_for_the_disk(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    see_begin(f);
    ASSERT_OK(store_setting_set(f->store, "some", "1", &e));
    assert_true(seen.syncs >= 1);
    assert_int_equal(seen.locked, 0);
    see_end();
}

static void test_a_commit_that_does_not_reach_the_disk_is_told(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    see_begin(f);
    seen.fail = true;
    ASSERT_ERR(store_setting_set(f->store, "some", "1", &e), ERR_IO);
    const struct store_usage u = {.user_id = f->user, .requests = 1};
    e = (struct err){0};
    seen.syncs = 0;
    ASSERT_OK(store_usage_add(f->store, &u, &e)); /* which is not worth the waiting */
    assert_int_equal(seen.syncs, 0);
    see_end();
}

static void test_others_write_while_a_file_reaches_the_disk(void **state)
{
    struct fixture *f = *state;
    see_begin(f);
    const int64_t id = attachment_add(f, f->user, "a.txt", "some text");
    assert_true(seen.syncs >= 3); /* the file, its folder, the commit */
    assert_int_equal(seen.locked, 0);
    see_end();
    struct err e = {0};
    ASSERT_OK(store_attachment_remove(f->store, f->user, id, &e));
}

typedef ssize_t pwrite_fn(int fd, const void *data, size_t len, off_t at);
static pwrite_fn *real_pwrite;

static ssize_t pwrite_seen(int fd, const void *data, size_t len, off_t at)
{
    if (seen.other) {
        seen.moved++;
        seen.moved_locked += is_locked();
    }
    return real_pwrite(fd, data, len, at);
}

/* 8 MB in the WAL: all but the last of it goes into the database while others write. */
static void test_others_write_while_a_long_wal_is_emptied(void **state)
{
    static const char *const calls[] = {"pwrite", "pwrite64"};
    struct fixture *f = *state;
    struct err e = {0};
    struct store_wal w;
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    static char text[100000];
    memset(text, 'x', sizeof text - 1);
    const int64_t id = fixture_conversation(f, f->user, "long");
    for (int i = 0; i < 80; i++)
        fixture_finish(f, fixture_post(f, f->user, id, 0, text).message_id, "yes");
    struct store *recorder = fixture_open(f, true);
    for (int i = 0; i < 2; i++) {
        pwrite_fn *real = (pwrite_fn *)vfs->xGetSystemCall(vfs, calls[i]);
        if (real) {
            real_pwrite = real;
            vfs->xSetSystemCall(vfs, calls[i], (sqlite3_syscall_ptr)pwrite_seen);
        }
    }
    see_begin(f);
    ASSERT_OK(store_checkpoint(recorder, true, &w, &e));
    assert_false(w.busy);
    print_message("%d writes, %d of them while others could not\n", seen.moved, seen.moved_locked);
    assert_true(seen.moved > 1000);
    assert_true(seen.moved_locked < 20);
    see_end();
    for (int i = 0; i < 2; i++)
        vfs->xSetSystemCall(vfs, calls[i], NULL);
    store_close(&recorder);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM messages"), 160);
}

static char warned[1000];

static void see_line(enum log_level level, const char *module, const char *text, size_t len)
{
    if (level == LOG_WARN && !strcmp(module, "database"))
        snprintf(warned, sizeof warned, "%.*s", (int)len, text);
}

static void test_a_write_that_kept_others_waiting_is_told(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    log_set_sink(see_line);
    ASSERT_OK(store_setting_set(f->store, "some", "1", &e));
    assert_string_equal(warned, "");
    ASSERT_OK(store_record_begin(f->store, false, &e));
    usleep(260 * 1000);
    ASSERT_OK(store_record_end(f->store, &e));
    log_set_sink(NULL);
    assert_non_null(strstr(warned, "a write held the database for "));
    assert_non_null(strstr(warned, "commit took "));
}

#define T(test) cmocka_unit_test_setup_teardown(test, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_others_write_while_a_commit_waits_for_the_disk),
        T(test_a_commit_that_does_not_reach_the_disk_is_told),
        T(test_others_write_while_a_file_reaches_the_disk),
        T(test_others_write_while_a_long_wal_is_emptied),
        T(test_a_write_that_kept_others_waiting_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
