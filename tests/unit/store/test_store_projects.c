/* Projects: passages of a text and which of them go along with a question; rows, files, the index
 * of passages, who may see what, and that what is deleted is gone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "sql/chats/store_sorting.h"
#include "sql/projects/chunking.h"
#include "sql/projects/ranking.h"
#include "sql/projects/store_project_files.h"
#include "sql/projects/store_projects.h"
#include "sql/projects/store_vectors.h"
#include "tests/unit/store/attachment_fixture.h"
#include "tests/unit/store/store_fixture.h"

/* --- a text in passages ---------------------------------------------------------------------- */

static void test_passages_are_the_whole_text_and_end_where_it_gives_a_reason(void **state)
{
    (void)state;
    struct buf text = {0};
    for (int i = 0; i < 400; i++)
        buf_printf(&text, i % 7 == 6 ? "End of paragraph %d.\n\n" : "A sentence, number %d. ", i);
    size_t n = 0;
    for (size_t at = 0, len; at < text.len; at += len, n++) {
        len = chunking_next(text.data + at, text.len - at);
        assert_in_range(len, 1, CHUNK_BYTES);
        if (at + len < text.len) {
            assert_true(len > CHUNK_BYTES / 2);
            assert_memory_equal(text.data + at + len - 2, "\n\n", 2);
        }
    }
    assert_true(n > 4);
    buf_fini(&text);
    assert_int_equal(chunking_next("", 0), 0);
    assert_int_equal(chunking_next("short", 5), 5);
}

/* No blank, no line: it ends between letters. */
static void test_a_passage_never_divides_a_letter(void **state)
{
    (void)state;
    static const char *const letters[] = {"ä", "日", "😀", "x"};
    for (size_t i = 0; i < 4; i++) {
        struct buf text = {0};
        buf_puts(&text, i % 2 ? "" : "y");
        while (text.len < 5000)
            buf_puts(&text, letters[i]);
        for (size_t at = 0, len; at < text.len; at += len) {
            len = chunking_next(text.data + at, text.len - at);
            assert_true(len > 0);
            assert_true(at + len == text.len || (text.data[at + len] & 0xc0) != 0x80);
        }
        buf_fini(&text);
    }
    /* A sentence's end is better than a blank, a line's end better than both. */
    char lines[2001];
    memset(lines, 'a', 2000);
    lines[2000] = '\0';
    lines[1500] = ' ';
    assert_int_equal(chunking_next(lines, 2000), 1501);
    memcpy(lines + 1200, ". ", 2);
    assert_int_equal(chunking_next(lines, 2000), 1202);
    lines[1000] = '\n';
    assert_int_equal(chunking_next(lines, 2000), 1001);
}

/* --- a question's words ---------------------------------------------------------------------- */

static void expect_query(const char *question, int n, const char *expected)
{
    struct buf out = {0};
    assert_int_equal(ranking_query(&out, "u7", question), n);
    assert_string_equal(out.data ? out.data : "", expected);
    buf_fini(&out);
}

static void test_a_question_becomes_words_without_their_endings(void **state)
{
    (void)state;
    expect_query("", 0, "");
    expect_query(" ?! \"x\" ", 0, "");
    expect_query("Who? who! WHO", 1, "owner : \"u7\" AND text : (\"Who\")");
    expect_query("the contracts", 2, "owner : \"u7\" AND text : (\"the\" OR \"contrac\" *)");
    expect_query("Verträge 7", 2, "owner : \"u7\" AND text : (\"Verträ\" * OR \"7\")");
    expect_query("a NEAR(b OR c) \"quoted\" AND:x", 4,
                 "owner : \"u7\" AND text : (\"NEAR\" * OR \"OR\" OR \"quote\" * OR \"AND\")");
    expect_query("東京", 1, "owner : \"u7\" AND text : (\" 東  京 \")");
    expect_query("日本語x1は", 4,
                 "owner : \"u7\" AND text : (\" 日  本 \" OR \" 本  語 \" OR \"x1\" OR \" は \")");
    struct buf many = {0}, out = {0};
    for (int i = 0; i < 100; i++)
        buf_printf(&many, "w%d ", i);
    assert_int_equal(ranking_query(&out, "u1", many.data), RANKING_TERMS);
    buf_fini(&many);
    buf_fini(&out);
}

/* --- which passages -------------------------------------------------------------------------- */

static void test_rare_words_weigh_more_and_long_passages_less(void **state)
{
    (void)state;
    struct ranking_passage p[] = {
        {.file = 1, .start = 0, .bytes = 100, .words = 20, .counts = {1, 0}},
        {.file = 1, .start = 100, .bytes = 100, .words = 20, .counts = {0, 1}},
        {.file = 1, .start = 200, .bytes = 100, .words = 20, .counts = {1, 0}},
        {.file = 1, .start = 300, .bytes = 900, .words = 200, .counts = {0, 1}},
        {.file = 1, .start = 1200, .bytes = 100, .words = 20, .counts = {1, 0}},
    };
    ranking_score(p, 5, 2, 10);
    assert_true(p[1].score > p[0].score);
    assert_true(p[1].score > p[3].score);
    assert_true(p[3].score > 0);
    /* BM25 by hand: two of ten passages have it, 56 words are the average. */
    const double f = 2.2 / (1 + 1.2 * (0.25 + 0.75 * 20.0 / 56));
    assert_true(p[1].score > f * 1.481 && p[1].score < f * 1.482); /* ln(1 + 8.5 / 2.5) */
}

static double one_each(void *context, int64_t file)
{
    (void)context;
    return file == 9 ? 0.5 : 1;
}

static void test_the_budget_is_kept_and_neighbours_are_joined(void **state)
{
    (void)state;
    struct ranking_passage p[] = {
        {.file = 2, .start = 100, .bytes = 100, .score = 9},
        {.file = 1, .start = 0, .bytes = 400, .score = 8}, /* does not fit beside the first */
        {.file = 2, .start = 0, .bytes = 100, .score = 7},
        {.file = 9, .start = 50, .bytes = 200, .score = 6},
        {.file = 9, .start = 900, .bytes = 10, .score = 1}, /* matters little */
    };
    const struct ranking_budget b = {.tokens = 300, .tokens_per_byte = one_each, .most = 9};
    assert_int_equal(ranking_choose(p, 5, &b), 2);
    assert_int_equal(p[0].file, 2);
    assert_int_equal(p[0].start, 0);
    assert_int_equal(p[0].bytes, 200);
    assert_int_equal(p[1].file, 9);
    assert_int_equal(p[1].bytes, 200);
    struct ranking_passage q[] = {{.file = 1, .bytes = 10, .score = 1},
                                  {.file = 2, .bytes = 10, .score = 1}};
    assert_int_equal(
        ranking_choose(
            q, 2, &(struct ranking_budget){.tokens = 5, .tokens_per_byte = one_each, .most = 9}),
        0);
    assert_int_equal(
        ranking_choose(
            q, 2, &(struct ranking_budget){.tokens = 500, .tokens_per_byte = one_each, .most = 1}),
        1);
    assert_int_equal(ranking_choose(q, 0, &b), 0);
}

/* --- rows ------------------------------------------------------------------------------------ */

static int64_t make_project(struct fixture *f, int64_t user, const char *name)
{
    struct err e = {0};
    int64_t id;
    ASSERT_OK(store_project_add(
        f->store, user,
        &(struct store_project_change){.name = name, .instructions = "be brief", .colour = 3}, &id,
        &e));
    return id;
}

static struct store_project get(struct fixture *f, int64_t id)
{
    struct err e = {0};
    struct store_project p = {0};
    ASSERT_OK(store_project_get(f->store, f->arena, &(struct store_ref){f->user, id}, &p, &e));
    return p;
}

static void move(struct fixture *f, int64_t chat, int64_t project)
{
    struct err e = {0};
    ASSERT_OK(store_conversation_change(
        f->store, f->user, chat, &(struct store_conversation_change){.project_id = project}, &e));
}

static void test_chats_go_into_projects_and_out_again(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int n = 0;
    const int64_t a = make_project(f, f->user, "a"), b = make_project(f, f->user, "b");
    const int64_t chat = fixture_conversation(f, f->user, "one");
    const int64_t both[] = {chat, fixture_conversation(f, f->user, "two")};
    move(f, chat, a);
    struct store_project p;
    ASSERT_OK(
        store_project_of_chat(f->store, f->arena, &(struct store_ref){f->user, chat}, &p, &e));
    assert_int_equal(p.id, a);
    assert_string_equal(p.instructions, "be brief");
    assert_int_equal(p.n_chats, 1);
    ASSERT_OK(store_conversation_bulk(
        f->store, &(struct store_bulk){.user_id = f->user, .ids = both, .n = 2, .project_id = b},
        &n, &e));
    assert_int_equal(n, 2);
    assert_int_equal(get(f, a).n_chats, 0);
    assert_int_equal(get(f, b).n_chats, 2);
    move(f, chat, STORE_NO_PROJECT);
    assert_int_equal(get(f, b).n_chats, 1);
    ASSERT_OK(store_project_remove(f->store, &(struct store_ref){f->user, b}, true, &e));
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM conversations "
                                             "WHERE trashed_at IS NOT NULL AND project_id IS NULL"),
                     1);
    move(f, chat, a);
    ASSERT_OK(store_project_remove(f->store, &(struct store_ref){f->user, a}, false, &e));
    assert_int_equal(
        fixture_number(f->path, "SELECT count(*) FROM conversations WHERE trashed_at IS NULL"), 1);
    fixture_check_whole(f->path);
}

static void test_another_user_reaches_nothing_of_a_project(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_project p;
    struct store_passages found;
    const int64_t mine = make_project(f, f->user, "mine");
    const int64_t file = attachment_add(f, f->user, "a.txt", "the willow grows");
    const int64_t theirs = attachment_add(f, f->other, "b.txt", "the willow grows");
    const struct store_ref as_other = {f->other, mine};
    struct store_project_file_ref at = {f->user, mine, file, 0};
    ASSERT_OK(store_project_file_add(f->store, &at, &e));
    attachment_clear(f);
    ASSERT_ERR(store_project_get(f->store, f->arena, &as_other, &p, &e), ERR_NOTFOUND);
    ASSERT_ERR(store_project_update(f->store, &as_other,
                                    &(struct store_project_change){.name = "x", .colour = -1}, &e),
               ERR_NOTFOUND);
    ASSERT_ERR(store_project_remove(f->store, &as_other, false, &e), ERR_NOTFOUND);
    at.user_id = f->other;
    ASSERT_ERR(store_project_file_remove(f->store, &at, &e), ERR_NOTFOUND);
    ASSERT_ERR(store_project_file_add(f->store, &at, &e), ERR_NOTFOUND);
    at.attachment_id = theirs;
    ASSERT_ERR(store_project_file_add(f->store, &at, &e), ERR_NOTFOUND);
    e = (struct err){0};
    ASSERT_OK(store_project_find(f->store, &as_other, "willow", &found, &e));
    assert_int_equal(found.n, 0);
    free(found.at);
    const int64_t chat = fixture_conversation(f, f->other, "theirs");
    ASSERT_ERR(store_conversation_change(f->store, f->other, chat,
                                         &(struct store_conversation_change){.project_id = mine},
                                         &e),
               ERR_INPUT);
    ASSERT_ERR(store_conversation_add(
                   f->store,
                   &(struct store_conversation_new){.user_id = f->other, .project_id = mine},
                   &(int64_t){0}, &e),
               ERR_INPUT);
    assert_int_equal(get(f, mine).n_files, 1);
}

/* --- the index ------------------------------------------------------------------------------- */

static int found_in(struct fixture *f, int64_t project, const char *question, int64_t *start)
{
    struct err e = {0};
    struct store_passages found;
    ASSERT_OK(
        store_project_find(f->store, &(struct store_ref){f->user, project}, question, &found, &e));
    const int n = found.n;
    if (n && start)
        *start = found.at[0].start;
    free(found.at);
    return n;
}

/* Forty passages; the word stands in one of them. */
static char *long_text(const char *word)
{
    struct buf text = {0};
    for (int i = 0; text.len < 40 * CHUNK_BYTES; i++)
        buf_printf(&text, "Line %d says %s things about nothing much.\n", i,
                   i == 777 ? word : "plain");
    return text.data;
}

static void test_passages_are_found_in_their_project_after_the_recorders_steps(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char *text = long_text("Glühwürmchen");
    const int64_t project = make_project(f, f->user, "p"), empty = make_project(f, f->user, "q");
    const int64_t file = attachment_add(f, f->user, "long.txt", text);
    const struct store_project_file_ref at = {f->user, project, file, 0};
    ASSERT_OK(store_project_file_add(f->store, &at, &e));
    ASSERT_OK(store_project_file_add(f->store, &at, &e)); /* once more is nothing new */
    assert_true(get(f, project).indexing);
    assert_int_equal(found_in(f, project, "gluhwurmchen", NULL), 0);
    attachment_clear(f);
    assert_false(get(f, project).indexing);
    int64_t start = -1;
    assert_int_equal(found_in(f, project, "Where are GLUHWURMCHEN?", &start), 1);
    const char *word = strstr(text, "Glühwürmchen");
    assert_true(text + start <= word && word < text + start + CHUNK_BYTES);
    assert_int_equal(found_in(f, empty, "gluhwurmchen", NULL), 0);
    assert_true(found_in(f, project, "things", NULL) > 35);
    assert_int_equal(found_in(f, project, "— „“ Glühwürmchen —?", NULL), 1); /* no words */
    struct store_project_files files;
    ASSERT_OK(
        store_project_files(f->store, f->arena, &(struct store_ref){f->user, project}, &files, &e));
    assert_int_equal(files.n, 1);
    assert_int_equal(files.at[0].text_bytes, strlen(text));
    free(text);
}

static void test_words_of_scripts_without_blanks_are_found(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    const int64_t project = make_project(f, f->user, "p");
    const int64_t file = attachment_add(f, f->user, "j.txt", "これは東京都の日本語テキストです。");
    ASSERT_OK(store_project_file_add(
        f->store, &(struct store_project_file_ref){f->user, project, file, 0}, &e));
    attachment_clear(f);
    assert_int_equal(found_in(f, project, "東京", NULL), 1);
    assert_int_equal(found_in(f, project, "京東", NULL), 0);
    assert_int_equal(found_in(f, project, "日本語は？", NULL), 1);
    assert_int_equal(found_in(f, project, "日本語", NULL), 1);
}

static void test_what_leaves_a_project_leaves_the_index(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char *text = long_text("Rarebit");
    const int64_t project = make_project(f, f->user, "p"), second = make_project(f, f->user, "q");
    const int64_t file = attachment_add(f, f->user, "long.txt", text);
    struct store_project_file_ref at = {f->user, project, file, 0};
    ASSERT_OK(store_project_file_add(f->store, &at, &e));
    at.project_id = second;
    ASSERT_OK(store_project_file_add(f->store, &at, &e));
    attachment_clear(f);
    ASSERT_ERR(store_attachment_remove(f->store, f->user, file, &e), ERR_CONFLICT);
    e = (struct err){0};
    ASSERT_OK(store_project_remove(f->store, &(struct store_ref){f->user, project}, false, &e));
    attachment_clear(f);
    assert_int_equal(found_in(f, second, "rarebit", NULL), 1); /* the other has it still */
    ASSERT_OK(store_project_file_remove(f->store, &at, &e));
    assert_int_equal(found_in(f, second, "rarebit", NULL), 0);
    attachment_clear(f);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM file_chunks"), 0);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM attachments"), 0);
    assert_int_equal(
        fixture_number(f->path,
                       "SELECT count(*) FROM chunk_search_data WHERE instr(block, 'rarebit')"),
        0);
    fixture_check_whole(f->path);
    free(text);
}

static void test_what_stays_is_found_while_the_index_is_cleared(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char *text = long_text("Rarebit");
    const int64_t project = make_project(f, f->user, "p");
    struct store_project_file_ref at = {f->user, project, attachment_add(f, f->user, "a", text), 0};
    ASSERT_OK(store_project_file_add(f->store, &at, &e));
    at.attachment_id = attachment_add(f, f->user, "b.txt", "other words");
    ASSERT_OK(store_project_file_add(f->store, &at, &e));
    attachment_clear(f);
    ASSERT_OK(store_project_file_remove(f->store, &at, &e));
    for (bool more = true; more;) {
        ASSERT_OK(store_clear(f->store, &more, &e));
        assert_int_equal(found_in(f, project, "rarebit", NULL), 1);
    }
    free(text);
}

static void test_a_removed_user_leaves_no_project(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    const int64_t project = make_project(f, f->other, "theirs");
    const int64_t file = attachment_add(f, f->other, "a.txt", "some words");
    ASSERT_OK(store_project_file_add(
        f->store, &(struct store_project_file_ref){f->other, project, file, 0}, &e));
    ASSERT_OK(store_user_remove(f->store, f->other, &e));
    attachment_clear(f);
    for (bool more = true; more;)
        ASSERT_OK(store_clear(f->store, &more, &e));
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM users"), 1);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM file_chunks"), 0);
    fixture_check_whole(f->path);
}

static void test_the_limits_of_a_project_hold(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char name[70], *large = malloc(STORE_ATTACHMENT_TEXT_BYTES + 1);
    memset(name, 'n', 65);
    name[65] = '\0';
    int64_t id;
    assert_non_null(large);
    memset(large, 'w', STORE_ATTACHMENT_TEXT_BYTES);
    large[STORE_ATTACHMENT_TEXT_BYTES] = '\0';
    const char *const names[] = {"", "  ", "a\nb", name};
    for (int i = 0; i < 4; i++)
        ASSERT_ERR(store_project_add(f->store, f->user,
                                     &(struct store_project_change){.name = names[i]}, &id, &e),
                   ERR_INPUT);
    const int64_t project = make_project(f, f->user, "p");
    for (int i = 0; i < 6; i++) {
        const struct store_project_file_ref at = {f->user, project,
                                                  attachment_add(f, f->user, "l.txt", large), 0};
        e = (struct err){0};
        if (i < 5)
            ASSERT_OK(store_project_file_add(f->store, &at, &e));
        else
            ASSERT_ERR(store_project_file_add(f->store, &at, &e), ERR_LIMIT);
    }
    free(large);
    ASSERT_ERR(store_project_add(f->store, f->user,
                                 &(struct store_project_change){.name = "x", .storage_bytes = 5},
                                 &id, &e),
               ERR_LIMIT);
    const int64_t before = fixture_number(f->path, "SELECT bytes FROM user_texts WHERE user_id=1");
    e = (struct err){0};
    ASSERT_OK(store_project_update(
        f->store, &(struct store_ref){f->user, project},
        &(struct store_project_change){.instructions = "1234567890", .colour = -1}, &e));
    assert_int_equal(fixture_number(f->path, "SELECT bytes FROM user_texts WHERE user_id=1"),
                     before + 2);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

/* By reciprocal ranks: what stands in both lists comes first, and a word that matters little beside
 * the best is none. */
static void test_two_lists_become_one(void **state)
{
    struct ranking_passage words[] = {{.file = 1, .start = 0, .bytes = 10, .score = 1},
                                      {.file = 1, .start = 10, .bytes = 10, .score = 9},
                                      {.file = 1, .start = 20, .bytes = 10, .score = 5}};
    const struct ranking_passage near[] = {{.file = 2, .start = 0, .bytes = 10, .score = 0.9},
                                           {.file = 1, .start = 20, .bytes = 10, .score = 0.8}};
    struct ranking_passage out[RANKING_FUSED + 2];
    assert_int_equal(ranking_fuse(words, 3, near, 2, out), 3);
    assert_true(out[0].file == 1 && out[0].start == 20);
    assert_true(out[0].score > 1.0 / 62 + 1.0 / 63);
    assert_int_equal(ranking_fuse(words, 0, near, 2, out), 2);
    assert_int_equal(out[0].file, 2);
    assert_int_equal(ranking_fuse(words, 3, near, 0, out), 2);
    assert_int_equal(out[0].start, 10);
    assert_int_equal(ranking_fuse(words, 0, near, 0, out), 0);
    (void)state;
}

static void test_only_finite_numbers_are_a_direction(void **state)
{
    int8_t out[2] = {5, 5};
    (void)state;
    assert_false(store_vector_pack((const float[]){1, NAN}, 2, out));
    assert_false(store_vector_pack((const float[]){-INFINITY, 1}, 2, out));
    assert_true(out[0] == 5 && out[1] == 5);
    assert_true(store_vector_pack((const float[]){0.5f, -1}, 2, out));
    assert_true(out[0] == 64 && out[1] == -127);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_lists_become_one),
        cmocka_unit_test(test_only_finite_numbers_are_a_direction),
        cmocka_unit_test(test_passages_are_the_whole_text_and_end_where_it_gives_a_reason),
        cmocka_unit_test(test_a_passage_never_divides_a_letter),
        cmocka_unit_test(test_a_question_becomes_words_without_their_endings),
        cmocka_unit_test(test_rare_words_weigh_more_and_long_passages_less),
        cmocka_unit_test(test_the_budget_is_kept_and_neighbours_are_joined),
        T(test_chats_go_into_projects_and_out_again),
        T(test_another_user_reaches_nothing_of_a_project),
        T(test_passages_are_found_in_their_project_after_the_recorders_steps),
        T(test_words_of_scripts_without_blanks_are_found),
        T(test_what_leaves_a_project_leaves_the_index),
        T(test_what_stays_is_found_while_the_index_is_cleared),
        T(test_a_removed_user_leaves_no_project),
        T(test_the_limits_of_a_project_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
