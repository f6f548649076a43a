/* fcgi/inference/settings.c and fcgi/openai/chat_check.c: every field is read or refused with its
 * name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/json/json.h"
#include "fcgi/inference/settings.h"
#include "fcgi/openai/chat_request.h"

static struct text_model model = {
    .temperature = 0.7f, .top_p = 0.9f, .top_k = 20, .min_p = 0.1f, .repetition_penalty = 1.05f};

struct read {
    struct settings s;
    struct arena *arena;
    cJSON *tree;
    struct err e;
    bool ok;
};

static struct read read_settings(const char *json)
{
    struct read r = {.arena = arena_create(1 << 20)};
    r.tree = json_parse(json, strlen(json), NULL, &r.e);
    assert_non_null(r.tree);
    settings_default(&r.s, &model);
    r.ok = settings_read(&r.s, r.tree, &model, r.arena, &r.e);
    return r;
}

static void forget(struct read *r)
{
    cJSON_Delete(r->tree);
    arena_destroy(&r->arena);
}

static void test_the_models_defaults_stay(void **state)
{
    struct read r = read_settings("{\"temperature\":null}");
    assert_true(r.ok);
    assert_true(r.s.sampling.temperature == 0.7f);
    assert_int_equal(r.s.sampling.top_k, 20);
    assert_int_equal(r.s.max_tokens, -1);
    assert_false(r.s.seed_given);
    struct engine_job_params job = {0};
    settings_apply(&r.s, &job);
    assert_int_equal(job.max_tokens, INT32_MAX);
    forget(&r);
}

static void test_every_field_is_read(void **state)
{
    struct read r =
        read_settings("{\"temperature\":0,\"top_p\":0,\"top_k\":-1,\"min_p\":0.5,\"seed\":-3,"
                      "\"presence_penalty\":-2,\"frequency_penalty\":2,\"repetition_penalty\":1.5,"
                      "\"stop\":[\"a\",\"bb\"],\"max_completion_tokens\":5,\"max_tokens\":5}");
    assert_true(r.ok);
    assert_true(r.s.sampling.temperature == 0);
    assert_true(r.s.sampling.top_p > 0); /* the engine's range is open at 0 */
    assert_int_equal(r.s.sampling.top_k, 0);
    assert_true(r.s.seed_given);
    assert_true(r.s.sampling.seed == (uint64_t)-3);
    assert_int_equal(r.s.n_stop, 2);
    assert_string_equal(r.s.stop[1], "bb");
    assert_int_equal(r.s.max_tokens, 5);
    forget(&r);
}

static void test_other_servers_names_mean_the_same(void **state)
{
    struct read r = read_settings(
        "{\"repeat_penalty\":1.5,\"random_seed\":9,\"n_predict\":-1,\"num_predict\":-1,"
        "\"typical_p\":0,\"repeat_last_n\":64,\"min_tokens\":7,\"ignore_eos\":true,"
        "\"include_stop_str_in_output\":true,\"skip_special_tokens\":false}");
    assert_true(r.ok);
    assert_true(r.s.sampling.repetition_penalty == 1.5f && r.s.sampling.typical_p > 0);
    assert_true(r.s.seed_given && r.s.sampling.seed == 9);
    assert_int_equal(r.s.max_tokens, -1);
    struct engine_job_params job = {0};
    settings_apply(&r.s, &job);
    assert_int_equal(job.sampling.penalty_window, 64);
    assert_int_equal(job.min_tokens, 7);
    assert_int_equal(job.max_tokens, INT32_MAX);
    assert_true(job.keep_stop && job.special_text && job.ignore_eos);
    forget(&r);
    r = read_settings("{\"repeat_penalty\":1.5,\"repetition_penalty\":1.5,\"max_tokens\":3,"
                      "\"n_predict\":3,\"repeat_last_n\":0,\"presence_penalty\":1}");
    assert_true(r.ok); /* a window of nothing */
    assert_true(r.s.sampling.repetition_penalty == 1 && r.s.sampling.presence_penalty == 0);
    forget(&r);
}

static void test_what_is_out_of_range_is_named(void **state)
{
    static const char *const bad[][2] = {
        {"temperature", "{\"temperature\":2.01}"},
        {"top_p", "{\"top_p\":-0.1}"},
        {"min_p", "{\"min_p\":1.1}"},
        {"top_k", "{\"top_k\":-2}"},
        {"seed", "{\"seed\":0.5}"},
        {"stop", "{\"stop\":\"\"}"},
        {"stop", "{\"stop\":[\"a\",null]}"},
        {"max_tokens", "{\"max_tokens\":0}"},
        {"logit_bias", "{\"logit_bias\":{\"-1\":0}}"},
        {"repeat_penalty", "{\"repeat_penalty\":1.5,\"repetition_penalty\":1.4}"},
        {"random_seed", "{\"random_seed\":1,\"seed\":2}"},
        {"max_tokens", "{\"max_tokens\":1,\"n_predict\":-1}"},
        {"n_predict", "{\"n_predict\":-2}"},
        {"typical_p", "{\"typical_p\":1.5}"},
        {"repeat_last_n", "{\"repeat_last_n\":-2}"},
        {"min_tokens", "{\"min_tokens\":9,\"max_tokens\":8}"},
        {"stop_token_ids", "{\"stop_token_ids\":[-1]}"},
        {"stop_token_ids", "{\"stop_token_ids\":7}"},
        {"allowed_token_ids", "{\"allowed_token_ids\":[1.5]}"},
        {"bad_words", "{\"bad_words\":[\"\"]}"},
        {"bad_words", "{\"bad_words\":\"x\"}"},
        {"skip_special_tokens", "{\"skip_special_tokens\":1}"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct read r = read_settings(bad[i][1]);
        assert_false(r.ok);
        assert_string_equal(r.e.field, bad[i][0]);
        assert_int_equal(r.e.code, ERR_INPUT);
        forget(&r);
    }
}

static void check(const char *json, const char *field)
{
    struct err e = {0};
    cJSON *v = json_parse(json, strlen(json), NULL, &e);
    assert_non_null(v);
    bool ok = chat_check_messages(v, &e);
    assert_string_equal(field, ok ? "" : e.field);
    cJSON_Delete(v);
}

static void test_messages_are_checked(void **state)
{
    check("[{\"role\":\"user\",\"content\":\"x\"}]", "");
    check("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}]", "");
    check("[{\"role\":\"assistant\",\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":"
          "\"f\",\"arguments\":"
          "\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"5\"}]",
          "");
    check("[{\"role\":\"assistant\"}]", "messages[0].content");
    check("[{\"role\":\"assistant\",\"tool_calls\":[]}]", "messages[0].content");
    check("[{\"role\":\"user\",\"content\":null}]", "messages[0].content");
    check("[{\"role\":\"user\",\"content\":\"x\",\"name\":5}]", "messages[0].name");
    check("[{\"role\":\"user\",\"content\":[5]}]", "messages[0].content[0]");
    check("[{\"role\":\"function\",\"content\":\"x\"}]", "messages[0].role");
    check("[{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":5}]",
          "messages[0].tool_calls");
    check("[{\"role\":\"assistant\",\"content\":\"x\",\"function_call\":{}}]", "messages[0]");
    check("[{\"role\":\"assistant\",\"tool_calls\":[{\"type\":5,\"function\":{\"name\":\"f\"}}]}]",
          "messages[0].tool_calls[0]");
    check("[]", "messages");
    check("{}", "messages");
}

static void test_tools_are_checked(void **state)
{
    static const char *const bad[] = {
        "[5]",
        "[{}]",
        "[{\"type\":\"function\"}]",
        "[{\"type\":\"function\",\"function\":{}}]",
        "[{\"type\":\"function\",\"function\":{\"name\":\"a b\"}}]",
        "[{\"type\":\"function\",\"function\":{\"name\":\"a\",\"parameters\":5}}]"};
    struct err e = {0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cJSON *v = json_parse(bad[i], strlen(bad[i]), NULL, &e);
        assert_false(chat_check_tools(v, &e));
        assert_memory_equal(e.field, "tools[0]", 8);
        cJSON_Delete(v);
    }
}

/* biases are checked against a real vocabulary */
int main(void)
{
    struct err e = {0};
    model.vocab = vocab_load("engine/demo-model", NULL, &e);
    const char *top = getenv("srcdir"); /* automake's; the tests may look at the environment */
    char path[4096];
    if (!model.vocab && top) {
        snprintf(path, sizeof path, "%s/engine/demo-model", top);
        model.vocab = vocab_load(path, NULL, &e);
    }
    if (!model.vocab)
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_models_defaults_stay),
        cmocka_unit_test(test_every_field_is_read),
        cmocka_unit_test(test_other_servers_names_mean_the_same),
        cmocka_unit_test(test_what_is_out_of_range_is_named),
        cmocka_unit_test(test_messages_are_checked),
        cmocka_unit_test(test_tools_are_checked),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    vocab_close(&model.vocab);
    return failed;
}
