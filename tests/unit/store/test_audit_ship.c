/* The audit log as JSON lines: each row once in the files, whenever the process dies and whenever
 * they are rotated; and what a user's bound keeps out is told of. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "fcgi/process/shared.h"
#include "fcgi/recorder/audit_ship.h"
#include "fcgi/recorder/audit_suppressed.h"
#include "tests/unit/store/store_fixture.h"

static void add_rows(struct fixture *f, int n)
{
    struct err e = {0};
    for (int i = 0; i < n; i++)
        ASSERT_OK(store_audit_add(f->store,
                                  &(struct store_audit){.user_id = f->user,
                                                        .user = "ada \"\n\xc3\xa9",
                                                        .action = "key.add",
                                                        .target = "key:1",
                                                        .address = "127.0.0.1"},
                                  &e));
}

/* A new process: all that it knows is in the database and the folder. */
static void ship(struct fixture *f, const char *path)
{
    struct audit_ship a;
    audit_ship_init(&a, f->store, path);
    audit_ship_run(&a, 0);
    assert_false(a.failing);
}

/* The files hold the ids from 1 to `last` in order, each once. */
static void assert_whole(const char *const *paths, int n, int64_t last)
{
    int64_t next = 1;
    for (int i = 0; i < n; i++) {
        struct buf b = {0};
        struct err e = {0};
        ASSERT_OK(file_read(paths[i], 1 << 20, &b, &e));
        for (char *line = b.data; line && *line;) {
            char *end = strchr(line, '\n'), want[64];
            assert_non_null(end);
            snprintf(want, sizeof want, "{\"id\":\"%lld\",\"at\":", (long long)next);
            if (strncmp(line, want, strlen(want)) != 0)
                fail_msg("expected %s, found %.60s", want, line);
            assert_int_equal(end[-1], '}');
            next++;
            line = end + 1;
        }
        buf_fini(&b);
    }
    assert_int_equal(next, last + 1);
}

static char *setting(struct fixture *f)
{
    struct err e = {0};
    const char *json;
    ASSERT_OK(store_setting_get(f->store, f->arena, STORE_AUDIT_CURSOR_SETTING, &json, &e));
    return arena_strdup(f->arena, json);
}

static void test_a_kill_between_file_and_cursor_loses_and_doubles_nothing(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char now[400], moved[410], pressed[410];
    snprintf(now, sizeof now, "%s/audit.jsonl", f->folder);
    snprintf(moved, sizeof moved, "%s.1", now);
    snprintf(pressed, sizeof pressed, "%s.2", now);
    add_rows(f, 3);
    ship(f, now);
    assert_whole((const char *[]){now}, 1, 3);
    const char *before = setting(f);
    add_rows(f, 2);
    ship(f, now);
    ASSERT_OK(store_setting_set(f->store, STORE_AUDIT_CURSOR_SETTING, before, &e)); /* killed */
    int fd = open(now, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "{\"id\":\"6\",\"a", 13), 13); /* in the middle of a line */
    close(fd);
    add_rows(f, 1);
    ship(f, now);
    assert_whole((const char *[]){now}, 1, 6);
    before = setting(f);
    add_rows(f, 2);
    ship(f, now);
    ASSERT_OK(store_setting_set(f->store, STORE_AUDIT_CURSOR_SETTING, before, &e));
    assert_int_equal(rename(now, moved), 0); /* killed, and rotated before the next one begins */
    add_rows(f, 1);
    ship(f, now);
    assert_whole((const char *[]){moved, now}, 2, 9);
    assert_int_equal(rename(moved, pressed), 0);
    assert_int_equal(rename(now, moved), 0);
    add_rows(f, 300); /* more than a batch */
    struct audit_ship a;
    audit_ship_init(&a, f->store, now);
    for (int i = 0; i < 3; i++)
        audit_ship_run(&a, a.next);
    assert_whole((const char *[]){pressed, moved, now}, 3, 309);
}

static void test_the_first_batch_of_a_new_file_is_found_as_well(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char now[400], moved[410], cursor[128];
    struct stat st;
    snprintf(now, sizeof now, "%s/audit.jsonl", f->folder);
    snprintf(moved, sizeof moved, "%s.1", now);
    add_rows(f, 2);
    ship(f, now);
    assert_int_equal(rename(now, moved), 0);
    add_rows(f, 2);
    ship(f, now);
    /* what was noted before the first line of the new file was written */
    assert_int_equal(stat(now, &st), 0);
    snprintf(cursor, sizeof cursor, "\"2 %llu %llu 0\"", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    ASSERT_OK(store_setting_set(f->store, STORE_AUDIT_CURSOR_SETTING, cursor, &e));
    add_rows(f, 1);
    ship(f, now);
    assert_whole((const char *[]){moved, now}, 2, 5);
}

static void test_what_cannot_be_written_is_tried_again(void **state)
{
    struct fixture *f = *state;
    struct audit_ship a;
    char path[400];
    snprintf(path, sizeof path, "%s/there/audit.jsonl", f->folder);
    add_rows(f, 2);
    audit_ship_init(&a, f->store, path);
    audit_ship_run(&a, 0);
    assert_true(a.failing);
    *strrchr(path, '/') = '\0';
    assert_int_equal(mkdir(path, 0700), 0);
    path[strlen(path)] = '/';
    audit_ship_run(&a, a.next);
    assert_false(a.failing);
    assert_whole((const char *[]){path}, 1, 2);
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
}

static void test_a_user_has_a_bound_and_the_rest_is_told(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char path[400];
    snprintf(path, sizeof path, "%s/workers", f->folder);
    struct shared *s = shared_open(path, &e);
    assert_non_null(s);
    const int64_t at = 1000000000;
    int taken = 0;
    for (int i = 0; i < 5000; i++)
        taken += shared_audit_take(s, f->other, at + i);
    assert_int_equal(taken, SHARED_AUDIT_ROWS);
    assert_true(shared_audit_take(s, f->user, at)); /* another's minute is their own */
    audit_suppressed_tell(f->store, s, at + 6000);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM audit"), 0); /* not yet */
    audit_suppressed_tell(f->store, s, at + 61000);
    audit_suppressed_tell(f->store, s, at + 200000);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM audit"), 1);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM audit WHERE user_name = 'bob' "
                                             "AND action = 'audit.suppressed' AND "
                                             "target = '4940 more'"),
                     1);
    assert_true(shared_audit_take(s, f->other, at + 61000));
    shared_close(&s);
    unlink(path);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_a_kill_between_file_and_cursor_loses_and_doubles_nothing),
        T(test_the_first_batch_of_a_new_file_is_found_as_well),
        T(test_what_cannot_be_written_is_tried_again),
        T(test_a_user_has_a_bound_and_the_rest_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
