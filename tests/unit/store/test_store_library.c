/* Presets and prompts; answers that are gone on with; titles that were made. */
#include <stdio.h>
#include <string.h>

#include "sql/chats/store_library.h"
#include "tests/unit/store/store_fixture.h"

struct seen {
    int n;
    char names[200];
};

static bool see(void *context, const struct store_entry *x)
{
    struct seen *s = context;
    s->n++;
    strcat(strcat(s->names, x->name), " ");
    return true;
}

static struct seen all(struct fixture *f, int64_t user, enum store_kind kind)
{
    struct err e = {0};
    struct seen s = {0};
    ASSERT_OK(store_library_list(f->store, &(struct store_entry_ref){.user_id = user, .kind = kind},
                                 see, &s, &e));
    return s;
}

static void test_entries_are_kept_by_name_and_kind(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_entry x;
    int64_t id, prompt;
    ASSERT_OK(store_library_add(f->store,
                                &(struct store_entry_ref){.user_id = f->user, .kind = KIND_PRESET},
                                &(struct store_entry){.name = "b", .body = "{}"}, &id, &e));
    ASSERT_OK(store_library_add(
        f->store, &(struct store_entry_ref){.user_id = f->user, .kind = KIND_PRESET},
        &(struct store_entry){.name = "A", .body = "{\"seed\":1}"}, &id, &e));
    ASSERT_OK(store_library_add(f->store,
                                &(struct store_entry_ref){.user_id = f->user, .kind = KIND_PROMPT},
                                &(struct store_entry){.name = "a", .body = "text"}, &prompt, &e));
    ASSERT_ERR(store_library_add(f->store,
                                 &(struct store_entry_ref){.user_id = f->user, .kind = KIND_PRESET},
                                 &(struct store_entry){.name = "a", .body = "{}"}, &id, &e),
               ERR_CONFLICT);
    assert_string_equal(all(f, f->user, KIND_PRESET).names, "A b ");
    assert_int_equal(all(f, f->user, KIND_PROMPT).n, 1);
    ASSERT_ERR(store_library_change(
                   f->store,
                   &(struct store_entry_ref){.user_id = f->user, .kind = KIND_PRESET, .id = prompt},
                   &(struct store_entry){.name = "c"}, &e),
               ERR_NOTFOUND);
    ASSERT_OK(store_library_change(
        f->store, &(struct store_entry_ref){.user_id = f->user, .kind = KIND_PROMPT, .id = prompt},
        &(struct store_entry){.name = "A"}, &e));
    ASSERT_OK(store_library_get(
        f->store, f->arena,
        &(struct store_entry_ref){.user_id = f->user, .kind = KIND_PROMPT, .id = prompt}, &x, &e));
    assert_string_equal(x.name, "A");
    assert_string_equal(x.body, "text");
    fixture_check_whole(f->path);
}

static void test_entries_of_another_user_are_not_there(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_entry x;
    int64_t id, other;
    ASSERT_OK(store_library_add(f->store,
                                &(struct store_entry_ref){.user_id = f->user, .kind = KIND_PROMPT},
                                &(struct store_entry){.name = "a", .body = "text"}, &id, &e));
    ASSERT_OK(store_library_add(f->store,
                                &(struct store_entry_ref){.user_id = f->other, .kind = KIND_PROMPT},
                                &(struct store_entry){.name = "a", .body = "mine"}, &other, &e));
    assert_int_equal(all(f, f->other, KIND_PROMPT).n, 1);
    ASSERT_ERR(store_library_get(
                   f->store, f->arena,
                   &(struct store_entry_ref){.user_id = f->other, .kind = KIND_PROMPT, .id = id},
                   &x, &e),
               ERR_NOTFOUND);
    ASSERT_ERR(store_library_change(
                   f->store,
                   &(struct store_entry_ref){.user_id = f->other, .kind = KIND_PROMPT, .id = id},
                   &(struct store_entry){.body = "stolen"}, &e),
               ERR_NOTFOUND);
    ASSERT_ERR(store_library_remove(
                   f->store,
                   &(struct store_entry_ref){.user_id = f->other, .kind = KIND_PROMPT, .id = id},
                   &e),
               ERR_NOTFOUND);
    ASSERT_OK(store_library_remove(
        f->store, &(struct store_entry_ref){.user_id = f->user, .kind = KIND_PROMPT, .id = id},
        &e));
    assert_int_equal(all(f, f->other, KIND_PROMPT).n, 1);
}

static void test_only_so_many_are_kept(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char name[32];
    int64_t id;
    for (int i = 0; i < STORE_LIBRARY_MAX; i++) {
        snprintf(name, sizeof name, "n%d", i);
        ASSERT_OK(store_library_add(
            f->store, &(struct store_entry_ref){.user_id = f->user, .kind = KIND_PROMPT},
            &(struct store_entry){.name = name, .body = "x"}, &id, &e));
    }
    ASSERT_ERR(store_library_add(f->store,
                                 &(struct store_entry_ref){.user_id = f->user, .kind = KIND_PROMPT},
                                 &(struct store_entry){.name = "more", .body = "x"}, &id, &e),
               ERR_LIMIT);
    ASSERT_OK(store_library_add(f->store,
                                &(struct store_entry_ref){.user_id = f->user, .kind = KIND_PRESET},
                                &(struct store_entry){.name = "more", .body = "{}"}, &id, &e));
}

/* An answer's state as the recorder writes it. */
static void record(struct fixture *f, int64_t id, enum store_status status, const char *content,
                   const int32_t *tokens, size_t n)
{
    struct err e = {0};
    ASSERT_OK(store_record_begin(f->store, false, &e));
    ASSERT_OK(store_record_write(f->store,
                                 &(struct store_answer){.id = id,
                                                        .status = status,
                                                        .content = content,
                                                        .content_len = strlen(content),
                                                        .tokens = tokens,
                                                        .n_tokens = n},
                                 NULL, &e));
    ASSERT_OK(store_record_end(f->store, &e));
}

static size_t tokens_of(struct fixture *f, int64_t user, int64_t id, const int32_t **tokens)
{
    struct err e = {0};
    struct store_tokens made;
    ASSERT_OK(store_message_tokens(f->store, f->arena,
                                   &(struct store_ref){.user_id = user, .id = id}, &made, &e));
    *tokens = made.tokens;
    return made.n;
}

static bool go_on(struct fixture *f, int64_t user, int64_t conversation, int64_t id,
                  const int32_t *tokens, size_t n, const char *key, struct err *e)
{
    return store_message_continue(f->store,
                                  &(struct store_continue){.user_id = user,
                                                           .conversation_id = conversation,
                                                           .message_id = id,
                                                           .model = "m",
                                                           .job_key = key,
                                                           .parser = "{}",
                                                           .tokens = tokens,
                                                           .n_tokens = n},
                                  e);
}

static void test_an_unfinished_answer_keeps_its_tokens_until_it_ends(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    const int32_t first[] = {7, 0, 65536}, second[] = {9};
    const int32_t *tokens;
    const int64_t c = fixture_conversation(f, f->user, "");
    const int64_t id = fixture_post(f, f->user, c, 0, "q").message_id;
    record(f, id, MESSAGE_STOPPED, "abc", first, 3);
    assert_int_equal(tokens_of(f, f->user, id, &tokens), 3);
    assert_memory_equal(tokens, first, sizeof first);
    assert_int_equal(tokens_of(f, f->other, id, &tokens), 0);
    ASSERT_ERR(go_on(f, f->other, c, id, first, 3, "k1", &e), ERR_CONFLICT);
    ASSERT_OK(go_on(f, f->user, c, id, first, 3, "k2", &e));
    ASSERT_ERR(go_on(f, f->user, c, id, first, 3, "k3", &e), ERR_CONFLICT);
    record(f, id, MESSAGE_LENGTH, "abcd", second, 1);
    assert_int_equal(tokens_of(f, f->user, id, &tokens), 4);
    assert_memory_equal(tokens, first, sizeof first);
    assert_int_equal(tokens[3], 9);
    ASSERT_OK(go_on(f, f->user, c, id, tokens, 4, "k4", &e));
    record(f, id, MESSAGE_RUNNING, "abcde", NULL, 0);
    /* its recorder died: the text has grown, the tokens have not */
    record(f, id, MESSAGE_ERROR, "abcde", NULL, 0);
    assert_int_equal(tokens_of(f, f->user, id, &tokens), 0);
    assert_null(tokens);
    ASSERT_OK(go_on(f, f->user, c, id, first, 3, "k5", &e));
    record(f, id, MESSAGE_DONE, "abcdef", second, 1);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM unfinished"), 0);
    ASSERT_ERR(go_on(f, f->user, c, id, first, 3, "k6", &e), ERR_CONFLICT);
    fixture_check_whole(f->path);
}

static void test_nothing_goes_on_that_something_follows(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    const int64_t c = fixture_conversation(f, f->user, "");
    const int64_t id = fixture_post(f, f->user, c, 0, "q").message_id;
    record(f, id, MESSAGE_STOPPED, "abc", NULL, 0);
    fixture_finish(f, fixture_post(f, f->user, c, id, "and?").message_id, "x");
    ASSERT_ERR(go_on(f, f->user, c, id, NULL, 0, "k", &e), ERR_CONFLICT);
}

static void test_a_made_title_never_takes_the_place_of_a_users_own(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    bool changed = false, own = false;
    const int64_t c = fixture_conversation(f, f->user, ""),
                  named = fixture_conversation(f, f->user, "Mine");
    ASSERT_OK(store_conversation_own_title(f->store, f->user, named, &own, &e));
    assert_true(own);
    ASSERT_OK(store_conversation_retitle(
        f->store,
        &(struct store_retitle){.user_id = f->user, .id = named, .old = "Mine", .title = "made"},
        &changed, &e));
    assert_false(changed);
    ASSERT_OK(store_conversation_retitle(
        f->store, &(struct store_retitle){.user_id = f->other, .id = c, .old = "", .title = "made"},
        &changed, &e));
    assert_false(changed);
    ASSERT_OK(store_conversation_retitle(
        f->store,
        &(struct store_retitle){.user_id = f->user, .id = c, .old = "older", .title = "made"},
        &changed, &e));
    assert_false(changed);
    ASSERT_OK(store_conversation_retitle(
        f->store, &(struct store_retitle){.user_id = f->user, .id = c, .old = "", .title = "made"},
        &changed, &e));
    assert_true(changed);
    ASSERT_OK(store_conversation_change(f->store, f->user, c,
                                        &(struct store_conversation_change){.title = "made"}, &e));
    ASSERT_OK(store_conversation_retitle(
        f->store,
        &(struct store_retitle){.user_id = f->user, .id = c, .old = "made", .title = "again"},
        &changed, &e));
    assert_false(changed);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_entries_are_kept_by_name_and_kind),
        T(test_entries_of_another_user_are_not_there),
        T(test_only_so_many_are_kept),
        T(test_an_unfinished_answer_keeps_its_tokens_until_it_ends),
        T(test_nothing_goes_on_that_something_follows),
        T(test_a_made_title_never_takes_the_place_of_a_users_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
