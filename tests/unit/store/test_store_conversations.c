/* Conversations and messages of one user: the tree, posting, paging, search. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/store/store_fixture.h"

struct seen {
    int n;
    int64_t ids[2000];
    int64_t last_updated, last_id;
};

static bool see_conversation(void *context, const struct store_conversation *c)
{
    struct seen *s = context;
    s->ids[s->n++] = c->id;
    s->last_updated = c->updated_at;
    s->last_id = c->id;
    return true;
}

static bool see_message(void *context, const struct store_message *m)
{
    struct seen *s = context;
    s->ids[s->n++] = m->id;
    return true;
}

static void test_conversation_is_read_renamed_removed(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_conversation c;
    int64_t id = 0;
    ASSERT_OK(store_conversation_add(
        f->store,
        &(struct store_conversation_new){
            .user_id = f->user, .title = "one", .settings = "{\"temperature\":0.5}"},
        &id, &e));
    ASSERT_OK(store_conversation_get(f->store, f->arena,
                                     &(struct store_ref){.user_id = f->user, .id = id}, &c, &e));
    assert_string_equal(c.title, "one");
    assert_string_equal(c.settings, "{\"temperature\":0.5}");
    assert_int_equal(c.leaf_id, 0);
    assert_false(c.running);
    const struct store_conversation_change rename = {.title = "two"};
    ASSERT_OK(store_conversation_change(f->store, f->user, id, &rename, &e));
    ASSERT_OK(store_conversation_get(f->store, f->arena,
                                     &(struct store_ref){.user_id = f->user, .id = id}, &c, &e));
    assert_string_equal(c.title, "two");
    assert_string_equal(c.settings, "{\"temperature\":0.5}");
    ASSERT_OK(store_conversation_remove(f->store, f->user, id, &e));
    ASSERT_ERR(store_conversation_get(f->store, f->arena,
                                      &(struct store_ref){.user_id = f->user, .id = id}, &c, &e),
               ERR_NOTFOUND);
    ASSERT_ERR(store_conversation_remove(f->store, f->user, id, &e), ERR_NOTFOUND);
    ASSERT_ERR(store_conversation_change(f->store, f->user, id, &rename, &e), ERR_NOTFOUND);
}

static void test_conversation_refuses_bad_texts(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t id;
    char longest[STORE_TITLE_BYTES + 2];
    memset(longest, 'x', sizeof longest);
    longest[STORE_TITLE_BYTES] = 0;
    ASSERT_OK(store_conversation_add(
        f->store, &(struct store_conversation_new){.user_id = f->user, .title = longest}, &id, &e));
    longest[STORE_TITLE_BYTES] = 'x';
    longest[STORE_TITLE_BYTES + 1] = 0;
    ASSERT_ERR(store_conversation_add(
                   f->store, &(struct store_conversation_new){.user_id = f->user, .title = longest},
                   &id, &e),
               ERR_INPUT);
    static const char *const bad[] = {"[]", "3", "{", "", "{\"a\":1,\"a\":2}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ASSERT_ERR(store_conversation_add(
                       f->store,
                       &(struct store_conversation_new){.user_id = f->user, .settings = bad[i]},
                       &id, &e),
                   ERR_INPUT);
        assert_string_equal(e.field, "settings");
    }
    ASSERT_ERR(
        store_conversation_add(f->store, &(struct store_conversation_new){.user_id = 999}, &id, &e),
        ERR_NOTFOUND);
}

static void test_post_is_message_answer_leaf_and_title(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_conversation c;
    struct store_message m;
    int64_t id = fixture_conversation(f, f->user, NULL);
    struct store_posted p = fixture_post(f, f->user, id, 0, "hello");
    ASSERT_OK(store_conversation_get(f->store, f->arena,
                                     &(struct store_ref){.user_id = f->user, .id = id}, &c, &e));
    assert_int_equal(c.leaf_id, p.message_id);
    assert_string_equal(c.title, "titled");
    assert_true(c.running);
    ASSERT_OK(store_message_get(f->store, f->arena,
                                &(struct store_ref){.user_id = f->user, .id = p.user_message_id},
                                &m, &e));
    assert_int_equal(m.role, ROLE_USER);
    assert_int_equal(m.status, MESSAGE_DONE);
    assert_string_equal(m.content, "hello");
    ASSERT_OK(store_message_get(
        f->store, f->arena, &(struct store_ref){.user_id = f->user, .id = p.message_id}, &m, &e));
    assert_int_equal(m.role, ROLE_ASSISTANT);
    assert_int_equal(m.status, MESSAGE_RUNNING);
    assert_int_equal(m.parent_id, p.user_message_id);
    assert_int_equal(m.finished_at, 0);
    assert_false(m.has_usage);
    fixture_finish(f, p.message_id, "hi");
    ASSERT_OK(store_message_get(
        f->store, f->arena, &(struct store_ref){.user_id = f->user, .id = p.message_id}, &m, &e));
    assert_int_equal(m.status, MESSAGE_DONE);
    assert_string_equal(m.content, "hi");
    assert_true(m.has_usage);
    assert_int_equal(m.prompt_tokens, 7);
    assert_true(m.finished_at >= m.created_at);
    /* a title that is there stays */
    const struct store_conversation_change rename = {.title = "mine"};
    ASSERT_OK(store_conversation_change(f->store, f->user, id, &rename, &e));
    fixture_post(f, f->user, id, p.message_id, "more");
    ASSERT_OK(store_conversation_get(f->store, f->arena,
                                     &(struct store_ref){.user_id = f->user, .id = id}, &c, &e));
    assert_string_equal(c.title, "mine");
    fixture_check_whole(f->path);
}

static bool try_post(struct fixture *f, int64_t conversation, int64_t parent, const char *content,
                     const char *key, struct err *e)
{
    struct store_posted out;
    return store_message_post(f->store,
                              &(struct store_post){.user_id = f->user,
                                                   .conversation_id = conversation,
                                                   .parent_id = parent,
                                                   .content = content,
                                                   .job_key = key},
                              &out, e);
}

static void test_post_refuses_parents_that_do_not_fit(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t a = fixture_conversation(f, f->user, "a"), b = fixture_conversation(f, f->user, "b");
    struct store_posted in_b = fixture_post(f, f->user, b, 0, "in b");
    fixture_finish(f, in_b.message_id, "done");
    struct store_posted p = fixture_post(f, f->user, a, 0, "hello");
    ASSERT_ERR(try_post(f, a, p.message_id, "too early", "k1", &e), ERR_CONFLICT);
    fixture_finish(f, p.message_id, "hi");
    ASSERT_ERR(try_post(f, a, in_b.message_id, "x", "k2", &e), ERR_INPUT);
    assert_string_equal(e.field, "parent_id");
    ASSERT_ERR(try_post(f, a, 9999, "x", "k3", &e), ERR_INPUT);
    ASSERT_ERR(try_post(f, a, p.user_message_id, "two of a user in a row", "k4", &e), ERR_INPUT);
    ASSERT_ERR(try_post(f, a, p.message_id, NULL, "k5", &e),
               ERR_INPUT); /* an answer to an answer */
    ASSERT_ERR(try_post(f, a, 0, NULL, "k6", &e), ERR_INPUT);
    ASSERT_ERR(try_post(f, 9999, 0, "x", "k7", &e), ERR_NOTFOUND);
    ASSERT_OK(try_post(f, a, p.user_message_id, NULL, "k8", &e)); /* regenerate */
    ASSERT_ERR(try_post(f, a, 0, "same key", "k8", &e), ERR_CONFLICT);
    /* nothing of a refused post stays */
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM messages"), 5);
    fixture_check_whole(f->path);
}

static void test_post_refuses_content_over_the_limit(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t id = fixture_conversation(f, f->user, "a");
    char *text = malloc(STORE_CONTENT_BYTES + 2);
    memset(text, 'x', STORE_CONTENT_BYTES + 1);
    text[STORE_CONTENT_BYTES + 1] = 0;
    ASSERT_ERR(try_post(f, id, 0, text, "k1", &e), ERR_LIMIT);
    text[STORE_CONTENT_BYTES] = 0;
    ASSERT_OK(try_post(f, id, 0, text, "k2", &e));
    free(text);
}

static void test_branch_follows_one_path_of_the_tree(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t id = fixture_conversation(f, f->user, "a");
    struct store_posted one = fixture_post(f, f->user, id, 0, "q1");
    fixture_finish(f, one.message_id, "a1");
    struct store_posted again = fixture_post(f, f->user, id, one.user_message_id, NULL);
    fixture_finish(f, again.message_id, "a1 again");
    struct store_posted two = fixture_post(f, f->user, id, again.message_id, "q2");
    struct seen branch = {0}, all = {0}, page = {0};
    ASSERT_OK(store_message_branch(f->store,
                                   &(struct store_branch){.user_id = f->user,
                                                          .conversation_id = id,
                                                          .leaf_id = two.user_message_id},
                                   see_message, &branch, &e));
    assert_int_equal(branch.n, 3);
    assert_int_equal(branch.ids[0], one.user_message_id);
    assert_int_equal(branch.ids[1], again.message_id);
    assert_int_equal(branch.ids[2], two.user_message_id);
    ASSERT_OK(store_message_list(
        f->store, &(struct store_message_range){.user_id = f->user, .conversation_id = id},
        see_message, &all, &e));
    assert_int_equal(all.n, 5);
    ASSERT_OK(store_message_list(
        f->store,
        &(struct store_message_range){
            .user_id = f->user, .conversation_id = id, .after = all.ids[1], .limit = 2},
        see_message, &page, &e));
    assert_int_equal(page.n, 2);
    assert_int_equal(page.ids[0], all.ids[2]);
    /* the leaf can be moved to the other branch, not out of the conversation */
    struct store_conversation c;
    const struct store_conversation_change move = {.leaf_id = one.message_id},
                                           out = {.leaf_id = 9999};
    ASSERT_OK(store_conversation_change(f->store, f->user, id, &move, &e));
    ASSERT_OK(store_conversation_get(f->store, f->arena,
                                     &(struct store_ref){.user_id = f->user, .id = id}, &c, &e));
    assert_int_equal(c.leaf_id, one.message_id);
    ASSERT_ERR(store_conversation_change(f->store, f->user, id, &out, &e), ERR_INPUT);
}

static void test_long_branch_is_read_whole(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t id = fixture_conversation(f, f->user, "a"), parent = 0;
    for (int i = 0; i < 600; i++) {
        struct store_posted p = fixture_post(f, f->user, id, parent, "q");
        fixture_finish(f, p.message_id, "a");
        parent = p.message_id;
    }
    struct seen s = {0};
    ASSERT_OK(store_message_branch(
        f->store,
        &(struct store_branch){.user_id = f->user, .conversation_id = id, .leaf_id = parent},
        see_message, &s, &e));
    assert_int_equal(s.n, 1200);
}

static void test_paging_gives_each_once_while_rows_move(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    static char seen_before[4000];
    memset(seen_before, 0, sizeof seen_before);
    for (int i = 0; i < 95; i++)
        fixture_conversation(f, f->user, "x");
    struct store_page page = {.user_id = f->user, .limit = 10};
    int pages = 0, total = 0;
    for (;; pages++) {
        struct seen s = {0};
        ASSERT_OK(store_conversation_list(f->store, &page, see_conversation, &s, &e));
        for (int i = 0; i < s.n; i++)
            assert_int_equal(seen_before[s.ids[i]]++, 0);
        total += s.n;
        if (s.n < page.limit)
            break;
        page.before_updated = s.last_updated;
        page.before_id = s.last_id;
        fixture_conversation(f, f->user, "new"); /* newer than all that is still to come */
    }
    assert_int_equal(pages, 9);
    assert_int_equal(total, 95);
    ASSERT_ERR(store_conversation_list(f->store,
                                       &(struct store_page){.user_id = f->user, .limit = 0},
                                       see_conversation, NULL, &e),
               ERR_INPUT);
    ASSERT_ERR(store_conversation_list(f->store,
                                       &(struct store_page){.user_id = f->user, .limit = 201},
                                       see_conversation, NULL, &e),
               ERR_INPUT);
}

static int found(struct fixture *f, const char *text)
{
    struct err e = {0};
    struct seen s = {0};
    ASSERT_OK(store_conversation_list(
        f->store, &(struct store_page){.user_id = f->user, .limit = 50, .text = text},
        see_conversation, &s, &e));
    return s.n;
}

static void test_search_takes_text_literally(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    fixture_conversation(f, f->user, "100% sure");
    fixture_conversation(f, f->user, "snake_case");
    fixture_conversation(f, f->user, "back\\slash");
    int64_t id = fixture_conversation(f, f->user, "other");
    fixture_post(f, f->user, id, 0, "a Needle in here; it's \"quoted\" AND c++");
    assert_int_equal(found(f, "100%"), 1);
    assert_int_equal(found(f, "%"), 1);
    assert_int_equal(found(f, "_"), 1);
    assert_int_equal(found(f, "\\"), 1);
    assert_int_equal(found(f, "needle"), 1);
    assert_int_equal(found(f, "\"quoted\" AND c++"), 1);
    assert_int_equal(found(f, "it's"), 1);
    assert_int_equal(found(f, "nowhere"), 0);
    assert_int_equal(found(f, ""), 4);
    char over[1100];
    memset(over, 'x', sizeof over);
    over[1001] = 0;
    ASSERT_ERR(store_conversation_list(
                   f->store, &(struct store_page){.user_id = f->user, .limit = 5, .text = over},
                   see_conversation, NULL, &e),
               ERR_INPUT);
}

static bool list_again(void *context, const struct store_conversation *c)
{
    struct fixture *f = context;
    struct err e = {0};
    struct seen s = {0};
    assert_false(store_conversation_list(
        f->store, &(struct store_page){.user_id = f->user, .limit = 5}, see_conversation, &s, &e));
    assert_int_equal(e.code, ERR_INTERNAL);
    return false;
}

static void test_callback_can_not_restart_its_own_list(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    fixture_conversation(f, f->user, "x");
    ASSERT_OK(store_conversation_list(
        f->store, &(struct store_page){.user_id = f->user, .limit = 5}, list_again, f, &e));
}

static void test_fail_ends_only_what_runs(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_message m;
    int64_t id = fixture_conversation(f, f->user, "x");
    struct store_posted p = fixture_post(f, f->user, id, 0, "q");
    ASSERT_OK(store_message_fail(f->store, f->user, p.message_id,
                                 &(struct store_failure){.text = "the engine is down"}, &e));
    ASSERT_OK(store_message_get(
        f->store, f->arena, &(struct store_ref){.user_id = f->user, .id = p.message_id}, &m, &e));
    assert_int_equal(m.status, MESSAGE_ERROR);
    assert_string_equal(m.error, "the engine is down");
    struct store_posted q = fixture_post(f, f->user, id, p.user_message_id, NULL);
    fixture_finish(f, q.message_id, "fine");
    ASSERT_OK(store_message_fail(f->store, f->user, q.message_id,
                                 &(struct store_failure){.text = "late"}, &e));
    ASSERT_OK(store_message_get(
        f->store, f->arena, &(struct store_ref){.user_id = f->user, .id = q.message_id}, &m, &e));
    assert_int_equal(m.status, MESSAGE_DONE);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_conversation_is_read_renamed_removed),
        T(test_conversation_refuses_bad_texts),
        T(test_post_is_message_answer_leaf_and_title),
        T(test_post_refuses_parents_that_do_not_fit),
        T(test_post_refuses_content_over_the_limit),
        T(test_branch_follows_one_path_of_the_tree),
        T(test_long_branch_is_read_whole),
        T(test_paging_gives_each_once_while_rows_move),
        T(test_search_takes_text_literally),
        T(test_callback_can_not_restart_its_own_list),
        T(test_fail_ends_only_what_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
