/* Attachments: rows and files come together, go together, and belong to one user. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "sql/chats/store_import.h"
#include "sql/chats/store_tree.h"
#include "sql/files/store_attachments.h"
#include "sql/users/store_limits.h"
#include "tests/unit/store/attachment_fixture.h"

static void test_a_file_lies_under_its_hash(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char path[STORE_PATH_SIZE];
    struct stat st;
    struct buf b = {0};
    int64_t id = attachment_add(f, f->user, "a.txt", "abc"), bytes = 0;
    struct store_attachment a = attachment_get(f, f->user, id);
    assert_string_equal(a.sha256,
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(a.bytes, 3);
    assert_int_equal(a.tokens, 3);
    assert_false(a.sent);
    ASSERT_OK(store_attachment_path(f->store, a.sha256, path, &e));
    ASSERT_OK(file_read(path, 100, &b, &e));
    assert_string_equal(b.data, "abc");
    buf_fini(&b);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    *strrchr(path, '/') = '\0';
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    ASSERT_OK(store_used_bytes(f->store, f->user, &bytes, &e));
    assert_int_equal(bytes, 3);
}

static void test_another_users_hands_reach_nothing(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_attachment a;
    int64_t id = attachment_add(f, f->user, "a.txt", "mine");
    ASSERT_ERR(store_attachment_get(f->store, f->arena,
                                    &(struct store_ref){.user_id = f->other, .id = id}, &a, &e),
               ERR_NOTFOUND);
    ASSERT_ERR(store_attachment_remove(f->store, f->other, id, &e), ERR_NOTFOUND);
    ASSERT_ERR(store_attachment_text(f->store, &(struct store_ref){.user_id = f->other, .id = id},
                                     NULL, NULL, &e),
               ERR_NOTFOUND);
    int64_t c = fixture_conversation(f, f->other, NULL);
    struct store_posted p;
    ASSERT_ERR(store_message_post(f->store,
                                  &(struct store_post){.user_id = f->other,
                                                       .conversation_id = c,
                                                       .content = "x",
                                                       .job_key = "k",
                                                       .attachments = &id,
                                                       .n_attachments = 1},
                                  &p, &e),
               ERR_INPUT);
    assert_string_equal(e.field, "attachments");
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM messages"), 0);
    assert_int_equal(attachment_get(f, f->user, id).bytes, 4);
}

static bool see_text(void *context, const char *name, const char *text)
{
    struct buf *b = context;
    return buf_printf(b, "%s=%s;", name, text ? text : "-");
}

static bool see_message(void *context, const struct store_message *m)
{
    struct buf *b = context;
    return buf_printf(b, "%s\n", m->attachments);
}

static void test_a_message_has_its_files_in_order(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct buf texts = {0}, rows = {0};
    int64_t c = fixture_conversation(f, f->user, NULL);
    int64_t one = attachment_add(f, f->user, "one", "1"),
            two = attachment_add(f, f->user, "two", "2");
    const int64_t ids[] = {two, one}, twice[] = {one, one};
    int64_t message = attachment_post(f, c, ids, 2);
    ASSERT_OK(store_attachment_texts(
        f->store, &(struct store_ref){.user_id = f->user, .id = message}, see_text, &texts, &e));
    assert_string_equal(texts.data, "two=2;one=1;");
    buf_clear(&texts);
    ASSERT_OK(store_attachment_texts(
        f->store, &(struct store_ref){.user_id = f->other, .id = message}, see_text, &texts, &e));
    assert_int_equal(texts.len, 0);
    ASSERT_OK(store_message_list(
        f->store,
        &(struct store_message_range){.user_id = f->user, .conversation_id = c, .limit = 1},
        see_message, &rows, &e));
    assert_non_null(
        strstr(rows.data, "[{\"id\":\"2\",\"name\":\"two\",\"type\":\"text/plain\",\"bytes\":1,"));
    assert_true(strstr(rows.data, "\"two\"") < strstr(rows.data, "\"one\""));
    assert_true(attachment_get(f, f->user, one).sent);
    ASSERT_ERR(store_attachment_remove(f->store, f->user, one, &e), ERR_CONFLICT);
    struct store_posted p;
    ASSERT_ERR(store_message_post(f->store,
                                  &(struct store_post){.user_id = f->user,
                                                       .conversation_id = c,
                                                       .content = "x",
                                                       .job_key = "k",
                                                       .attachments = twice,
                                                       .n_attachments = 2},
                                  &p, &e),
               ERR_INPUT);
    buf_fini(&texts);
    buf_fini(&rows);
}

static void test_a_file_goes_with_its_last_row(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t mine = attachment_add(f, f->user, "a", "the same"),
            theirs = attachment_add(f, f->other, "b", "the same");
    char sha256[DIGEST_TEXT_SIZE];
    snprintf(sha256, sizeof sha256, "%s", attachment_get(f, f->user, mine).sha256);
    assert_string_equal(sha256, attachment_get(f, f->other, theirs).sha256);
    ASSERT_OK(store_attachment_remove(f->store, f->user, mine, &e));
    assert_true(attachment_has_file(f, sha256));
    ASSERT_OK(store_attachment_remove(f->store, f->other, theirs, &e));
    assert_false(attachment_has_file(f, sha256));
    ASSERT_ERR(store_attachment_remove(f->store, f->other, theirs, &e), ERR_NOTFOUND);
}

static void test_a_deleted_conversation_takes_along_what_no_other_has(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t c = fixture_conversation(f, f->user, NULL), fork;
    int64_t first = attachment_add(f, f->user, "first", "in both"),
            second = attachment_add(f, f->user, "second", "in one");
    char both[DIGEST_TEXT_SIZE], one[DIGEST_TEXT_SIZE];
    snprintf(both, sizeof both, "%s", attachment_get(f, f->user, first).sha256);
    snprintf(one, sizeof one, "%s", attachment_get(f, f->user, second).sha256);
    int64_t m = attachment_post(f, c, &first, 1);
    ASSERT_OK(store_conversation_fork(
        f->store, &(struct store_fork){.user_id = f->user, .conversation_id = c, .message_id = m},
        &fork, &e));
    attachment_post(f, c, &second, 1);
    ASSERT_OK(store_conversation_remove(f->store, f->user, c, &e));
    attachment_clear(f);
    assert_true(attachment_has_file(f, both));
    assert_false(attachment_has_file(f, one));
    struct store_attachment a;
    ASSERT_ERR(store_attachment_get(f->store, f->arena,
                                    &(struct store_ref){.user_id = f->user, .id = second}, &a, &e),
               ERR_NOTFOUND);
    assert_true(attachment_get(f, f->user, first).sent);
    ASSERT_OK(store_conversation_remove(f->store, f->user, fork, &e));
    attachment_clear(f);
    assert_false(attachment_has_file(f, both));
}

static void test_what_was_never_sent_goes_after_a_day(void **state)
{
    struct fixture *f = *state;
    int64_t fresh = attachment_add(f, f->user, "fresh", "fresh"),
            old = attachment_add(f, f->user, "old", "old");
    char sha256[DIGEST_TEXT_SIZE];
    snprintf(sha256, sizeof sha256, "%s", attachment_get(f, f->user, old).sha256);
    fixture_number(
        f->path,
        "UPDATE attachments SET loose_at = loose_at - 24 * 3600000 - 1000 WHERE name = 'old'");
    attachment_clear(f);
    assert_int_equal(attachment_get(f, f->user, fresh).bytes, 5);
    assert_false(attachment_has_file(f, sha256));
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM attachments"), 1);
}

static void test_a_removed_user_leaves_no_file(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char sha256[DIGEST_TEXT_SIZE];
    snprintf(sha256, sizeof sha256, "%s",
             attachment_get(f, f->other, attachment_add(f, f->other, "x", "of bob")).sha256);
    ASSERT_OK(store_user_remove(f->store, f->other, &e));
    attachment_clear(f);
    assert_false(attachment_has_file(f, sha256));
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM users"), 1);
}

/* As after a kill between the file and its row, and in the middle of an upload. */
static void test_the_sweep_finds_what_has_no_row(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char kept[DIGEST_TEXT_SIZE], lost[STORE_PATH_SIZE];
    struct store_upload u;
    snprintf(kept, sizeof kept, "%s",
             attachment_get(f, f->user, attachment_add(f, f->user, "x", "kept")).sha256);
    ASSERT_OK(store_attachment_path(
        f->store, "00000000000000000000000000000000000000000000000000000000000000aa", lost, &e));
    *strrchr(lost, '/') = '\0';
    ASSERT_OK(file_mkdirs(lost, 0700, &e));
    ASSERT_OK(store_attachment_path(
        f->store, "00000000000000000000000000000000000000000000000000000000000000aa", lost, &e));
    ASSERT_OK(file_write_atomic(lost, "x", 1, 0600, &e));
    ASSERT_OK(store_upload_begin(f->store, &u, &e));
    char half[STORE_PATH_SIZE];
    snprintf(half, sizeof half, "%s", u.path);
    for (int i = 0; i < STORE_FILE_FOLDERS; i++)
        ASSERT_OK(store_attachment_sweep(f->store, i, &e));
    assert_int_equal(access(lost, F_OK), -1);
    assert_int_equal(access(half, F_OK), 0);
    const struct timeval old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimes(half, old), 0);
    for (int i = 0; i < STORE_FILE_FOLDERS; i++)
        ASSERT_OK(store_attachment_sweep(f->store, i, &e));
    assert_int_equal(access(half, F_OK), -1);
    assert_true(attachment_has_file(f, kept));
    store_upload_drop(&u);
}

static void test_a_full_disk_is_told_from_a_broken_one(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_upload u;
    ASSERT_OK(store_upload_begin(f->store, &u, &e));
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(full >= 0 && dup3(full, u.fd, O_CLOEXEC) == u.fd);
    close(full);
    ASSERT_ERR(store_upload_write(&u, "x", 1, &e), ERR_FULL);
    store_upload_drop(&u);
}

static void test_a_row_that_cannot_be_leaves_no_file(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_upload u;
    int64_t id;
    ASSERT_OK(store_upload_begin(f->store, &u, &e));
    ASSERT_OK(store_upload_write(&u, "abc", 3, &e));
    const struct store_attachment a = {
        .user_id = 999, .name = "n", .type = "text/plain", .tokens = -1};
    ASSERT_ERR(store_attachment_add(f->store, &u, &a, &id, &e), ERR_NOTFOUND);
    assert_false(
        attachment_has_file(f, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
    ASSERT_OK(store_upload_begin(f->store, &u, &e));
    const struct store_attachment nameless = {
        .user_id = f->user, .name = "", .type = "text/plain", .tokens = -1};
    ASSERT_ERR(store_attachment_add(f->store, &u, &nameless, &id, &e), ERR_INPUT);
}

struct hit {
    int n;
    int64_t conversation, message, file;
    char name[64], text[64];
};

static bool see_hit(void *context, const struct store_conversation *c)
{
    struct hit *h = context;
    h->n++;
    h->conversation = c->id;
    h->message = c->match_id;
    h->file = c->match_file;
    snprintf(h->name, sizeof h->name, "%s", c->match_file ? c->match_file_name : "");
    snprintf(h->text, sizeof h->text, "%.*s", (int)c->match_bytes,
             c->match_text ? c->match_text + c->match_at : "");
    return true;
}

static struct hit find(struct fixture *f, int64_t user, const char *text)
{
    struct err e = {0};
    struct hit h = {0};
    ASSERT_OK(store_conversation_list(
        f->store, &(struct store_page){.user_id = user, .limit = 50, .text = text}, see_hit, &h,
        &e));
    return h;
}

static void test_files_are_found_by_name_and_text_while_a_message_has_them(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t conversation = fixture_conversation(f, f->user, "t"), fork;
    int64_t ids[] = {attachment_add(f, f->user, "Mietvertrag.pdf", "Die KÜNDIGUNGSFRIST"),
                     attachment_add(f, f->user, "zwei.txt", "Ωx")};
    attachment_add(f, f->other, "Mietvertrag.pdf", "Die Kündigungsfrist");
    assert_int_equal(find(f, f->user, "mietvertrag").n, 0); /* in no message yet */
    int64_t message = attachment_post(f, conversation, ids, 2);
    const char *const asked[] = {"mietVERTRAG", "kündigungsfrist", "ωx", ".pdf", "gu"};
    const char *const told[] = {"Mietvertrag", "KÜNDIGUNGSFRIST", "Ωx", ".pdf", "GU"};
    for (int i = 0; i < 5; i++) {
        struct hit h = find(f, f->user, asked[i]);
        assert_int_equal(h.n, 1);
        assert_int_equal(h.message, message);
        assert_int_equal(h.file, ids[i == 2]);
        assert_string_equal(h.name, i == 2 ? "zwei.txt" : "Mietvertrag.pdf");
        assert_string_equal(h.text, told[i]);
        assert_int_equal(find(f, f->other, asked[i]).n, 0);
    }
    assert_int_equal(find(f, f->user, "seen").file, 0); /* a message with it comes first */
    ASSERT_OK(store_conversation_fork(f->store,
                                      &(struct store_fork){.user_id = f->user,
                                                           .conversation_id = conversation,
                                                           .message_id = message},
                                      &fork, &e));
    struct hit both = find(f, f->user, "kündigung");
    assert_int_equal(both.n, 2);
    assert_true(both.conversation == conversation ? both.message == message
                                                  : both.message > message);
    ASSERT_OK(store_conversation_remove(f->store, f->user, fork, &e));
    ASSERT_OK(store_conversation_remove(f->store, f->user, conversation, &e));
    attachment_clear(f);
    assert_int_equal(find(f, f->user, "kündigung").n, 0);
    fixture_number(
        f->path,
        "INSERT INTO attachment_search (attachment_search, rank) VALUES ('integrity-check', 1)");
    ASSERT_ERR(store_attachment_remove(f->store, f->user, 3, &e),
               ERR_NOTFOUND); /* another user's: it stays in the index */
    ASSERT_OK(store_attachment_remove(f->store, f->other, 3, &e));
    attachment_clear(f);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM attachment_search_idx"), 0);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM attachment_search_data"),
                     2); /* FTS5's own */
}

static void test_an_import_gives_its_files_names_and_keeps_each_once(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_imported done;
    const int64_t had = attachment_add(f, f->user, "mine.txt", "known"),
                  came = attachment_add(f, f->user, STORE_IMPORTED_FILE, "fresh words");
    const char *known = attachment_get(f, f->user, had).sha256,
               *fresh = attachment_get(f, f->user, came).sha256;
    const struct store_import_file files[] = {
        {fresh, "a.txt"},
        {fresh, "a.txt"},
        {fresh, "b.txt"},
        {known, "mine.txt"},
        {known, "other.txt"},
        {"0000000000000000000000000000000000000000000000000000000000000000", "gone.txt"}};
    const struct store_import_message m = {.parent = -1,
                                           .role = ROLE_USER,
                                           .content = "",
                                           .created_at = 1,
                                           .finished_at = 1,
                                           .files = files,
                                           .n_files = 6};
    struct store_import c = {.user_id = f->user,
                             .key = "k",
                             .title = "t",
                             .settings = "{}",
                             .created_at = 1,
                             .updated_at = 1,
                             .messages = &m,
                             .n_messages = 1};
    ASSERT_OK(store_import_add(f->store, &c, &done, &e));
    assert_int_equal(done.n_files, 5);
    assert_int_equal(done.n_missing, 1);
    assert_string_equal(attachment_get(f, f->user, came).name, "a.txt");
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM attachments"),
                     5); /* of a.txt two, as the message has it */
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM attachments WHERE loose_at IS "
                                             "NOT NULL OR name = '" STORE_IMPORTED_FILE "'"),
                     0);
    fixture_number(
        f->path,
        "INSERT INTO attachment_search (attachment_search, rank) VALUES ('integrity-check', 1)");
    assert_int_equal(find(f, f->user, "b.txt").n, 1);
    c.key = "k2"; /* what messages have stays as it is called */
    ASSERT_OK(store_import_add(f->store, &c, &done, &e));
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM attachments"),
                     6); /* the second a.txt once more */
    assert_string_equal(attachment_get(f, f->user, came).name, "a.txt");
}

static void test_an_imported_project_is_whole_and_keeps_nothing_else(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_imported done;
    const int64_t had = attachment_add(f, f->user, "a.txt", "known"),
                  large = attachment_add(f, f->user, "large.txt", "x");
    attachment_post(f, fixture_conversation(f, f->user, "c"), (int64_t[]){had, large}, 2);
    const char *known = attachment_get(f, f->user, had).sha256;
    struct store_import_file files[] = {{known, "a.txt"}, {known, "a.txt"}, {known, "b.txt"}};
    struct store_import_project p = {
        .key = "pk", .name = "p", .instructions = "", .files = files, .n_files = 3};
    struct store_import c = {.user_id = f->user,
                             .key = "k",
                             .title = "t",
                             .settings = "{}",
                             .created_at = 1,
                             .updated_at = 1,
                             .project = &p,
                             .storage_bytes = 1,
                             .leaf = -1};
    /* Without room for one of its files neither half of it nor a lasting file stays. */
    for (bool ok = false; !ok; c.storage_bytes += 4) {
        assert_true(c.storage_bytes < 4000);
        attachment_clear(f);
        ok = store_import_add(f->store, &c, &done, &e);
        assert_true(ok || e.code == ERR_LIMIT);
        assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM projects"), ok);
        assert_int_equal(
            fixture_number(f->path, "SELECT count(*) FROM attachments WHERE loose_at IS NULL"),
            ok ? 4 : 2);
        e = (struct err){0};
    }
    assert_int_equal(done.n_files, 3); /* the same twice, as the project had it */
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM project_files f JOIN projects p "
                                             "ON p.id = f.project_id WHERE p.key = 'pk'"),
                     3);
    /* A picture, which the project can't take: the row with that name is loose. */
    fixture_number(f->path, "UPDATE attachments SET text = NULL WHERE name = 'large.txt'");
    files[0] = (struct store_import_file){attachment_get(f, f->user, large).sha256, "picture"};
    c.key = "k2";
    p.key = "pk2";
    p.n_files = 1;
    ASSERT_OK(store_import_add(f->store, &c, &done, &e));
    assert_int_equal(done.n_missing, 1);
    assert_int_equal(fixture_number(f->path, "SELECT loose_at IS NOT NULL FROM attachments "
                                             "WHERE name = 'picture'"),
                     1);
}

/* Eight at once, room for two: two rows, two files, whoever they are. */
static void test_of_many_at_once_those_who_fit_stay(void **state)
{
    struct fixture *f = *state;
    int in = 0, status;
    for (int i = 0; i < 8; i++)
        if (fork() == 0) {
            struct err e = {0};
            struct store_upload u;
            struct store *mine = fixture_open(f, false);
            int64_t id;
            char bytes[100];
            memset(bytes, 'a' + i, sizeof bytes);
            const struct store_attachment a = {.user_id = f->user,
                                               .name = "n",
                                               .type = "image/png",
                                               .tokens = -1,
                                               .storage_bytes = 250};
            bool ok = mine && store_upload_begin(mine, &u, &e) &&
                      store_upload_write(&u, bytes, sizeof bytes, &e) &&
                      store_attachment_add(mine, &u, &a, &id, &e);
            _exit(ok ? 1 : e.code == ERR_LIMIT && !strcmp(e.field, STORE_QUOTA_FIELD) ? 0 : 100);
        }
    while (wait(&status) > 0)
        in += WIFEXITED(status) ? WEXITSTATUS(status) : 100;
    assert_int_equal(in, 2);
    assert_int_equal(fixture_number(f->path, "SELECT sum(bytes) FROM attachments"), 200);
    for (int i = 0; i < 8; i++) {
        struct digest d;
        char bytes[100], sha256[DIGEST_TEXT_SIZE], sql[200];
        memset(bytes, 'a' + i, sizeof bytes);
        digest_begin(&d);
        digest_add(&d, bytes, sizeof bytes);
        digest_end(&d, sha256);
        snprintf(sql, sizeof sql, "SELECT count(*) FROM attachments WHERE sha256 = '%s'", sha256);
        assert_int_equal(attachment_has_file(f, sha256), fixture_number(f->path, sql));
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)
    const struct CMUnitTest tests[] = {
        T(test_a_file_lies_under_its_hash),
        T(test_another_users_hands_reach_nothing),
        T(test_a_message_has_its_files_in_order),
        T(test_a_file_goes_with_its_last_row),
        T(test_a_deleted_conversation_takes_along_what_no_other_has),
        T(test_what_was_never_sent_goes_after_a_day),
        T(test_a_removed_user_leaves_no_file),
        T(test_the_sweep_finds_what_has_no_row),
        T(test_a_full_disk_is_told_from_a_broken_one),
        T(test_a_row_that_cannot_be_leaves_no_file),
        T(test_files_are_found_by_name_and_text_while_a_message_has_them),
        T(test_an_import_gives_its_files_names_and_keeps_each_once),
        T(test_an_imported_project_is_whole_and_keeps_nothing_else),
        T(test_of_many_at_once_those_who_fit_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
