/* fcgi/ollama/ollama_messages.c: calls and their results find each other without ids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/json/json.h"
#include "fcgi/http/request.h"
#include "fcgi/ollama/ollama.h"

static struct request request;
static struct chat_build build;

static int set_up(void **state)
{
    request = (struct request){.arena = arena_create((size_t)1 << 20)};
    build = (struct chat_build){.messages = cJSON_CreateArray()};
    return request.arena && build.messages ? 0 : -1;
}

static int tear_down(void **state)
{
    cJSON_Delete(build.messages);
    arena_destroy(&request.arena);
    return 0;
}

/* Calls of f, g and f again, and these results behind them: ids and names of the results, such as
 * "call_1_0 f; ". */
static void assert_pairs(const char *results, const char *want)
{
    struct err e = {0};
    struct buf text = {0}, pairs = {0};
    const cJSON *m;
#define CALL(name) "{\"function\":{\"name\":\"" name "\",\"arguments\":{\"a\":1}}}"
    buf_printf(&text,
               "[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"\","
               "\"tool_calls\":[" CALL("f") "," CALL("g") "," CALL("f") "]},%s]",
               results);
    cJSON *messages = json_parse(text.data, text.len, NULL, &e);
    assert_non_null(messages);
    assert_true(ollama_add_messages(&build, &request, messages, &e));
    assert_false(build.failed);
    cJSON_ArrayForEach (m, build.messages) {
        const char *id = cJSON_GetStringValue(json_member(m, "tool_call_id"));
        const char *name = cJSON_GetStringValue(json_member(m, "name"));
        if (!strcmp(cJSON_GetStringValue(json_member(m, "role")), "tool"))
            buf_printf(&pairs, "%s %s; ", id ? id : "-", name ? name : "-");
    }
    assert_string_equal(pairs.data, want);
    cJSON_Delete(build.messages);
    build.messages = cJSON_CreateArray();
    cJSON_Delete(messages);
    buf_fini(&text);
    buf_fini(&pairs);
}

#define RESULT(more) "{\"role\":\"tool\",\"content\":\"r\"" more "}"
#define NAMED(name) RESULT(",\"tool_name\":\"" name "\"")

static void test_results_pair_by_name_each_call_once(void **state)
{
    assert_pairs(NAMED("g") "," NAMED("f") "," NAMED("f"), "call_1_1 g; call_1_0 f; call_1_2 f; ");
}

static void test_results_without_a_name_come_in_the_calls_order(void **state)
{
    assert_pairs(RESULT("") "," RESULT("") "," RESULT(""), "call_1_0 f; call_1_1 g; call_1_2 f; ");
}

static void test_what_has_no_call_keeps_what_it_says(void **state)
{
    assert_pairs(NAMED("h") "," RESULT(",\"tool_call_id\":\"own\",\"tool_name\":\"h\""),
                 "- h; own h; ");
    assert_pairs(NAMED("g") "," NAMED("g"), "call_1_1 g; - g; ");
}

static void test_a_call_s_own_id_is_kept_and_its_arguments_become_text(void **state)
{
    struct err e = {0};
    struct buf b = {0};
    cJSON *messages = cJSON_Parse(
        "[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"own\",\"function\":{\"name\":\"f\"}},"
        "{\"function\":{\"name\":\"g\",\"arguments\":{\"a\":[1,null]}}}]},"
        "{\"role\":\"tool\",\"content\":\"r\",\"tool_name\":\"f\"}]");
    assert_true(ollama_add_messages(&build, &request, messages, &e));
    assert_true(json_write(&b, build.messages));
    assert_string_equal(
        b.data,
        "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":["
        "{\"id\":\"own\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},"
        "{\"id\":\"call_0_1\",\"type\":\"function\",\"function\":{\"name\":\"g\","
        "\"arguments\":\"{\\\"a\\\":[1,null]}\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"own\",\"name\":\"f\",\"content\":\"r\"}]");
    buf_fini(&b);
    cJSON_Delete(messages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_results_pair_by_name_each_call_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_results_without_a_name_come_in_the_calls_order, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_has_no_call_keeps_what_it_says, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_call_s_own_id_is_kept_and_its_arguments_become_text,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
