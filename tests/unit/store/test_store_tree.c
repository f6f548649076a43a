/* Forks and branches that are cut off. */
#include <stdio.h>
#include <string.h>

#include "sql/chats/store_tree.h"
#include "tests/unit/store/store_fixture.h"

struct seen {
    int n;
    int64_t parents[100], ids[100];
    char text[1000];
};

static bool see(void *context, const struct store_message *m)
{
    struct seen *s = context;
    s->ids[s->n] = m->id;
    s->parents[s->n++] = m->parent_id;
    strcat(strcat(s->text, m->content), "|");
    return true;
}

static struct seen messages(struct fixture *f, int64_t id)
{
    struct err e = {0};
    struct seen s = {0};
    ASSERT_OK(store_message_list(
        f->store, &(struct store_message_range){.user_id = f->user, .conversation_id = id}, see, &s,
        &e));
    return s;
}

static int64_t leaf(struct fixture *f, int64_t id)
{
    struct err e = {0};
    struct store_conversation c;
    ASSERT_OK(store_conversation_get(f->store, f->arena,
                                     &(struct store_ref){.user_id = f->user, .id = id}, &c, &e));
    return c.leaf_id;
}

static int64_t fork_at(struct fixture *f, int64_t id, int64_t message)
{
    struct err e = {0};
    int64_t fork = 0;
    ASSERT_OK(store_conversation_fork(
        f->store,
        &(struct store_fork){.user_id = f->user, .conversation_id = id, .message_id = message},
        &fork, &e));
    return fork;
}

static struct store_posted say(struct fixture *f, int64_t id, int64_t parent, const char *question,
                               const char *answer)
{
    struct store_posted p = fixture_post(f, f->user, id, parent, question);
    fixture_finish(f, p.message_id, answer);
    return p;
}

static bool count_one(void *context, const struct store_conversation *c)
{
    ++*(int *)context;
    return true;
}

static int found(struct fixture *f, const char *text)
{
    int n = 0;
    struct err e = {0};
    ASSERT_OK(store_conversation_list(
        f->store, &(struct store_page){.user_id = f->user, .limit = 50, .text = text}, count_one,
        &n, &e));
    return n;
}

static void test_fork_copies_one_branch(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_conversation c;
    const int64_t id = fixture_conversation(f, f->user, "trunk");
    ASSERT_OK(store_conversation_change(
        f->store, f->user, id,
        &(struct store_conversation_change){
            .settings = "{\"seed\":1}", .tags = "[\"t\"]", .pinned = WHICH_YES},
        &e));
    struct store_posted one = say(f, id, 0, "q1", "answer one"),
                        two = say(f, id, one.message_id, "q2", "answer two");
    struct store_posted other = say(f, id, one.user_message_id, NULL, "another");
    const int64_t fork = fork_at(f, id, two.message_id);
    struct seen s = messages(f, fork);
    assert_string_equal(s.text, "q1|answer one|q2|answer two|");
    assert_int_equal(s.parents[0], 0);
    for (int i = 1; i < s.n; i++)
        assert_int_equal(s.parents[i], s.ids[i - 1]);
    ASSERT_OK(store_conversation_get(f->store, f->arena,
                                     &(struct store_ref){.user_id = f->user, .id = fork}, &c, &e));
    assert_int_equal(c.leaf_id, s.ids[3]);
    assert_int_equal(c.fork_of, id);
    assert_string_equal(c.title, "trunk");
    assert_string_equal(c.settings, "{\"seed\":1}");
    assert_string_equal(c.tags, "[\"t\"]");
    assert_false(c.pinned);
    assert_int_equal(found(f, "answer two"), 2);
    /* the copy counts nothing twice, and lives on without the original */
    assert_int_equal(fixture_number(f->path, "SELECT coalesce(sum(requests), 0) FROM usage"), 0);
    say(f, fork, c.leaf_id, "q3", "a3");
    ASSERT_OK(store_conversation_remove(f->store, f->user, id, &e));
    for (bool more = true; more;)
        ASSERT_OK(store_clear(f->store, &more, &e));
    ASSERT_OK(store_conversation_get(f->store, f->arena,
                                     &(struct store_ref){.user_id = f->user, .id = fork}, &c, &e));
    assert_int_equal(c.fork_of, 0);
    assert_int_equal(messages(f, fork).n, 6);
    assert_int_equal(found(f, "answer two"), 1);
    assert_true(other.message_id > 0);
    fixture_check_whole(f->path);
}

static void test_fork_refuses_what_is_not_there_or_runs(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t out;
    const int64_t id = fixture_conversation(f, f->user, "a"),
                  b = fixture_conversation(f, f->user, "b");
    struct store_posted p = fixture_post(f, f->user, id, 0, "q");
    struct store_fork k = {.user_id = f->user, .conversation_id = id, .message_id = p.message_id};
    ASSERT_ERR(store_conversation_fork(f->store, &k, &out, &e), ERR_CONFLICT);
    k.message_id = 9999;
    ASSERT_ERR(store_conversation_fork(f->store, &k, &out, &e), ERR_INPUT);
    assert_string_equal(e.field, "from_message_id");
    k = (struct store_fork){
        .user_id = f->user, .conversation_id = b, .message_id = p.user_message_id};
    ASSERT_ERR(store_conversation_fork(f->store, &k, &out, &e), ERR_INPUT);
    k.conversation_id = 9999;
    ASSERT_ERR(store_conversation_fork(f->store, &k, &out, &e), ERR_NOTFOUND);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM conversations"), 2);
}

static void test_cut_takes_what_hangs_below_and_moves_the_leaf(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    const int64_t id = fixture_conversation(f, f->user, "a");
    struct store_posted one = say(f, id, 0, "q1", "a1"),
                        two = say(f, id, one.message_id, "q2", "secretive");
    struct store_posted side = say(f, id, one.user_message_id, NULL, "a1 again"),
                        deep = say(f, id, side.message_id, "q3", "a3");
    struct store_posted root = say(f, id, 0, "q0", "a0");
    /* a branch that isn't shown: the leaf stays */
    ASSERT_OK(store_message_remove(f->store, f->user, two.user_message_id, &e));
    assert_int_equal(leaf(f, id), root.message_id);
    assert_int_equal(messages(f, id).n, 7);
    assert_int_equal(found(f, "secretive"), 0);
    /* the one that is shown: the newest root's newest end */
    ASSERT_OK(store_message_remove(f->store, f->user, root.user_message_id, &e));
    assert_int_equal(leaf(f, id), deep.message_id);
    /* one of two answers: the other is shown; the last answer: the question */
    ASSERT_OK(store_message_remove(f->store, f->user, side.message_id, &e));
    assert_int_equal(leaf(f, id), one.message_id);
    ASSERT_OK(store_message_remove(f->store, f->user, one.message_id, &e));
    assert_int_equal(leaf(f, id), one.user_message_id);
    ASSERT_ERR(store_message_remove(f->store, f->user, one.message_id, &e), ERR_NOTFOUND);
    struct store_posted last = fixture_post(f, f->user, id, one.user_message_id, NULL);
    ASSERT_ERR(store_message_remove(f->store, f->user, one.user_message_id, &e), ERR_CONFLICT);
    assert_int_equal(messages(f, id).n, 2);
    fixture_finish(f, last.message_id, "a");
    fixture_check_whole(f->path);
    ASSERT_OK(store_message_remove(f->store, f->user, one.user_message_id, &e));
    assert_int_equal(leaf(f, id), 0);
    assert_int_equal(messages(f, id).n, 0);
    for (bool more = true; more;)
        ASSERT_OK(store_clear(f->store, &more, &e));
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM message_search_idx"), 0);
    fixture_check_whole(f->path);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_fork_copies_one_branch),
        T(test_fork_refuses_what_is_not_there_or_runs),
        T(test_cut_takes_what_hangs_below_and_moves_the_leaf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
