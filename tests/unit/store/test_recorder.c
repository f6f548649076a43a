/* The recorder against an engine whose text is known: whatever is killed, rows end up with exactly
 * that text. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/engine.h"
#include "engine/wire/status.h"
#include "fcgi/process/state.h"
#include "fcgi/recorder/recorder.h"
#include "tests/unit/store/fake_engine.h"
#include "tests/unit/store/store_fixture.h"
#include "tests/unit/support/patience.h"

static char socket_path[300];
static pid_t engine;

static int up(void **state)
{
    if (fixture_up(state))
        return -1;
    struct fixture *f = *state;
    snprintf(socket_path, sizeof socket_path, "%s/engine.sock", f->folder);
    engine = fake_engine_start(socket_path);
    return 0;
}

static int down(void **state)
{
    if (engine)
        fake_engine_kill(engine);
    engine = 0;
    return fixture_down(state);
}

/* Told to end before it began: the recorder takes the signal over when it starts. */
static void end_at_once(int signal_number)
{
    (void)signal_number;
    _exit(0);
}

static off_t file_size(const struct fixture *f, const char *suffix)
{
    char path[320];
    struct stat st;
    snprintf(path, sizeof path, "%s%s", f->path, suffix);
    return stat(path, &st) ? 0 : st.st_size;
}

/* A forked child must not inherit an open SQLite connection: it would believe in the parent's
 * locks. */
static pid_t start_recorder(struct fixture *f, rlim_t file_limit)
{
    store_close(&f->store);
    void (*before)(int) = signal(SIGTERM, end_at_once);
    pid_t pid = fork();
    if (pid)
        signal(SIGTERM, before);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        log_set_level(LOG_ERROR);
        if (file_limit) {
            if (!freopen("/dev/null", "w", stderr)) /* it complains, as it should */
                _exit(1);
            raise(SIGSTOP); /* until the parent has made the -shm file again: it would not fit */
            signal(SIGXFSZ, SIG_IGN);
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){file_limit, RLIM_INFINITY});
        }
        char status[4096];
        snprintf(status, sizeof status, "%s/%s", f->folder, STATE_STATUS);
        _exit(recorder_run(&(struct recorder_params){.db_path = f->path,
                                                     .engine_socket = socket_path,
                                                     .status_path = status,
                                                     .run_dir = f->folder}));
    }
    f->store = fixture_open(f, false);
    if (file_limit && waitpid(pid, NULL, WUNTRACED) == pid)
        kill(pid, SIGCONT);
    return pid;
}

static void stop_recorder(pid_t pid, int signal_number)
{
    int status;
    kill(pid, signal_number);
    waitpid(pid, &status, 0);
    if (signal_number == SIGTERM)
        assert_int_equal(status, 0);
}

static int64_t ask(struct fixture *f, int tokens, int ms, char end)
{
    static int n;
    struct err e = {0};
    struct store_posted out;
    char key[48], name[16];
    snprintf(name, sizeof name, "j%d", n++);
    fake_engine_key(key, name, tokens, ms, end);
    int64_t c = fixture_conversation(f, f->user, "x");
    ASSERT_OK(store_message_post(f->store,
                                 &(struct store_post){.user_id = f->user,
                                                      .conversation_id = c,
                                                      .content = "q",
                                                      .model = "fake",
                                                      .job_key = key},
                                 &out, &e));
    recorder_notify(f->folder, out.message_id);
    return out.message_id;
}

static struct store_message row_of(struct fixture *f, int64_t id)
{
    struct err e = {0};
    struct store_message m;
    arena_reset(f->arena);
    ASSERT_OK(store_message_get(f->store, f->arena,
                                &(struct store_ref){.user_id = f->user, .id = id}, &m, &e));
    return m;
}

static struct store_message wait_end(struct fixture *f, int64_t id)
{
    for (double until = clock_ms() + PATIENCE_MS;; usleep(5000)) {
        struct store_message m = row_of(f, id);
        if (m.status != MESSAGE_RUNNING)
            return m;
        if (clock_ms() > until)
            fail_msg("message %lld still runs, with %zu bytes", (long long)id, strlen(m.content));
    }
}

/* The row once it has more than so many bytes of the answer, or has ended. */
static struct store_message wait_bytes(struct fixture *f, int64_t id, size_t bytes)
{
    for (double until = clock_ms() + PATIENCE_MS;; usleep(5000)) {
        struct store_message m = row_of(f, id);
        if (strlen(m.content) > bytes || m.status != MESSAGE_RUNNING)
            return m;
        assert_true(clock_ms() < until);
    }
}

static void test_answer_grows_and_ends_with_usage(void **state)
{
    struct fixture *f = *state;
    char want[4096];
    pid_t pid = start_recorder(f, 0);
    usleep(200 * 1000);
    int64_t id = ask(f, 100, 12, 's');
    int n = 1;
    for (; wait_bytes(f, id, 50).status != MESSAGE_RUNNING && n < 6; n++) /* it was too fast */
        id = ask(f, 100, 12 << n, 's');
    assert_int_equal(row_of(f, id).status, MESSAGE_RUNNING);
    struct store_message m = wait_end(f, id);
    fake_engine_text(want, sizeof want, 100);
    assert_string_equal(m.content, want);
    assert_int_equal(m.status, MESSAGE_DONE);
    assert_int_equal(m.prompt_tokens, 10);
    assert_int_equal(m.cached_tokens, 4);
    assert_int_equal(m.completion_tokens, 100);
    assert_non_null(strstr(m.timings, "\"ttft_ms\":3"));
    assert_true(m.finished_at >= m.created_at + 1000);
    assert_int_equal(fixture_number(f->path, "SELECT requests FROM usage"), n);
    assert_int_equal(fixture_number(f->path, "SELECT completion_tokens FROM usage"), n * 100);
    stop_recorder(pid, SIGTERM);
}

static void test_end_is_written_at_once(void **state)
{
    struct fixture *f = *state;
    pid_t pid = start_recorder(f, 0);
    usleep(200 * 1000);
    int quick = 0;
    for (double until = clock_ms() + PATIENCE_MS; quick < 4 && clock_ms() < until;) {
        double begun = clock_ms();
        wait_end(f, ask(f, 3, 1, 's'));
        quick += clock_ms() - begun < 240;
    }
    assert_int_equal(quick, 4); /* a busy machine waits for tick and table, yet not always */
    stop_recorder(pid, SIGTERM);
}

static void test_each_end_has_its_status(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    pid_t pid = start_recorder(f, 0);
    int64_t length = ask(f, 5, 1, 'l'), failed = ask(f, 5, 1, 'f'), stopped = ask(f, 1000, 60, 's');
    assert_int_equal(wait_end(f, length).status, MESSAGE_LENGTH);
    struct store_message m = wait_end(f, failed);
    assert_int_equal(m.status, MESSAGE_ERROR);
    assert_string_equal(m.error, "the device is lost");
    assert_true(strlen(m.content) > 0);
    wait_bytes(f, stopped, 0);
    ASSERT_OK(engine_cancel_key(socket_path, row_of(f, stopped).job_key, &e));
    m = wait_end(f, stopped);
    assert_int_equal(m.status, MESSAGE_STOPPED);
    assert_true(strlen(m.content) > 0);
    stop_recorder(pid, SIGTERM);
}

static void test_killed_recorder_loses_and_doubles_nothing(void **state)
{
    struct fixture *f = *state;
    enum { N = 24 };
    int64_t ids[N];
    char want[1 << 16];
    srand(1);
    pid_t pid = start_recorder(f, 0);
    for (int i = 0; i < N; i++)
        ids[i] = ask(f, 50 + 25 * i, 5, 's');
    for (int round = 0; round < 20; round++) {
        usleep((unsigned)(rand() % 150) * 1000);
        stop_recorder(pid, SIGKILL);
        fixture_check_whole(f->path);
        pid = start_recorder(f, 0);
    }
    for (int i = 0; i < N; i++) {
        struct store_message m = wait_end(f, ids[i]);
        fake_engine_text(want, sizeof want, 50 + 25 * i);
        assert_int_equal(m.status, MESSAGE_DONE);
        assert_string_equal(m.content, want);
    }
    assert_int_equal(fixture_number(f->path, "SELECT requests FROM usage"), N);
    stop_recorder(pid, SIGTERM);
    fixture_check_whole(f->path);
}

static void test_row_never_shrinks_during_a_replay(void **state)
{
    struct fixture *f = *state;
    pid_t pid = start_recorder(f, 0);
    int64_t id = ask(f, 300, 8, 's');
    size_t seen = 0;
    for (int round = 0; round < 4; round++) {
        wait_bytes(f, id, seen);
        stop_recorder(pid, SIGKILL);
        pid = start_recorder(f, 0);
        for (int i = 0; i < 20; i++, usleep(5000)) {
            size_t n = strlen(row_of(f, id).content);
            assert_true(n >= seen);
            seen = n;
        }
    }
    assert_true(seen > 0);
    stop_recorder(pid, SIGTERM);
}

static void test_dead_engine_leaves_what_was_written(void **state)
{
    struct fixture *f = *state;
    pid_t pid = start_recorder(f, 0);
    int64_t id = ask(f, 1000, 5, 's');
    wait_bytes(f, id, 100);
    fake_engine_kill(engine);
    engine = 0;
    struct store_message m = wait_end(f, id);
    assert_int_equal(m.status, MESSAGE_ERROR);
    assert_true(strlen(m.content) > 100);
    assert_non_null(strstr(m.error, "engine"));
    assert_false(m.has_usage);
    stop_recorder(pid, SIGTERM);
}

static void test_connections_that_break_for_ever_end_the_answer(void **state)
{
    struct fixture *f = *state;
    char want[4096];
    pid_t pid = start_recorder(f, 0);
    int64_t id = ask(f, 20, 1, 'b');
    struct store_message m = wait_end(f, id);
    fake_engine_text(want, sizeof want, 20);
    assert_int_equal(m.status, MESSAGE_ERROR);
    assert_string_equal(m.content, want);
    assert_non_null(strstr(m.error, "keeps breaking"));
    stop_recorder(pid, SIGTERM);
}

static void test_engine_started_anew_does_not_know_the_job(void **state)
{
    struct fixture *f = *state;
    char sql[100];
    int64_t id =
        ask(f, 1000, 5, 'x'); /* never submitted: its worker died between commit and submission */
    pid_t pid = start_recorder(f, 0);
    usleep(500 * 1000);
    assert_int_equal(row_of(f, id).status, MESSAGE_RUNNING); /* it may still come */
    stop_recorder(pid, SIGTERM);
    snprintf(
        sql, sizeof sql,
        "UPDATE messages SET content = 'kept', created_at = created_at - 60000 WHERE id = %lld",
        (long long)id);
    fixture_number(f->path, sql);
    pid = start_recorder(f, 0);
    struct store_message m = wait_end(f, id);
    assert_int_equal(m.status, MESSAGE_ERROR);
    assert_string_equal(m.content, "kept");
    assert_non_null(m.error);
    stop_recorder(pid, SIGTERM);
}

static void test_younger_engine_needs_no_waiting(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char path[320], sql[100];
    int64_t id = ask(f, 1000, 5, 'x');
    snprintf(sql, sizeof sql, "UPDATE messages SET created_at = created_at - 3000 WHERE id = %lld",
             (long long)id);
    fixture_number(f->path, sql);
    snprintf(path, sizeof path, "%s/status", f->folder);
    struct status_writer *w = status_create(path, &e);
    assert_non_null(w);
    status_begin(w)->started = (double)clock_wall_ms() / 1000;
    status_end(w);
    pid_t pid = start_recorder(f, 0);
    struct store_message m = wait_end(f, id);
    assert_int_equal(m.status, MESSAGE_ERROR);
    assert_non_null(strstr(m.error, "engine restarted"));
    assert_string_equal(m.error_detail, "{\"code\":\"engine_restarted\",\"params\":{}}");
    stop_recorder(pid, SIGTERM);
    status_close(&w);
}

static void test_deleted_conversation_stops_and_clears(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    pid_t pid = start_recorder(f, 0);
    int64_t id = ask(f, 10000, 5, 's');
    int64_t c = row_of(f, id).conversation_id;
    usleep(400 * 1000);
    ASSERT_OK(store_conversation_remove(f->store, f->user, c, &e));
    recorder_notify(f->folder, id);
    for (double until = clock_ms() + PATIENCE_MS;
         fixture_number(f->path, "SELECT count(*) FROM conversations"); usleep(20000))
        assert_true(clock_ms() < until);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM messages"), 0);
    stop_recorder(pid, SIGTERM);
}

static void test_second_recorder_waits_for_the_first(void **state)
{
    struct fixture *f = *state;
    pid_t first = start_recorder(f, 0);
    usleep(300 * 1000);
    pid_t second = start_recorder(f, 0);
    int64_t id = ask(f, 20, 5, 's');
    wait_end(f, id);
    stop_recorder(first, SIGKILL);
    usleep(500 * 1000);
    id = ask(f, 20, 5, 's');
    wait_end(f, id);
    assert_int_equal(fixture_number(f->path, "SELECT requests FROM usage"), 2);
    stop_recorder(second, SIGTERM);
}

static void test_wal_stays_small_while_the_recorder_lives(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char *text = calloc(1, 100001);
    memset(text, 'x', 100000);
    pid_t pid = start_recorder(f, 0);
    int64_t c = fixture_conversation(f, f->user, "x");
    off_t largest = 0;
    for (int i = 0; i < 300; i++) { /* 30 MB through the WAL */
        char key[48];
        struct store_posted out;
        fake_engine_key(key, "w", 1, 0, 's');
        snprintf(key + strlen(key), sizeof key - strlen(key), ".%d", i);
        ASSERT_OK(store_message_post(
            f->store,
            &(struct store_post){
                .user_id = f->user, .conversation_id = c, .content = text, .job_key = key},
            &out, &e));
        const bool lags = largest > 12 << 20 && file_size(f, "-wal") > largest;
        usleep(lags ? 1000 * 1000 : 15 * 1000); /* who lacks the processor has a second more */
        largest = file_size(f, "-wal") > largest ? file_size(f, "-wal") : largest;
    }
    assert_in_range(largest, 1, 24 << 20);
    stop_recorder(pid, SIGTERM);
    assert_int_equal(file_size(f, "-wal"), 0); /* checked in at the end */
    free(text);
    fixture_check_whole(f->path);
}

static void test_full_disk_is_waited_out(void **state)
{
    struct fixture *f = *state;
    char want[1 << 16];
    int64_t id = ask(f, 400, 3, 's');
    pid_t pid = start_recorder(f, 4096); /* not even one page of the WAL can be written */
    usleep(2500 * 1000);
    struct store_message m = row_of(f, id);
    assert_int_equal(m.status, MESSAGE_RUNNING);
    assert_string_equal(m.content, "");
    fixture_check_whole(f->path);
    assert_int_equal(
        prlimit(pid, RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}, NULL), 0);
    m = wait_end(f, id);
    fake_engine_text(want, sizeof want, 400);
    assert_string_equal(m.content, want);
    stop_recorder(pid, SIGTERM);
    fixture_check_whole(f->path);
}

static void test_hung_engine_holds_up_nothing_else(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char want[4096], sql[100];
    pid_t pid = start_recorder(f, 0);
    usleep(200 * 1000);
    kill(engine, SIGSTOP);
    int64_t id = ask(f, 20, 5, 's'), other = fixture_conversation(f, f->user, "gone");
    usleep(300 * 1000); /* it is asked by now */
    ASSERT_OK(store_conversation_remove(f->store, f->user, other, &e));
    recorder_notify(f->folder, other);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM conversations WHERE id = %lld",
             (long long)other);
    for (double until = clock_ms() + PATIENCE_MS; fixture_number(f->path, sql); usleep(10000))
        assert_true(clock_ms() < until);
    assert_int_equal(row_of(f, id).status, MESSAGE_RUNNING);
    kill(engine, SIGCONT);
    struct store_message m = wait_end(f, id);
    fake_engine_text(want, sizeof want, 20);
    assert_int_equal(m.status, MESSAGE_DONE);
    assert_string_equal(m.content, want);
    stop_recorder(pid, SIGTERM);
}

static void wait_rows(struct fixture *f, int64_t want)
{
    for (double until = clock_ms() + PATIENCE_MS;
         fixture_number(f->path, "SELECT count(*) FROM audit") != want; usleep(10000))
        assert_true(clock_ms() < until);
}

/* 1200 rows of two years ago, 10 of a hundred days ago, one of now. */
static void test_recorder_removes_old_rows_of_the_audit_log(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    fixture_number(f->path,
                   "WITH RECURSIVE k (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < "
                   "1211) INSERT INTO audit (at, user_id, user_name, action, target, address) "
                   "SELECT (strftime('%s', 'now') - 86400 * CASE WHEN i <= 1200 THEN 730 "
                   "WHEN i <= 1210 THEN 100 ELSE 0 END) * 1000, 1, 'ada', 'login', '', '' FROM k");
    ASSERT_OK(store_setting_set(f->store, "audit_days", "0", &e));
    pid_t pid = start_recorder(f, 0);
    usleep(500 * 1000);
    stop_recorder(pid, SIGTERM);
    wait_rows(f, 1211); /* kept for ever */
    int ended;
    ASSERT_OK(store_settings_change(f->store, &(struct store_setting){.name = "audit_days"}, 1,
                                    &ended, &e));
    pid = start_recorder(f, 0);
    wait_rows(f, 11); /* the default */
    stop_recorder(pid, SIGTERM);
    ASSERT_OK(store_setting_set(f->store, "audit_days", "50", &e));
    pid = start_recorder(f, 0);
    wait_rows(f, 1);
    stop_recorder(pid, SIGTERM);
    fixture_check_whole(f->path);
}

#define T(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_answer_grows_and_ends_with_usage),
        T(test_end_is_written_at_once),
        T(test_each_end_has_its_status),
        T(test_killed_recorder_loses_and_doubles_nothing),
        T(test_row_never_shrinks_during_a_replay),
        T(test_dead_engine_leaves_what_was_written),
        T(test_connections_that_break_for_ever_end_the_answer),
        T(test_engine_started_anew_does_not_know_the_job),
        T(test_younger_engine_needs_no_waiting),
        T(test_deleted_conversation_stops_and_clears),
        T(test_second_recorder_waits_for_the_first),
        T(test_wal_stays_small_while_the_recorder_lives),
        T(test_full_disk_is_waited_out),
        T(test_hung_engine_holds_up_nothing_else),
        T(test_recorder_removes_old_rows_of_the_audit_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
