/* Split patterns: each class against what `tokenizers` sees, for every code point, and the pieces.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/json/json.h"
#include "engine/base/utf8.h"
#include "engine/tokenizer/pretokenize_pcre.h"
#include "tests/unit/support/packed_file.h"
#include "tests/unit/text/text_cases.h"

/* The code points of one class as a bit each. */
static void read_class(const cJSON *class, unsigned char *set)
{
    memset(set, 0, UNICODE_MAX / 8 + 1);
    for (const cJSON *r = json_member(class, "ranges")->child; r; r = r->next) {
        uint32_t lo = (uint32_t)strtoul(r->child->valuestring, NULL, 16);
        uint32_t hi = (uint32_t)strtoul(r->child->next->valuestring, NULL, 16);
        for (uint32_t cp = lo; cp <= hi; cp++)
            set[cp / 8] |= (unsigned char)(1 << cp % 8);
    }
}

static void check_class(const char *pattern, const unsigned char *set)
{
    struct err e = {0};
    struct pcre_pattern *p = pcre_pattern_create(pattern, strlen(pattern), &e);
    struct pcre_scratch *s = pcre_scratch_create();
    assert_non_null(p);
    for (uint32_t cp = 0; cp <= UNICODE_MAX; cp++) {
        unsigned char text[4];
        size_t match[2];
        if (cp >= 0xD800 && cp < 0xE000)
            continue;
        size_t n = utf8_encode(cp, text);
        const char *subject = pcre_scratch_subject(s, (const char *)text, n);
        int found =
            pcre_pattern_find(p, s, &(struct pcre_search){.subject = subject, .len = n}, match, &e);
        if (found != (set[cp / 8] >> cp % 8 & 1))
            fail_msg("%s and U+%04X: found %d", pattern, cp, found);
    }
    pcre_scratch_destroy(&s);
    pcre_pattern_destroy(&p);
}

static void test_classes_are_those_of_unicode_16(void **state)
{
    struct err e = {0};
    unsigned char *set = malloc(UNICODE_MAX / 8 + 1);
    struct buf text = packed_file_read(text_cases_path("tests/data/unicode/classes.json"));
    cJSON *all = json_parse(text.data, text.len, NULL, &e);
    assert_non_null(all);
    buf_fini(&text);
    int n = 0;
    for (const cJSON *class = all->child; class; class = class->next) {
        if (class->string[0] != '\\')
            continue;
        read_class(class, set);
        check_class(class->string, set);
        n++;
    }
    assert_int_equal(n, 11);
    cJSON_Delete(all);
    free(set);
}

/* The pieces joined by '|'. */
static void check_pieces(const char *pattern, const char *text, const char *want)
{
    struct err e = {0};
    char got[256] = "";
    struct pcre_pattern *p = pcre_pattern_create(pattern, strlen(pattern), &e);
    struct pcre_scratch *s = pcre_scratch_create();
    if (!p)
        fail_msg("%s", e.text);
    size_t match[2];
    struct pcre_search search = {.subject = pcre_scratch_subject(s, text, strlen(text)),
                                 .len = strlen(text)};
    while (pcre_pattern_find(p, s, &search, match, &e) == 1) {
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%.*s", search.from ? "|" : "",
                 (int)(match[1] - match[0]), text + match[0]);
        search.from = match[1];
    }
    assert_string_equal(got, want);
    pcre_scratch_destroy(&s);
    pcre_pattern_destroy(&p);
}

/* Truth of these: tokenizers 0.23.3 (Oniguruma). */
static void test_patterns_mean_what_oniguruma_means(void **state)
{
    check_pieces("(?i:'s|'k)|.", "'S'\xC5\xBF'\xE2\x84\xAA'x", "'S|'\xC5\xBF|'\xE2\x84\xAA|'|x");
    check_pieces("\\w+", "a_b\xCC\x81-\xE2\x85\xA7 \xC2\xBDx",
                 "a_b\xCC\x81|\xE2\x85\xA7|\xC2\xBDx");
    check_pieces("[\\w]+", "\xC2\xBDx", "x");
    check_pieces("\\h+", "12afG", "12af");
    check_pieces("\\v", "\n\x0B", "\x0B");
    check_pieces("\\u0061+|[\\u4e00-\\u4e02]", "aab\xE4\xB8\x80", "aa|\xE4\xB8\x80");
    check_pieces("^a|b$", "a\nab\nab", "a|a|b|a|b");
    check_pieces("[]a]+", "]a]b", "]a]");
    check_pieces("\\s+(?!\\S)|\\s+", "a   b  ", "  | |  ");
    check_pieces("\\p{Han}+", "\xE3\x80\x81\xE4\xB8\xAD\xE3\x83\xBC", "\xE4\xB8\xAD");
}

static void test_utf8_parts_are_maximal(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        enum utf8_part part;
        size_t n;
    } cases[] = {
        {"a", 1, UTF8_WHOLE, 1},
        {"\xC3\xA9", 2, UTF8_WHOLE, 2},
        {"\xF0\x9F\x98\x80", 4, UTF8_WHOLE, 4},
        {"\xC3", 1, UTF8_CUT, 1},
        {"\xE2\x82", 2, UTF8_CUT, 2},
        {"\xF0\x9F\x98", 3, UTF8_CUT, 3},
        {"\xE2\x28\xA1", 3, UTF8_BAD, 1},
        {"\xE2\x82\x28", 3, UTF8_BAD, 2},
        {"\xF0\x9F\x98x", 4, UTF8_BAD, 3},
        {"\xED\xA0\x80", 3, UTF8_BAD, 1},
        {"\xC0\x80", 2, UTF8_BAD, 1},
        {"\xE0\x80\x80", 3, UTF8_BAD, 1},
        {"\xF4\x90\x80\x80", 4, UTF8_BAD, 1},
        {"\xF5\x80", 2, UTF8_BAD, 1},
        {"\x80", 1, UTF8_BAD, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n;
        assert_int_equal(utf8_part((const unsigned char *)cases[i].bytes, cases[i].len, &n),
                         cases[i].part);
        assert_int_equal(n, cases[i].n);
    }
    for (uint32_t cp = 0; cp <= UNICODE_MAX; cp += cp < 0x11000 ? 1 : 61) {
        unsigned char c[4];
        uint32_t back;
        size_t n = utf8_encode(cp, c);
        if (cp >= 0xD800 && cp < 0xE000) {
            assert_int_equal(utf8_valid(c, n), 0);
            continue;
        }
        assert_int_equal(utf8_valid(c, n), n);
        assert_int_equal(utf8_next(c, &back), n);
        assert_int_equal(back, cp);
        assert_int_equal(utf8_prev(c + n, &back), n);
        assert_int_equal(back, cp);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes_are_those_of_unicode_16),
        cmocka_unit_test(test_patterns_mean_what_oniguruma_means),
        cmocka_unit_test(test_utf8_parts_are_maximal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
