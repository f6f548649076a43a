/* The text side of a model folder: what is read from which file, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "engine/base/file.h"
#include "engine/text/text_model.h"

static char folder[64];

static const char *demo(void)
{
    static char path[4096];
    const char *srcdir = getenv("srcdir"); /* set by automake's test driver */
    snprintf(path, sizeof path, "%s/engine/demo-model", srcdir ? srcdir : ".");
    return path;
}

/* A folder with the demo model's tokenizer and nothing else. */
static int make_folder(void **state)
{
    char command[8400];
    strcpy(folder, "/tmp/sluice-model-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(command, sizeof command, "cp '%s/tokenizer.json' '%s'", demo(), folder);
    return system(command);
}

static int remove_folder(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static bool has_eos(const struct text_model *m, int32_t id)
{
    for (int i = 0; i < m->n_eos; i++)
        if (m->eos[i] == id)
            return true;
    return false;
}

static struct text_model open_folder(const char *path)
{
    struct text_model m;
    struct err e = {0};
    if (!text_model_open(&m, path, NULL, &e))
        fail_msg("%s: %s", e.field, e.text);
    return m;
}

static void test_demo_model_opens_whole(void **state)
{
    struct text_model m = open_folder(demo());
    assert_non_null(m.tokenizer);
    assert_non_null(m.chat_template);
    assert_string_equal(m.name, "demo-model");
    assert_int_equal(m.n_ctx, 4096);
    assert_int_equal(m.n_eos, 2);
    assert_true(has_eos(&m, 8185) && has_eos(&m, 8183));
    assert_float_equal(m.temperature, 0.3f, 1e-6);
    assert_float_equal(m.top_p, 0.9f, 1e-6);
    assert_float_equal(m.min_p, 0, 0);
    assert_float_equal(m.repetition_penalty, 1, 0);
    assert_int_equal(m.top_k, 20);
    text_model_close(&m);
    text_model_close(&m);
}

static void test_tokenizer_alone_is_enough(void **state)
{
    struct text_model m = open_folder(folder);
    assert_null(m.chat_template);
    assert_int_equal(m.n_eos, 0);
    assert_int_equal(m.n_ctx, 0);
    assert_float_equal(m.temperature, 1, 0);
    assert_float_equal(m.top_p, 1, 0);
    text_model_close(&m);
    char path[128];
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    m = open_folder(path);
    assert_string_equal(m.name, "tokenizer.json");
    text_model_close(&m);
}

static void test_eos_comes_from_all_places(void **state)
{
    put("config.json", "{\"eos_token_id\":7,\"text_config\":{\"eos_token_id\":[8,9],"
                       "\"max_position_embeddings\":1234}}");
    put("generation_config.json", "{\"eos_token_id\":[9,10,8191999]}");
    put("tokenizer_config.json", "{\"eos_token\":{\"content\":\"<|im_end|>\"}}");
    struct text_model m = open_folder(folder);
    static const int32_t want[] = {7, 8, 9, 10, 8185};
    assert_int_equal(m.n_eos, 5);
    for (size_t i = 0; i < 5; i++)
        assert_true(has_eos(&m, want[i]));
    assert_int_equal(m.n_ctx, 1234);
    text_model_close(&m);
}

static void test_greedy_default_is_temperature_zero(void **state)
{
    put("generation_config.json", "{\"do_sample\":false,\"temperature\":0.7,\"top_k\":-1}");
    struct text_model m = open_folder(folder);
    assert_float_equal(m.temperature, 0, 0);
    assert_int_equal(m.top_k, 0);
    text_model_close(&m);
}

static void check_template(const char *want)
{
    struct err e = {0};
    struct text_model m = open_folder(folder);
    assert_non_null(m.chat_template);
    cJSON *messages = cJSON_Parse("[{\"role\":\"user\",\"content\":\"x\"}]");
    struct rendered r = {0};
    if (!chat_template_render(m.chat_template, &(struct chat_input){.messages = messages}, &r, &e))
        fail_msg("%s", e.text);
    assert_string_equal(r.text.data, want);
    rendered_fini(&r);
    cJSON_Delete(messages);
    text_model_close(&m);
}

static void test_template_is_found_in_its_places(void **state)
{
    put("tokenizer_config.json",
        "{\"chat_template\":\"one {{ eos_token }}\",\"eos_token\":\"<|im_end|>\"}");
    check_template("one <|im_end|>");
    put("tokenizer_config.json", "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"no\"},"
                                 "{\"name\":\"default\",\"template\":\"two\"}]}");
    check_template("two");
    put("chat_template.json", "{\"chat_template\":\"three\"}");
    check_template("three");
    put("chat_template.jinja", "four");
    check_template("four");
}

static void refuse(const char *file, const char *text, const char *names)
{
    struct text_model m;
    struct err e = {0};
    put(file, text);
    if (text_model_open(&m, folder, NULL, &e))
        fail_msg("%s: %s was taken", file, text);
    assert_null(m.vocab);
    if (!strstr(e.text, names) && !strstr(e.field, names))
        fail_msg("'%s: %s' does not name %s", e.field, e.text, names);
    put(file, "{}");
}

static void test_wrong_files_are_refused_by_name(void **state)
{
    refuse("config.json", "[1]", "config.json");
    refuse("config.json", "{", "config.json");
    refuse("config.json", "{\"eos_token_id\":\"x\"}", "eos_token_id");
    refuse("config.json", "{\"max_position_embeddings\":-5}", "max_position_embeddings");
    refuse("generation_config.json", "{\"temperature\":\"hot\"}", "temperature");
    refuse("generation_config.json", "{\"top_p\":1.5}", "top_p");
    refuse("chat_template.json", "{}x", "chat_template.json");
    refuse("chat_template.jinja", "{% if %}", "template");
    refuse("tokenizer.json", "{}", "tokenizer.json");
}

static void test_missing_model_is_not_found(void **state)
{
    struct text_model m;
    struct err e = {0};
    assert_false(text_model_open(&m, "/nowhere/model", NULL, &e));
    assert_int_equal(e.code, ERR_NOTFOUND);
}

int main(void)
{
#define WITH_FOLDER(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_demo_model_opens_whole),
        WITH_FOLDER(test_tokenizer_alone_is_enough),
        WITH_FOLDER(test_eos_comes_from_all_places),
        WITH_FOLDER(test_greedy_default_is_temperature_zero),
        WITH_FOLDER(test_template_is_found_in_its_places),
        WITH_FOLDER(test_wrong_files_are_refused_by_name),
        cmocka_unit_test(test_missing_model_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
