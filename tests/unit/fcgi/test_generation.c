/* fcgi/inference/generation.c: engine events to deltas and sums; the same whatever the split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/json/json.h"
#include "fcgi/inference/generation.h"

static const char said[] =
    "<think>\nSay it.\n</think>\n\nHere:\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
    "\"\xC3\xA9\"}}\n</tool_call>";

struct heard {
    struct buf content, reasoning, arguments;
    int calls, ends;
};

static void hear(void *context, const struct generation *g, const struct chat_delta *d)
{
    struct heard *h = context;
    if (d->type == CHAT_CONTENT)
        buf_append(&h->content, d->text, d->len);
    else if (d->type == CHAT_REASONING)
        buf_append(&h->reasoning, d->text, d->len);
    else if (d->type == CHAT_ARGUMENTS)
        buf_append(&h->arguments, d->text, d->len);
    h->calls += d->type == CHAT_CALL;
    h->ends += d->type == CHAT_CALL_END;
}

static cJSON *tool(void)
{
    struct err e = {0};
    const char *text = "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]";
    return json_parse(text, strlen(text), NULL, &e);
}

static void push(struct generation *g, const char *text, size_t len)
{
    struct err e = {0};
    struct engine_token token = {.id = 1};
    struct engine_event ev = {
        .type = ENGINE_TOKENS, .tokens = &token, .n_tokens = 1, .text = text, .text_len = len};
    assert_true(generation_event(g, &ev, &e));
}

static void finish(struct generation *g, enum engine_finish how)
{
    struct err e = {0};
    struct engine_event ev = {
        .type = ENGINE_DONE, .finish = how, .usage = {.completion_tokens = 9}};
    assert_true(generation_event(g, &ev, &e));
}

static void test_every_split_gives_the_same(void **state)
{
    for (size_t step = 1; step < sizeof said; step++) {
        struct heard h = {0};
        struct generation g;
        struct err e = {0};
        cJSON *tools = tool();
        struct generation_params p = {
            .format = "hermes", .tools = tools, .on_delta = hear, .context = &h};
        assert_true(generation_init(&g, &p, &e));
        for (size_t at = 0; at < sizeof said - 1; at += step)
            push(&g, said + at, sizeof said - 1 - at < step ? sizeof said - 1 - at : step);
        finish(&g, ENGINE_STOP_EOS);
        assert_int_equal(g.state, GENERATION_DONE);
        assert_string_equal(generation_finish_reason(&g), "tool_calls");
        assert_int_equal(g.n_calls, 1);
        assert_true(g.calls[0]->whole);
        assert_string_equal(g.calls[0]->name.data, "f");
        assert_non_null(strstr(g.reasoning.data, "Say it."));
        assert_non_null(strstr(g.content.data, "Here:"));
        assert_null(strstr(g.content.data, "tool_call"));
        assert_string_equal(h.content.data, g.content.data);
        assert_string_equal(h.reasoning.data, g.reasoning.data);
        assert_string_equal(h.arguments.data, g.calls[0]->arguments.data);
        assert_int_equal(h.calls, 1);
        assert_int_equal(h.ends, 1);
        cJSON *list = generation_calls_json(&g);
        assert_int_equal(cJSON_GetArraySize(list), 1);
        cJSON_Delete(list);
        generation_fini(&g);
        cJSON_Delete(tools);
        buf_fini(&h.content);
        buf_fini(&h.reasoning);
        buf_fini(&h.arguments);
    }
}

static void test_plain_text_passes_through(void **state)
{
    struct generation g;
    struct err e = {0};
    assert_true(generation_init(&g, &(struct generation_params){0}, &e));
    assert_null(generation_finish_reason(&g));
    push(&g, "<think>", 7);
    push(&g, "x", 1);
    finish(&g, ENGINE_LENGTH);
    assert_string_equal(g.content.data, "<think>x");
    assert_int_equal(g.n_tokens, 2);
    assert_int_equal(g.usage.completion_tokens, 9);
    assert_string_equal(generation_finish_reason(&g), "length");
    assert_null(generation_calls_json(&g));
    generation_fini(&g);
}

static void test_progress_and_queue_are_kept(void **state)
{
    struct generation g;
    struct err e = {0};
    assert_true(generation_init(&g, &(struct generation_params){0}, &e));
    assert_true(generation_event(
        &g, &(struct engine_event){.type = ENGINE_ACCEPTED, .queue_position = 4}, &e));
    assert_int_equal(g.queue_position, 4);
    assert_int_equal(g.state, GENERATION_QUEUED);
    struct engine_event ev = {.type = ENGINE_PROGRESS, .done = 5, .total = 10, .cached = 2};
    assert_true(generation_event(&g, &ev, &e));
    assert_int_equal(g.state, GENERATION_PREFILL);
    assert_int_equal(g.total, 10);
    assert_true(generation_rate(&g) == 0);
    generation_fini(&g);
}

static void test_a_break_gives_out_what_was_held(void **state)
{
    struct generation g;
    struct err e = {0}, why = {.code = ERR_UNAVAILABLE, .text = "gone"};
    cJSON *tools = tool();
    assert_true(
        generation_init(&g, &(struct generation_params){.format = "hermes", .tools = tools}, &e));
    push(&g, "Hello <tool_ca", 14);
    generation_break(&g, &why);
    assert_int_equal(g.state, GENERATION_FAILED);
    assert_string_equal(g.content.data, "Hello <tool_ca");
    assert_int_equal(g.error.code, ERR_UNAVAILABLE);
    assert_null(generation_finish_reason(&g));
    generation_break(&g, &(struct err){.code = ERR_INTERNAL}); /* the first reason stays */
    assert_int_equal(g.error.code, ERR_UNAVAILABLE);
    generation_fini(&g);
    cJSON_Delete(tools);
}

static void test_reasoning_tokens_are_counted_until_it_ends(void **state)
{
    struct generation g;
    struct err e = {0};
    assert_true(generation_init(
        &g, &(struct generation_params){.format = "hermes", .opens_reasoning = true}, &e));
    push(&g, "a ", 2);
    push(&g, "b", 1);
    push(&g, "</think>", 8);
    push(&g, "c", 1);
    push(&g, "d", 1);
    finish(&g, ENGINE_STOP_EOS);
    assert_in_range(g.n_reasoning, 3, 4); /* the token that shows the end may count */
    assert_int_equal(g.n_tokens, 5);
    generation_fini(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_split_gives_the_same),
        cmocka_unit_test(test_plain_text_passes_through),
        cmocka_unit_test(test_progress_and_queue_are_kept),
        cmocka_unit_test(test_a_break_gives_out_what_was_held),
        cmocka_unit_test(test_reasoning_tokens_are_counted_until_it_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
