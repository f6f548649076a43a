/* Titles of conversations: made from the first message, cut at a word, without line ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "fcgi/conversations/title.h"

static void test_title_is_the_first_line_without_marks(void **state)
{
    static const char *const cases[][2] = {
        {"Hello", "Hello"},
        {"  Hello   there\t friend  ", "Hello there friend"},
        {"\n\n---\n# A heading\nmore", "A heading"},
        {"> quoted", "quoted"},
        {"- item", "item"},
        {"-5 is a number", "-5 is a number"},
        {"```python\nprint(1)\n```", "print(1)"},
        {"", ""},
        {"   \n\t\n", ""},
        {"```", ""},
        {"**Why** there are `tides` ** here", "Why there are tides here"},
        {"What is 2+2?\nExplain.", "What is 2+2?"},
        {"\xe4\xbd\xa0\xe5\xa5\xbd", "\xe4\xbd\xa0\xe5\xa5\xbd"},
    };
    char out[TITLE_SIZE];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        title_make(cases[i][0], out);
        assert_string_equal(out, cases[i][1]);
    }
}

static int characters(const char *s)
{
    int n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static void test_title_is_cut_between_words_or_characters(void **state)
{
    char out[TITLE_SIZE], text[400] = "";
    title_make(
        "Please write a detailed report about the history of the steam engine and its makers", out);
    assert_string_equal(out, "Please write a detailed report about the history of the\xe2\x80\xa6");
    for (int i = 0; i < 100; i++)
        strcat(text, "\xe4\xbd\xa0");
    title_make(text, out);
    assert_int_equal(characters(out), TITLE_CHARACTERS + 1);
    assert_int_equal(strlen(out), TITLE_CHARACTERS * 3 + 3);
    memset(text, 'x', 60);
    text[60] = 0;
    title_make(text, out); /* just fits */
    assert_string_equal(out, text);
    memset(text, 0, sizeof text);
    for (int i = 0; i < 61; i++)
        strcat(text, "\xf0\x9f\x98\x80");
    title_make(text, out); /* the longest that there can be */
    assert_int_equal(strlen(out), TITLE_CHARACTERS * 4 + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_title_is_the_first_line_without_marks),
        cmocka_unit_test(test_title_is_cut_between_words_or_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
