/* A model is loaded with interleaved weights where this processor's kernels read them, and only
 * there; it takes what was planned, and computes what the mapped weights give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/interleave/interleaved_weights.h"
#include "engine/cpu/kernels/kernels.h"
#include "engine/memory/memory_load.h"
#include "tests/unit/support/expert_models.h"

#define MODEL "tests/data/golden/qwen3moe-k/gguf"

enum { TOKENS = 7 };

static struct model *model;

static int open_model(void **state)
{
    struct err e = {0};
    model = model_open(expert_model_path(MODEL), &e);
    if (!model)
        fprintf(stderr, "%s\n", e.text);
    return model ? 0 : -1;
}

static int close_model(void **state)
{
    model_close(&model);
    return 0;
}

static bool can_be_one_byte(void)
{
    return kernels_best()->kinds != PANEL_F32;
}

static void load(struct memory_load *l, const struct memory_request *terms)
{
    struct err e = {0};
    struct memory_request w = *terms;
    struct backend_memory taken;
    w.n_threads = 2;
    w.fixed = (struct sizing){
        .n_ctx = 32, .n_slots = 1, .n_blocks = 1, .prefill_chunk = TOKENS, .max_rows = TOKENS};
    if (!memory_load_plan(l, model, "cpu", &w, &e) || !memory_load_open(l, NULL, &e))
        fail_msg("%s", e.text);
    l->ops->memory(l->opened, &taken);
    if (!memory_plan_check(&l->plan, &taken, &e))
        fail_msg("%s", e.text);
}

/* Logits of all rows of a prompt. */
static void run(struct backend *b, float *logits)
{
    static const int32_t tokens[TOKENS] = {1, 5, 9, 20, 33, 7, 8}, block = 0;
    const struct step_sequence s = {.tokens = tokens,
                                    .n_tokens = TOKENS,
                                    .blocks = &block,
                                    .state = -1,
                                    .n_out = TOKENS,
                                    .want_logits = true};
    struct step_row rows[TOKENS];
    struct err e = {0};
    if (!cpu_backend.step(b, &(struct step){.sequences = &s, .n_sequences = 1, .n_top = 1}, rows,
                          &e))
        fail_msg("%s", e.text);
    const size_t n = (size_t)model_plan(model)->n_vocab;
    for (size_t i = 0; i < TOKENS; i++)
        memcpy(logits + i * n, rows[i].logits, n * sizeof *logits);
}

static void test_where_kernels_read_them(void **state)
{
    struct memory_load l;
    if (!can_be_one_byte())
        skip();
    load(&l, &(struct memory_request){.one_byte = true});
    const struct model_plan *running = memory_load_running(&l);
    assert_int_equal(l.plan.strategy, STRATEGY_CPU_ONLY);
    assert_int_equal(interleaved_weights_any(running), kernels_best()->reads_interleaved != NULL);
    assert_int_equal(running != model_plan(model), kernels_best()->reads_interleaved != NULL);
    memory_load_close(&l);
    assert_null(l.interleaved);
}

/* Not where activations have 16 or 32 bits, nor experts that are streamed. */
static void test_nowhere_else(void **state)
{
    static const struct memory_request terms[] = {
        {0}, {.exact = true}, {.exact = true, .one_byte = true}};
    struct memory_load l;
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
        if (terms[i].one_byte && !can_be_one_byte())
            continue;
        load(&l, &terms[i]);
        assert_ptr_equal(memory_load_running(&l), model_plan(model));
        memory_load_close(&l);
    }
    load(&l, &(struct memory_request){.one_byte = can_be_one_byte(),
                                      .strategy = STRATEGY_SSD_STREAMING});
    assert_false(interleaved_weights_any(memory_load_running(&l)));
    memory_load_close(&l);
}

/* Bit for bit: KV that was stored with either is read with the other. */
static void test_the_same_answers(void **state)
{
    struct memory_load l;
    struct err e = {0};
    if (!can_be_one_byte())
        skip();
    const size_t n = TOKENS * (size_t)model_plan(model)->n_vocab;
    float *one = malloc(n * sizeof *one), *other = malloc(n * sizeof *other);
    load(&l, &(struct memory_request){.one_byte = true});
    const struct backend_params p = memory_plan_params(&l.plan, &l.input.request);
    struct backend *mapped = cpu_backend.open(model_plan(model), &p, &e);
    if (!mapped)
        fail_msg("%s", e.text);
    run(l.opened, one);
    run(mapped, other);
    assert_memory_equal(one, other, n * sizeof *one);
    cpu_backend.close(&mapped);
    memory_load_close(&l);
    free(one);
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_kernels_read_them),
        cmocka_unit_test(test_nowhere_else),
        cmocka_unit_test(test_the_same_answers),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
