/* Estimates of the planner: decode rates from measured bandwidths, hit rates, and the plan's text.
 */
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

static void test_estimates_follow_the_rates(void **state)
{
    struct memory_input in = input_of(2 * GB, 32 * GB, 64 * GB, 60 * GB);
    struct memory_plan p = planned(&in);
    struct memory_rates r = {.speed = {.dense = (double)(10 * GB),
                                       .experts = (double)(5 * GB),
                                       .memory = (double)(10 * GB)}};
    /* 1 GB of dense weights at 10 GB/s, 1 GB of experts at 5 GB/s: 0.3 s */
    struct memory_estimate e = memory_estimate_make(&in.model, &p, &r, 0, -1);
    assert_float_equal(e.tokens_per_s, 1 / 0.3, 0.01);
    assert_float_equal(e.hit_rate, 1, 0);
    in.request.expert_cache = (int64_t)(8 * GB);
    p = planned(&in);
    assert_float_equal(memory_estimate_make(&in.model, &p, &r, 0, -1).tokens_per_s, 0,
                       0);                                  /* the disk is not known */
    r.disk.bytes_per_s = (double)GB / MEMORY_DISK_IN_STEPS; /* so that steps get 1 GB/s of it */
    e = memory_estimate_make(&in.model, &p, &r, 0, -1);
    assert_float_equal(e.hit_rate, 0.79, 0.001); /* a quarter of all experts */
    assert_float_equal(e.disk_s, 0.21, 0.001);
    assert_float_equal(1 / e.tokens_per_s, 0.1 + 0.21 * 0.2 + 0.21,
                       0.001); /* as if the disk never rested: 0.352 s */
    in.model.n_used = 2;       /* none, one or both of a layer's are missing: 0.62, 0.33, 0.04 of 60
                                  layers, 3.3, 8.3, 16.7 ms */
    e = memory_estimate_make(&in.model, &p, &r, 0, -1);
    assert_float_equal(
        1 / e.tokens_per_s,
        0.1 + 0.21 * 0.2 + 60 * (0.6241 * 0.2 / 60 + 0.3318 * 0.5 / 60 + 0.0441 / 60), 0.001);
    const double without = 1 / e.tokens_per_s;
    r.disk.latency_s =
        0.01; /* in 0.38 of 60 layers; one that misses one now reads longer than it computes, too */
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
    struct memory_rates r = {.speed = {.dense = (double)(10 * GB),
                                       .experts = (double)(5 * GB),
                                       .memory = (double)(10 * GB)}};
    assert_float_equal(memory_estimate_make(&in.model, &p, &r, 0, -1).tokens_per_s, 0,
                       0); /* the bus is not known */
    r.speed.link = (double)GB / 2;
    struct memory_estimate e = memory_estimate_make(&in.model, &p, &r, 0, -1);
    assert_float_equal(e.hit_rate, 0.79, 0.001);
    assert_float_equal(1 / e.tokens_per_s, 0.1 + 0.79 * 0.2 + 0.21 * 2 * 1.737,
                       0.002); /* and copies of those that come back: 0.737 of them here */
    assert_float_equal(1 / memory_estimate_make(&in.model, &p, &r, 0, 1).tokens_per_s, 0.3, 0.001);
    /* streamed, nothing of it in memory: read, unpacked, then read by the device, one after the
     * other */
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
    assert_float_equal(1 / e.tokens_per_s,
                       0.1 + 0.001 * in.model.n_layer + 2 + 1.25 + 0.002 * in.model.n_moe, 0.002);
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
    assert_float_equal(memory_hit_rate(0.25, 181), (0.79 + 0.848) / 2,
                       0.001); /* half way by doublings */
}

static void test_names(void **state)
{
    char all[128] = "";
    for (int i = 0; i < STRATEGY__N; i++) {
        assert_int_equal(strategy_from_name(strategy_name((enum strategy)i)), i);
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? "|" : "",
                 strategy_name((enum strategy)i));
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
    static const char *const keys[] = {"strategy",          "model_weight_gb", "kv_cache_gb",
                                       "total_required_gb", "system_ram_gb",   "overcommit_ratio",
                                       "gpu_layers",        "cpu_layers",      "total_layers",
                                       "ssd_stream",        "estimated_tok_s"};
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
        cmocka_unit_test(test_estimates_follow_the_rates),
        cmocka_unit_test(test_experts_in_the_hosts_memory_cost_the_bus),
        cmocka_unit_test(test_hit_rates_rise_with_the_share),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_the_seeds_keys_are_in_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
