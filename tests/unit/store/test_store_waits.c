/* How long others wait: a second connection asks for the write lock all the time, while long texts
 * are written, copied, indexed and deleted. */
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "sql/chats/store_tree.h"
#include "tests/unit/store/attachment_fixture.h"
#include "tests/unit/support/sanitized.h"

#define LETTERS (SANITIZED ? 200000 : 400000) /* of three bytes, in one text */
#define FEWER 200000                          /* where no time is taken */
#define STEP_MS 3 /* the recorder's pause between two steps, see db_maintenance.c */
/* Indexed in one transaction, the same length took 1.5 to 3 s on two busy cores, and others waited
 * for all of it. A slow machine makes each step longer, yet none of them half of the whole.
 */
#define LONGEST_WAIT_MS 1000.0
#define LONGEST_SHARE 0.5
#define MERGE_STATE                                                                                \
    "SELECT coalesce((SELECT value FROM settings WHERE name = 'search_merge_parts'), 0)"

struct probe {
    const char *path;
    pthread_t thread;
    _Atomic bool stop;
    double begun, longest_ms;
};

static void *ask_for_the_lock(void *context)
{
    struct probe *p = context;
    sqlite3 *db = NULL;
    double since = clock_ms();
    sqlite3_open_v2(p->path, &db, SQLITE_OPEN_READWRITE, NULL);
    while (!p->stop) {
        if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK) {
            const double waited = clock_ms() - since;
            p->longest_ms = waited > p->longest_ms ? waited : p->longest_ms;
            sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
            usleep(2000);
            since = clock_ms();
        } else {
            usleep(500);
        }
    }
    const double waited = clock_ms() - since;
    p->longest_ms = waited > p->longest_ms ? waited : p->longest_ms;
    sqlite3_close(db);
    return NULL;
}

static void probe_begin(struct probe *p, const struct fixture *f)
{
    *p = (struct probe){.path = f->path, .begun = clock_ms()};
    assert_int_equal(pthread_create(&p->thread, NULL, ask_for_the_lock, p), 0);
}

static void probe_end(struct probe *p, const char *what)
{
    p->stop = true;
    pthread_join(p->thread, NULL);
    const double whole = clock_ms() - p->begun;
    print_message("%s: others waited for %.0f of %.0f ms at most\n", what, p->longest_ms, whole);
    if (p->longest_ms > LONGEST_WAIT_MS && p->longest_ms > LONGEST_SHARE * whole)
        fail_msg("%s: others waited for %.0f of %.0f ms", what, p->longest_ms, whole);
}

/* Chinese letters in no order, so that nearly each three of them are new to the index; `words` in
 * the middle. */
static char *long_text(int letters, const char *words)
{
    char *text = malloc((size_t)letters * 3 + strlen(words) + 1), *p = text;
    uint32_t seed = 1;
    assert_non_null(text);
    for (int i = 0; i < letters; i++) {
        if (i == letters / 2)
            p = stpcpy(p, words);
        seed = seed * 1664525u + 1013904223u;
        const uint32_t letter = 0x4e00 + (seed >> 16) % 20000;
        *p++ = (char)(0xe0 | letter >> 12);
        *p++ = (char)(0x80 | (letter >> 6 & 63));
        *p++ = (char)(0x80 | (letter & 63));
    }
    *p = 0;
    return text;
}

static bool see(void *context, const struct store_conversation *c)
{
    (void)c;
    ++*(int *)context;
    return true;
}

/* How many conversations are found. */
static int count(struct fixture *f, int64_t user, const char *text, bool *indexing)
{
    struct err e = {0};
    int n = 0;
    ASSERT_OK(store_conversation_list(
        f->store,
        &(struct store_page){.user_id = user, .limit = 50, .text = text, .indexing = indexing}, see,
        &n, &e));
    return n;
}

static void maintain(struct fixture *f)
{
    struct err e = {0};
    for (bool more = true; more; usleep(STEP_MS * 1000))
        ASSERT_OK(store_clear(f->store, &more, &e));
}

static void check_indexes(struct fixture *f)
{
    static const char *const names[] = {"message_search", "attachment_search", "part_search"};
    char sql[200];
    for (int i = 0; i < 3; i++) {
        snprintf(sql, sizeof sql, "INSERT INTO %s (%s) VALUES ('integrity-check')", names[i],
                 names[i]);
        fixture_number(f->path, sql);
    }
    fixture_number(f->path,
                   "INSERT INTO part_search (part_search, rank) VALUES ('integrity-check', 1)");
    fixture_check_whole(f->path);
}

static void test_a_long_chat_is_copied_indexed_and_deleted_while_others_write(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct probe p;
    bool indexing;
    int64_t fork_id;
    char *text = long_text(LETTERS, " the Quick brown fox ");
    const int64_t id = fixture_conversation(f, f->user, "long");
    probe_begin(&p, f);
    struct store_posted post = fixture_post(f, f->user, id, 0, text);
    fixture_finish(f, post.message_id, "a short answer");
    const struct store_fork fork = {
        .user_id = f->user, .conversation_id = id, .message_id = post.message_id};
    ASSERT_OK(store_conversation_fork(f->store, &fork, &fork_id, &e));
    probe_end(&p, "post and fork");
    count(f, f->user, "fox", &indexing);
    assert_true(indexing);
    count(f, f->other, "fox", &indexing);
    assert_false(indexing);
    probe_begin(&p, f);
    maintain(f);
    probe_end(&p, "index");
    assert_int_equal(count(f, f->user, "quick BROWN fox", &indexing), 2);
    assert_false(indexing);
    assert_int_equal(count(f, f->user, "quick red fox", NULL), 0);
    assert_int_equal(count(f, f->other, "quick brown fox", NULL), 0);
    check_indexes(f);
    ASSERT_OK(store_conversation_remove(f->store, f->user, id, &e));
    assert_int_equal(count(f, f->user, "quick brown fox", NULL), 1);
    ASSERT_OK(store_conversation_remove(f->store, f->user, fork_id, &e));
    probe_begin(&p, f);
    maintain(f);
    probe_end(&p, "delete");
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM messages"), 0);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM search_parts"), 0);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM part_search_idx"), 0);
    check_indexes(f);
    free(text);
}

static void test_a_long_file_is_indexed_and_deleted_while_others_write(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct probe p;
    char *text = long_text(LETTERS, " a needle ");
    probe_begin(&p, f);
    const int64_t loose = attachment_add(f, f->user, "loose.txt", text),
                  sent = attachment_add(f, f->user, "Report.txt", text);
    attachment_post(f, fixture_conversation(f, f->user, "files"), &sent, 1);
    maintain(f);
    probe_end(&p, "upload and index");
    assert_int_equal(count(f, f->user, "A NEEDLE", NULL), 1);
    assert_int_equal(count(f, f->user, "report.TXT", NULL), 1);
    check_indexes(f);
    probe_begin(&p, f);
    ASSERT_OK(store_attachment_remove(f->store, f->user, loose, &e));
    probe_end(&p, "delete");
    assert_int_equal(count(f, f->user, "a needle", NULL), 1);
    fixture_number(f->path, "UPDATE conversations SET deleted_at = 1, leaf_id = NULL");
    maintain(f);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM attachments"), 0);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM search_parts"), 0);
    check_indexes(f);
    free(text);
}

/* Megabytes of the same letters take a few pages of the index: to write it anew took seconds in one
 * transaction, after each removal. */
static void test_an_index_of_few_pages_and_much_text_is_not_written_anew(void **state)
{
    enum { MUCH = 3 << 20 };
    struct fixture *f = *state;
    struct err e = {0};
    bool more = true;
    char *same = malloc(MUCH + 1), *other = long_text(FEWER / 10, " zqxjkv ");
    assert_non_null(same);
    for (int i = 0; i < MUCH; i++)
        same[i] = "the same "[i % 9];
    same[MUCH] = 0;
    fixture_post(f, f->user, fixture_conversation(f, f->user, "kept"), 0, same);
    const int64_t gone = fixture_conversation(f, f->user, "gone");
    fixture_finish(f, fixture_post(f, f->user, gone, 0, other).message_id, "yes");
    maintain(f);
    assert_true(fixture_number(f->path, "SELECT count(*) FROM part_search_data") < 250);
    ASSERT_OK(store_conversation_remove(f->store, f->user, gone, &e));
    usleep(2000);
    while (more && fixture_number(f->path, MERGE_STATE) != 2)
        ASSERT_OK(store_clear(f->store, &more, &e));
    while (more && fixture_number(f->path, MERGE_STATE) == 2)
        ASSERT_OK(store_clear(f->store, &more, &e));
    assert_int_equal(fixture_number(f->path, MERGE_STATE), 1);
    maintain(f);
    assert_int_equal(fixture_number(f->path, MERGE_STATE), 0);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM part_search_data "
                                             "WHERE instr(block, CAST('qxj' AS BLOB)) > 0"),
                     0);
    assert_int_equal(count(f, f->user, "same the same", NULL), 1);
    check_indexes(f);
    free(same);
    free(other);
}

/* What stands across the border of two parts is whole in one of them. */
static void test_a_text_is_found_wherever_it_stands_in_a_long_one(void **state)
{
    struct fixture *f = *state;
    char *text = long_text(FEWER, ""), needle[1000];
    const int64_t id = fixture_conversation(f, f->user, "long");
    fixture_finish(f, fixture_post(f, f->user, id, 0, text).message_id, "yes");
    maintain(f);
    for (size_t border = 16384; border < 60000; border += 16384)
        for (int before = 0; before < 333; before += 83) {
            memcpy(needle, text + (border - (size_t)before) * 3, 999);
            needle[999] = 0;
            assert_int_equal(count(f, f->user, needle, NULL), 1);
        }
    memcpy(needle, text + (size_t)(FEWER - 100) * 3, 301);
    assert_int_equal(count(f, f->user, needle, NULL), 1);
    free(text);
}

/* A file whose removal was interrupted is put into a message after all. */
static void test_a_file_that_was_half_taken_away_is_indexed_again(void **state)
{
    struct fixture *f = *state;
    char *text = long_text(FEWER, " a needle ");
    const int64_t id = attachment_add(f, f->user, "kept.txt", text);
    maintain(f);
    fixture_number(f->path, "UPDATE attachments SET loose_at = 1");
    struct err e = {0};
    bool more;
    for (int i = 0; i < 5; i++) {
        ASSERT_OK(store_clear(f->store, &more, &e));
        assert_true(more);
    }
    attachment_post(f, fixture_conversation(f, f->user, "files"), &id, 1);
    maintain(f);
    assert_int_equal(count(f, f->user, "a needle", NULL), 1);
    check_indexes(f);
    free(text);
}

#define CHAT_MESSAGES 200
#define COPIED                                                                                     \
    "SELECT count(*) FROM messages m JOIN conversations c ON c.id = m.conversation_id WHERE "      \
    "c.fork_of IS NOT NULL"

/* A process copies the chat; it is killed when some of the copy is there. */
static void kill_in_mid_fork(const struct fixture *f, const struct store_fork *fork_of)
{
    const pid_t child = fork();
    if (!child) {
        struct err e = {0};
        int64_t id;
        setpriority(PRIO_PROCESS, 0, 19); /* not done before who watches it has its turn */
        struct store *s = fixture_open(f, false);
        _exit(store_conversation_fork(s, fork_of, &id, &e) ? 0 : 1);
    }
    int64_t copied;
    while (!(copied = fixture_number(f->path, COPIED)))
        if (waitpid(child, NULL, WNOHANG) != 0)
            fail_msg("it was over before anything of it was on the disk");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    copied = fixture_number(f->path, COPIED);
    if (copied >= CHAT_MESSAGES)
        fail_msg("the copy was whole when it was killed");
}

static void test_a_fork_that_is_killed_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    static char text[50001];
    struct store_posted p = {0};
    memset(text, 'x', sizeof text - 1);
    memcpy(text, "the white heron", 15);
    const int64_t id = fixture_conversation(f, f->user, "long");
    for (int i = 0; i < CHAT_MESSAGES / 2; i++) {
        p = fixture_post(f, f->user, id, p.message_id, text);
        fixture_finish(f, p.message_id, text);
    }
    const int64_t bytes = fixture_number(f->path, "SELECT sum(bytes) FROM user_texts");
    const struct store_fork fork_of = {
        .user_id = f->user, .conversation_id = id, .message_id = p.message_id};
    kill_in_mid_fork(f, &fork_of);
    maintain(f);
    assert_true(fixture_number(f->path, COPIED) > 0); /* its maker might live */
    assert_int_equal(count(f, f->user, NULL, NULL), 1);
    assert_int_equal(count(f, f->user, "white heron", NULL), 1);
    fixture_number(f->path, "UPDATE conversations SET deleted_at = 1 WHERE fork_of IS NOT NULL");
    maintain(f);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM conversations"), 1);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM messages"), CHAT_MESSAGES);
    assert_int_equal(fixture_number(f->path, "SELECT sum(bytes) FROM user_texts"), bytes);
    check_indexes(f);
    struct err e = {0};
    int64_t fork_id;
    ASSERT_OK(store_conversation_fork(f->store, &fork_of, &fork_id, &e));
    assert_int_equal(fixture_number(f->path, COPIED), CHAT_MESSAGES);
    assert_int_equal(count(f, f->user, NULL, NULL), 2);
    fixture_check_whole(f->path);
}

/* More than the user may keep: what was copied until then goes. */
static void test_a_fork_beyond_the_quota_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t fork_id;
    static char text[400001];
    memset(text, 'x', sizeof text - 1);
    const int64_t id = fixture_conversation(f, f->user, "long");
    struct store_posted p = fixture_post(f, f->user, id, 0, text);
    fixture_finish(f, p.message_id, text);
    ASSERT_ERR(store_conversation_fork(f->store,
                                       &(struct store_fork){.user_id = f->user,
                                                            .conversation_id = id,
                                                            .message_id = p.message_id,
                                                            .storage_bytes = 1400000},
                                       &fork_id, &e),
               ERR_LIMIT);
    assert_int_equal(count(f, f->user, NULL, NULL), 1);
    usleep(2000);
    maintain(f);
    assert_int_equal(fixture_number(f->path, COPIED), 0);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM conversations"), 1);
    fixture_check_whole(f->path);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_a_long_chat_is_copied_indexed_and_deleted_while_others_write),
        T(test_a_long_file_is_indexed_and_deleted_while_others_write),
        T(test_an_index_of_few_pages_and_much_text_is_not_written_anew),
        T(test_a_text_is_found_wherever_it_stands_in_a_long_one),
        T(test_a_file_that_was_half_taken_away_is_indexed_again),
        T(test_a_fork_that_is_killed_leaves_nothing),
        T(test_a_fork_beyond_the_quota_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
