/* engine/base/json: what the checked reader lets through, and what it refuses with a place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/json/json.h"
#include "engine/base/json/json_repair.h"

static bool accepts(const char *text)
{
    struct err e = {0};
    cJSON *v = json_parse(text, strlen(text), NULL, &e);
    cJSON_Delete(v);
    return v != NULL;
}

static void refuses(const char *text, const char *why)
{
    struct err e = {0};
    cJSON *v = json_parse(text, strlen(text), NULL, &e);
    if (v)
        print_error("accepted: %s\n", text);
    assert_null(v);
    assert_int_equal(e.code, ERR_INPUT);
    if (!strstr(e.text, why))
        print_error("%s: '%s' does not say '%s'\n", text, e.text, why);
    assert_non_null(strstr(e.text, why));
}

static void test_json_accepts_every_kind_of_value(void **state)
{
    (void)state;
    const char *const good[] = {"null",
                                " true ",
                                "false",
                                "0",
                                "-0",
                                "1.5e-3",
                                "1E+2",
                                "\"\"",
                                "[]",
                                "{}",
                                "[[],{}]",
                                "{\"a\":{\"b\":[1,2,{\"c\":null}]},\"d\":\"x\"}",
                                "\"\\ud83d\\ude00\"",
                                "\"\\u0041\\n\\/\"",
                                "\"\xF0\x9F\x98\x80\"",
                                "{\"a\":{\"k\":1},\"b\":{\"k\":2}}",
                                "[{\"k\":1},{\"k\":2}]"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(accepts(good[i]));
}

static void test_json_refuses_what_is_not_json(void **state)
{
    (void)state;
    refuses("", "missing");
    refuses("{", "key in quotes");
    refuses("[1,]", "not a value");
    refuses("[1 2]", "closing bracket");
    refuses("{\"a\" 1}", "':'");
    refuses("{\"a\":1,}", "key in quotes");
    refuses("01", "leading zero");
    refuses("-", "not a value");
    refuses("1.", "after the point");
    refuses("1e", "exponent");
    refuses("1e999", "out of range");
    refuses("nul", "not a value");
    refuses("NaN", "not a value");
    refuses("'a'", "not a value");
    refuses("\"a\nb\"", "control character");
    refuses("\"\\x\"", "bad escape");
    refuses("\"\\u12g4\"", "\\u escape");
    refuses("\"abc", "ends in a string");
    refuses("{} {}", "after the value");
    refuses("]", "not a value");
}

static void test_json_refuses_text_that_c_strings_or_utf8_cannot_hold(void **state)
{
    (void)state;
    refuses("\"a\\u0000b\"", "\\u0000");
    refuses("\"\\ud800\"", "lone surrogate");
    refuses("\"\\udc00\"", "lone surrogate");
    refuses("\"\\ud83dx\"", "lone surrogate");
    refuses("\"\xC0\xAF\"", "UTF-8");
    refuses("\"\xED\xA0\x80\"", "UTF-8");
    refuses("\"\xF5\x80\x80\x80\"", "UTF-8");
    refuses("\"\xE2\x82\"", "UTF-8");
}

static void test_json_refuses_duplicate_keys_however_they_are_spelled(void **state)
{
    (void)state;
    refuses("{\"a\":1,\"a\":2}", "duplicate");
    refuses("{\"a\":1,\"\\u0061\":2}", "duplicate");
    refuses("[{\"x\":{\"a\":1,\"b\":{},\"a\":2}}]", "duplicate");
    /* a thousand keys, the last one again: the table grows and still finds it */
    struct buf b = {0};
    buf_puts(&b, "{");
    for (int i = 0; i < 1000; i++)
        buf_printf(&b, "\"key%d\":%d,", i, i);
    buf_puts(&b, "\"key0\":1}");
    refuses(b.data, "duplicate");
    buf_fini(&b);
}

static void test_json_limits_depth_and_size(void **state)
{
    (void)state;
    char deep[300];
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    deep[200] = '\0';
    refuses(deep, "too deep");
    memset(deep, '[', 64);
    memset(deep + 64, ']', 64);
    deep[128] = '\0';
    assert_true(accepts(deep));
    struct err e = {0};
    assert_null(json_parse("[1,2,3]", 7, &(struct json_limits){.max_bytes = 6}, &e));
    assert_int_equal(e.code, ERR_LIMIT);
}

static void test_json_says_line_and_column(void **state)
{
    (void)state;
    refuses("{\n  \"a\": 1,\n  \"a\": 2\n}", "line 3 column 6");
}

/* json_path of the mark "@" in a text. */
static void assert_path(const char *text, const char *want)
{
    char path[64];
    json_path(text, (size_t)(strchr(text, '@') - text), path, sizeof path);
    assert_string_equal(path, want);
}

static void test_json_tells_where_a_byte_stands(void **state)
{
    (void)state;
    assert_path("@", "");
    assert_path("{\"a\": \"@", "a");
    assert_path("{\"a, {\\\"\": 1, \"b\": {\"c\": [0, {}, [\"],\", \"x@", "b.c[2][1]");
    assert_path("{\"messages\": [{\"role\": \"user\"}, {\"content\": [{\"text\": \"@",
                "messages[1].content[0].text");
    assert_path("[[[[[[[[[[[[[[[[[[[[\"@", "[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]");
    assert_path("]}{\"a\":\"\\@", "a"); /* nonsense is walked too */
    struct err e = {0};
    assert_null(json_parse("{\"a\": [\"\\u0000\"]}", 16, NULL, &e));
    assert_string_equal(e.field, "a[0]");
}

static void test_json_repair_replaces_what_is_no_character(void **state)
{
    static const char *const cases[][2] = {
        {"\"a\\u0000b\"", "\"a\\ufffdb\""},
        {"\"\\ud800\\ud83d\\ude00\\uDC00\"", "\"\\ufffd\\ud83d\\ude00\\ufffd\""},
        {"\"\\\\u0000\"", "\"\\\\u0000\""}, /* a backslash, then letters */
        {"\"\\ud83d\"", "\"\\ufffd\""},
        {"\\ud8", "\\ud8"},
        {"\\", "\\"},
    };
    static const int counts[] = {1, 2, 0, 1, 0, 0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t len = strlen(cases[i][0]), first = 99;
        char *text = malloc(len + 1); /* so that a read past the end is seen by the sanitizer */
        memcpy(text, cases[i][0], len + 1);
        assert_int_equal(json_repair(text, len, JSON_REPAIR_ALL, &first), counts[i]);
        assert_string_equal(text, cases[i][1]);
        assert_int_equal(first != 99, counts[i] > 0);
        free(text);
    }
    char nul[] = "\"\\u0000\\ud800\"";
    assert_int_equal(json_repair(nul, strlen(nul), JSON_REPAIR_SURROGATES, NULL), 1);
    assert_string_equal(nul, "\"\\u0000\\ufffd\"");
}

static void test_json_getters_name_the_field(void **state)
{
    (void)state;
    struct err e = {0};
    const char *text =
        "{\"s\":\"x\",\"n\":1.5,\"i\":7,\"b\":true,\"z\":null,\"big\":9007199254740993}";
    cJSON *o = json_parse(text, strlen(text), NULL, &e);
    assert_non_null(o);
    const char *s = "default";
    int64_t i = -1;
    double n = 0;
    bool b = false;
    assert_true(json_get_string(o, "z", &s, &e) && !strcmp(s, "default"));
    assert_true(json_get_string(o, "s", &s, &e) && !strcmp(s, "x"));
    assert_true(json_get_int(o, "i", 0, 10, &i, &e) && i == 7);
    assert_true(json_get_number(o, "n", 0, 2, &n, &e) && n == 1.5);
    assert_true(json_get_bool(o, "b", &b, &e) && b);
    assert_false(json_get_int(o, "n", 0, 10, &i, &e));
    assert_string_equal(e.field, "n");
    assert_false(json_get_int(o, "i", 0, 5, &i, &e));
    assert_non_null(strstr(e.text, "0 to 5"));
    assert_false(json_get_int(o, "big", 0, INT64_MAX, &i, &e) && i != 9007199254740992);
    assert_false(json_get_number(o, "s", 0, 1, &n, &e));
    assert_false(json_get_bool(o, "i", &b, &e));
    assert_false(json_get_string(o, "i", &s, &e));
    cJSON_Delete(o);
}

static void test_json_writer_output_reads_back(void **state)
{
    (void)state;
    const char *text = "{\"a\":[1,-2.5,1e300,0.1],\"b\":\"\\u0001\\\"\\\\\\n\\u2028\",\"c\":{},"
                       "\"d\":[],\"e\":[true,null]}";
    struct err e = {0};
    cJSON *v = json_parse(text, strlen(text), NULL, &e);
    struct buf b = {0};
    assert_true(json_write(&b, v));
    cJSON *again = json_parse(b.data, b.len, NULL, &e);
    assert_non_null(again);
    assert_true(cJSON_Compare(v, again, true));
    buf_clear(&b);
    assert_true(json_write_spaced(&b, cJSON_GetObjectItem(v, "e")));
    assert_string_equal(b.data, "[true, null]");
    buf_fini(&b);
    cJSON_Delete(v);
    cJSON_Delete(again);
}

static void test_a_list_has_a_text(void **state)
{
    cJSON *o = cJSON_Parse(
        "{\"words\":[1,\"one\",null,\"two\"],\"map\":{\"a\":\"one\"},\"word\":\"one\"}");
    assert_true(json_has_text(json_member(o, "words"), "one"));
    assert_true(json_has_text(json_member(o, "words"), "two"));
    assert_false(json_has_text(json_member(o, "words"), "on"));
    assert_false(json_has_text(json_member(o, "map"), "one"));
    assert_false(json_has_text(json_member(o, "word"), "one"));
    assert_false(json_has_text(json_member(o, "none"), "one"));
    cJSON_Delete(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_accepts_every_kind_of_value),
        cmocka_unit_test(test_json_refuses_what_is_not_json),
        cmocka_unit_test(test_json_refuses_text_that_c_strings_or_utf8_cannot_hold),
        cmocka_unit_test(test_json_refuses_duplicate_keys_however_they_are_spelled),
        cmocka_unit_test(test_json_limits_depth_and_size),
        cmocka_unit_test(test_json_says_line_and_column),
        cmocka_unit_test(test_json_tells_where_a_byte_stands),
        cmocka_unit_test(test_json_repair_replaces_what_is_no_character),
        cmocka_unit_test(test_json_getters_name_the_field),
        cmocka_unit_test(test_json_writer_output_reads_back),
        cmocka_unit_test(test_a_list_has_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
