/* The content gate: what it lets in is what the chat parser gives as content. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/chat/chat_parser.h"
#include "engine/chat/content_gate.h"

static void let_in(const char *format, enum content_begin begin, const char *text, size_t len,
                   struct buf *inside)
{
    struct content_gate g;
    struct buf undecided = {0};
    content_gate_init(&g, format, begin);
    buf_clear(inside);
    buf_puts(inside, "");
    for (size_t i = 0; i < len; i++) {
        enum content_verdict verdict = content_gate_byte(&g, text[i]);
        buf_putc(&undecided, text[i]);
        if (verdict == CONTENT_INSIDE)
            buf_append(inside, undecided.data, undecided.len);
        if (verdict != CONTENT_UNDECIDED)
            buf_clear(&undecided);
    }
    buf_append(inside, undecided.data ? undecided.data : "", undecided.len);
    buf_fini(&undecided);
}

static void take_content(void *context, const struct chat_delta *d)
{
    if (d->type == CHAT_CONTENT)
        buf_append(context, d->text, d->len);
}

static void parse(const char *format, bool opens, const struct buf *text, struct buf *content)
{
    struct err e = {0};
    struct chat_parser *p =
        chat_parser_create(&(struct chat_parser_params){.format = format,
                                                        .opens_reasoning = opens,
                                                        .on_delta = take_content,
                                                        .context = content},
                           &e);
    assert_non_null(p);
    buf_clear(content);
    buf_puts(content, "");
    assert_true(chat_parser_push(p, text->data, text->len, &e) && chat_parser_finish(p, &e));
    chat_parser_destroy(&p);
}

static unsigned random_below(uint64_t *state, unsigned n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33) % n;
}

static void test_it_lets_in_what_the_parser_gives_as_content(void **state)
{
    static const char *const pieces[] = {"<think>",  "</think>",   "<thi", "</think",  "[THINK]",
                                         "[/THINK]", "[/TH",       "<",    " ",        "\n",
                                         "word",     "</</think>", "\n\n", "<<think>", "[[/THINK]"};
    static const char *const formats[] = {"hermes", "plain", "mistral", "glm", "llama3"};
    struct buf text = {0}, inside = {0}, content = {0};
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        const char *format = formats[random_below(&seed, 5)];
        bool opens = random_below(&seed, 3) == 0;
        buf_clear(&text);
        buf_puts(&text, "");
        for (unsigned n = random_below(&seed, 9); n; n--)
            buf_puts(&text, pieces[random_below(&seed, sizeof pieces / sizeof *pieces)]);
        let_in(format, opens ? CONTENT_BEGINS_REASONING : CONTENT_BEGINS_FRESH, text.data, text.len,
               &inside);
        parse(format, opens, &text, &content);
        if (inside.len != content.len || memcmp(inside.data, content.data, inside.len))
            fail_msg("%s%s: '%s': in '%s', parsed '%s'", format, opens ? " (open)" : "", text.data,
                     inside.data, content.data);
    }
    buf_fini(&text);
    buf_fini(&inside);
    buf_fini(&content);
}

#define FINAL "<|start|>assistant<|channel|>final<|message|>"

static void test_harmony_lets_in_all_channels_but_analysis(void **state)
{
    static const struct {
        const char *text, *inside;
    } cases[] = {
        {"<|channel|>analysis<|message|>a final b<|end|>" FINAL "c<|", "c<|"},
        {"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|"
         "end|>" FINAL "c",
         "c"},
        {"<|channel|>commentary<|message|>Let me "
         "see.<|end|><|start|>assistant<|channel|>analysis<|message|>b",
         "Let me see.<|end|>"},
        {"<|channel|>final <|constrain|>json<|message|>{}", "{}"},
        {"no header at all", "no header at all"},
        {"<|channel|>analysis<|message|>only thought <", ""},
        {" to=functions.f<|channel|>commentary json<|message|>{}", "{}"},
    };
    struct buf inside = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        let_in("harmony", CONTENT_BEGINS_FRESH, cases[i].text, strlen(cases[i].text), &inside);
        assert_string_equal(inside.data, cases[i].inside);
    }
    let_in("harmony", CONTENT_BEGINS_REASONING, "more<|end|>" FINAL "x",
           strlen("more<|end|>" FINAL "x"), &inside);
    assert_string_equal(inside.data, "x");
    buf_fini(&inside);
}

/* A text cut anywhere and gone on with from the place where it stood. */
static void test_an_answer_goes_on_where_it_stood(void **state)
{
    static const char *const texts[][2] = {
        {"hermes", "<think>a</think>b</think>"},
        {"harmony", "<|channel|>analysis<|message|>a</think><|end|>" FINAL "b"},
    };
    for (size_t t = 0; t < 2; t++) {
        size_t len = strlen(texts[t][1]);
        for (size_t cut = len - 2; cut <= len; cut++) {
            struct content_gate g;
            content_gate_init(&g, texts[t][0], CONTENT_BEGINS_FRESH);
            for (size_t i = 0; i < cut; i++)
                content_gate_byte(&g, texts[t][1][i]);
            assert_int_equal(content_gate_place(&g), CONTENT_BEGINS_CONTENT);
        }
    }
    struct content_gate g;
    content_gate_init(&g, "hermes", CONTENT_BEGINS_FRESH);
    assert_int_equal(content_gate_place(&g), CONTENT_BEGINS_FRESH);
    for (const char *c = "<think>so"; *c; c++)
        content_gate_byte(&g, *c);
    assert_int_equal(content_gate_place(&g), CONTENT_BEGINS_REASONING);
}

static void test_without_a_format_everything_is_content(void **state)
{
    static const char text[] = "<think>a</think>\n b";
    struct buf inside = {0};
    let_in("", CONTENT_BEGINS_FRESH, text, strlen(text), &inside);
    assert_string_equal(inside.data, text);
    let_in(NULL, CONTENT_BEGINS_REASONING, text, strlen(text), &inside);
    assert_string_equal(inside.data, text);
    buf_fini(&inside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_lets_in_what_the_parser_gives_as_content),
        cmocka_unit_test(test_harmony_lets_in_all_channels_but_analysis),
        cmocka_unit_test(test_an_answer_goes_on_where_it_stood),
        cmocka_unit_test(test_without_a_format_everything_is_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
