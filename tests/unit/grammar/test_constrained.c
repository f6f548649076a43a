/* Jobs with a grammar in the scheduler: alone, beside free ones, paused, cut, ended; and the
 * sampler under a mask. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/gbnf.h"
#include "tests/unit/support/fake_backend.h"
#include "tests/unit/support/scheduler_rig.h"

static struct buf compile(const char *text)
{
    struct err e = {0};
    struct buf out = {0};
    struct builder *b = builder_create(0, &e);
    expr x = gbnf_read(b, text, strlen(text), &e);
    if (x < 0 || !builder_finish(b, x, &out, &e))
        fail_msg("%s", e.text);
    builder_destroy(&b);
    return out;
}

static struct engine_job_params constrained(const int32_t *prompt, int32_t n, int32_t max_tokens,
                                            const struct buf *program, uint64_t seed)
{
    struct engine_job_params p = params_of(prompt, n, max_tokens);
    p.grammar = program->data;
    p.n_grammar = (uint32_t)program->len;
    p.sampling.temperature = seed % 3 ? 1.5f : 0;
    p.sampling.top_k = seed % 3 == 1 ? 40 : 0;
    p.sampling.frequency_penalty = seed % 2 ? 0.7f : 0;
    p.sampling.seed = seed;
    return p;
}

static size_t span(const char *text, const char *set)
{
    return strspn(text, set);
}

static void test_answers_keep_the_form_beside_free_ones(void **state)
{
    enum { N = 18 };
    int32_t prompt[80];
    struct job *jobs[N];
    struct rig r;
    struct buf program = compile("root ::= [0-9]{3,6} \"-\" [a-f]{2}");
    rig_init(&r, 6, 17, 32); /* few blocks: jobs are paused and go on */
    for (int i = 0; i < N; i++) {
        int32_t n = 1 + i * 29 % 80;
        fill_prompt(prompt, n, (unsigned)i);
        struct engine_job_params p = i % 3 == 2 ? params_of(prompt, n, 90)
                                                : constrained(prompt, n, 90, &program, (uint64_t)i);
        jobs[i] = add(&r, &p);
    }
    run(&r);
    for (int i = 0; i < N; i++) {
        struct outcome o;
        if (i % 3 == 2) {
            assert_greedy(jobs[i]); /* what runs beside it changes nothing */
            job_unref(&jobs[i]);
            continue;
        }
        read_log(jobs[i], &o);
        assert_true(o.done && o.finish == ENGINE_STOP_EOS);
        size_t digits = span(o.text.data, "0123456789");
        assert_true(digits >= 3 && digits <= 6 && o.text.data[digits] == '-');
        assert_true(span(o.text.data + digits + 1, "abcdef") == 2 && o.text.len == digits + 3);
        buf_fini(&o.text);
        job_unref(&jobs[i]);
    }
    assert_all_returned(&r, 6);
    rig_fini(&r);
    buf_fini(&program);
}

static void test_a_cut_answer_says_length_and_a_stop_string_ends_it(void **state)
{
    int32_t prompt[4] = {5, 6, 7, 8};
    const char *stop = "-";
    struct outcome o;
    struct rig r;
    struct buf program = compile("root ::= [0-9]{30,40} \"-\" [a-f]{2}");
    rig_init(&r, 2, 32, 64);
    struct engine_job_params p = constrained(prompt, 4, 5, &program, 1);
    struct job *cut = add(&r, &p);
    p = constrained(prompt, 4, 90, &program, 2);
    p.stop = &stop;
    p.n_stop = 1;
    struct job *stopped = add(&r, &p);
    run(&r);
    read_log(cut, &o);
    assert_true(o.done && o.finish == ENGINE_LENGTH);
    buf_fini(&o.text);
    read_log(stopped, &o);
    assert_true(o.done && o.finish == ENGINE_STOP_STRING);
    assert_int_equal(span(o.text.data, "0123456789"), o.text.len);
    buf_fini(&o.text);
    job_unref(&cut);
    job_unref(&stopped);
    assert_all_returned(&r, 2);
    rig_fini(&r);
    buf_fini(&program);
}

/* The grammar makes the text certain: reasoning that holds every stop, white space, content. */
static void stop_in(const char *const *stops, int32_t n, const char *format, const char *shown,
                    const char *met)
{
    int32_t prompt[4] = {5, 6, 7, 8};
    struct outcome o;
    struct rig r;
    struct buf program = compile("root ::= \"<think>\\na END b</think>\\n\\nc END\\nd\"");
    rig_init(&r, 2, 32, 64);
    struct engine_job_params p = constrained(prompt, 4, 90, &program, 3);
    p.stop = stops;
    p.n_stop = n;
    strcpy(p.answer_format, format);
    struct job *j = add(&r, &p);
    run(&r);
    read_log(j, &o);
    assert_true(o.done && o.finish == (met ? ENGINE_STOP_STRING : ENGINE_STOP_EOS));
    assert_string_equal(o.text.data, shown);
    if (met)
        assert_string_equal(o.stop, met);
    buf_fini(&o.text);
    job_unref(&j);
    rig_fini(&r);
    buf_fini(&program);
}

#define REASONED "<think>\na END b</think>\n\n"

static void test_stop_strings_are_looked_for_behind_the_reasoning(void **state)
{
    stop_in((const char *const[]){"END"}, 1, "hermes", REASONED "c ", "END");
    stop_in((const char *const[]){"\n", "a END"}, 2, "hermes", REASONED "c END", "\n");
    stop_in((const char *const[]){"</think>", "\nc", "k>\n\nc E"}, 3, "hermes", REASONED "c END\nd",
            NULL);
    stop_in((const char *const[]){"<thi"}, 1, "hermes", REASONED "c END\nd", NULL);
    stop_in((const char *const[]){"END"}, 1, "", "<think>\na ",
            "END"); /* plain text has no reasoning */
}

static void test_an_end_token_ends_only_where_the_form_may_end(void **state)
{
    int32_t prompt[3] = {9, 8, 7};
    struct rig r;
    struct buf program = compile("root ::= [a-z]{4,}");
    rig_init(&r, 4, 64, 64);
    for (uint64_t seed = 0; seed < 24; seed++) {
        struct outcome o;
        struct engine_job_params p = constrained(prompt, 3, 200, &program, seed);
        struct engine_bias end = {FAKE_EOS, 100};
        p.ignore_eos = seed % 2; /* the form's end is the end all the same */
        p.sampling.bias = &end;
        p.sampling.n_bias = 1;
        struct job *j = add(&r, &p);
        run(&r);
        read_log(j, &o);
        assert_true(o.done && o.finish == ENGINE_STOP_EOS);
        assert_true(o.text.len >= 4 &&
                    span(o.text.data, "abcdefghijklmnopqrstuvwxyz") == o.text.len);
        buf_fini(&o.text);
        job_unref(&j);
    }
    assert_all_returned(&r, 4);
    rig_fini(&r);
    buf_fini(&program);
}

/* Digits are tokens of their own, so the form leaves one token at a time. */
static void test_what_a_form_leaves_no_choice_about_is_drafted(void **state)
{
    int32_t prompt[4] = {5, 6, 7, 8};
    struct outcome o;
    struct rig r;
    struct buf program = compile("root ::= \"83957\" [a-f] \"1620475\" [a-f]");
    rig_use_drafts(ENGINE_SPECULATE_AUTO, DRAFT_MAX);
    rig_init(&r, 1, 32, 64);
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct engine_job_params p = constrained(prompt, 4, 90, &program, seed);
        struct job *j = add(&r, &p);
        run(&r);
        read_log(j, &o);
        assert_true(o.done && o.finish == ENGINE_STOP_EOS && o.text.len == 14);
        assert_memory_equal(o.text.data, "83957", 5);
        assert_memory_equal(o.text.data + 6, "1620475", 7);
        /* all but the first, which comes with the prompt, and what was free to choose */
        assert_in_range(o.usage.speculation.accepted, 10, 12);
        assert_in_range(o.usage.speculation.drafted - o.usage.speculation.accepted, 0, 1);
        buf_fini(&o.text);
        job_unref(&j);
    }
    rig_use_drafts(ENGINE_SPECULATE_OFF, 0);
    assert_all_returned(&r, 1);
    rig_fini(&r);
    buf_fini(&program);
}

static void test_drafts_keep_the_form_and_change_no_token(void **state)
{
    enum { N = 12 };
    static struct outcome plain[N], drafted[N];
    static int32_t predictions[N][N_CTX];
    int32_t prompt[20], accepted = 0, rejected = 0, forbidden = 0;
    size_t len;
    while (vocab_bytes(rig_vocab(), forbidden, &len)[0] != '!' || len != 1)
        forbidden++;
    struct buf program = compile("root ::= ([a-z]{3,6} \"=\" [0-9]{2,4} \";\"){6,9}");
    for (int with = 0; with < 2; with++) {
        struct job *jobs[N];
        struct rig r;
        rig_use_drafts(with ? ENGINE_SPECULATE_AUTO : ENGINE_SPECULATE_OFF, 5);
        rig_init(&r, 4, 64, 64);
        for (int i = 0; i < N; i++) {
            fill_prompt(prompt, 20, (unsigned)i);
            struct engine_job_params p = constrained(prompt, 20, 120, &program, (uint64_t)i);
            p.prediction = predictions[i];
            p.n_prediction = with ? plain[i].n : 0;
            jobs[i] = add(&r, &p);
        }
        run(&r);
        for (int i = 0; i < N; i++) {
            struct outcome *o = with ? &drafted[i] : &plain[i];
            read_log(jobs[i], o);
            assert_true(o->done);
            for (int32_t k = 0; k < o->n; k++) /* now and then what the form does not allow */
                predictions[i][k] = k % 8 == 7 ? forbidden : o->ids[k];
            accepted += o->usage.speculation.accepted;
            rejected += o->usage.speculation.drafted - o->usage.speculation.accepted;
            job_unref(&jobs[i]);
        }
        assert_all_returned(&r, 4);
        rig_fini(&r);
    }
    rig_use_drafts(ENGINE_SPECULATE_OFF, 0);
    assert_true(accepted > 100);
    assert_true(rejected < accepted); /* what the form forbids was not computed */
    for (int i = 0; i < N; i++) {
        assert_int_equal(drafted[i].n, plain[i].n);
        assert_memory_equal(drafted[i].ids, plain[i].ids,
                            (size_t)plain[i].n * sizeof *plain[i].ids);
        assert_int_equal(drafted[i].finish, plain[i].finish);
        buf_fini(&plain[i].text);
        buf_fini(&drafted[i].text);
    }
    buf_fini(&program);
}

static void test_what_the_vocabulary_cannot_spell_fails_the_job(void **state)
{
    int32_t prompt[3] = {9, 8, 7};
    struct outcome o;
    struct rig r;
    struct err e = {0};
    struct buf program = {0};
    struct builder *b = builder_create(0, &e);
    expr x = expr_seq2(b, expr_text(b, "a"), expr_byte_range(b, 0xFF, 0xFF));
    assert_true(builder_finish(b, x, &program, &e));
    builder_destroy(&b);
    rig_init(&r, 2, 32, 64);
    struct engine_job_params p = constrained(prompt, 3, 20, &program, 0);
    struct job *j = add(&r, &p);
    run(&r);
    read_log(j, &o);
    assert_true(o.done || (o.failed && o.error.code == ERR_INPUT)); /* the byte may have a token */
    buf_fini(&o.text);
    job_unref(&j);
    p.n_grammar = 7; /* rubbish that came past the inbox */
    j = add(&r, &p);
    run(&r);
    read_log(j, &o);
    assert_true(o.failed && o.error.code == ERR_INPUT);
    buf_fini(&o.text);
    job_unref(&j);
    assert_all_returned(&r, 2);
    rig_fini(&r);
    buf_fini(&program);
}

/* A mask gives what a row without the other tokens gives. */
static void test_masked_draws_are_draws_from_the_rest(void **state)
{
    enum { N = 300 };
    float logits[N], masked[N];
    int32_t list[N], top[1] = {0};
    uint32_t bits[(N + 31) / 32];
    struct err e = {0};
    struct sampler_workspace *w = sampler_workspace_create(N, &e);
    for (unsigned trial = 0; trial < 400; trial++) {
        struct engine_bias bias = {(int32_t)(trial * 7 % N), 3};
        struct engine_sampling set = {.temperature = trial % 4 ? 1.3f : 0,
                                      .top_p = trial % 3 ? 1 : 0.8f,
                                      .min_p = trial % 5 ? 0 : 0.05f,
                                      .top_k = trial % 7 == 1 ? 20 : 0,
                                      .repetition_penalty = trial % 6 ? 1 : 1.3f,
                                      .seed = trial,
                                      .bias = &bias,
                                      .n_bias = trial % 2};
        struct grammar_mask m = {.list = list};
        memset(bits, 0, sizeof bits);
        for (int32_t i = 0; i < N; i++) {
            logits[i] = (float)((i * 7919u + trial * 104729u) % 1000) / 100;
            bool keep = (i * 43u + trial) % (2 + trial % 40) == 0;
            masked[i] = keep ? logits[i] : -INFINITY;
            if (keep) {
                bits[i >> 5] |= 1u << (i & 31);
                list[m.n++] = i;
            }
        }
        int32_t prompt[] = {3, 40, 77, 200}, got[3][4];
        for (int way = 0; way < 3; way++) {
            struct sampler *s = sampler_create(&set, N, &e);
            struct grammar_mask allowed =
                way == 1 ? m : (struct grammar_mask){.n = m.n, .bits = bits};
            struct step_row row = {.top_ids = top,
                                   .top_logits = logits,
                                   .log_sum_exp = 5,
                                   .logits = way ? logits : masked};
            struct engine_token token;
            sampler_add_prompt(s, prompt, 4);
            for (int i = 0; i < 4; i++) {
                /* the reference needs the whole row: a mask that allows all makes it take that way
                 */
                uint32_t all[(N + 31) / 32];
                memset(all, 0xff, sizeof all);
                struct grammar_mask every = {.n = N, .bits = all};
                const struct sampler_input in = {.row = &row,
                                                 .n_top = 1,
                                                 .top_logprobs = -1,
                                                 .allowed = way ? &allowed : &every};
                sampler_pick(s, w, &in, &token);
                got[way][i] = token.id;
                if (!(bits[token.id >> 5] >> (token.id & 31) & 1))
                    fail_msg("trial %u way %d i %d token %d n %d", trial, way, i, token.id, m.n);
            }
            sampler_destroy(&s);
        }
        assert_memory_equal(got[1], got[0], sizeof got[0]);
        assert_memory_equal(got[2], got[0], sizeof got[0]);
    }
    sampler_workspace_destroy(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_keep_the_form_beside_free_ones),
        cmocka_unit_test(test_a_cut_answer_says_length_and_a_stop_string_ends_it),
        cmocka_unit_test(test_stop_strings_are_looked_for_behind_the_reasoning),
        cmocka_unit_test(test_an_end_token_ends_only_where_the_form_may_end),
        cmocka_unit_test(test_what_a_form_leaves_no_choice_about_is_drafted),
        cmocka_unit_test(test_drafts_keep_the_form_and_change_no_token),
        cmocka_unit_test(test_what_the_vocabulary_cannot_spell_fails_the_job),
        cmocka_unit_test(test_masked_draws_are_draws_from_the_rest),
    };
    return cmocka_run_group_tests(tests, rig_load_vocab, rig_unload_vocab);
}
