/* fcgi/openai/chat_build.c: messages out of other forms' parts, and the names of their errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/buf.h"
#include "engine/base/json/json.h"
#include "fcgi/openai/chat_build.h"

static struct chat_build build;

static int set_up(void **state)
{
    build = (struct chat_build){.messages = cJSON_CreateArray()};
    return build.messages ? 0 : -1;
}

static int tear_down(void **state)
{
    cJSON_Delete(build.messages);
    return 0;
}

static void assert_messages(const char *want)
{
    struct buf b = {0};
    assert_false(build.failed);
    assert_true(json_write(&b, build.messages));
    assert_string_equal(b.data, want);
    buf_fini(&b);
}

static void test_one_text_is_a_string_and_several_are_parts(void **state)
{
    cJSON *m = chat_build_message(&build, "user");
    chat_build_text(&build, m, "a");
    assert_messages("[{\"role\":\"user\",\"content\":\"a\"}]");
    chat_build_text(&build, m, "b");
    chat_build_text(&build, m, "c");
    assert_messages("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":"
                    "\"text\",\"text\":\"b\"},"
                    "{\"type\":\"text\",\"text\":\"c\"}]}]");
}

static void test_the_assistant_grows_until_another_speaks(void **state)
{
    chat_build_reasoning(&build, chat_build_assistant(&build), "think ");
    chat_build_reasoning(&build, chat_build_assistant(&build), "more");
    chat_build_text(&build, chat_build_assistant(&build), "I look.");
    chat_build_call(&build, chat_build_assistant(&build), "call_1", "f", "{\"a\":1}");
    chat_build_text(&build, chat_build_message(&build, "tool"), "rain");
    chat_build_text(&build, chat_build_assistant(&build), "It rains.");
    assert_messages("[{\"role\":\"assistant\",\"reasoning_content\":\"think more\",\"content\":\"I "
                    "look.\",\"tool_calls\":["
                    "{\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"f\","
                    "\"arguments\":\"{\\\"a\\\":1}\"}}]},"
                    "{\"role\":\"tool\",\"content\":\"rain\"},{\"role\":\"assistant\",\"content\":"
                    "\"It rains.\"}]");
}

static void test_what_is_referred_to_is_not_freed(void **state)
{
    cJSON *body =
        cJSON_Parse("{\"list\":[1,2],\"object\":{\"a\":\"b\"},\"text\":\"t\",\"empty\":[]}");
    cJSON *m = chat_build_message(&build, "user");
    const cJSON *member;
    cJSON_ArrayForEach (member, body)
        chat_build_refer(&build, m, member->string, member);
    chat_build_refer(&build, m, "absent", NULL);
    assert_messages("[{\"role\":\"user\",\"list\":[1,2],\"object\":{\"a\":\"b\"},\"text\":\"t\","
                    "\"empty\":[]}]");
    cJSON_Delete(build.messages);
    build.messages = NULL;
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(body, "list")), 2);
    cJSON_Delete(body);
}

static void test_fields_are_renamed_where_they_stand(void **state)
{
    struct err e = {0};
    err_field(&e, ERR_INPUT, "tools[3].function.name", "no");
    assert_false(chat_build_rename(&e, ".function", ""));
    assert_string_equal(e.field, "tools[3].name");
    chat_build_rename(&e, "response_format", "text.format");
    assert_string_equal(e.field, "tools[3].name");
    memset(e.field, 'x', sizeof e.field - 1); /* a longer name is cut, not overrun */
    chat_build_rename(&e, "x", "yyyyyyyyyyyyyyyyyyyyyyyy");
    assert_int_equal(strlen(e.field), sizeof e.field - 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_one_text_is_a_string_and_several_are_parts),
        T(test_the_assistant_grows_until_another_speaks),
        T(test_what_is_referred_to_is_not_freed),
        T(test_fields_are_renamed_where_they_stand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
