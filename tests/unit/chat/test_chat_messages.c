/* Messages in the shape that a template wants: normalised, and told of tools and calls where the
 * template shows none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/json/json.h"
#include "engine/chat/chat_template.h"

/* Normalises `in` for a template and compares with `want`, both as JSON. */
static void assert_normal(const char *source, const char *in, const char *want)
{
    struct err e = {0};
    struct chat_template *t = chat_template_compile(source, strlen(source), NULL, NULL, &e);
    cJSON *messages = json_parse(in, strlen(in), NULL, &e);
    struct buf out = {0};
    assert_non_null(t);
    assert_non_null(messages);
    assert_true(chat_messages_normalize(t, messages, &e));
    assert_true(json_write(&out, messages));
    assert_string_equal(out.data, want);
    buf_fini(&out);
    cJSON_Delete(messages);
    chat_template_destroy(&t);
}

#define PLAIN "{% for m in messages %}{{ m.content }}{% endfor %}"

static void test_null_content_becomes_empty(void **state)
{
    assert_normal(
        PLAIN, "[{\"role\":\"user\",\"content\":null},{\"role\":\"assistant\"}]",
        "[{\"role\":\"user\",\"content\":\"\"},{\"role\":\"assistant\",\"content\":\"\"}]");
}

static void test_text_parts_are_joined_for_templates_that_take_strings(void **state)
{
    const char *parts = "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{"
                        "\"type\":\"text\",\"text\":\"b\"}]}]";
    assert_normal(PLAIN, parts, "[{\"role\":\"user\",\"content\":\"a\\nb\"}]");
    assert_normal("{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% "
                  "for p in m.content %}"
                  "{{ p.text }}{% endfor %}{% endif %}{% endfor %}",
                  parts, parts);
}

static void test_developer_becomes_system_where_it_is_unknown(void **state)
{
    assert_normal(PLAIN, "[{\"role\":\"developer\",\"content\":\"a\"}]",
                  "[{\"role\":\"system\",\"content\":\"a\"}]");
    assert_normal(PLAIN "{# developer #}", "[{\"role\":\"developer\",\"content\":\"a\"}]",
                  "[{\"role\":\"developer\",\"content\":\"a\"}]");
}

#define CALL_IN(arguments)                                                                         \
    "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"c\",\"function\":{"       \
    "\"name\":\"f\",\"arguments\":" arguments "}}]}]"

static void test_arguments_take_the_form_that_the_template_wants(void **state)
{
    const char *objects = "{% for m in messages %}{% for c in m.tool_calls or [] %}{% for k in "
                          "c.function.arguments.items() %}{% endfor %}{% endfor %}{% endfor %}";
    const char *strings = "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ 'x' + "
                          "c.function.arguments }}{% endfor %}{% endfor %}";
    assert_normal(objects, CALL_IN("\"{\\\"a\\\": 1.0}\""), CALL_IN("{\"a\":1.0}"));
    assert_normal(objects, CALL_IN("\"\""), CALL_IN("{}"));
    assert_normal(objects, CALL_IN("\"no json\""), CALL_IN("\"no json\""));
    assert_normal(strings, CALL_IN("{\"a\":1.0}"), CALL_IN("\"{\\\"a\\\": 1.0}\""));
    assert_normal(strings, CALL_IN("\"{}\""), CALL_IN("\"{}\""));
}

static void test_reasoning_is_there_under_the_names_asked_for(void **state)
{
    assert_normal(PLAIN "{{ messages[0].thinking }}",
                  "[{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":\"r\"}]",
                  "[{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":\"r\","
                  "\"thinking\":\"r\"}]");
    assert_normal(PLAIN "{{ messages[0].reasoning_content }}",
                  "[{\"role\":\"assistant\",\"content\":\"a\",\"reasoning\":\"r\"}]",
                  "[{\"role\":\"assistant\",\"content\":\"a\",\"reasoning\":\"r\",\"reasoning_"
                  "content\":\"r\"}]");
    assert_normal(PLAIN, "[{\"role\":\"assistant\",\"content\":\"a\",\"reasoning\":\"r\"}]",
                  "[{\"role\":\"assistant\",\"content\":\"a\",\"reasoning\":\"r\"}]");
}

/* ---- tools for templates that show none */

#define CHATML "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}{% endfor %}"
#define NO_SYSTEM                                                                                  \
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% "      \
    "endif %}"                                                                                     \
    "{{ '<|' + m.role + '|>' + m.content }}{% endfor %}"
#define GENERIC_HEAD                                                                               \
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are "     \
    "provided with "                                                                               \
    "function signatures within <tools></tools> XML tags:\n<tools>\n{\"type\": \"function\", "     \
    "\"function\": {\"name\": \"f\"}}\n"                                                           \
    "</tools>\n\nFor each function call, return a json object with function name and arguments "   \
    "within "                                                                                      \
    "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "  \
    "<args-json-object>}\n</tool_call>"

/* The prompt of `messages` in a template that shows no tools, with one tool where `tools`. */
static void assert_generic(const char *source, const char *messages, bool tools, const char *want)
{
    struct err e = {0};
    struct chat_template *t = chat_template_compile(source, strlen(source), NULL, NULL, &e);
    cJSON *m = json_parse(messages, strlen(messages), NULL, &e);
    cJSON *list = cJSON_Parse("[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]");
    struct rendered r;
    assert_non_null(t);
    assert_non_null(m);
    assert_false(chat_template_traits(t)->tools);
    assert_true(chat_messages_normalize(t, m, &e));
    assert_true(chat_messages_generic_tools(t, m, tools ? list : NULL, &e));
    if (!chat_template_render(t, &(struct chat_input){.messages = m}, &r, &e))
        fail_msg("%s", e.text);
    assert_string_equal(r.text.data, want);
    rendered_fini(&r);
    cJSON_Delete(list);
    cJSON_Delete(m);
    chat_template_destroy(&t);
}

#define CALLED(arguments)                                                                          \
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"function\":{"        \
    "\"name\":\"f\","                                                                              \
    "\"arguments\":" arguments "}},{\"id\":\"2\",\"function\":{\"name\":\"g\"}}]}"
#define RESULT(id, text) "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":\"" text "\"}"
#define USER(text) "{\"role\":\"user\",\"content\":\"" text "\"}"
#define SHOWN_CALLS(arguments)                                                                     \
    "<tool_call>\n{\"name\": \"f\", \"arguments\": " arguments "}\n</tool_call>\n"                 \
    "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"
#define SHOWN_RESULTS "<tool_response>\nr1\n</tool_response>\n<tool_response>\nr2\n</tool_response>"

static void test_tools_are_described_where_the_template_shows_none(void **state)
{
    assert_generic(CHATML, "[" USER("q") "]", true, "<|system|>" GENERIC_HEAD "<|user|>q");
    assert_generic(CHATML, "[{\"role\":\"system\",\"content\":\"Be brief.\"}," USER("q") "]", true,
                   "<|system|>Be brief.\n\n" GENERIC_HEAD "<|user|>q");
    assert_generic(NO_SYSTEM,
                   "[" USER("q") ",{\"role\":\"assistant\",\"content\":\"a\"}," USER("p") "]", true,
                   "<|user|>" GENERIC_HEAD "\n\nq<|assistant|>a<|user|>p");
    assert_generic(NO_SYSTEM, "[{\"role\":\"assistant\",\"content\":\"a\"}]", true,
                   "<|user|>" GENERIC_HEAD "\n\n<|assistant|>a");
}

static void test_earlier_calls_are_text_where_the_template_shows_none(void **state)
{
    const char *history =
        "[" USER("q") "," CALLED("\"{\\\"x\\\":[1,2]}\"") "," RESULT("1", "r1") "," RESULT(
            "2",
            "r2") "," USER("and now?") ",{\"role\":\"assistant\",\"content\":\"a\"}," USER("b") "]";
    assert_generic(CHATML, history, false,
                   "<|user|>q<|assistant|>" SHOWN_CALLS(
                       "{\"x\": [1, 2]}") "<|user|>" SHOWN_RESULTS
                                          "\nand now?<|assistant|>a<|user|>b");
    assert_generic(CHATML, "[" USER("q") "," CALLED("\"no json\"") "]", false,
                   "<|user|>q<|assistant|>" SHOWN_CALLS("\"no json\""));
    /* a template that shows calls, but not the tools, keeps its own way unless it is told of tools
     */
    const char *own = CHATML "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ '[' + "
                             "c.function.name + ']' }}{% endfor %}{% endfor %}";
    assert_generic(own, "[" USER("q") "," CALLED("{}") "]", false, "<|user|>q<|assistant|>[f][g]");
    assert_generic(own, "[" USER("q") "," CALLED("{}") "]", true,
                   "<|system|>" GENERIC_HEAD "<|user|>q<|assistant|>" SHOWN_CALLS("{}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_content_becomes_empty),
        cmocka_unit_test(test_text_parts_are_joined_for_templates_that_take_strings),
        cmocka_unit_test(test_developer_becomes_system_where_it_is_unknown),
        cmocka_unit_test(test_arguments_take_the_form_that_the_template_wants),
        cmocka_unit_test(test_reasoning_is_there_under_the_names_asked_for),
        cmocka_unit_test(test_tools_are_described_where_the_template_shows_none),
        cmocka_unit_test(test_earlier_calls_are_text_where_the_template_shows_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
