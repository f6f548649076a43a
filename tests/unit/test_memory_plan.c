/* The planner over machines that do not exist: every plan stays inside them, and what can't work is refused with
 * settings that do. */
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

#define MB ((uint64_t)1000000)
#define GB ((uint64_t)1000000000)
#define HOST_SLOT (70 * MB) /* of a device's experts in RAM */
#define BLOCK (2 * (uint64_t)1000000) /* bytes of a KV block in RAM; on the device twice as many */

struct fake { /* a backend that takes what this says */
    bool gpu;
    uint64_t weights, experts, state;
    enum err_code refuse;
};

static bool fake_estimate(void *context, const struct backend_params *p, struct backend_memory *m, struct err *e)
{
    const struct fake *f = context;
    if (f->refuse)
        return err_set(e, f->refuse, "layer 3: no kernel for this");
    *m = (struct backend_memory){.weights = f->weights, .kv = (uint64_t)p->n_blocks * BLOCK * (f->gpu ? 2 : 1),
                                 .state = (uint64_t)p->n_states * f->state,
                                 .work = 10 * MB + (uint64_t)p->max_rows * 100000 + (p->streams ? 5 * MB : 0)};
    bool apart = f->gpu && p->device_experts && p->device_experts < f->experts;
    if (apart) /* slots of 50 MB */
        m->weights += p->device_experts / (50 * MB) * 50 * MB;
    uint64_t in_ram = p->host_experts ? (p->host_experts + HOST_SLOT - 1) / HOST_SLOT * HOST_SLOT : apart ? f->experts : 0;
    if (p->host_experts)
        m->weights += in_ram - f->experts;
    uint64_t all = m->weights + m->kv + m->state + m->work;
    m->host = f->gpu ? 10 * MB + in_ram : all;
    m->device = f->gpu ? all - m->host : 0;
    return true;
}

static struct fake cpu, gpu;

/* dense and expert bytes of a model with 64 layers */
static struct memory_input input_of(uint64_t dense, uint64_t experts, uint64_t ram_total, uint64_t ram_free)
{
    cpu = (struct fake){.weights = dense + experts, .experts = experts};
    gpu = cpu;
    gpu.gpu = true;
    struct memory_input in = {.model = {.n_ctx = 32768, .n_layer = 64, .n_moe = experts ? 60 : 0, .weights = dense + experts,
                                        .dense = dense, .experts = experts, .active_dense = dense / 2,
                                        .active_experts = experts / 32, .cache_least = experts ? experts / 200 : 0,
                                        .cache_most = experts, .slots_least = experts / 100},
                              .machine = {.total = ram_total, .available = ram_free, .system_available = ram_free,
                                          .group_limit = MACHINE_NO_LIMIT, .group_available = MACHINE_NO_LIMIT},
                              .request = {.size = {.slots = 4, .ctx = 4096}}};
    in.targets[in.n_targets++] = (struct memory_target){.backend = "cpu", .streams = true, .estimate = fake_estimate, .context = &cpu};
    return in;
}

static void add_gpu(struct memory_input *in, uint64_t total, uint64_t available)
{
    in->targets[1] = in->targets[0];
    in->targets[0] = (struct memory_target){.backend = "vulkan", .gpu = true, .total = total, .available = available,
                                          .estimate = fake_estimate, .context = &gpu};
    in->n_targets = 2;
}

static struct memory_plan planned(const struct memory_input *in)
{
    struct memory_plan p;
    struct err e = {0};
    if (!memory_plan_make(in, &p, &e))
        fail_msg("%s", e.text);
    return p;
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
    assert_int_equal(p->dense + p->experts + p->expert_cache + p->kv + p->state + p->work, p->device + p->host);
    assert_true(p->host <= p->ram_limit);
    assert_true(p->host + p->reserve <= in->machine.available || !p->host);
    assert_true(p->device <= p->gpu_limit);
    assert_true(p->gpu_limit <= in->targets[p->target].available);
    assert_true(p->size.n_blocks >= sizing_one_context(&p->size));
    assert_int_equal(p->gpu_layers + p->cpu_layers, p->n_layer);
    assert_int_equal(p->total, in->model.weights + p->kv + p->state + p->work);
    assert_true(!p->expert_cache == (p->strategy != STRATEGY_SSD_STREAMING && p->strategy != STRATEGY_HYBRID));
    if (p->strategy == STRATEGY_SSD_STREAMING)
        assert_true(p->expert_cache >= in->model.cache_least && p->expert_cache <= in->model.cache_most);
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
        {"Ling on 64 GB: 1 % over is not swap", 3 * GB, 52 * GB, 64 * GB, 61 * GB, 0, STRATEGY_CPU_ONLY},
        {"Ling on 24 GB", 3 * GB, 52 * GB, 24 * GB, 22 * GB, 0, STRATEGY_SSD_STREAMING},
        {"744B on 64 GB", 10 * GB, 360 * GB, 64 * GB, 60 * GB, 0, STRATEGY_SSD_STREAMING},
        {"dense part beyond RAM", 12 * GB, 360 * GB, 8 * GB, 7 * GB, 0, STRATEGY__N},
        {"744B on 1 TB", 10 * GB, 360 * GB, 1000 * GB, 900 * GB, 0, STRATEGY_CPU_ONLY},
        {"fits the GPU", 1500 * MB, 17 * GB, 16 * GB, 12 * GB, 24 * GB, STRATEGY_FULL_GPU},
        {"GPU too small", 1500 * MB, 17 * GB, 32 * GB, 28 * GB, 12 * GB, STRATEGY_CPU_ONLY},
        {"GPU and RAM too small", 1500 * MB, 17 * GB, 12 * GB, 10 * GB, 12 * GB, STRATEGY_SSD_STREAMING},
        {"nothing free", 1 * GB, 17 * GB, 32 * GB, 1 * GB, 0, STRATEGY__N},
        {"H200", 6 * GB, 63 * GB, 256 * GB, 250 * GB, 141 * GB, STRATEGY_FULL_GPU},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct memory_input in = input_of(cases[i].dense, cases[i].experts, cases[i].ram, cases[i].free);
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
    assert_true(p.expert_cache > 9 * GB && p.expert_cache <= p.device_experts); /* what KV and work leave of 12 */
    assert_non_null(strstr(p.reason, "vulkan: needs"));
    in.request.gpu_budget = (int64_t)(4 * GB);
    struct memory_plan less = planned(&in);
    check(&in, &less);
    assert_true(less.expert_cache < p.expert_cache && less.device <= 4 * GB);
    in.machine.available = 12 * GB; /* not all experts fit RAM */
    assert_int_equal(planned(&in).strategy, STRATEGY_SSD_STREAMING);
    in.machine.available = 60 * GB;
    in.request = (struct memory_request){.strategy = STRATEGY_HYBRID, .expert_cache = (int64_t)(2 * GB), .size = in.request.size};
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
    struct err e = refused(&in);
    const char *at = strstr(e.text, "--ctx ");
    assert_non_null(at);
    in.request.size.ctx = strtoll(at + 6, NULL, 10);
    struct memory_plan p = planned(&in);
    check(&in, &p);
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
    struct memory_plan p = planned(&in);
    assert_int_equal(p.size.prefill_chunk, 2048);
    in.machine.available = 3850 * MB; /* 2.75 GB may be taken: dense weights, a least cache of 850 MB, one context of KV */
    p = planned(&in);
    assert_int_equal(p.size.prefill_chunk, 512);
    in.machine.available = 6 * GB;
    p = planned(&in);
    assert_int_equal(p.size.prefill_chunk, 2048);
    in.request.size.prefill_chunk = 64;
    assert_int_equal(planned(&in).size.prefill_chunk, 64);
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

static void test_estimates_follow_the_rates(void **state)
{
    struct memory_input in = input_of(2 * GB, 32 * GB, 64 * GB, 60 * GB);
    struct memory_plan p = planned(&in);
    struct memory_rates r = {.speed = {.dense = (double)(10 * GB), .experts = (double)(5 * GB), .memory = (double)(10 * GB)}};
    /* 1 GB of dense weights at 10 GB/s, 1 GB of experts at 5 GB/s: 0.3 s */
    struct memory_estimate e = memory_estimate_make(&in.model, &p, &r, 0, -1);
    assert_float_equal(e.tokens_per_s, 1 / 0.3, 0.01);
    assert_float_equal(e.hit_rate, 1, 0);
    in.request.expert_cache = (int64_t)(8 * GB);
    p = planned(&in);
    assert_float_equal(memory_estimate_make(&in.model, &p, &r, 0, -1).tokens_per_s, 0, 0); /* the disk is not known */
    r.disk.bytes_per_s = (double)GB / MEMORY_DISK_IN_STEPS; /* so that steps get 1 GB/s of it */
    e = memory_estimate_make(&in.model, &p, &r, 0, -1);
    assert_float_equal(e.hit_rate, 0.79, 0.001); /* a quarter of all experts */
    assert_float_equal(e.disk_s, 0.21, 0.001);
    assert_float_equal(1 / e.tokens_per_s, 0.1 + 0.21 * 0.2 + 0.21, 0.001); /* as if the disk never rested: 0.352 s */
    in.model.n_used = 2; /* none, one or both of a layer's are missing: 0.62, 0.33, 0.04 of 60 layers, 3.3, 8.3, 16.7 ms */
    e = memory_estimate_make(&in.model, &p, &r, 0, -1);
    assert_float_equal(1 / e.tokens_per_s, 0.1 + 0.21 * 0.2 + 60 * (0.6241 * 0.2 / 60 + 0.3318 * 0.5 / 60 + 0.0441 / 60), 0.001);
    const double without = 1 / e.tokens_per_s;
    r.disk.latency_s = 0.01; /* in 0.38 of 60 layers; one that misses one now reads longer than it computes, too */
    e = memory_estimate_make(&in.model, &p, &r, 0, -1);
    assert_float_equal(e.disk_s, 0.21 + 60 * 0.3759 * 0.01, 0.001);
    assert_float_equal(1 / e.tokens_per_s, without + 60 * 0.3759 * 0.01, 0.001);
    e = memory_estimate_make(&in.model, &p, &r, 0, 0);
    assert_float_equal(1 / e.tokens_per_s, 1.3 + 60 * 0.01, 0.001);
    r.disk.latency_s = 0;
    e = memory_estimate_make(&in.model, &p, &r, 0, 0); /* all read: 1 GB at 1 GB/s, then computed */
    assert_float_equal(e.tokens_per_s, 1 / 1.3, 0.01);
}

static void test_experts_in_the_hosts_memory_cost_the_bus(void **state)
{
    struct memory_input in = input_of(2 * GB, 32 * GB, 64 * GB, 60 * GB);
    struct memory_plan p = {.strategy = STRATEGY_HYBRID, .device_experts = in.model.experts / 4};
    struct memory_rates r = {.speed = {.dense = (double)(10 * GB), .experts = (double)(5 * GB), .memory = (double)(10 * GB)}};
    assert_float_equal(memory_estimate_make(&in.model, &p, &r, 0, -1).tokens_per_s, 0, 0); /* the bus is not known */
    r.speed.link = (double)GB / 2;
    struct memory_estimate e = memory_estimate_make(&in.model, &p, &r, 0, -1);
    assert_float_equal(e.hit_rate, 0.79, 0.001);
    assert_float_equal(1 / e.tokens_per_s, 0.1 + 0.79 * 0.2 + 0.21 * 2 * 1.737, 0.002); /* and copies of those that come back: 0.737 of them here */
    assert_float_equal(1 / memory_estimate_make(&in.model, &p, &r, 0, 1).tokens_per_s, 0.3, 0.001);
    /* streamed, nothing of it in memory: read, unpacked, then read by the device, one after the other */
    p.strategy = STRATEGY_SSD_STREAMING;
    r.disk.bytes_per_s = (double)GB / MEMORY_DISK_IN_STEPS;
    r.speed.unpack = (double)(4 * GB);
    r.speed.waits = true;
    r.speed.layer_s = 0.001;
    e = memory_estimate_make(&in.model, &p, &r, 0, 0);
    assert_float_equal(e.disk_s, 1.25, 0.001);
    assert_float_equal(1 / e.tokens_per_s, 0.1 + 0.001 * in.model.n_layer + 2 + 1.25, 0.002);
    in.model.n_used = 2;
    r.disk.latency_s = 0.002; /* in every layer that waits: here all */
    e = memory_estimate_make(&in.model, &p, &r, 0, 0);
    assert_float_equal(1 / e.tokens_per_s, 0.1 + 0.001 * in.model.n_layer + 2 + 1.25 + 0.002 * in.model.n_moe, 0.002);
}

static void test_hit_rates_rise_with_the_share(void **state)
{
    for (int32_t experts = 64; experts <= 1024; experts += 32) {
        double last = -1;
        for (double share = 0; share <= 1.0001; share += 0.01) {
            double hit = memory_hit_rate(share, experts);
            assert_true(hit > last && hit >= share - 1e-9 && hit <= 1);
            last = hit;
        }
        assert_float_equal(memory_hit_rate(2, experts), 1, 0);
    }
    assert_float_equal(memory_hit_rate(0.25, 128), 0.79, 1e-9);
    assert_float_equal(memory_hit_rate(0.25, 256), 0.848, 1e-9);
    assert_float_equal(memory_hit_rate(0.25, 181), (0.79 + 0.848) / 2, 0.001); /* half way by doublings */
}

static void test_names(void **state)
{
    char all[128] = "";
    for (int i = 0; i < STRATEGY__N; i++) {
        assert_int_equal(strategy_from_name(strategy_name((enum strategy)i)), i);
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? "|" : "", strategy_name((enum strategy)i));
    }
    assert_string_equal(all, STRATEGY_CHOICES);
    assert_int_equal(strategy_from_name("swap_assisted"), STRATEGY__N);
}

static void test_the_seeds_keys_are_in_the_text(void **state)
{
    struct memory_input in = input_of(1500 * MB, 17 * GB, 16 * GB, 13 * GB);
    struct memory_plan p = planned(&in);
    struct buf b = {0};
    memory_plan_json(&p, NULL, &b);
    static const char *const keys[] = {"strategy", "model_weight_gb", "kv_cache_gb", "total_required_gb", "system_ram_gb",
                                       "overcommit_ratio", "gpu_layers", "cpu_layers", "total_layers", "ssd_stream", "estimated_tok_s"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char quoted[64];
        snprintf(quoted, sizeof quoted, "\"%s\":", keys[i]);
        assert_non_null(strstr(b.data, quoted));
    }
    assert_non_null(strstr(b.data, "\"model_weight_gb\":18.500"));
    assert_non_null(strstr(b.data, "\"ssd_stream\":true"));
    assert_non_null(strstr(b.data, "\"estimated_tok_s\":null"));
    buf_clear(&b);
    memory_plan_table(&p, NULL, &b);
    assert_non_null(strstr(b.data, "ssd_streaming"));
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
        cmocka_unit_test(test_too_long_a_context_is_the_callers_mistake),
        cmocka_unit_test(test_what_a_backend_refuses),
        cmocka_unit_test(test_who_computes_experts_without_a_slot_is_asked_of_hybrid_alone),
        cmocka_unit_test(test_recurrent_states_are_counted),
        cmocka_unit_test(test_streaming_reads_large_chunks_where_they_fit),
        cmocka_unit_test(test_shrinking_keeps_the_parts_true),
        cmocka_unit_test(test_applied_is_held_against_planned),
        cmocka_unit_test(test_estimates_follow_the_rates),
        cmocka_unit_test(test_experts_in_the_hosts_memory_cost_the_bus),
        cmocka_unit_test(test_hit_rates_rise_with_the_share),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_the_seeds_keys_are_in_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
