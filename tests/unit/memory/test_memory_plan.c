/* The planner over machines that do not exist: every plan stays inside them, and what can't work is
 * refused with settings that do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/memory/memory_rates.h"
#include "engine/memory/memory_text.h"
#include "tests/unit/memory/memory_plan_rig.h"

static void add_gpu(struct memory_input *in, uint64_t total, uint64_t available)
{
    in->targets[1] = in->targets[0];
    in->targets[0] = (struct memory_target){.backend = "vulkan",
                                            .gpu = true,
                                            .total = total,
                                            .available = available,
                                            .estimate = fake_estimate,
                                            .context = &gpu};
    in->n_targets = 2;
}

static struct err refused(const struct memory_input *in)
{
    struct memory_plan p;
    struct err e = {0};
    assert_false(memory_plan_make(in, &p, &e));
    assert_true(e.text[0]);
    return e;
}

/* What every plan must hold. */
static void check(const struct memory_input *in, const struct memory_plan *p)
{
    assert_int_equal(p->dense + p->experts + p->expert_cache + p->kv + p->state + p->work +
                         p->recall,
                     p->device + p->host);
    assert_true(p->host <= p->ram_limit);
    assert_true(p->host + p->reserve <= in->machine.available || !p->host);
    assert_true(p->device <= p->gpu_limit);
    assert_true(p->gpu_limit <= in->targets[p->target].available);
    assert_true(p->size.n_blocks >= sizing_one_context(&p->size));
    assert_int_equal(p->gpu_layers + p->cpu_layers, p->n_layer);
    assert_int_equal(p->total, in->model.weights + p->kv + p->state + p->work + p->recall);
    assert_true(!p->expert_cache ==
                (p->strategy != STRATEGY_SSD_STREAMING && p->strategy != STRATEGY_HYBRID));
    if (p->strategy == STRATEGY_SSD_STREAMING)
        assert_true(p->expert_cache >= in->model.cache_least &&
                    p->expert_cache <= in->model.cache_most);
    if (in->request.ram_budget)
        assert_true(p->host + MEMORY_PROCESS_BYTES <= (uint64_t)in->request.ram_budget);
}

static void test_machines_of_all_sizes(void **state)
{
    static const struct {
        const char *what;
        uint64_t dense, experts, ram, free, gpu;
        enum strategy want; /* STRATEGY__N: refused */
    } cases[] = {
        {"small model, small machine", 1 * GB, 0, 8 * GB, 6 * GB, 0, STRATEGY_CPU_ONLY},
        {"dense model beyond RAM", 20 * GB, 0, 8 * GB, 6 * GB, 0, STRATEGY__N},
        {"30B on 32 GB", 1500 * MB, 17 * GB, 32 * GB, 28 * GB, 0, STRATEGY_CPU_ONLY},
        {"30B on 16 GB", 1500 * MB, 17 * GB, 16 * GB, 13 * GB, 0, STRATEGY_SSD_STREAMING},
        {"Ling on 64 GB: 1 % over is not swap", 3 * GB, 52 * GB, 64 * GB, 61 * GB, 0,
         STRATEGY_CPU_ONLY},
        {"Ling on 24 GB", 3 * GB, 52 * GB, 24 * GB, 22 * GB, 0, STRATEGY_SSD_STREAMING},
        {"744B on 64 GB", 10 * GB, 360 * GB, 64 * GB, 60 * GB, 0, STRATEGY_SSD_STREAMING},
        {"dense part beyond RAM", 12 * GB, 360 * GB, 8 * GB, 7 * GB, 0, STRATEGY__N},
        {"744B on 1 TB", 10 * GB, 360 * GB, 1000 * GB, 900 * GB, 0, STRATEGY_CPU_ONLY},
        {"fits the GPU", 1500 * MB, 17 * GB, 16 * GB, 12 * GB, 24 * GB, STRATEGY_FULL_GPU},
        {"GPU too small", 1500 * MB, 17 * GB, 32 * GB, 28 * GB, 12 * GB, STRATEGY_CPU_ONLY},
        {"GPU and RAM too small", 1500 * MB, 17 * GB, 12 * GB, 10 * GB, 12 * GB,
         STRATEGY_SSD_STREAMING},
        {"nothing free", 1 * GB, 17 * GB, 32 * GB, 1 * GB, 0, STRATEGY__N},
        {"H200", 6 * GB, 63 * GB, 256 * GB, 250 * GB, 141 * GB, STRATEGY_FULL_GPU},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct memory_input in =
            input_of(cases[i].dense, cases[i].experts, cases[i].ram, cases[i].free);
        if (cases[i].gpu)
            add_gpu(&in, cases[i].gpu, cases[i].gpu);
        struct memory_plan p;
        struct err e = {0};
        bool ok = memory_plan_make(&in, &p, &e);
        if (ok != (cases[i].want != STRATEGY__N) || (ok && p.strategy != cases[i].want))
            fail_msg("%s: %s", cases[i].what, ok ? strategy_name(p.strategy) : e.text);
        if (ok)
            check(&in, &p);
        else
            assert_int_equal(e.code, ERR_LIMIT);
    }
}

static void test_a_group_limit_is_what_counts(void **state)
{
    struct memory_input in = input_of(1500 * MB, 17 * GB, 64 * GB, 60 * GB);
    assert_int_equal(planned(&in).strategy, STRATEGY_CPU_ONLY);
    in.machine.total = in.machine.group_limit = 8 * GB; /* as machine_read gives it */
    in.machine.available = in.machine.group_available = 7 * GB;
    struct memory_plan p = planned(&in);
    assert_int_equal(p.strategy, STRATEGY_SSD_STREAMING);
    check(&in, &p);
}

static void test_budgets_bound_the_plan(void **state)
{
    struct memory_input in = input_of(1500 * MB, 17 * GB, 64 * GB, 60 * GB);
    in.request.ram_budget = (int64_t)(6 * GB);
    struct memory_plan p = planned(&in);
    assert_int_equal(p.strategy, STRATEGY_SSD_STREAMING);
    check(&in, &p);
    assert_true(p.host + MEMORY_PROCESS_BYTES > 6 * GB - 100 * MB); /* it uses what it may */
    assert_non_null(strstr(p.reason, "cpu_only"));
    in.request.ram_budget = (int64_t)(1 * GB);
    struct err e = refused(&in);
    assert_int_equal(e.code, ERR_LIMIT);
    /* the least budget that it names does run, a little less does not */
    const char *at = strstr(e.text, "--ram-budget ");
    assert_non_null(at);
    in.request.ram_budget = strtoll(at + strlen("--ram-budget "), NULL, 10);
    p = planned(&in);
    check(&in, &p);
    in.request.ram_budget -= (int64_t)(50 * MB);
    refused(&in);
}

static void test_a_gpu_budget_moves_the_model(void **state)
{
    struct memory_input in = input_of(1500 * MB, 17 * GB, 64 * GB, 60 * GB);
    add_gpu(&in, 24 * GB, 24 * GB);
    in.request.gpu_budget = (int64_t)(10 * GB);
    struct memory_plan p = planned(&in);
    assert_int_equal(p.strategy, STRATEGY_CPU_ONLY);
    assert_string_equal(p.backend, "cpu");
    assert_non_null(strstr(p.reason, "vulkan: needs"));
}

static void test_a_streaming_gpus_cache_is_rounded_within_the_budget(void **state)
{
    struct memory_input in = input_of(1500 * MB, 17 * GB, 64 * GB, 60 * GB);
    add_gpu(&in, 24 * GB, 24 * GB);
    in.targets[0].streams = true;
    in.model.layer_most = in.model.experts / 60;
    in.request.gpu_budget = (int64_t)(5 * GB);
    in.request.strategy = STRATEGY_SSD_STREAMING;
    for (uint64_t budget = 4 * GB; budget < 4 * GB + 2 * HOST_SLOT; budget += HOST_SLOT / 5) {
        in.request.ram_budget = (int64_t)budget;
        struct memory_plan p = planned(&in);
        assert_string_equal(p.backend, "vulkan");
        check(&in, &p);
        assert_true(p.host + HOST_SLOT > p.ram_limit); /* it uses what it may */
    }
}

static void test_a_gpu_that_lives_in_ram_counts_there(void **state)
{
    struct memory_input in = input_of(1500 * MB, 17 * GB, 32 * GB, 15 * GB);
    add_gpu(&in, 32 * GB, 32 * GB);
    assert_int_equal(planned(&in).strategy, STRATEGY_FULL_GPU);
    in.targets[0].in_ram = true;
    assert_int_equal(planned(&in).strategy, STRATEGY_SSD_STREAMING);
}

static void test_forced_strategies(void **state)
{
    struct memory_input in = input_of(1500 * MB, 17 * GB, 64 * GB, 60 * GB);
    in.request.strategy = STRATEGY_SSD_STREAMING;
    struct memory_plan p = planned(&in);
    assert_int_equal(p.strategy, STRATEGY_SSD_STREAMING);
    assert_int_equal(p.expert_cache, in.model.cache_most); /* more would be of no use */
    in.request.strategy = STRATEGY_FULL_GPU;
    struct err e = refused(&in);
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(e.text, "--strategy cpu_only would run"));
    add_gpu(&in, 24 * GB, 24 * GB);
    assert_int_equal(planned(&in).strategy, STRATEGY_FULL_GPU);
    in.request.strategy = STRATEGY_CPU_ONLY;
    assert_int_equal(planned(&in).strategy, STRATEGY_CPU_ONLY);
    in.machine.available = 10 * GB;
    e = refused(&in);
    assert_int_equal(e.code, ERR_LIMIT);
    assert_non_null(strstr(e.text, "--strategy full_gpu would run"));
}

static void test_hybrid_waits_for_a_backend_that_can(void **state)
{
    struct memory_input in = input_of(1500 * MB, 17 * GB, 64 * GB, 60 * GB);
    add_gpu(&in, 12 * GB, 12 * GB);
    assert_int_not_equal(planned(&in).strategy, STRATEGY_HYBRID);
    in.request.strategy = STRATEGY_HYBRID;
    struct err e = refused(&in);
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(e.text, "hybrid"));
}

static void test_hybrid_keeps_experts_in_ram_and_slots(void **state)
{
    struct memory_input in = input_of(1500 * MB, 17 * GB, 64 * GB, 60 * GB);
    add_gpu(&in, 12 * GB, 12 * GB);
    in.targets[0].splits = true;
    struct memory_plan p = planned(&in);
    assert_int_equal(p.strategy, STRATEGY_HYBRID);
    check(&in, &p);
    assert_int_equal(p.experts, 17 * GB);
    assert_int_equal(p.host, 17 * GB + 10 * MB);
    assert_true(p.expert_cache > 9 * GB &&
                p.expert_cache <= p.device_experts); /* what KV and work leave of 12 */
    assert_non_null(strstr(p.reason, "vulkan: needs"));
    in.request.gpu_budget = (int64_t)(4 * GB);
    struct memory_plan less = planned(&in);
    check(&in, &less);
    assert_true(less.expert_cache < p.expert_cache && less.device <= 4 * GB);
    in.machine.available = 12 * GB; /* not all experts fit RAM */
    assert_int_equal(planned(&in).strategy, STRATEGY_SSD_STREAMING);
    in.machine.available = 60 * GB;
    in.request = (struct memory_request){
        .strategy = STRATEGY_HYBRID, .expert_cache = (int64_t)(2 * GB), .size = in.request.size};
    p = planned(&in);
    assert_int_equal(p.device_experts, 2 * GB);
    check(&in, &p);
    in.targets[0].in_ram = true; /* only when forced */
    assert_int_equal(planned(&in).strategy, STRATEGY_HYBRID);
    in.request = (struct memory_request){.size = in.request.size};
    assert_int_equal(planned(&in).strategy, STRATEGY_CPU_ONLY);
}

static void test_expert_cache_is_taken_as_said(void **state)
{
    struct memory_input in = input_of(1500 * MB, 17 * GB, 64 * GB, 60 * GB);
    in.request.expert_cache = (int64_t)(2 * GB);
    struct memory_plan p = planned(&in);
    assert_int_equal(p.strategy, STRATEGY_SSD_STREAMING);
    assert_int_equal(p.expert_cache, 2 * GB);
    check(&in, &p);
    in.request.expert_cache = 1000;
    assert_int_equal(refused(&in).code, ERR_LIMIT);
    struct memory_input dense = input_of(1500 * MB, 0, 64 * GB, 60 * GB);
    dense.request.expert_cache = (int64_t)GB;
    struct err e = refused(&dense);
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(e.text, "no routed experts"));
}

static void test_a_wished_pool_is_not_cut(void **state)
{
    struct memory_input in = input_of(1500 * MB, 17 * GB, 64 * GB, 22 * GB);
    in.request.size.kv_bytes = (int64_t)(1 * GB);
    in.request.strategy = STRATEGY_CPU_ONLY;
    struct memory_plan p = planned(&in);
    assert_int_equal(p.kv, 1 * GB);
    in.request.size.kv_bytes = (int64_t)(10 * GB);
    assert_int_equal(refused(&in).code, ERR_LIMIT);
    in.request.size.kv_bytes = 0; /* chosen: it gives way */
    p = planned(&in);
    check(&in, &p);
}

static void test_a_smaller_context_is_named(void **state)
{
    struct memory_input in = input_of(1500 * MB, 0, 4 * GB, 3 * GB);
    in.request.size.ctx = 32768; /* 1024 blocks of 2 MB */
    in.request.kv_type = KV_F16;
    struct err e = refused(&in);
    const char *at = strstr(e.text, "--ctx ");
    assert_non_null(at);
    in.request.size.ctx = strtoll(at + 6, NULL, 10);
    struct memory_plan p = planned(&in);
    check(&in, &p);
}

static enum kv_type type_planned(const struct memory_input *in)
{
    struct memory_plan p = planned(in);
    check(in, &p);
    assert_int_equal(p.kv_type, p.kv_stored);
    assert_int_equal(p.kv_per_token, in->model.kv_per_token[p.kv_type]);
    assert_int_equal(memory_plan_params(&p, &in->request).kv_type, p.kv_type);
    return p.kv_type;
}

/* 4 slots of 4096 tokens: a pool of 256 blocks, 0.5 GB at 16 bits. */
static void test_auto_keeps_16_bits_while_they_fit(void **state)
{
    struct memory_input in = input_of(1500 * MB, 0, 8 * GB, 6 * GB);
    in.model.kv_per_token[KV_F16] = BLOCK / BACKEND_BLOCK_TOKENS;
    in.model.kv_per_token[KV_Q8] = in.model.kv_per_token[KV_K8V4] =
        BLOCK / 2 / BACKEND_BLOCK_TOKENS;
    assert_int_equal(type_planned(&in), KV_F16);
    in.machine.available = 3 * GB; /* the pool may take a quarter of what weights leave */
    assert_int_equal(type_planned(&in), KV_Q8);
    const int32_t blocks = planned(&in).size.n_blocks;
    in.request.kv_type = KV_F16;
    assert_int_equal(type_planned(&in), KV_F16);
    assert_true(planned(&in).size.n_blocks < blocks);
    in.request.kv_type = KV_AUTO;
    in.request.size.kv_bytes = (int64_t)(300 * MB); /* a pool that was asked for is whole */
    assert_int_equal(type_planned(&in), KV_F16);
    in.request.size.kv_bytes = (int64_t)(200 * MB); /* no context of it fits at 16 bits */
    assert_int_equal(type_planned(&in), KV_Q8);
    in.request.size.kv_bytes = 0;
    in.request.exact = true;
    assert_int_equal(planned(&in).kv_stored, KV_F32);
    in.request.kv_type = KV_K8V4;
    assert_int_equal(type_planned(&in), KV_K8V4);
}

/* A GPU that has room for one context at 8 bits alone is better than another strategy. */
static void test_auto_tries_fewer_bits_before_a_slower_strategy(void **state)
{
    struct memory_input in = input_of(1500 * MB, 17 * GB, 64 * GB, 60 * GB);
    add_gpu(&in, 24 * GB, 19300 * MB); /* 0.7 GB for KV and work */
    in.request.size.ctx = 8192;        /* 256 blocks of 4 MB */
    struct memory_plan p = planned(&in);
    assert_int_equal(p.strategy, STRATEGY_FULL_GPU);
    assert_int_equal(p.kv_type, KV_Q8);
    in.request.kv_type = KV_F16;
    assert_int_equal(planned(&in).strategy, STRATEGY_CPU_ONLY);
}

static void test_too_long_a_context_is_the_callers_mistake(void **state)
{
    struct memory_input in = input_of(1500 * MB, 0, 64 * GB, 60 * GB);
    in.request.size.ctx = 100000;
    struct err e = refused(&in);
    assert_string_equal(e.field, "ctx");
    assert_int_equal(e.code, ERR_LIMIT);
}

static void test_what_a_backend_refuses(void **state)
{
    struct memory_input in = input_of(1500 * MB, 17 * GB, 64 * GB, 60 * GB);
    add_gpu(&in, 24 * GB, 24 * GB);
    gpu.refuse = ERR_UNSUPPORTED;
    struct memory_plan p = planned(&in);
    assert_int_equal(p.strategy, STRATEGY_CPU_ONLY);
    assert_string_equal(p.reason, "vulkan: layer 3: no kernel for this");
    gpu.refuse = ERR_DEVICE; /* is not answered with something slower */
    assert_int_equal(refused(&in).code, ERR_DEVICE);
}

static void test_who_computes_experts_without_a_slot_is_asked_of_hybrid_alone(void **state)
{
    struct memory_input in = input_of(1500 * MB, 17 * GB, 64 * GB, 60 * GB);
    in.request.expert_way = EXPERTS_CPU;
    struct err e = refused(&in);
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    assert_string_equal(e.field, "hybrid-experts");
    add_gpu(&in, 12 * GB, 12 * GB);
    in.targets[0].splits = true;
    assert_int_equal(planned(&in).expert_way, EXPERTS_CPU);
}

static void test_recurrent_states_are_counted(void **state)
{
    struct memory_input in = input_of(1500 * MB, 17 * GB, 32 * GB, 22 * GB);
    cpu.state = 150 * MB;
    in.model.recurrent = true;
    in.request.size.slots = 8;
    struct memory_plan p = planned(&in);
    check(&in, &p);
    assert_true(p.state >= 8 * cpu.state);
    assert_int_equal(p.state, (uint64_t)p.size.n_states * cpu.state);
}

static void test_streaming_reads_large_chunks_where_they_fit(void **state)
{
    struct memory_input in = input_of(1500 * MB, 170 * GB, 64 * GB, 60 * GB);
    in.request.kv_type = KV_F16;
    struct memory_plan p = planned(&in);
    assert_int_equal(p.size.prefill_chunk, 2048);
    in.machine.available =
        3850 *
        MB; /* 2.75 GB may be taken: dense weights, a least cache of 850 MB, one context of KV */
    p = planned(&in);
    assert_int_equal(p.size.prefill_chunk, 512);
    in.machine.available = 6 * GB;
    p = planned(&in);
    assert_int_equal(p.size.prefill_chunk, 2048);
    in.request.size.prefill_chunk = 64;
    assert_int_equal(planned(&in).size.prefill_chunk, 64);
}

static void test_a_gpu_computes_large_chunks_where_they_cost_no_context(void **state)
{
    struct memory_input in = input_of(2 * GB, 20 * GB, 64 * GB, 60 * GB);
    add_gpu(&in, 64 * GB, 60 * GB);
    struct memory_plan p = planned(&in);
    assert_int_equal(p.strategy, STRATEGY_FULL_GPU);
    assert_int_equal(p.size.prefill_chunk, 2048);
    assert_in_range(p.work, 1, p.device / 8);
    in.targets[0].in_ram = true;
    assert_int_equal(planned(&in).size.prefill_chunk, 512);
    in.targets[0].in_ram = false;
    in.request.size.prefill_chunk = 256;
    assert_int_equal(planned(&in).size.prefill_chunk, 256);
}

static void test_shrinking_keeps_the_parts_true(void **state)
{
    struct memory_input in = input_of(1500 * MB, 0, 64 * GB, 60 * GB);
    struct memory_plan p = planned(&in), before = p;
    struct err e = {0};
    assert_true(memory_plan_shrink(&in, &p, &e));
    assert_true(p.kv < before.kv);
    check(&in, &p);
    while (memory_plan_shrink(&in, &p, &e))
        check(&in, &p);
    assert_int_equal(p.size.n_blocks, sizing_one_context(&p.size));
}

static void test_applied_is_held_against_planned(void **state)
{
    struct memory_input in = input_of(1500 * MB, 17 * GB, 64 * GB, 60 * GB);
    struct memory_plan p = planned(&in);
    struct backend_params params = memory_plan_params(&p, &in.request);
    struct backend_memory m;
    struct err e = {0};
    assert_true(fake_estimate(&cpu, &params, &m, &e));
    assert_true(memory_plan_check(&p, &m, &e));
    m.kv++;
    assert_false(memory_plan_check(&p, &m, &e));
    assert_non_null(strstr(e.text, "KV"));
}

static void test_what_the_last_model_returns_can_be_planned(void **state)
{
    struct memory_input in = input_of(4 * GB, 20 * GB, 64 * GB, 10 * GB);
    struct memory_plan without = planned(&in);
    assert_int_not_equal(without.strategy, STRATEGY_CPU_ONLY);
    in.request.ram_returned = 40 * GB;
    in.request.gpu_returned = 7 * GB;
    add_gpu(&in, 8 * GB, 2 * GB);
    memory_input_take_returned(&in);
    assert_int_equal(in.machine.available, 50 * GB);
    assert_int_equal(in.targets[0].available, 8 * GB); /* not more than it has */
    assert_int_equal(in.targets[1].available, 0);      /* the cpu has none of its own */
    in.targets[0] = in.targets[1];
    in.n_targets = 1;
    struct memory_plan with = planned(&in);
    check(&in, &with);
    assert_int_equal(with.strategy, STRATEGY_CPU_ONLY);
    in.request.ram_returned = UINT64_MAX;
    memory_input_take_returned(&in);
    assert_int_equal(in.machine.available, in.machine.total);
}

static void test_strategies_have_an_order(void **state)
{
    static const enum strategy order[] = {STRATEGY_FULL_GPU, STRATEGY_HYBRID, STRATEGY_CPU_ONLY,
                                          STRATEGY_SSD_STREAMING};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            assert_int_equal(memory_strategy_is_faster(order[i], order[j]), i < j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strategies_have_an_order),
        cmocka_unit_test(test_machines_of_all_sizes),
        cmocka_unit_test(test_a_group_limit_is_what_counts),
        cmocka_unit_test(test_budgets_bound_the_plan),
        cmocka_unit_test(test_a_gpu_budget_moves_the_model),
        cmocka_unit_test(test_a_streaming_gpus_cache_is_rounded_within_the_budget),
        cmocka_unit_test(test_a_gpu_that_lives_in_ram_counts_there),
        cmocka_unit_test(test_forced_strategies),
        cmocka_unit_test(test_hybrid_waits_for_a_backend_that_can),
        cmocka_unit_test(test_hybrid_keeps_experts_in_ram_and_slots),
        cmocka_unit_test(test_expert_cache_is_taken_as_said),
        cmocka_unit_test(test_a_wished_pool_is_not_cut),
        cmocka_unit_test(test_a_smaller_context_is_named),
        cmocka_unit_test(test_auto_keeps_16_bits_while_they_fit),
        cmocka_unit_test(test_auto_tries_fewer_bits_before_a_slower_strategy),
        cmocka_unit_test(test_too_long_a_context_is_the_callers_mistake),
        cmocka_unit_test(test_what_a_backend_refuses),
        cmocka_unit_test(test_who_computes_experts_without_a_slot_is_asked_of_hybrid_alone),
        cmocka_unit_test(test_recurrent_states_are_counted),
        cmocka_unit_test(test_streaming_reads_large_chunks_where_they_fit),
        cmocka_unit_test(test_a_gpu_computes_large_chunks_where_they_cost_no_context),
        cmocka_unit_test(test_shrinking_keeps_the_parts_true),
        cmocka_unit_test(test_applied_is_held_against_planned),
        cmocka_unit_test(test_what_the_last_model_returns_can_be_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
