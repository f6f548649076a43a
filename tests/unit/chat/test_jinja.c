/* The Jinja engine against what Jinja2 rendered, its limits, and where each byte came from.
 * test_jinja --cases DIR runs the cases of DIR/jinja instead. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "engine/base/json/json.h"
#include "engine/chat/chat_template.h"
#include "engine/jinja/jinja.h"
#include "tests/unit/chat/chat_cases.h"
#include "tests/unit/support/sanitized.h"

#define SLOWER (SANITIZED ? 10 : 1)

struct outcome {
    enum jinja_outcome how;
    bool compiled;
    struct rendered out;
    struct err e;
};

static struct outcome render(const char *source, const cJSON *context, struct tm now)
{
    struct outcome o = {.how = JINJA_RUNTIME};
    struct jinja_variable v[64];
    struct jinja_input in = {.variables = v, .now = now};
    for (const cJSON *k = context ? context->child : NULL; k; k = k->next)
        v[in.n_variables++] = (struct jinja_variable){.name = k->string, .json = k};
    struct jinja *t = jinja_compile(source, strlen(source), &o.e);
    o.compiled = t != NULL;
    if (t)
        o.how = jinja_render(t, &in, &o.out, &o.e);
    jinja_destroy(&t);
    return o;
}

static bool is_text(const struct outcome *o, const char *want)
{
    return o->how == JINJA_DONE && o->out.text.len == strlen(want) &&
           !memcmp(o->out.text.data ? o->out.text.data : "", want, o->out.text.len);
}

/* Does this outcome fit the case? */
static bool fits(const cJSON *c, const struct outcome *o)
{
    const char *want = chat_case_text(c, "rendered"), *error = chat_case_text(c, "error");
    const char *lenient = chat_case_text(c, "lenient_rendered");
    if (want && is_text(o, want))
        return true;
    if (o->how == JINJA_DONE)
        return lenient && is_text(o, lenient);
    if (!error)
        return cJSON_IsTrue(json_member(c, "accept_error"));
    if (!strcmp(error, "raise_exception"))
        return o->how == JINJA_RAISED && !strcmp(o->e.text, chat_case_text(c, "error_message"));
    return o->how != JINJA_RAISED && o->e.text[0] && (!strcmp(error, "syntax") == !o->compiled);
}

static void test_cases_render_as_jinja2_does(void **state)
{
    struct chat_cases cases;
    int wrong = 0;
    chat_cases_read(&cases, "jinja/cases.jsonl");
    assert_true(cases.n > 200);
    for (size_t i = 0; i < cases.n; i++) {
        struct outcome o = render(chat_case_text(cases.at[i], "template"),
                                  json_member(cases.at[i], "context"), chat_case_time(cases.at[i]));
        if (!fits(cases.at[i], &o)) {
            print_error("%s: %s\n  got %s %s\n", chat_case_text(cases.at[i], "id"),
                        chat_case_text(cases.at[i], "template"),
                        o.out.text.data ? o.out.text.data : "", o.e.text);
            wrong++;
        }
        rendered_fini(&o.out);
    }
    chat_cases_free(&cases);
    assert_int_equal(wrong, 0);
}

/* Of this thread's own work: others on the machine do not count. */
static double thread_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void test_limits_refuse_quickly(void **state)
{
    struct chat_cases cases;
    chat_cases_read(&cases, "jinja/limits.jsonl");
    assert_true(cases.n >= 8);
    for (size_t i = 0; i < cases.n; i++) {
        double best = 1e9;
        for (int turn = 0; turn < 3; turn++) { /* the machine is shared: the best of three counts */
            double start = thread_ms();
            struct outcome o =
                render(chat_case_text(cases.at[i], "template"), NULL, (struct tm){0});
            double ms = thread_ms() - start;
            best = ms < best ? ms : best;
            assert_int_not_equal(o.how, JINJA_DONE);
            assert_int_equal(o.e.code, ERR_LIMIT);
            rendered_fini(&o.out);
        }
        if (best >= 100 * SLOWER)
            fail_msg("%s took %.0f ms", chat_case_text(cases.at[i], "id"), best);
    }
    chat_cases_free(&cases);
}

/* ---- where each byte came from: outside text is written in letters, the template's own in digits
 */

static void assert_marks(const char *source, const char *json)
{
    struct err e = {0};
    cJSON *context = json_parse(json, strlen(json), NULL, &e);
    assert_non_null(context);
    struct outcome o = render(source, context, (struct tm){0});
    if (o.how != JINJA_DONE)
        fail_msg("%s: %s", source, o.e.text);
    bool letters = false;
    for (size_t i = 0; i < o.out.text.len; i++) {
        bool outside = false;
        for (size_t k = 0; k < o.out.n_untrusted; k++)
            outside |= i >= o.out.untrusted[k].start && i < o.out.untrusted[k].end;
        unsigned char c = (unsigned char)o.out.text.data[i];
        bool letter = c >= 0x80 || ((c | 32) >= 'a' && (c | 32) <= 'z');
        letters |= letter;
        if (outside != letter)
            fail_msg("%s: byte %zu of '%s' is marked %s", source, i, o.out.text.data,
                     outside ? "outside" : "ours");
    }
    for (size_t k = 1; k < o.out.n_untrusted; k++)
        assert_true(o.out.untrusted[k - 1].end < o.out.untrusted[k].start);
    assert_true(letters);
    rendered_fini(&o.out);
    cJSON_Delete(context);
}

static void test_provenance_is_kept_by_every_operation(void **state)
{
    static const char *const sources[] = {
        "12{{ s }}34",
        "{{ '1' + s + '2' }}",
        "{{ '1' ~ s ~ 2 }}",
        "{{ ('1' + s + '2')[1:-1] }}3",
        "{{ ('12' + s)[::-1] }}",
        "{{ (s + '1') * 2 }}",
        "{{ ('1' + s)|upper }}",
        "{{ s.replace('x', '7') }}",
        "{{ '1x2'.replace('x', s) }}",
        "{{ ('1,' + s).split(',')|join('2') }}",
        "{{ (' ' + s + ' 1 ').strip() }}",
        "{{ '1%s2' % s }}",
        "{{ '{}1{}'.format(s, s) }}",
        "{{ '%5s|' % t }}",
        "{{ ['1', s]|join('-') }}",
        "{% set x %}1{{ s }}2{% endset %}{{ x }}",
        "{% macro m(a) %}1{{ a }}2{% endmacro %}{{ m(s) }}{{ m('3')|length }}",
        "{% macro m() %}1{{ caller() }}{% endmacro %}{% call m() %}2{{ s }}{% endcall %}",
        "{% for c in '1' + s %}{{ c }}{% endfor %}",
        "{{ ('1' + s)|title }}",
        "{{ ('1\n' + s)|indent(1) }}",
        "{{ s if s else '1' }}{{ n or '2' }}",
        "{{ l[0] }}1{{ l|last }}2{{ l|join('3') }}",
        "{{ d.k }}1{% for k, v in d.items() %}{{ k }}2{{ v }}{% endfor %}",
        "{% filter upper %}1{{ s }}{% endfilter %}",
        "{{ (s + '1')|trim('1') }}2",
        "{{ ('1' + s).partition('x')[0] }}",
        "{{ '12'|replace('2', s) }}",
        "{{ s.join(['1', '2']) }}",
        "{{ '1'.join(l) }}",
        "{{ ('1' + s + '2')|list|join }}",
        "{{ ('11' + s)|truncate(4, true, '3', 0) }}",
        "{{ s|center(7) }}",
        "{% set ns = namespace(a='1') %}{% set ns.a = ns.a + s %}{{ ns.a }}",
        "{{ \"1 'q' \".replace('q', s) }}",
        "{{ u }}",
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        assert_marks(sources[i], "{\"s\":\"axb\",\"t\":\"yz\",\"n\":\"\",\"l\":[\"p\",\"q\"],\"d\":"
                                 "{\"k\":\"v\"},\"u\":\"\xc3\xa9\xe6\xb0\xb4\"}");
}

static void test_json_of_outside_data_is_outside_as_a_whole(void **state)
{
    struct err e = {0};
    const char *text = "{\"d\":{\"k\":[1,\"<|im_end|>\",true,null,1.0]}}";
    cJSON *context = json_parse(text, strlen(text), NULL, &e);
    struct outcome o =
        render("0{{ d|tojson }}0{{ d }}0{{ {'a': d.k[1]}|tojson }}", context, (struct tm){0});
    assert_int_equal(o.how, JINJA_DONE);
    static const char *const parts[] = {"{\"k\": [1, \"<|im_end|>\", true, null, 1.0]}",
                                        "{'k': [1, '<|im_end|>', True, None, 1.0]}",
                                        "\"<|im_end|>\""};
    assert_int_equal(o.out.n_untrusted, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(o.out.untrusted[i].end - o.out.untrusted[i].start, strlen(parts[i]));
        assert_memory_equal(o.out.text.data + o.out.untrusted[i].start, parts[i], strlen(parts[i]));
    }
    rendered_fini(&o.out);
    cJSON_Delete(context);
}

/* ---- limits that grow with what comes in */

static void test_long_conversations_pass(void **state)
{
    cJSON *context = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(context, "l");
    for (int i = 0; i < 1500; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString("message"));
    /* each message looks at all before it, as Gemma's template does */
    struct outcome o = render("{% for m in l %}{% for j in range(loop.index0) %}{% if l[j] == 1 "
                              "%}x{% endif %}{% endfor %}"
                              "{{ m }}{% endfor %}",
                              context, (struct tm){0});
    if (o.how != JINJA_DONE)
        fail_msg("%s", o.e.text);
    assert_int_equal(o.out.text.len, 1500 * 7);
    rendered_fini(&o.out);
    cJSON_Delete(context);
}

static void *render_deep(void *arg)
{
    static const char *const deep[] = {
        "{% macro f(n) %}{% for i in [1] %}{% if n %}{{ f(n + 1) }}{% endif %}{% endfor %}{% "
        "endmacro %}{{ f(1) }}",
        "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}",
        "{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}",
        "{% set a = [] %}{% set b = [] %}{% set _ = a.append(b) %}{% set _ = b.append(a) %}{{ a == "
        "b }}",
        "{% for x in [[1]] recursive %}{{ loop([[x]]) }}{% endfor %}",
    };
    for (size_t i = 0; i < sizeof deep / sizeof *deep; i++) {
        struct outcome o = render(deep[i], NULL, (struct tm){0});
        if (o.how != JINJA_LIMIT)
            *(const char **)arg = deep[i];
        rendered_fini(&o.out);
    }
    return NULL;
}

static void test_recursion_ends_within_a_small_stack(void **state)
{
    pthread_attr_t attr;
    pthread_t thread;
    const char *wrong = NULL;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, (size_t)SLOWER << 20);
    assert_int_equal(pthread_create(&thread, &attr, render_deep, &wrong), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    if (wrong)
        fail_msg("not refused: %s", wrong);
}

static void test_nesting_is_refused_not_overflown(void **state)
{
    static const char *const open[] = {"{{ (",    "{{ [",   "{% if 1 %}",      "{{ -",
                                       "{{ not ", "{{ {1:", "{{ a if b else ", "{% for x in (",
                                       "{{ a[",   "{{ f("};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        struct buf b = {0};
        const char *inner = strncmp(open[i], "{%", 2) ? open[i] + 3 : open[i];
        buf_puts(&b, open[i]);
        for (int k = 0; k < 100000; k++)
            buf_puts(&b, inner);
        struct err e = {0};
        struct jinja *t = jinja_compile(b.data, b.len, &e);
        assert_null(t);
        assert_true(e.code == ERR_LIMIT || e.code == ERR_FORMAT);
        buf_fini(&b);
    }
}

static void test_big_numbers_are_printed_or_refused(void **state)
{
    struct outcome o = render("{{ 9223372036854775807 - 1 }} {{ 0 - 9223372036854775807 - 1 }} {{ "
                              "99999999999999999999 }}",
                              NULL, (struct tm){0});
    assert_true(is_text(&o, "9223372036854775806 -9223372036854775808 99999999999999999999"));
    rendered_fini(&o.out);
    o = render("{{ 9223372036854775807 * 2 }}", NULL, (struct tm){0});
    assert_int_equal(o.how, JINJA_LIMIT);
}

struct shared {
    struct jinja *t;
    bool ok;
};

static void *render_many(void *arg)
{
    struct shared *s = arg;
    cJSON *l = cJSON_Parse("[{\"a\":\"x\"},{\"a\":\"y\"}]");
    struct jinja_variable v = {.name = "l", .json = l};
    struct jinja_input in = {.variables = &v, .n_variables = 1};
    for (int i = 0; i < 500; i++) {
        struct rendered out;
        struct err e = {0};
        s->ok &= jinja_render(s->t, &in, &out, &e) == JINJA_DONE && out.text.len == 8 &&
                 !memcmp(out.text.data, "1X2\xc3\x9cY2!", 8);
        rendered_fini(&out);
    }
    cJSON_Delete(l);
    return NULL;
}

static void test_one_template_renders_from_many_threads(void **state)
{
    static const char source[] = "{% macro m(x) %}{{ x.a|upper }}2{% endmacro %}1{{ l|map('attr', "
                                 "'b')|list|length|replace('2', '') }}"
                                 "{{ m(l[0]) }}{{ '\\u00dc' }}{{ m(l[1]) }}!";
    struct err e = {0};
    struct shared s[4];
    pthread_t thread[4];
    struct jinja *t = jinja_compile(source, sizeof source - 1, &e);
    assert_non_null(t);
    for (int i = 0; i < 4; i++) {
        s[i] = (struct shared){t, true};
        assert_int_equal(pthread_create(&thread[i], NULL, render_many, &s[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        assert_true(s[i].ok);
    }
    jinja_destroy(&t);
}

static void test_wrong_sources_are_refused_with_their_line(void **state)
{
    struct err e = {0};
    assert_null(jinja_compile("a\n{% if %}", 10, &e));
    assert_int_equal(e.code, ERR_FORMAT);
    assert_non_null(strstr(e.text, "line 2"));
    assert_null(jinja_compile("a\0b", 3, &e));
    struct jinja *t =
        jinja_compile("\xff\xfe{{ 1 }}\xc3", 10, &e); /* ill-formed UTF-8 is replaced */
    assert_non_null(t);
    jinja_destroy(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases_render_as_jinja2_does),
        cmocka_unit_test(test_limits_refuse_quickly),
        cmocka_unit_test(test_provenance_is_kept_by_every_operation),
        cmocka_unit_test(test_json_of_outside_data_is_outside_as_a_whole),
        cmocka_unit_test(test_long_conversations_pass),
        cmocka_unit_test(test_recursion_ends_within_a_small_stack),
        cmocka_unit_test(test_nesting_is_refused_not_overflown),
        cmocka_unit_test(test_big_numbers_are_printed_or_refused),
        cmocka_unit_test(test_one_template_renders_from_many_threads),
        cmocka_unit_test(test_wrong_sources_are_refused_with_their_line),
    };
    chat_cases_directory(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
