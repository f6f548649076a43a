/* Finding and sorting conversations: the search index, pins, archive, trash and tags. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "tests/unit/store/store_fixture.h"

#define INDEX_ROWS "SELECT count(*) FROM message_search_data"
#define EMPTY_INDEX 2 /* FTS5's own two records */
#define TAGS(...)                                                                                  \
    .tags = (const char *const[]){__VA_ARGS__},                                                    \
    .n_tags = sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

struct found {
    int n;
    int64_t ids[50], match_id;
    char match[256], tags[256];
};

static bool see(void *context, const struct store_conversation *c)
{
    struct found *f = context;
    f->ids[f->n++] = c->id;
    f->match_id = c->match_id;
    snprintf(f->match, sizeof f->match, "%s", c->match_text ? c->match_text : "");
    snprintf(f->tags, sizeof f->tags, "%s", c->tags);
    return true;
}

static struct found list(struct fixture *f, struct store_page page)
{
    struct err e = {0};
    struct found out = {0};
    if (!page.limit)
        page.limit = 50;
    page.user_id = f->user;
    ASSERT_OK(store_conversation_list(f->store, &page, see, &out, &e));
    return out;
}

static int count(struct fixture *f, const char *text)
{
    return list(f, (struct store_page){.text = text}).n;
}

static void change(struct fixture *f, int64_t id, struct store_conversation_change c)
{
    struct err e = {0};
    ASSERT_OK(store_conversation_change(f->store, f->user, id, &c, &e));
}

static void clear_all(struct fixture *f)
{
    struct err e = {0};
    for (bool more = true; more;)
        ASSERT_OK(store_clear(f->store, &more, &e));
}

static void test_an_answer_is_found_once_it_is_finished(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t id = fixture_conversation(f, f->user, "talk");
    struct store_posted p = fixture_post(f, f->user, id, 0, "what grows here?");
    struct store_answer grows = {
        .id = p.message_id, .status = MESSAGE_RUNNING, .content = "juniper", .content_len = 7};
    int64_t before = fixture_number(f->path, "SELECT sum(length(block)) FROM message_search_data");
    ASSERT_OK(store_record_begin(f->store, false, &e));
    ASSERT_OK(store_record_write(f->store, &grows, NULL, &e));
    ASSERT_OK(store_record_end(f->store, &e));
    assert_int_equal(fixture_number(f->path, "SELECT sum(length(block)) FROM message_search_data"),
                     before);
    assert_int_equal(count(f, "juniper"), 0);
    fixture_finish(f, p.message_id, "a Juniper bush");
    struct found s = list(f, (struct store_page){.text = "juniper"});
    assert_int_equal(s.n, 1);
    assert_int_equal(s.match_id, p.message_id);
    assert_string_equal(s.match, "a Juniper bush");
    s = list(f, (struct store_page){.text = "TALK"});
    assert_int_equal(s.n, 1);
    assert_int_equal(s.match_id, 0);
    /* one that failed is finished too */
    struct store_posted q = fixture_post(f, f->user, id, p.user_message_id, NULL);
    ASSERT_OK(store_record_begin(f->store, false, &e));
    ASSERT_OK(store_record_write(f->store,
                                 &(struct store_answer){.id = q.message_id,
                                                        .status = MESSAGE_RUNNING,
                                                        .content = "larch tree",
                                                        .content_len = 10},
                                 NULL, &e));
    ASSERT_OK(store_record_end(f->store, &e));
    ASSERT_OK(store_message_fail(f->store, f->user, q.message_id,
                                 &(struct store_failure){.text = "cut off"}, &e));
    ASSERT_OK(store_message_fail(f->store, f->user, q.message_id,
                                 &(struct store_failure){.text = "twice"}, &e));
    assert_int_equal(count(f, "larch"), 1);
    fixture_check_whole(f->path);
}

static void test_texts_of_any_script_and_length_are_found(void **state)
{
    struct fixture *f = *state;
    static const char text[] =
        "東京都の日本語テキスト, then Übergrößenträger and a \"quoted 100%_word\" at the end";
    static const char *const hits[] = {
        "日",        "日本",    "日本語", "本語テキ", "京都の日本語テキス",
        "Übergröße", "größen",  "uoted",  "\"q",      "\"quoted 100%_",
        "AND A",     "the end", "d\" at", "at the",   text};
    static const char *const misses[] = {"本日",         "語日本", "Übergrößer",
                                         "quoted 100x_", "end at", "东京都"};
    int64_t id = fixture_conversation(f, f->user, "");
    fixture_finish(f, fixture_post(f, f->user, id, 0, "x").message_id, text);
    for (size_t i = 0; i < sizeof hits / sizeof *hits; i++)
        if (count(f, hits[i]) != 1)
            fail_msg("not found: %s", hits[i]);
    for (size_t i = 0; i < sizeof misses / sizeof *misses; i++)
        if (count(f, misses[i]) != 0)
            fail_msg("found: %s", misses[i]);
    char broken[] = "\xe6\x97\xff\xfe%";
    assert_int_equal(count(f, broken), 0);
}

static void test_letter_case_is_ignored_in_any_script(void **state)
{
    struct fixture *f = *state;
    static const char text[] = "ÜBERGRÖSSE, Straße, ΟΔΟΣ, Москва, İstanbul, ǅ and ﬁne";
    static const char *const hits[] = {"übergrösse", "straße", "STRAßE", "οδος", "Οδοσ", "МОСКВА",
                                       "москва",     "мо",     "ü",      "Ο",    "ﬁne"};
    static const char *const misses[] = {"strasse", "uber", "ubergrosse", "fine", "московa"};
    int64_t id = fixture_conversation(f, f->user, "ÄRGER im Titel");
    fixture_finish(f, fixture_post(f, f->user, id, 0, "x").message_id, text);
    for (size_t i = 0; i < sizeof hits / sizeof *hits; i++)
        if (count(f, hits[i]) != 1)
            fail_msg("not found: %s", hits[i]);
    for (size_t i = 0; i < sizeof misses / sizeof *misses; i++)
        if (count(f, misses[i]) != 0)
            fail_msg("found: %s", misses[i]);
    assert_int_equal(count(f, "ärger"), 1);
}

static bool place(void *context, const struct store_conversation *c)
{
    snprintf(context, 64, "%.*s", (int)c->match_bytes,
             c->match_text ? c->match_text + c->match_at : "");
    return true;
}

static void test_what_was_found_is_told_as_it_is_written(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    static const struct {
        const char *text, *asked, *found;
    } cases[] = {{"aab aaab", "AAAB", "aaab"},
                 {"die Straße", "STRAßE", "Straße"},
                 {"x ΟΔΟΣ y", "οδος", "ΟΔΟΣ"},
                 {"\xe6\x97 and WÜRM", "würm", "WÜRM"},
                 {"K is Kelvin \xe2\x84\xaa", "n k", "n \xe2\x84\xaa"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char found[64] = "";
        int64_t id = fixture_conversation(f, f->user, "");
        fixture_finish(f, fixture_post(f, f->user, id, 0, "?").message_id, cases[i].text);
        const struct store_page page = {.user_id = f->user, .limit = 1, .text = cases[i].asked};
        ASSERT_OK(store_conversation_list(f->store, &page, place, found, &e));
        assert_string_equal(found, cases[i].found);
    }
}

/* Short texts are looked for by reading, which has an end: then it is said. */
static void test_a_short_text_is_looked_for_so_far_and_no_further(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    bool cut = true;
    char found[64];
    static char large[3 << 20];
    memset(large, 'x', sizeof large - 1);
    int64_t old = fixture_conversation(f, f->user, "");
    fixture_finish(f, fixture_post(f, f->user, old, 0, "?").message_id, "a q long ago, zebra");
    struct store_page page = {.user_id = f->user, .limit = 5, .text = "q", .cut = &cut};
    ASSERT_OK(store_conversation_list(f->store, &page, place, found, &e));
    assert_false(cut);
    assert_string_equal(found, "q");
    for (int i = 0; i < 12; i++) {
        int64_t id = fixture_conversation(f, f->user, "");
        fixture_finish(f, fixture_post(f, f->user, id, 0, "?").message_id, large);
    }
    found[0] = 0;
    ASSERT_OK(store_conversation_list(f->store, &page, place, found, &e));
    assert_true(cut);
    assert_string_equal(found, "");
    page.text = "zebra"; /* by the index, behind a first try that ends early */
    ASSERT_OK(store_conversation_list(f->store, &page, place, found, &e));
    assert_false(cut);
    assert_string_equal(found, "zebra");
}

static void test_search_by_the_index_is_the_search_by_reading(void **state)
{
    struct fixture *f = *state;
    static const char *const words[] = {"alpha",  "beta",  "gamma", "delta",
                                        "Alpha%", "be_ta", "γάμμα", "デルタ値"};
    for (int i = 0; i < 40; i++) {
        char text[200];
        snprintf(text, sizeof text, "%s %s%s %d", words[i % 8], words[i * 3 % 8],
                 words[(i + i / 8) % 8], i);
        int64_t id = fixture_conversation(f, i % 3 ? f->user : f->other, "t");
        fixture_post(f, i % 3 ? f->user : f->other, id, 0, text);
    }
    static const char *const asked[] = {"alpha", "ALPHA be", "a%",   "lpha%b", "e_t",
                                        "タ値 ", "γάμμα",    "ta 1", "gammad", "zzz"};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        char sql[400];
        snprintf(sql, sizeof sql,
                 "SELECT count(DISTINCT c.id) FROM conversations c JOIN messages m ON "
                 "m.conversation_id = c.id "
                 "WHERE c.user_id = %lld AND instr(lower(m.content), lower('%s')) > 0",
                 (long long)f->user, asked[i]);
        assert_int_equal(count(f, asked[i]), fixture_number(f->path, sql));
    }
    assert_true(count(f, "alpha") > 5);
}

static void test_what_is_deleted_leaves_the_index(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    const int64_t kept = fixture_conversation(f, f->user, "kept");
    fixture_finish(f, fixture_post(f, f->user, kept, 0, "stays here").message_id, "as before");
    const int64_t id = fixture_conversation(f, f->user, "gone");
    int64_t parent = 0;
    for (int i = 0; i < 400; i++) {
        char text[100];
        snprintf(text, sizeof text, "confidential %d %x", i, i * 7919);
        struct store_posted p = fixture_post(f, f->user, id, parent, text);
        fixture_finish(f, p.message_id, text);
        parent = p.message_id;
    }
    assert_int_equal(count(f, "confidential 399"), 1);
    ASSERT_OK(store_conversation_remove(f->store, f->user, id, &e));
    assert_int_equal(count(f, "confidential"), 0);
    clear_all(f);
    assert_int_equal(count(f, "stays here"), 1);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM messages"), 2);
    ASSERT_OK(store_conversation_remove(f->store, f->user, kept, &e));
    clear_all(f);
    assert_int_equal(fixture_number(f->path, INDEX_ROWS), EMPTY_INDEX);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM message_search_idx"), 0);
    fixture_number(f->path,
                   "INSERT INTO message_search (message_search) VALUES ('integrity-check')");
    fixture_check_whole(f->path);
}

/* One that is too large to be written anew at once is merged in steps. */
static void test_what_is_deleted_leaves_a_large_index(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    static char text[15001]; /* indexed at once, not in parts */
    const int64_t kept = fixture_conversation(f, f->user, "kept"),
                  id = fixture_conversation(f, f->user, "gone");
    fixture_finish(f, fixture_post(f, f->user, kept, 0, "stays here").message_id, "as before");
    uint64_t x = 1;
    for (int i = 0; i < 40; i++) {
        for (size_t k = 0; k < sizeof text - 1; k++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            text[k] = (char)('!' + (x >> 33) % 94);
        }
        fixture_finish(f, fixture_post(f, f->user, id, 0, text).message_id, "done");
    }
    assert_true(fixture_number(f->path, INDEX_ROWS) > 300);
    ASSERT_OK(store_conversation_remove(f->store, f->user, id, &e));
    clear_all(f);
    assert_int_equal(
        fixture_number(f->path, "SELECT value FROM settings WHERE name = 'search_merge'"), 0);
    assert_in_range(fixture_number(f->path, INDEX_ROWS), EMPTY_INDEX + 1, EMPTY_INDEX + 2);
    assert_int_equal(count(f, "stays here"), 1);
    fixture_check_whole(f->path);
}

/* Merging writes the index anew: in a large database not after each removal. */
static void test_removals_from_a_large_index_are_merged_together(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    fixture_number(f->path, "CREATE TABLE ballast (x)");
    fixture_number(f->path, "INSERT INTO ballast VALUES (zeroblob(70 * 1024 * 1024)) RETURNING 1");
    struct store *recorder = fixture_open(f, true); /* moves it from the WAL into the file */
    struct store_wal w;
    ASSERT_OK(store_checkpoint(recorder, true, &w, &e));
    store_close(&recorder);
    for (int round = 0; round < 2; round++) {
        int64_t id = fixture_conversation(f, f->user, "");
        fixture_finish(f, fixture_post(f, f->user, id, 0, "secret words").message_id,
                       "and an answer");
        ASSERT_OK(store_conversation_remove(f->store, f->user, id, &e));
        clear_all(f);
        assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM messages"), 0);
        assert_int_equal(
            fixture_number(f->path, "SELECT value FROM settings WHERE name = 'search_merge'"),
            round ? 2 : 0);
    }
    fixture_number(f->path, "UPDATE settings SET value = value - 7 * 3600000 WHERE name = "
                            "'search_merged_at' RETURNING 1");
    clear_all(f);
    assert_int_equal(
        fixture_number(f->path, "SELECT value FROM settings WHERE name = 'search_merge'"), 0);
    assert_int_equal(fixture_number(f->path, INDEX_ROWS), EMPTY_INDEX);
}

static void test_lists_are_sorted_by_pin_archive_tag_and_date(void **state)
{
    struct fixture *f = *state;
    const int64_t a = fixture_conversation(f, f->user, "a"),
                  b = fixture_conversation(f, f->user, "b"),
                  c = fixture_conversation(f, f->user, "c");
    change(f, a,
           (struct store_conversation_change){.pinned = WHICH_YES,
                                              .tags = "[\"Work\",\"öffentlich\"]"});
    change(
        f, b,
        (struct store_conversation_change){.archived = WHICH_YES, .tags = "[\"work\",\"WORK\"]"});
    assert_int_equal(list(f, (struct store_page){.pinned = WHICH_YES}).ids[0], a);
    assert_int_equal(list(f, (struct store_page){.pinned = WHICH_NO}).n, 2);
    assert_int_equal(list(f, (struct store_page){.archived = WHICH_YES}).ids[0], b);
    assert_int_equal(list(f, (struct store_page){.archived = WHICH_NO}).n, 2);
    assert_int_equal(list(f, (struct store_page){TAGS("WORK")}).n, 2);
    assert_int_equal(list(f, (struct store_page){TAGS("wor")}).n, 0);
    assert_string_equal(list(f, (struct store_page){TAGS("öffentlich")}).tags,
                        "[\"Work\",\"öffentlich\"]");
    assert_string_equal(list(f, (struct store_page){.archived = WHICH_YES}).tags, "[\"work\"]");
    assert_int_equal(list(f, (struct store_page){.archived = WHICH_NO, .text = "a"}).n, 1);
    /* what isn't named stays; an empty list takes all tags away */
    change(f, a, (struct store_conversation_change){.title = "A"});
    assert_int_equal(list(f, (struct store_page){.pinned = WHICH_YES, TAGS("work")}).n, 1);
    change(f, a, (struct store_conversation_change){.pinned = WHICH_NO, .tags = "[]"});
    assert_int_equal(list(f, (struct store_page){.pinned = WHICH_YES}).n, 0);
    assert_int_equal(list(f, (struct store_page){TAGS("work")}).n, 1);
    fixture_number(f->path, "UPDATE conversations SET updated_at = 1000 * id");
    assert_int_equal(list(f, (struct store_page){.from = 1000 * b}).n, 2);
    assert_int_equal(list(f, (struct store_page){.to = 1000 * b}).n, 1);
    assert_int_equal(list(f, (struct store_page){.from = 1000 * b, .to = 1000 * c}).ids[0], b);
    assert_int_equal(
        list(f, (struct store_page){.to = 1000 * c, .before_updated = 1000 * b, .before_id = b})
            .ids[0],
        a);
    assert_int_equal(
        list(f, (struct store_page){.to = 1000 * b, .before_updated = 1000 * c, .before_id = c})
            .ids[0],
        a);
}

static void test_tags_are_the_same_in_any_letter_case_and_several_must_all_be_there(void **state)
{
    struct fixture *f = *state;
    const int64_t a = fixture_conversation(f, f->user, "a"),
                  b = fixture_conversation(f, f->user, "b");
    change(
        f, a,
        (struct store_conversation_change){
            .tags = "[\"ÄRGER\",\"Straße\",\"ärger\",\"STRASSE\",\"σοφός\",\"e\u0301t\u00e9\"]"});
    change(f, b, (struct store_conversation_change){.tags = "[\"Ärger\",\"b\"]"});
    assert_string_equal(list(f, (struct store_page){TAGS("ärger", "STRASSE")}).tags,
                        "[\"Straße\",\"ÄRGER\",\"e\u0301té\",\"σοφός\"]");
    assert_int_equal(list(f, (struct store_page){TAGS("ärger")}).n, 2);
    assert_int_equal(list(f, (struct store_page){TAGS("ΣΟΦΌΣ", "été", "Ärger")}).ids[0], a);
    assert_int_equal(list(f, (struct store_page){TAGS("ärger", "b")}).ids[0], b);
    assert_int_equal(list(f, (struct store_page){TAGS("straße", "b")}).n, 0);
    assert_int_equal(list(f, (struct store_page){TAGS("")}).n, 0);
    assert_int_equal(list(f, (struct store_page){TAGS("\xff\"")}).n, 0);
    assert_int_equal(list(f, (struct store_page){TAGS("b", "B"), .text = "b"}).n, 1);
}

static void test_tags_have_limits(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    int64_t id = fixture_conversation(f, f->user, "a");
    char many[1000] = "[\"0\"", longest[100];
    for (int i = 1; i <= STORE_TAGS_MAX; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), ",\"%d\"", i);
    strcat(many, "]");
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "[\"", 2);
    snprintf(longest + 2 + STORE_TAG_BYTES + 1, 3, "\"]");
    const char *const bad[] = {"{}",          "3",      "",         "[3]",
                               "[\"\"]",      "[null]", "[\" a\"]", "[\"a \"]",
                               "[\"a\\nb\"]", many,     longest};
    change(f, id, (struct store_conversation_change){.tags = "[\"here\"]"});
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ASSERT_ERR(store_conversation_change(f->store, f->user, id,
                                             &(struct store_conversation_change){.tags = bad[i]},
                                             &e),
                   ERR_INPUT);
        assert_string_equal(e.field, "tags");
    }
    ASSERT_ERR(store_conversation_change(f->store, f->other, id,
                                         &(struct store_conversation_change){.tags = "[]"}, &e),
               ERR_NOTFOUND);
    assert_int_equal(list(f, (struct store_page){TAGS("here")}).n, 1);
}

static void test_trash_is_restored_or_cleared_after_its_days(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_conversation c;
    char sql[200];
    const int64_t old = fixture_conversation(f, f->user, "old"),
                  young = fixture_conversation(f, f->user, "young");
    const struct store_conversation_change trash = {.trashed = WHICH_YES},
                                           restore = {.trashed = WHICH_NO};
    struct store_posted p = fixture_post(f, f->user, old, 0, "rubbish");
    fixture_finish(f, p.message_id, "yes");
    change(f, old, trash);
    change(f, young, trash);
    ASSERT_ERR(store_conversation_change(f->store, f->other, young, &restore, &e), ERR_NOTFOUND);
    assert_int_equal(list(f, (struct store_page){0}).n, 0);
    assert_int_equal(count(f, "rubbish"), 0);
    assert_int_equal(list(f, (struct store_page){.trashed = true, .text = "rubbish"}).n, 1);
    assert_int_equal(list(f, (struct store_page){.trashed = true}).n, 2);
    change(f, old, restore);
    assert_int_equal(count(f, "rubbish"), 1);
    change(f, old, trash);
    const int64_t days = (int64_t)STORE_TRASH_DAYS * 24 * 3600 * 1000;
    snprintf(sql, sizeof sql, "UPDATE conversations SET trashed_at = %lld WHERE id = %lld",
             (long long)(clock_wall_ms() - days + 60000), (long long)old);
    fixture_number(f->path, sql);
    change(f, old, trash); /* again: the days go on */
    clear_all(f);
    assert_int_equal(list(f, (struct store_page){.trashed = true}).n, 2);
    snprintf(sql, sizeof sql,
             "UPDATE conversations SET trashed_at = trashed_at - 120000 WHERE id = %lld",
             (long long)old);
    fixture_number(f->path, sql);
    clear_all(f);
    ASSERT_ERR(store_conversation_get(f->store, f->arena,
                                      &(struct store_ref){.user_id = f->user, .id = old}, &c, &e),
               ERR_NOTFOUND);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM messages"), 0);
    assert_int_equal(fixture_number(f->path, INDEX_ROWS), EMPTY_INDEX);
    /* whoever writes in it takes it out */
    ASSERT_OK(store_conversation_get(f->store, f->arena,
                                     &(struct store_ref){.user_id = f->user, .id = young}, &c, &e));
    assert_true(c.trashed_at > 0);
    fixture_post(f, f->user, young, 0, "I need it");
    assert_int_equal(list(f, (struct store_page){0}).n, 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_an_answer_is_found_once_it_is_finished),
        T(test_texts_of_any_script_and_length_are_found),
        T(test_search_by_the_index_is_the_search_by_reading),
        T(test_letter_case_is_ignored_in_any_script),
        T(test_what_was_found_is_told_as_it_is_written),
        T(test_a_short_text_is_looked_for_so_far_and_no_further),
        T(test_what_is_deleted_leaves_the_index),
        T(test_what_is_deleted_leaves_a_large_index),
        T(test_removals_from_a_large_index_are_merged_together),
        T(test_lists_are_sorted_by_pin_archive_tag_and_date),
        T(test_tags_are_the_same_in_any_letter_case_and_several_must_all_be_there),
        T(test_tags_have_limits),
        T(test_trash_is_restored_or_cleared_after_its_days),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
