/* Sizes follow from the requests and the memory, and what cannot be is refused with numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "engine/memory/sizing.h"
#include "tests/unit/memory/memory_plan_rig.h"

#define BYTES 1000 /* of a block */

static const struct sizing_model plain = {.n_ctx = 4096, .block_bytes = BYTES};
static const struct sizing_model longer = {.n_ctx = 262144, .block_bytes = BYTES};

static void test_chosen_pool_is_half_of_all_slots(void **state)
{
    struct sizing_request w = {.slots = 16};
    struct sizing s;
    struct err e = {0};
    assert_true(sizing_choose(&plain, &w, 0, &s, &e));
    assert_int_equal(s.n_ctx, 4096);
    assert_int_equal(s.n_blocks, 128 * 8);
    assert_int_equal(s.prefill_chunk, 512);
    assert_int_equal(s.max_rows, 544); /* a chunk, and every slot's row, in whole blocks */
}

static void test_chosen_pool_takes_a_quarter_of_memory_at_most(void **state)
{
    struct sizing_request w = {.slots = 16};
    struct sizing s;
    struct err e = {0};
    assert_true(sizing_choose(&plain, &w, 800 * BYTES, &s, &e));
    assert_int_equal(s.n_blocks, 200);
    assert_true(sizing_choose(&plain, &w, 200 * BYTES, &s, &e));
    assert_int_equal(s.n_blocks, 128); /* one context must fit */
    assert_false(sizing_choose(&plain, &w, 100 * BYTES, &s, &e));
    assert_int_equal(e.code, ERR_LIMIT);
    assert_non_null(strstr(e.text, "128000"));
}

static void test_long_models_get_a_bounded_context(void **state)
{
    struct sizing_request w = {.slots = 1};
    struct sizing s;
    struct err e = {0};
    assert_true(sizing_choose(&longer, &w, 0, &s, &e));
    assert_int_equal(s.n_ctx, 32768);
    w.ctx = 100000;
    assert_true(sizing_choose(&longer, &w, 0, &s, &e));
    assert_int_equal(s.n_ctx, 100000);
    assert_int_equal(s.n_blocks, 3125);
    w.ctx = 300000;
    assert_false(sizing_choose(&longer, &w, 0, &s, &e));
    assert_string_equal(e.field, "ctx");
}

static void test_wished_memory_is_taken_as_said(void **state)
{
    struct sizing_request w = {.slots = 4, .kv_bytes = 300 * BYTES + 1};
    struct sizing s;
    struct err e = {0};
    assert_true(sizing_choose(&plain, &w, 10 * BYTES, &s, &e));
    assert_int_equal(s.n_blocks, 300);
    w.kv_bytes = 127 * BYTES;
    assert_false(sizing_choose(&plain, &w, 0, &s, &e));
    assert_string_equal(e.field, "kv-memory");
}

static void test_recurrent_models_get_room_for_copies(void **state)
{
    const struct sizing_model m = {.n_ctx = 4096, .block_bytes = BYTES, .state_bytes = 100000};
    struct sizing_request w = {.slots = 4};
    struct sizing s;
    struct err e = {0};
    assert_true(sizing_choose(&m, &w, 0, &s, &e));
    assert_int_equal(s.n_checkpoints, 16);
    assert_int_equal(s.n_states, 20);
    assert_true(sizing_choose(&m, &w, 8 * 300000, &s, &e));
    assert_int_equal(s.n_checkpoints, 3);
    assert_int_equal(s.n_states, 7);
    assert_true(sizing_shrink(&s));
    assert_int_equal(s.n_checkpoints, 1);
    assert_int_equal(s.n_states, 5);
}

static void test_pool_shrinks_to_one_context(void **state)
{
    struct sizing s = {.n_ctx = 4096, .n_blocks = 600};
    assert_true(sizing_shrink(&s));
    assert_int_equal(s.n_blocks, 300);
    assert_true(sizing_shrink(&s));
    assert_true(sizing_shrink(&s));
    assert_int_equal(s.n_blocks, 128);
    assert_false(sizing_shrink(&s));
}

static struct memory_plan planned_with(struct memory_input in, bool no_recall)
{
    in.request.speculates = in.targets[0].verifies = true;
    in.request.no_recall = no_recall;
    return planned(&in);
}

static void test_what_drafts_know_of_texts_is_planned(void **state)
{
    struct memory_input in = input_of(1 * GB, 0, 8 * GB, 6 * GB);
    const struct memory_plan plain_plan = planned(&in), p = planned_with(in, false);
    struct backend_memory m = {
        .weights = p.dense, .kv = p.kv, .work = p.work, .host = plain_plan.host};
    struct memory_plan with;
    struct err e = {0};
    assert_int_equal(p.recall, (uint64_t)p.size.n_blocks * MEMORY_RECALL_BYTES);
    assert_int_equal(p.host - plain_plan.host, p.recall);
    assert_int_equal(p.total - plain_plan.total, p.recall);
    assert_true(memory_plan_check(&p, &m, &e)); /* the backend takes the rest */
    assert_int_equal(plain_plan.recall + planned_with(in, true).recall, 0);
    in.request.ram_budget = (int64_t)(p.host + MEMORY_PROCESS_BYTES);
    in.request.size.kv_bytes = (int64_t)p.kv;
    in.request.kv_type = p.kv_type;
    assert_int_equal(planned_with(in, false).host, p.host);
    in.request.ram_budget--;
    in.request.speculates = in.targets[0].verifies = true;
    assert_false(memory_plan_make(&in, &with, &e)); /* not a byte less */
    in.request.no_recall = true;
    assert_true(memory_plan_make(&in, &with, &e));
    in.model.recurrent = true; /* without copies of states no prefix is kept */
    assert_int_equal(planned_with(in, false).recall, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chosen_pool_is_half_of_all_slots),
        cmocka_unit_test(test_chosen_pool_takes_a_quarter_of_memory_at_most),
        cmocka_unit_test(test_long_models_get_a_bounded_context),
        cmocka_unit_test(test_wished_memory_is_taken_as_said),
        cmocka_unit_test(test_recurrent_models_get_room_for_copies),
        cmocka_unit_test(test_pool_shrinks_to_one_context),
        cmocka_unit_test(test_what_drafts_know_of_texts_is_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
