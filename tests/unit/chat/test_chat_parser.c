/* Answers to reasoning, content and calls, for every way to cut them into pieces.
 * test_chat_parser --cases DIR runs the cases of DIR/parsing instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "engine/base/json/json.h"
#include "engine/chat/chat_parser.h"
#include "tests/unit/chat/chat_cases.h"
#include "tests/unit/chat/chat_samples.h"

struct result {
    struct buf reasoning, content, calls; /* calls as a JSON list without its brackets */
    struct buf arguments;                 /* of the call under way */
    bool open;                            /* a call has begun and not ended */
    int n_calls, n_pieces;
    const char *wrong; /* the deltas broke their order */
};

/* A call that had no end was malformed: its arguments stand in the list as a string. */
static void close_broken(struct result *r)
{
    if (!r->open)
        return;
    r->open = false;
    r->n_calls++;
    buf_json_string(&r->calls, r->arguments.data ? r->arguments.data : "", r->arguments.len);
    buf_putc(&r->calls, '}');
}

static void take(void *context, const struct chat_delta *d)
{
    struct result *r = context;
    cJSON *v;
    if (d->type < CHAT_ARGUMENTS)
        close_broken(r);
    r->n_pieces += d->type == CHAT_ARGUMENTS;
    switch (d->type) {
    case CHAT_REASONING:
        buf_append(&r->reasoning, d->text, d->len);
        break;
    case CHAT_CONTENT:
        buf_append(&r->content, d->text, d->len);
        break;
    case CHAT_CALL:
        r->wrong = d->index != r->n_calls ? "a call out of order" : r->wrong;
        r->open = true;
        buf_clear(&r->arguments);
        buf_printf(&r->calls, "%s{\"name\":", d->index ? "," : "");
        buf_json_string(&r->calls, d->name, strlen(d->name));
        buf_puts(&r->calls, ",\"arguments\":");
        break;
    case CHAT_ARGUMENTS:
        r->wrong = !r->open || d->index != r->n_calls ? "arguments out of order" : r->wrong;
        buf_append(&r->arguments, d->text, d->len);
        break;
    default:
        v = json_parse(r->arguments.data ? r->arguments.data : "", r->arguments.len, NULL, NULL);
        r->wrong = !r->open || !cJSON_IsObject(v) ? "arguments that are no JSON object" : r->wrong;
        cJSON_Delete(v);
        r->open = false;
        r->n_calls++;
        buf_append(&r->calls, r->arguments.data, r->arguments.len);
        buf_putc(&r->calls, '}');
    }
    if (d->type != CHAT_CALL && d->type != CHAT_CALL_END && d->len == 0)
        r->wrong = "an empty delta";
}

static void result_fini(struct result *r)
{
    buf_fini(&r->reasoning);
    buf_fini(&r->content);
    buf_fini(&r->calls);
    buf_fini(&r->arguments);
}

/* Parses raw[0..len) in pieces of `size` bytes (0: all at once), the first of them `first` long. */
static struct result parse(const struct chat_parser_params *like, const char *raw, size_t len,
                           size_t first, size_t size)
{
    struct result r = {0};
    struct err e = {0};
    struct chat_parser_params params = *like;
    params.on_delta = take;
    params.context = &r;
    struct chat_parser *p = chat_parser_create(&params, &e);
    if (!p)
        fail_msg("%s", e.text);
    size_t at = first < len ? first : len;
    assert_true(chat_parser_push(p, raw, at, &e));
    while (at < len) {
        size_t n = size && size < len - at ? size : len - at;
        assert_true(chat_parser_push(p, raw + at, n, &e));
        at += n;
    }
    assert_true(chat_parser_finish(p, &e));
    chat_parser_destroy(&p);
    assert_null(p);
    close_broken(&r);
    if (r.wrong)
        fail_msg("%s in %s", r.wrong, raw);
    return r;
}

static bool same_text(const struct buf *b, const char *want)
{
    return b->len == strlen(want) && !memcmp(b->data ? b->data : "", want, b->len);
}

static bool content_fits(const struct buf *content, const cJSON *c)
{
    if (same_text(content, chat_case_text(json_member(c, "expect"), "content")))
        return true;
    const cJSON *others = json_member(c, "accept_content");
    for (const cJSON *o = others ? others->child : NULL; o; o = o->next)
        if (same_text(content, o->valuestring))
            return true;
    return false;
}

static bool calls_fit(const struct buf *calls, const cJSON *want)
{
    struct buf list = {0};
    buf_printf(&list, "[%s]", calls->data ? calls->data : "");
    cJSON *got = json_parse(list.data, list.len, NULL, NULL);
    bool same = got && cJSON_Compare(got, want, true);
    cJSON_Delete(got);
    buf_fini(&list);
    return same;
}

static bool fits(const cJSON *c, const struct result *r)
{
    const cJSON *want = json_member(c, "expect");
    return same_text(&r->reasoning, chat_case_text(want, "reasoning_content")) &&
           content_fits(&r->content, c) && calls_fit(&r->calls, json_member(want, "tool_calls"));
}

static bool check(const cJSON *c, size_t first, size_t size)
{
    const char *raw = chat_case_text(c, "raw");
    struct chat_parser_params p = {
        .format = chat_case_text(c, "format"),
        .tools = json_member(c, "tools"),
        .opens_reasoning = cJSON_IsTrue(json_member(c, "reasoning_opened_by_template"))};
    struct result r = parse(&p, raw, strlen(raw), first, size);
    bool ok = fits(c, &r);
    if (!ok)
        print_error("%s cut at %zu, then %zu: %s\n  reasoning %s\n  content %s\n  calls %s\n",
                    chat_case_text(c, "id"), first, size, raw,
                    r.reasoning.data ? r.reasoning.data : "", r.content.data ? r.content.data : "",
                    r.calls.data ? r.calls.data : "");
    result_fini(&r);
    return ok;
}

static void test_cases_hold_under_every_split(void **state)
{
    struct chat_cases cases;
    int wrong = 0, n = 0;
    chat_cases_read(&cases, "parsing/cases.jsonl");
    assert_true(cases.n > 90);
    for (size_t i = 0; i < cases.n; i++) {
        size_t len = strlen(chat_case_text(cases.at[i], "raw"));
        for (size_t first = 0; first <= len && !wrong;
             first++, n += 2) /* in two, and the rest byte by byte */
            wrong += !check(cases.at[i], first, 0) || !check(cases.at[i], first, 1);
        for (size_t size = 2; size < 12 && !wrong; size++, n++)
            wrong += !check(cases.at[i], size, size);
    }
    chat_cases_free(&cases);
    print_message("%d parses\n", n);
    assert_int_equal(wrong, 0);
}

/* ---- further formats and faults; the tools are f and g everywhere */

static void assert_sample(const struct chat_sample *s, bool live)
{
    cJSON *tools = cJSON_Parse(chat_samples_tools);
    struct chat_parser_params p = {
        .format = s->format, .opens_reasoning = s->opens, .tools = tools, .stream_calls = live};
    size_t len = strlen(s->raw);
    for (size_t first = 0; first <= len; first++) {
        for (size_t size = 0; size < 3; size++) {
            struct result r = parse(&p, s->raw, len, first, size);
            if (!same_text(&r.reasoning, s->reasoning) || !same_text(&r.content, s->content) ||
                !same_text(&r.calls, s->calls))
                fail_msg("%s %s cut at %zu, then %zu:\n  reasoning %s\n  content %s\n  calls %s",
                         s->format, s->raw, first, size, r.reasoning.data, r.content.data,
                         r.calls.data);
            result_fini(&r);
        }
    }
    cJSON_Delete(tools);
}

static void test_further_formats(void **state)
{
    for (size_t i = 0; i < chat_samples_n_further; i++)
        assert_sample(&chat_samples_further[i], false);
}

/* What was given out can't be taken back: a live call that breaks keeps its arguments as they were
 * written. */
static void test_live_calls_that_break(void **state)
{
    for (size_t i = 0; i < chat_samples_n_broken; i++)
        assert_sample(&chat_samples_broken[i], true);
}

/* The name leaves before the arguments, and these as they are written: for each format that names
 * its call first. */
static void test_arguments_leave_as_they_are_written(void **state)
{
    static const char *const samples[][3] = {
        {"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"one",
         " two three\"}}</tool_call>"},
        {"mistral", "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{\"s\":\"one", " two three\"}}]"},
        {"mistral", "[TOOL_CALLS]f[ARGS]{\"s\":\"one", " two three\"}"},
        {"deepseek_v3.1", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"s\":\"one",
         " two three\"}<｜tool▁call▁end｜>"},
        {"kimi_k2",
         "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"
         "\"s\":\"one",
         " two three\"}<|tool_call_end|>"},
        {"harmony", "<|channel|>commentary to=functions.f<|message|>{\"s\":\"one",
         " two three\"}<|call|>"},
        {"qwen3_coder", "<tool_call>\n<function=f>\n<parameter=s>\none",
         " two three\n</parameter>\n</function>\n</tool_call>"},
        {"glm", "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>one",
         " two three</arg_value>\n</tool_call>"},
        {"minimax_m2", "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">one",
         " two three</parameter>\n</invoke>"},
        {"bailing", "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>one",
         " two three</arg_value>\n</tool_call>"},
    };
    cJSON *tools = cJSON_Parse(chat_samples_tools);
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        struct result r = {0};
        struct err e = {0};
        struct chat_parser *p =
            chat_parser_create(&(struct chat_parser_params){.format = samples[i][0],
                                                            .tools = tools,
                                                            .stream_calls = true,
                                                            .on_delta = take,
                                                            .context = &r},
                               &e);
        assert_true(chat_parser_push(p, samples[i][1], strlen(samples[i][1]), &e));
        if (!r.open || !r.arguments.len || !strstr(r.arguments.data, "one"))
            fail_msg("%s holds its arguments back: %s", samples[i][0],
                     r.arguments.len ? r.arguments.data : "nothing");
        assert_true(chat_parser_push(p, samples[i][2], strlen(samples[i][2]), &e));
        assert_true(chat_parser_finish(p, &e));
        assert_int_equal(r.n_calls, 1);
        assert_true(r.n_pieces >= 2);
        assert_non_null(strstr(r.calls.data, "one two three"));
        assert_null(r.wrong);
        chat_parser_destroy(&p);
        result_fini(&r);
    }
    cJSON_Delete(tools);
}

static void test_without_tools_nothing_is_a_call(void **state)
{
    const char *raw = "[TOOL_CALLS][{\"name\":\"g\",\"arguments\":{}}]";
    cJSON *empty = cJSON_CreateArray();
    for (int i = 0; i < 2; i++) {
        struct result r =
            parse(&(struct chat_parser_params){.format = "mistral", .tools = i ? empty : NULL}, raw,
                  strlen(raw), 3, 1);
        assert_true(same_text(&r.content, raw));
        assert_int_equal(r.n_calls, 0);
        result_fini(&r);
    }
    cJSON_Delete(empty);
}

static void test_unknown_format_is_refused(void **state)
{
    struct err e = {0};
    assert_null(
        chat_parser_create(&(struct chat_parser_params){.format = "morse", .on_delta = take}, &e));
    assert_int_equal(e.code, ERR_INPUT);
}

/* Text leaves as soon as it can't be markup any more. */
static void test_text_is_not_held_back_longer_than_needed(void **state)
{
    struct result r = {0};
    struct err e = {0};
    cJSON *tools = cJSON_Parse(chat_samples_tools);
    struct chat_parser_params params = {
        .format = "hermes", .tools = tools, .on_delta = take, .context = &r};
    struct chat_parser *p = chat_parser_create(&params, &e);
    assert_true(chat_parser_push(p, "Hello <tool", 11, &e));
    assert_true(same_text(&r.content, "Hello"));
    assert_true(chat_parser_push(p, "box> it", 7, &e));
    assert_true(same_text(&r.content, "Hello <toolbox> it"));
    assert_true(chat_parser_push(p, "<tool_call>{\"name\":\"g\"}</tool_call", 34, &e));
    assert_int_equal(r.n_calls, 0);
    assert_true(chat_parser_push(p, ">", 1, &e));
    assert_int_equal(r.n_calls, 1);
    chat_parser_destroy(&p);
    result_fini(&r);
    cJSON_Delete(tools);
}

/* Processor time, which a busy machine does not change. */
static double cpu_ms(void)
{
    return (double)clock() * 1000.0 / CLOCKS_PER_SEC;
}

/* A long answer in many small pieces costs no more than its length. Sixteen times as long takes
 * some forty times as long (fresh pages cost, too), not two hundred and fifty-six. The best of
 * three counts. */
static double time_of(const char *format, const char *head, const char *piece, const char *tail,
                      int n)
{
    struct buf b = {0};
    cJSON *tools = cJSON_Parse(chat_samples_tools);
    buf_puts(&b, head);
    for (int i = 0; i < n; i++)
        buf_puts(&b, piece);
    buf_puts(&b, tail);
    double best = 1e9;
    for (int turn = 0; turn < 3; turn++) {
        double start = cpu_ms();
        struct result r = parse(&(struct chat_parser_params){.format = format, .tools = tools},
                                b.data, b.len, 4, 4);
        double ms = cpu_ms() - start;
        best = ms < best ? ms : best;
        assert_true(r.content.len + r.calls.len + r.reasoning.len > (size_t)n / 2);
        result_fini(&r);
    }
    cJSON_Delete(tools);
    buf_fini(&b);
    return best;
}

static void test_time_is_linear_in_the_answer(void **state)
{
    static const char *const samples[][4] = {
        {"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"", "</tool_call> x ",
         "\"}}</tool_call>"},
        {"hermes", "", "<tool_call>{", ""},
        {"hermes", "<think>", "</thin <", "</think>"},
        {"qwen3_coder", "<function=f><parameter=s>", "</parameter>  <par",
         "</parameter></function>"},
        {"qwen3_coder", "<function=f><parameter=s>", "</parameter>\n\n\n\n",
         "</parameter></function>"},
        {"glm", "<tool_call>f<arg_key>s</arg_key><arg_value>", "</arg_value> <arg_k",
         "</arg_value></tool_call>"},
        {"llama3", "{\"name\":\"f\",\"parameters\":{\"o\":[0", ",{\"a\":[1]}", "]}}"},
        {"mistral", "[TOOL_CALLS][{\"name\":\"g\",\"arguments\":{}}",
         ",{\"name\":\"g\",\"arguments\":{}}", "]"},
        {"harmony", "<|channel|>final<|message|>", "<|en <|", ""},
    };
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        double one = time_of(samples[i][0], samples[i][1], samples[i][2], samples[i][3], 5000);
        double long_one =
            time_of(samples[i][0], samples[i][1], samples[i][2], samples[i][3], 80000);
        if (long_one > 100 * one + 5)
            fail_msg("%s %s: %.1f ms, sixteen times as long %.1f ms", samples[i][0], samples[i][2],
                     one, long_one);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases_hold_under_every_split),
        cmocka_unit_test(test_further_formats),
        cmocka_unit_test(test_live_calls_that_break),
        cmocka_unit_test(test_arguments_leave_as_they_are_written),
        cmocka_unit_test(test_without_tools_nothing_is_a_call),
        cmocka_unit_test(test_unknown_format_is_refused),
        cmocka_unit_test(test_text_is_not_held_back_longer_than_needed),
        cmocka_unit_test(test_time_is_linear_in_the_answer),
    };
    chat_cases_directory(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
