/* Drafts by a user's earlier texts: what followed the same words there, from nobody else's, and
 * only while the prefix cache has it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "engine/draft/recall.h"

#define BLOCK BACKEND_BLOCK_TOKENS
#define BLOCKS 40
#define MOST_TEXT 200

static struct recall *recall;

static int open_recall(void **state)
{
    struct err e = {0};
    recall = recall_create(BLOCKS, &e);
    return recall ? 0 : -1;
}

static int close_recall(void **state)
{
    recall_destroy(&recall);
    return 0;
}

/* As the scheduler does it: the whole blocks as they are filled, then the end. */
static void remember(const char *scope, const int32_t *tokens, int32_t n, const int32_t *blocks)
{
    const struct draft_text t = {.tokens = tokens, .n_tokens = n, .scope = scope};
    for (int32_t i = 0; i < n / BLOCK; i++)
        recall_add(recall, &t, i * BLOCK, blocks[i], i ? blocks[i - 1] : -1);
    if (n / BLOCK)
        recall_end(recall, &t, n / BLOCK * BLOCK, blocks[n / BLOCK - 1]);
}

static struct draft draft_after(const char *scope, const int32_t *tokens, int32_t n)
{
    struct draft out = {0};
    recall_draft(recall, &(struct draft_text){.tokens = tokens, .n_tokens = n, .scope = scope},
                 DRAFT_MAX, &out);
    return out;
}

static void count_up(int32_t *tokens, int32_t n, int32_t from)
{
    for (int32_t i = 0; i < n; i++)
        tokens[i] = from + i;
}

static void test_an_earlier_text_is_continued_over_blocks_to_its_end(void **state)
{
    int32_t text[80];
    count_up(text, 80, 100);
    remember("anna", text, 80, (int32_t[]){7, 3});
    for (int32_t at = 3; at < 80; at++) {
        const struct draft d = draft_after("anna", text + at - 3, 3);
        assert_int_equal(d.n, 80 - at < DRAFT_MAX ? 80 - at : DRAFT_MAX);
        assert_memory_equal(d.ids, text + at, (size_t)d.n * sizeof *text);
    }
    assert_int_equal(draft_after("anna", text + 77, 3).n, 0);
    assert_int_equal(draft_after("anna", text + 20, 2).n, 0); /* too few words to go by */
}

static void test_nobody_drafts_by_another_users_text(void **state)
{
    int32_t text[80];
    count_up(text, 80, 100);
    remember("anna", text, 80, (int32_t[]){0, 1});
    assert_int_equal(draft_after("anna2", text, 10).n, 0);
    assert_int_equal(draft_after("", text, 10).n, 0);
    assert_true(draft_after("anna", text, 10).n > 0);
}

static void test_what_is_forgotten_is_gone(void **state)
{
    int32_t text[80];
    count_up(text, 80, 100);
    remember("anna", text, 80, (int32_t[]){4, 9});
    recall_forget(recall, 9); /* and what followed it */
    for (int32_t at = 33; at < 80; at++)
        assert_int_equal(draft_after("anna", text, at).n, 0);
    assert_int_equal(draft_after("anna", text, 30).n, 2);
    recall_forget(recall, 4);
    for (int32_t at = 3; at < 80; at++)
        assert_int_equal(draft_after("anna", text, at).n, 0);
    recall_forget(recall, 4); /* of nothing */
}

/* A chat may be deleted while its answer grows: the prefix cache finds none of that any more. */
static void test_what_follows_something_forgotten_is_gone_too(void **state)
{
    int32_t text[120];
    count_up(text, 120, 100);
    remember("anna", text, 80, (int32_t[]){4, 9});
    recall_forget(recall, 4);
    recall_add(recall, &(struct draft_text){.tokens = text, .n_tokens = 96, .scope = "anna"}, 64, 2,
               9);
    for (int32_t at = 3; at < 120; at++)
        assert_int_equal(draft_after("anna", text, at).n, 0);
    remember("anna", text, 80, (int32_t[]){5, 6});
    assert_int_equal(draft_after("anna", text, 30).n, DRAFT_MAX);
}

static void test_a_block_that_is_used_again_has_the_new_text_alone(void **state)
{
    int32_t text[64], other[64];
    count_up(text, 64, 100);
    count_up(other, 64, 500);
    remember("anna", text, 64, (int32_t[]){4, 9});
    recall_forget(recall, 9);
    remember("ben", other, 64, (int32_t[]){2, 9});
    assert_int_equal(draft_after("anna", text, 32).n, 0);
    assert_int_equal(draft_after("ben", other, 32).n, DRAFT_MAX);
}

static void test_the_longest_match_counts_then_what_most_went_on_with(void **state)
{
    int32_t text[4][BLOCK], ask[] = {1, 2, 3, 4, 5};
    for (int32_t i = 0; i < 4; i++) {
        count_up(text[i], BLOCK, 100 + 100 * i);
        memcpy(text[i] + 4, ask, sizeof ask);
        text[i][9] = i == 3 ? 60 : 50;
        if (i == 2)
            text[i][4] = 99; /* a shorter match than the others */
        remember("anna", text[i], BLOCK, &i);
    }
    struct draft d = draft_after("anna", ask, 5);
    assert_int_equal(d.ids[0], 50); /* two of three, though 60 is the latest */
    assert_int_equal(d.ids[1], text[1][10]);
    const enum draft_ground unsure = d.ground[0];
    recall_forget(recall, 3);
    d = draft_after("anna", ask, 5);
    assert_int_equal(d.ids[0], 50);
    assert_true(d.ground[0] > unsure && d.ground[0] <= DRAFT_RECALL_LAST);
    assert_true(unsure >= DRAFT_RECALL);
}

static void test_another_end_replaces_the_one_before(void **state)
{
    int32_t text[50];
    count_up(text, 50, 100);
    remember("anna", text, 50, (int32_t[]){5});
    count_up(text + 40, 10, 700);
    remember("anna", text, 45, (int32_t[]){5});
    const struct draft d = draft_after("anna", text, 35);
    assert_int_equal(d.n, 10);
    assert_memory_equal(d.ids, text + 35, 10 * sizeof *text);
}

struct known { /* what the cache has, by this test's own books */
    int32_t tokens[MOST_TEXT], n, blocks[8];
    char scope[8];
    bool there;
};

/* Does a text of this user still have all of these tokens in a row? */
static bool stands_somewhere(const struct known *k, int32_t n, const char *scope,
                             const int32_t *tokens, int32_t n_tokens)
{
    for (int32_t i = 0; i < n; i++)
        for (int32_t at = 0; k[i].there && !strcmp(k[i].scope, scope) && at + n_tokens <= k[i].n;
             at++)
            if (!memcmp(k[i].tokens + at, tokens, (size_t)n_tokens * sizeof *tokens))
                return true;
    return false;
}

/* Texts of few words come and go; every draft is the continuation of one that is there. */
static void test_drafts_are_always_of_texts_that_are_there(void **state)
{
    enum { TEXTS = 8, ROUNDS = 4000 };
    static struct known k[TEXTS];
    unsigned seed = 7;
    int32_t drafted = 0;
    memset(k, 0, sizeof k);
    for (int32_t round = 0; round < ROUNDS; round++) {
        struct known *one = &k[(seed = seed * 1103515245u + 12345) >> 16 & (TEXTS - 1)];
        if (one->there) {
            for (int32_t i = 0; i < one->n / BLOCK; i++)
                recall_forget(recall, one->blocks[i]);
            one->there = false;
            continue;
        }
        one->n = 3 + (int32_t)((seed = seed * 1103515245u + 12345) >> 16) % (5 * BLOCK - 8);
        for (int32_t i = 0; i < one->n; i++)
            one->tokens[i] = (int32_t)((seed = seed * 1103515245u + 12345) >> 16) % 4;
        for (int32_t i = 0; i < 5; i++)
            one->blocks[i] = (int32_t)(one - k) * 5 + i;
        strcpy(one->scope, seed >> 20 & 1 ? "anna" : "ben");
        one->there = one->n >= BLOCK;
        remember(one->scope, one->tokens, one->n, one->blocks);
        int32_t ask[3 + DRAFT_MAX] = {(int32_t)(seed >> 17 & 3), (int32_t)(seed >> 19 & 3),
                                      (int32_t)(seed >> 21 & 3)};
        const struct draft d = draft_after("anna", ask, 3);
        memcpy(ask + 3, d.ids, (size_t)d.n * sizeof *d.ids);
        assert_true(!d.n || stands_somewhere(k, TEXTS, "anna", ask, 3 + d.n));
        drafted += d.n;
    }
    assert_true(drafted > ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_earlier_text_is_continued_over_blocks_to_its_end,
                                        open_recall, close_recall),
        cmocka_unit_test_setup_teardown(test_nobody_drafts_by_another_users_text, open_recall,
                                        close_recall),
        cmocka_unit_test_setup_teardown(test_what_is_forgotten_is_gone, open_recall, close_recall),
        cmocka_unit_test_setup_teardown(test_what_follows_something_forgotten_is_gone_too,
                                        open_recall, close_recall),
        cmocka_unit_test_setup_teardown(test_a_block_that_is_used_again_has_the_new_text_alone,
                                        open_recall, close_recall),
        cmocka_unit_test_setup_teardown(test_the_longest_match_counts_then_what_most_went_on_with,
                                        open_recall, close_recall),
        cmocka_unit_test_setup_teardown(test_another_end_replaces_the_one_before, open_recall,
                                        close_recall),
        cmocka_unit_test_setup_teardown(test_drafts_are_always_of_texts_that_are_there, open_recall,
                                        close_recall),
    };
    return cmocka_run_group_tests_name("recall", tests, NULL, NULL);
}
