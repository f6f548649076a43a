/* Processes that write at the same time and are killed at any moment: what was acknowledged is
 * there, every tree is whole. An acknowledgement is a byte in a pipe, written after the store's
 * function has returned. */
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "tests/unit/store/store_fixture.h"

#define WRITERS 4
#define ROUNDS_MOST 1000 /* of kills, where little is written between two of them */

struct acknowledged { /* below PIPE_BUF: written in one piece */
    int64_t conversation, user_message, answer;
};

/* Posts into conversations of its own and finishes the answers, until it is killed. */
static void hammer(const struct fixture *f, int64_t user, unsigned seed, int out)
{
    struct err e = {0};
    struct store *s = fixture_open(f, false);
    int64_t conversation = 0, parent = 0;
    for (unsigned i = 0;; i++) {
        char key[48], text[3000];
        struct store_posted p;
        if (i % 20 == 0) {
            parent = 0;
            if (!store_conversation_add(
                    s, &(struct store_conversation_new){.user_id = user, .title = "x"},
                    &conversation, &e))
                _exit(10);
        }
        snprintf(key, sizeof key, "%d-%u-%u", (int)getpid(), seed, i);
        memset(text, 'a' + (int)(i % 26), sizeof text);
        text[1 + rand_r(&seed) % (sizeof text - 1)] = 0;
        text[sizeof text - 1] = 0;
        if (!store_message_post(s,
                                &(struct store_post){.user_id = user,
                                                     .conversation_id = conversation,
                                                     .parent_id = parent,
                                                     .content = text,
                                                     .job_key = key},
                                &p, &e))
            _exit(11);
        struct acknowledged a = {conversation, p.user_message_id, p.message_id};
        if (write(out, &a, sizeof a) != sizeof a)
            _exit(12);
        const struct store_answer row = {.id = p.message_id,
                                         .status = MESSAGE_DONE,
                                         .content = text,
                                         .content_len = strlen(text),
                                         .has_usage = true,
                                         .count_for = user};
        if (!store_record_begin(s, false, &e) || !store_record_write(s, &row, NULL, &e) ||
            !store_record_end(s, &e))
            _exit(13);
        parent = p.message_id;
        if (i % 60 == 59)
            store_conversation_remove(s, user, conversation, &e);
    }
}

/* The single checkpointer, which clears away too. */
static void check_in(const struct fixture *f)
{
    struct err e = {0};
    struct store *s = fixture_open(f, true);
    for (int i = 0;; i++) {
        struct store_wal w;
        bool more;
        if (!store_checkpoint(s, i % 10 == 0, &w, &e) || !store_clear(s, &more, &e))
            _exit(14);
        usleep(3000);
    }
}

/* The worst wait for the lock while three others write without a pause. */
static void test_no_writer_starves(void **state)
{
    struct fixture *f = *state;
    store_close(&f->store);
    pid_t pids[3];
    for (int i = 0; i < 3; i++)
        if ((pids[i] = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            struct err e = {0};
            struct store *s = fixture_open(f, false);
            for (int64_t id; store_conversation_add(
                     s, &(struct store_conversation_new){.user_id = f->other, .title = "x"}, &id,
                     &e);)
                ;
            _exit(1);
        }
    f->store = fixture_open(f, false);
    double worst = 0, whole = clock_ms();
    for (int i = 0; i < 40; i++) {
        double begun = clock_ms();
        fixture_conversation(f, f->user, "mine");
        worst = clock_ms() - begun > worst ? clock_ms() - begun : worst;
        usleep(20000);
    }
    for (int i = 0; i < 3; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    whole = clock_ms() - whole;
    if (worst > 4000 && worst > whole / 4) /* a slow machine makes each of them slow */
        fail_msg("waited %.0f of %.0f ms", worst, whole);
}

static pid_t start(const struct fixture *f, int64_t user, int number, int out)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (number < WRITERS)
        hammer(f, user, (unsigned)number + (unsigned)getpid(), out);
    check_in(f);
    _exit(0);
}

static void note_acknowledged(int in, struct acknowledged **list, size_t *n)
{
    struct acknowledged a;
    while (read(in, &a, sizeof a) == sizeof a) {
        *list = realloc(*list, (*n + 1) * sizeof a);
        (*list)[(*n)++] = a;
    }
}

/* Runs a query with :conversation, :user and :answer for each; its number must be `want`. One
 * connection for all: there are thousands. */
static void check_each(const struct fixture *f, const char *sql, const struct acknowledged *list,
                       size_t n, int64_t want)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *q = NULL;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
    for (size_t i = 0; i < n; i++) {
        sqlite3_bind_int64(q, sqlite3_bind_parameter_index(q, ":conversation"),
                           list[i].conversation);
        sqlite3_bind_int64(q, sqlite3_bind_parameter_index(q, ":user"), list[i].user_message);
        sqlite3_bind_int64(q, sqlite3_bind_parameter_index(q, ":answer"), list[i].answer);
        assert_int_equal(sqlite3_step(q), SQLITE_ROW);
        if (sqlite3_column_int64(q, 0) != want)
            fail_msg("message %lld: %lld, want %lld", (long long)list[i].user_message,
                     (long long)sqlite3_column_int64(q, 0), (long long)want);
        sqlite3_reset(q);
    }
    sqlite3_finalize(q);
    sqlite3_close(db);
}

static void test_killed_writers_lose_nothing_acknowledged(void **state)
{
    struct fixture *f = *state;
    struct acknowledged *list = NULL;
    size_t n = 0;
    int fds[2];
    assert_int_equal(pipe2(fds, 0), 0);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    store_close(&f->store); /* must not cross the forks */
    pid_t pids[WRITERS + 1];
    for (int i = 0; i <= WRITERS; i++)
        pids[i] = start(f, i % 2 ? f->user : f->other, i, fds[1]);
    srand(7);
    for (int round = 0; round < 40 || (n <= 100 && round < ROUNDS_MOST); round++) {
        usleep((unsigned)(rand() % 40000));
        int victim = rand() % (WRITERS + 1), status;
        kill(pids[victim], SIGKILL);
        waitpid(pids[victim], &status, 0);
        if (WIFEXITED(status))
            fail_msg("a writer gave up with status %d", WEXITSTATUS(status));
        pids[victim] = start(f, victim % 2 ? f->user : f->other, victim, fds[1]);
        note_acknowledged(fds[0], &list, &n);
        if (round % 10 == 9)
            fixture_check_whole(f->path); /* while the others go on */
    }
    for (int i = 0; i <= WRITERS; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    close(fds[1]);
    note_acknowledged(fds[0], &list, &n);
    close(fds[0]);
    fixture_check_whole(f->path);
    assert_true(n > 100);
    /* Both rows are there and belong together, as long as their conversation lives. Clearing a
     * deleted one takes its messages away one after another, and a kill may stop it anywhere. */
    check_each(f,
               "SELECT EXISTS (SELECT 1 FROM messages WHERE id = :answer AND parent_id = :user AND "
               "                                            conversation_id = :conversation) OR "
               "       NOT EXISTS (SELECT 1 FROM conversations WHERE id = :conversation AND "
               "                                                     deleted_at IS NULL)",
               list, n, 1);
    free(list);
    f->store = fixture_open(f, false);
}

/* No deletions here: every single acknowledged message must be there with its text. */
static void test_every_acknowledged_message_is_there(void **state)
{
    struct fixture *f = *state;
    int fds[2], status;
    struct acknowledged *list = NULL;
    size_t n = 0;
    store_close(&f->store);
    for (int round = 0; round < 15 || (n <= 50 && round < ROUNDS_MOST); round++) {
        assert_int_equal(pipe2(fds, 0), 0);
        pid_t pid = fork();
        if (pid == 0) {
            struct err e = {0};
            struct store *s = fixture_open(f, false);
            int64_t c, parent = 0;
            store_conversation_add(
                s, &(struct store_conversation_new){.user_id = f->user, .title = "x"}, &c, &e);
            for (int i = 0;; i++) {
                char key[48];
                struct store_posted p;
                snprintf(key, sizeof key, "%d-%d", (int)getpid(), i);
                if (!store_message_post(s,
                                        &(struct store_post){.user_id = f->user,
                                                             .conversation_id = c,
                                                             .parent_id = parent,
                                                             .content = "kept",
                                                             .job_key = key},
                                        &p, &e))
                    _exit(11);
                struct acknowledged a = {c, p.user_message_id, p.message_id};
                if (write(fds[1], &a, sizeof a) != sizeof a)
                    _exit(12);
                parent = 0;
            }
        }
        close(fds[1]);
        usleep(5000 + (unsigned)(rand() % 30000));
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        note_acknowledged(fds[0], &list, &n);
        close(fds[0]);
    }
    assert_true(n > 50);
    check_each(
        f, "SELECT count(*) FROM messages WHERE id = :user AND content = 'kept' AND :answer > 0",
        list, n, 1);
    fixture_check_whole(f->path);
    free(list);
    f->store = fixture_open(f, false);
}

/* Files that may not grow stand for a full disk. */
static void test_full_disk_refuses_and_recovers(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t c = fixture_conversation(f, f->user, "x"),
            before = fixture_number(f->path, "SELECT count(*) FROM messages");
    int status;
    store_close(&f->store);
    pid_t pid = fork();
    if (pid == 0) {
        int64_t id;
        struct store *s = fixture_open(f, false);
        char *text = calloc(1, 1 << 20);
        memset(text, 'x', (1 << 20) - 1);
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 18, RLIM_INFINITY});
        struct store_posted p;
        const struct store_post big = {
            .user_id = f->user, .conversation_id = c, .content = text, .job_key = "big"};
        bool refused = !store_message_post(s, &big, &p, &e) && e.code == ERR_IO;
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
        /* the same connection goes on */
        bool goes_on =
            store_conversation_add(
                s, &(struct store_conversation_new){.user_id = f->user, .title = "after"}, &id,
                &e) &&
            store_message_post(s, &big, &p, &e);
        _exit(refused ? goes_on ? 0 : 2 : 1);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM messages"), before + 2);
    fixture_check_whole(f->path);
    f->store = fixture_open(f, false);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_killed_writers_lose_nothing_acknowledged),
        T(test_every_acknowledged_message_is_there),
        T(test_no_writer_starves),
        T(test_full_disk_refuses_and_recovers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
