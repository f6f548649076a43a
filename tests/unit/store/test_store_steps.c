/* How much one transaction writes, where much is written or deleted: others wait for that long. It
 * is counted in pages of the WAL, so that no clock takes part. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sql/chats/store_import.h"
#include "sql/chats/store_openai.h"
#include "sql/chats/store_shares.h"
#include "sql/chats/store_tree.h"
#include "sql/core/statement.h"
#include "tests/unit/store/store_fixture.h"

#define CHAT_MESSAGES 400 /* of the chat below: 10 MB */
#define MESSAGE_BYTES 25000
#define PAGES_AT_MOST 400 /* in one transaction: 1.6 MB. As a whole the chat is 2800 */

struct commits {
    int n, last_frames, largest;
};

static int see_commit(void *context, sqlite3 *db, const char *name, int frames)
{
    struct commits *c = context;
    (void)db, (void)name;
    const int pages = frames > c->last_frames ? frames - c->last_frames : frames;
    c->n++;
    c->last_frames = frames;
    c->largest = pages > c->largest ? pages : c->largest;
    return SQLITE_OK;
}

static void watch(struct fixture *f, struct commits *c)
{
    struct err e = {0};
    *c = (struct commits){0};
    sqlite3_wal_hook(f->store->db, see_commit, c);
    /* The first one says how many pages there were before. What is there already is not written. */
    ASSERT_OK(store_setting_set(f->store, "watched", "1", &e) &&
              store_setting_set(f->store, "watched", "2", &e));
    *c = (struct commits){.last_frames = c->last_frames};
}

static void expect_short_ones(struct fixture *f, const struct commits *c, const char *what)
{
    sqlite3_wal_hook(f->store->db, NULL, NULL);
    print_message("%s: %d transactions, %d pages at most\n", what, c->n, c->largest);
    assert_in_range(c->n, 10, 10000);
    assert_in_range(c->largest, 1, PAGES_AT_MOST);
}

static void maintain(struct fixture *f)
{
    struct err e = {0};
    for (bool more = true; more;)
        ASSERT_OK(store_clear(f->store, &more, &e));
}

/* A chat of one branch; the caller frees the messages. */
static struct store_import long_chat(const struct fixture *f, const char *key)
{
    static char text[MESSAGE_BYTES + 1];
    struct store_import_message *list = calloc(CHAT_MESSAGES, sizeof *list);
    assert_non_null(list);
    memset(text, 'x', MESSAGE_BYTES);
    memcpy(text, "the white heron", 15);
    for (int i = 0; i < CHAT_MESSAGES; i++)
        list[i] = (struct store_import_message){.parent = i - 1,
                                                .role = i % 2 ? ROLE_ASSISTANT : ROLE_USER,
                                                .status = MESSAGE_DONE,
                                                .content = text,
                                                .created_at = 1000 + i,
                                                .finished_at = 1000 + i};
    static const char *const tags[] = {"brought"};
    return (struct store_import){.user_id = f->user,
                                 .key = key,
                                 .title = "long",
                                 .settings = "{}",
                                 .tags = tags,
                                 .n_tags = 1,
                                 .created_at = 1000,
                                 .updated_at = 2000,
                                 .messages = list,
                                 .n_messages = CHAT_MESSAGES,
                                 .leaf = CHAT_MESSAGES - 2};
}

static bool see(void *context, const struct store_conversation *c)
{
    (void)c;
    ++*(int *)context;
    return true;
}

static int count(struct fixture *f, const char *text)
{
    struct err e = {0};
    int n = 0;
    ASSERT_OK(store_conversation_list(
        f->store, &(struct store_page){.user_id = f->user, .limit = 50, .text = text}, see, &n,
        &e));
    return n;
}

static int64_t import(struct fixture *f, const char *key)
{
    struct err e = {0};
    struct store_imported done;
    struct store_import c = long_chat(f, key);
    ASSERT_OK(store_import_add(f->store, &c, &done, &e));
    free((void *)c.messages);
    return done.id;
}

static void test_a_long_chat_comes_in_by_short_transactions(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct commits commits;
    struct store_conversation c;
    watch(f, &commits);
    const int64_t id = import(f, "a");
    expect_short_ones(f, &commits, "import");
    ASSERT_OK(store_conversation_get(f->store, f->arena,
                                     &(struct store_ref){.user_id = f->user, .id = id}, &c, &e));
    assert_string_equal(c.tags, "[\"brought\"]");
    assert_int_equal(c.leaf_id, fixture_number(f->path, "SELECT max(id) - 1 FROM messages"));
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM messages"), CHAT_MESSAGES);
    maintain(f);
    assert_int_equal(count(f, "white heron"), 1);
    struct store_imported again;
    struct store_import same = long_chat(f, "a");
    ASSERT_ERR(store_import_add(f->store, &same, &again, &e), ERR_CONFLICT);
    free((void *)same.messages);
    fixture_check_whole(f->path);
}

/* A process brings the chat in; it is killed when some of it is there. */
static void kill_in_mid_import(const struct fixture *f, const struct store_import *chat)
{
    const pid_t child = fork();
    if (!child) {
        struct err e = {0};
        struct store_imported done;
        setpriority(PRIO_PROCESS, 0, 19); /* not done before who watches it has its turn */
        _exit(store_import_add(fixture_open(f, false), chat, &done, &e) ? 0 : 1);
    }
    while (!fixture_number(f->path, "SELECT count(*) FROM messages"))
        if (waitpid(child, NULL, WNOHANG) != 0)
            fail_msg("it was over before anything of it was on the disk");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_true(fixture_number(f->path, "SELECT count(*) FROM messages") < CHAT_MESSAGES);
}

static void test_an_import_that_is_killed_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct store_import chat = long_chat(f, "a");
    kill_in_mid_import(f, &chat);
    free((void *)chat.messages);
    maintain(f);
    assert_int_equal(count(f, NULL), 0);
    assert_int_equal(count(f, "white heron"), 0);
    assert_true(fixture_number(f->path, "SELECT count(*) FROM messages") > 0); /* might live */
    import(f, "a"); /* what is left of the first one is not in the way */
    assert_int_equal(count(f, NULL), 1);
    fixture_number(f->path, "UPDATE conversations SET deleted_at = 1 WHERE deleted_at > 1");
    maintain(f);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM conversations"), 1);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM messages"), CHAT_MESSAGES);
    fixture_check_whole(f->path);
}

static void test_an_import_beyond_the_quota_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_imported done;
    struct store_import chat = long_chat(f, "a");
    chat.storage_bytes = 2000000;
    ASSERT_ERR(store_import_add(f->store, &chat, &done, &e), ERR_LIMIT);
    free((void *)chat.messages);
    assert_int_equal(count(f, NULL), 0);
    usleep(2000);
    maintain(f);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM conversations"), 0);
    assert_int_equal(fixture_number(f->path, "SELECT sum(bytes) FROM user_texts"), 0);
}

static void test_a_long_branch_is_cut_off_by_short_transactions(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct commits commits;
    struct store_conversation c;
    const int64_t id = import(f, "a");
    maintain(f);
    const int64_t first = fixture_number(f->path, "SELECT min(id) FROM messages");
    const unsigned char hash[SECRET_HASH_BYTES] = {1};
    const struct store_share share = {
        .user_id = f->user, .conversation_id = id, .leaf_id = first + 50, .title = "t"};
    int64_t share_id;
    ASSERT_OK(store_share_add(f->store, &share, hash, &share_id, &e));
    watch(f, &commits);
    ASSERT_OK(store_message_remove(f->store, f->user, first + 2, &e));
    expect_short_ones(f, &commits, "cut");
    ASSERT_OK(store_conversation_get(f->store, f->arena,
                                     &(struct store_ref){.user_id = f->user, .id = id}, &c, &e));
    assert_int_equal(c.leaf_id, first + 1);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM shares"), 0);
    assert_int_equal(
        fixture_number(f->path, "SELECT count(*) FROM messages m JOIN conversations c ON c.id = "
                                "m.conversation_id WHERE c.deleted_at IS NULL"),
        2);
    fixture_check_whole(f->path);
    watch(f, &commits);
    maintain(f);
    expect_short_ones(f, &commits, "clear");
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM messages"), 2);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM conversations"), 1);
    assert_int_equal(count(f, "white heron"), 1);
    fixture_check_whole(f->path);
}

static void add_openai(struct fixture *f, int64_t user)
{
    char sql[400];
    snprintf(sql, sizeof sql,
             "INSERT INTO openai_conversations (id, user_id, created_at, metadata, bytes) VALUES "
             "('conv_1', %lld, 1, '{}', 2)",
             (long long)user);
    fixture_number(f->path, sql);
    for (int i = 1; i <= CHAT_MESSAGES; i++) {
        snprintf(sql, sizeof sql,
                 "INSERT INTO openai_conversation_items VALUES ('conv_1', %d, 'i%d', '{' || "
                 "hex(zeroblob(%d)) || '}')",
                 i, i, MESSAGE_BYTES / 2);
        fixture_number(f->path, sql);
    }
}

static void test_what_programs_kept_is_deleted_by_short_transactions(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct commits commits;
    struct store_openai_conversation c;
    add_openai(f, f->user);
    watch(f, &commits);
    ASSERT_OK(store_openai_conversation_remove(f->store, f->user, "conv_1", &e));
    ASSERT_ERR(store_openai_conversation_get(f->store, f->arena,
                                             &(struct store_text_ref){f->user, "conv_1"}, &c, &e),
               ERR_NOTFOUND);
    ASSERT_ERR(store_openai_conversation_remove(f->store, f->user, "conv_1", &e), ERR_NOTFOUND);
    const struct store_openai_item item = {.id = "i", .item = "{}"};
    ASSERT_ERR(store_openai_items_add(
                   f->store,
                   &(struct store_openai_addition){
                       .user_id = f->user, .conversation_id = "conv_1", .items = &item, .n = 1},
                   &e),
               ERR_NOTFOUND);
    maintain(f);
    expect_short_ones(f, &commits, "conversation of /v1");
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM openai_conversation_items"), 0);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM openai_conversations"), 0);
    assert_int_equal(fixture_number(f->path, "SELECT bytes FROM user_texts WHERE user_id = 1"), 0);
    fixture_check_whole(f->path);
}

/* Everything that a user may have much of, when the user is removed. */
static void test_a_user_is_cleared_by_short_transactions(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct commits commits;
    import(f, "a");
    fixture_number(f->path, "UPDATE conversations SET user_id = 2");
    add_openai(f, f->other);
    char sql[400];
    for (int i = 1; i <= CHAT_MESSAGES; i++) {
        snprintf(sql, sizeof sql,
                 "INSERT INTO responses (id, user_id, created_at, expires_at, input, response) "
                 "VALUES ('resp_%d', 2, 1, %lld, '[' || hex(zeroblob(%d)) || ']', '{}')",
                 i, 1LL << 50, MESSAGE_BYTES / 2);
        fixture_number(f->path, sql);
    }
    assert_int_equal(f->other, 2);
    ASSERT_OK(store_user_remove(f->store, f->other, &e));
    watch(f, &commits);
    maintain(f);
    expect_short_ones(f, &commits, "user");
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM users"), 1);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM responses"), 0);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM openai_conversation_items"), 0);
    fixture_check_whole(f->path);
}

#define SHARED_CHATS 1300

/* Chats of others in the projects of a user who goes: at once the user is gone and nobody reaches
 * the projects, which go when the chats have left. */
static void test_chats_leave_the_projects_of_a_removed_user_by_short_transactions(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct commits commits;
    fixture_number(f->path, "INSERT INTO projects (user_id, key, name, created_at, updated_at) "
                            "VALUES (2, 'k', 'Lab', 1, 1)");
    char sql[300];
    snprintf(sql, sizeof sql,
             "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
             "INSERT INTO conversations (user_id, key, title, created_at, updated_at, project_id) "
             "SELECT 1, 'c' || i, 'Ours', i, i, 1 FROM n",
             SHARED_CHATS);
    fixture_number(f->path, sql);
    fixture_number(f->path, "INSERT INTO project_shares (project_id, user_id, editor, created_at) "
                            "VALUES (1, 1, 1, 1)");
    ASSERT_ERR(store_user_remove(f->store, f->user, &e), ERR_CONFLICT); /* the last admin */
    watch(f, &commits);
    ASSERT_OK(store_user_remove(f->store, f->other, &e));
    assert_int_equal(commits.n, 1); /* killed at any time, the user is there or gone */
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM users WHERE deleted_at IS NULL"),
                     1);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM projects"), 1);
    assert_int_equal(
        fixture_number(f->path, "SELECT count(*) FROM project_access WHERE user_id = 1"), 0);
    maintain(f);
    sqlite3_wal_hook(f->store->db, NULL, NULL);
    print_message("release: %d transactions, %d pages at most\n", commits.n, commits.largest);
    assert_int_equal(commits.n, SHARED_CHATS / 500 + 3); /* removed, released thrice, cleared */
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM users"), 1);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM projects"), 0);
    assert_int_equal(
        fixture_number(f->path, "SELECT count(*) FROM conversations WHERE project_id IS NULL"),
        SHARED_CHATS);
    fixture_check_whole(f->path);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_a_long_chat_comes_in_by_short_transactions),
        T(test_an_import_that_is_killed_leaves_nothing),
        T(test_an_import_beyond_the_quota_leaves_nothing),
        T(test_a_long_branch_is_cut_off_by_short_transactions),
        T(test_what_programs_kept_is_deleted_by_short_transactions),
        T(test_a_user_is_cleared_by_short_transactions),
        T(test_chats_leave_the_projects_of_a_removed_user_by_short_transactions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
