/* What ends an answer in the scheduler: stop tokens, stop strings, and min_tokens, which holds both
 * back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/support/fake_backend.h"
#include "tests/unit/support/scheduler_rig.h"

/* What a job with these parameters gives. */
static void answer_of(struct rig *r, const struct engine_job_params *p, struct outcome *o)
{
    struct job *j = add(r, p);
    run(r);
    read_log(j, o);
    assert_true(o->done);
    job_unref(&j);
}

static void test_stop_tokens_end_the_answer(void **state)
{
    int32_t prompt[10];
    struct outcome whole, cut, kept;
    struct rig r;
    rig_init(&r, 2, 64, 64);
    fill_prompt(prompt, 10, 2);
    struct engine_job_params p = params_of(prompt, 10, 40);
    p.ignore_eos = true;
    answer_of(&r, &p, &whole);
    assert_int_equal(whole.n, 40);
    int32_t at = 12, stop = whole.ids[12];
    for (at = 0; whole.ids[at] != stop; at++)
        ;
    p.stop_ids = &stop;
    p.n_stop_ids = 1;
    answer_of(&r, &p, &cut);
    assert_int_equal(cut.finish, ENGINE_STOP_EOS);
    assert_int_equal(cut.n, at); /* counted, but not sent */
    assert_int_equal(cut.usage.completion_tokens, at + 1);
    assert_memory_equal(cut.ids, whole.ids, (size_t)at * sizeof *cut.ids);
    p.keep_stop = true;
    answer_of(&r, &p, &kept);
    assert_int_equal(kept.n, at + 1);
    assert_true(kept.text.len > cut.text.len &&
                !memcmp(kept.text.data, whole.text.data, kept.text.len));
    p.keep_stop = false;
    p.min_tokens = at + 1; /* it may not be drawn where it stood */
    buf_fini(&kept.text);
    answer_of(&r, &p, &kept);
    assert_true(kept.usage.completion_tokens > at + 1 && kept.ids[at] != stop);
    buf_fini(&whole.text);
    buf_fini(&cut.text);
    buf_fini(&kept.text);
    rig_fini(&r);
}

static void test_min_tokens_passes_ends_over(void **state)
{
    int32_t prompt[10], early = 0;
    struct rig r;
    rig_init(&r, 2, 64, 64);
    for (unsigned seed = 0; seed < 400; seed++) {
        struct outcome o;
        fill_prompt(prompt, 10, seed);
        struct engine_job_params p = params_of(prompt, 10, 30);
        answer_of(&r, &p, &o);
        buf_fini(&o.text);
        if (o.usage.completion_tokens > 6)
            continue;
        early++;
        p.min_tokens = 20;
        answer_of(&r, &p, &o);
        assert_true(o.usage.completion_tokens > 20 || o.finish == ENGINE_LENGTH);
        for (int i = 0; i < o.n && i < 20; i++)
            assert_int_not_equal(o.ids[i], FAKE_EOS);
        buf_fini(&o.text);
    }
    assert_true(early > 0);
    rig_fini(&r);
}

static void test_stop_strings_wait_for_min_tokens(void **state)
{
    int32_t prompt[10];
    struct outcome whole, cut;
    struct rig r;
    rig_init(&r, 2, 64, 64);
    fill_prompt(prompt, 10, 2);
    struct engine_job_params p = params_of(prompt, 10, 60);
    p.ignore_eos = true;
    answer_of(&r, &p, &whole);
    char stop[2] = {whole.text.data[17] & 0x7f ? whole.text.data[17] : 'x', 0};
    if (stop[0] & 0x80)
        stop[0] = 'e';
    const char *first = strchr(whole.text.data, stop[0]);
    assert_non_null(first);
    p.stop = (const char *const[]){stop};
    p.n_stop = 1;
    p.keep_stop = true;
    answer_of(&r, &p, &cut);
    assert_int_equal(cut.finish, ENGINE_STOP_STRING);
    assert_int_equal(cut.text.len, first + 1 - whole.text.data); /* the string itself is kept */
    p.keep_stop = false;
    p.min_tokens = cut.n;
    buf_fini(&cut.text);
    answer_of(&r, &p, &cut);
    assert_true(cut.text.len > (size_t)(first + 1 - whole.text.data));
    assert_memory_equal(cut.text.data, whole.text.data, cut.text.len);
    buf_fini(&cut.text);
    p.min_tokens = 60;
    answer_of(&r, &p, &cut);
    assert_int_equal(cut.finish, ENGINE_LENGTH);
    assert_int_equal(cut.text.len, whole.text.len);
    buf_fini(&whole.text);
    buf_fini(&cut.text);
    rig_fini(&r);
}

static void test_stop_string_ends_the_answer_before_it(void **state)
{
    int32_t prompt[10];
    struct outcome whole, cut;
    struct rig r;
    rig_init(&r, 2, 64, 64);
    fill_prompt(prompt, 10, 2);
    struct engine_job_params p = params_of(prompt, 10, 60);
    p.ignore_eos = true;
    struct job *j = add(&r, &p);
    run(&r);
    read_log(j, &whole);
    job_unref(&j);
    assert_true(whole.text.len > 30);
    size_t at = 17; /* some bytes in the middle, wherever tokens begin */
    while (((unsigned char)whole.text.data[at] & 0xc0) == 0x80)
        at++;
    char stop[16] = {0};
    memcpy(stop, whole.text.data + at, 7);
    p.stop = (const char *const[]){stop};
    p.n_stop = 1;
    j = add(&r, &p);
    run(&r);
    read_log(j, &cut);
    assert_int_equal(cut.finish, ENGINE_STOP_STRING);
    assert_string_equal(cut.stop, stop);
    const char *expected = strstr(whole.text.data, stop);
    assert_int_equal(cut.text.len, expected - whole.text.data);
    if (cut.text.len)
        assert_memory_equal(cut.text.data, whole.text.data, cut.text.len);
    buf_fini(&whole.text);
    buf_fini(&cut.text);
    job_unref(&j);
    rig_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_tokens_end_the_answer),
        cmocka_unit_test(test_min_tokens_passes_ends_over),
        cmocka_unit_test(test_stop_strings_wait_for_min_tokens),
        cmocka_unit_test(test_stop_string_ends_the_answer_before_it),
    };
    return cmocka_run_group_tests(tests, rig_load_vocab, rig_unload_vocab);
}
