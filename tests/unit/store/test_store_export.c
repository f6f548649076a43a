/* Exports: all of one user's rows and nobody else's, from one moment, whoever writes meanwhile. */
#include <stdio.h>
#include <string.h>

#include "sql/chats/store_export.h"
#include "tests/unit/store/store_fixture.h"

struct seen {
    struct fixture *f;
    int64_t user;
    char titles[512], texts[1024], fork[80];
    int nodes;
    struct err e;
    bool write; /* another connection writes while the first row is held */
};

static bool see_message(void *context, const struct store_message *m)
{
    struct seen *s = context;
    snprintf(s->texts + strlen(s->texts), sizeof s->texts - strlen(s->texts), "%s%s|", m->content,
             m->finished_at ? "" : "(running)");
    assert_int_equal(m->content_len, strlen(m->content));
    assert_string_equal(m->attachments, "[]");
    return true;
}

static bool see_node(void *context, const struct store_message *n)
{
    struct seen *s = context;
    s->nodes++;
    return true;
}

static bool see(void *context, const struct store_export_conversation *c)
{
    struct seen *s = context;
    struct err e = {0};
    if (s->write) {
        struct store *other = fixture_open(s->f, false);
        s->write = false;
        ASSERT_OK(store_conversation_change(
            other, s->user, c->id, &(struct store_conversation_change){.title = "new"}, &e));
        ASSERT_OK(store_message_post(
            other,
            &(struct store_post){
                .user_id = s->user, .conversation_id = c->id, .content = "late", .job_key = "late"},
            &(struct store_posted){0}, &e));
        int64_t id;
        ASSERT_OK(store_conversation_add(
            other, &(struct store_conversation_new){.user_id = s->user, .title = "later"}, &id,
            &e));
        store_close(&other);
    }
    assert_int_equal(strlen(c->key), 32);
    snprintf(s->titles + strlen(s->titles), sizeof s->titles - strlen(s->titles), "%s|", c->title);
    snprintf(s->fork, sizeof s->fork, "%s", c->fork_of ? c->fork_of : "");
    return store_message_places(s->f->store, &(struct store_ref){.user_id = s->user, .id = c->id},
                                see_node, s, &s->e) &&
           store_export_messages(s->f->store, &(struct store_ref){.user_id = s->user, .id = c->id},
                                 see_message, s, &s->e);
}

static void collect(struct fixture *f, struct seen *s, const char *ids, bool write)
{
    struct err e = {0};
    *s = (struct seen){.f = f, .user = s->user, .write = write};
    ASSERT_OK(store_export_begin(f->store, &e));
    ASSERT_OK(store_export_each(f->store, &(struct store_export){.user_id = s->user, .ids = ids},
                                see, s, &e));
    store_export_end(f->store);
    assert_string_equal(s->e.text, "");
}

static void test_an_export_is_of_one_moment(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct seen s = {.user = f->user};
    int64_t a = fixture_conversation(f, f->user, "a");
    fixture_conversation(f, f->user, "b");
    struct store_posted first = fixture_post(f, f->user, a, 0, "one");
    fixture_finish(f, first.message_id, "two");
    fixture_post(f, f->user, a, first.message_id, "three");
    collect(f, &s, NULL, true);
    assert_string_equal(s.titles, "a|b|");
    assert_string_equal(s.texts, "one|two|three|(running)|");
    assert_int_equal(s.nodes, 4);
    /* and what was written meanwhile is there afterwards */
    collect(f, &s, NULL, false);
    assert_string_equal(s.titles, "new|b|later|");
    assert_non_null(strstr(s.texts, "late|"));
    /* the connection writes again */
    int64_t id;
    ASSERT_OK(store_conversation_add(
        f->store, &(struct store_conversation_new){.user_id = f->user, .title = "c"}, &id, &e));
}

static void test_another_users_rows_are_not_there(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct seen s = {.user = f->other};
    struct store_export_counts n;
    char ids[64];
    int64_t a = fixture_conversation(f, f->user, "ada's");
    fixture_finish(f, fixture_post(f, f->user, a, 0, "secret").message_id, "answer");
    int64_t b = fixture_conversation(f, f->other, "bob's");
    snprintf(ids, sizeof ids, "[%lld,%lld]", (long long)a, (long long)b);
    collect(f, &s, NULL, false);
    assert_string_equal(s.titles, "bob's|");
    collect(f, &s, ids, false);
    assert_string_equal(s.titles, "bob's|");
    assert_string_equal(s.texts, "");
    ASSERT_OK(store_export_count(f->store, &(struct store_export){.user_id = f->other, .ids = ids},
                                 &n, &e));
    assert_int_equal(n.conversations, 1);
    assert_int_equal(n.messages, 0);
    /* also not by the number of the conversation alone */
    ASSERT_OK(store_export_messages(f->store, &(struct store_ref){.user_id = f->other, .id = a},
                                    see_message, &s, &e));
    ASSERT_OK(store_message_places(f->store, &(struct store_ref){.user_id = f->other, .id = a},
                                   see_node, &s, &e));
    assert_string_equal(s.texts, "");
    assert_int_equal(s.nodes, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {T(test_an_export_is_of_one_moment),
                                       T(test_another_users_rows_are_not_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
