/* The expert cache by itself: what it hands out is what the model's file holds; what it keeps,
 * within which budget; and that its bytes are the kernel's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_MODULE "test"
#include "engine/base/log.h"
#include "engine/experts/cache/expert_cache.h"
#include "engine/experts/cache/expert_slots.h"
#include "engine/experts/policy/expert_history.h"
#include "tests/unit/experts/expert_cache_rig.h"
#include "tests/unit/support/expert_models.h"
#include "tests/unit/support/tiny_model.h"

static void use_all(struct rig *r, bool in_order)
{
    int32_t ids[256];
    for (int i = 0; i < 256; i++)
        ids[i] = i;
    for (int32_t i = 0; i < r->layout.n_layers; i++)
        assert_true(use(r, r->layout.layers[i].layer, ids, r->layout.layers[i].n_expert, in_order));
}

static void test_a_layer_larger_than_the_budget_goes_in_waves(void **state)
{
    struct rig r;
    for (int way = 0; way < 2; way++) {
        open_rig(&r, demo(),
                 (struct expert_cache_params){.budget = 1, .no_uring = way, .chunk = 8192});
        assert_int_equal(counters(&r).budget_bytes, expert_cache_min_bytes(&r.layout));
        use_all(&r, true);
        use_all(&r, false);
        close_rig(&r);
    }
}

/* Who can begin with gate and up gets them while down is still read: right bytes, each expert once,
 * whole later. */
static void test_heads_come_before_the_whole(void **state)
{
    struct rig r;
    for (int way = 0; way < 2; way++) {
        open_rig(&r, demo(),
                 (struct expert_cache_params){
                     .budget = 1u << 24, .no_uring = way, .chunk = 4096, .depth = 1});
        const int32_t layer = r.layout.layers[1].layer, n = 6;
        struct expert_want wants[6];
        int32_t ids[6], heads[6], n_heads = 0, n_whole = 0;
        bool had[6] = {0}, whole[6] = {0};
        for (int32_t i = 0; i < n; i++)
            wants[i] = (struct expert_want){.expert = i, .rows = 1};
        expert_cache_begin(r.store, &(struct expert_layer_request){
                                        .layer = layer, .wants = wants, .n = n, .rows = 1});
        for (struct expert_taken t = {.ids = ids, .gate_up_ready = heads}; n_whole < n;
             n_whole += t.n, n_heads += t.n_gate_up_ready) {
            assert_true(expert_cache_take_gate_up(r.store, &t, n, true, &e));
            assert_true(t.n || t.n_gate_up_ready);
            for (int32_t i = 0; i < t.n_gate_up_ready; i++) {
                assert_false(had[heads[i]] || whole[heads[i]]);
                had[heads[i]] = true;
                check_matrices(&r, layer, heads[i], EXPERT_DOWN);
            }
            for (int32_t i = 0; i < t.n; i++) {
                assert_false(whole[ids[i]]);
                whole[ids[i]] = true;
                check_bytes(&r, layer, ids[i]);
            }
            expert_cache_give(r.store, ids, t.n);
        }
        assert_true(way || n_heads == n); /* threads may have read all of it before anybody looks */
        expert_cache_end(r.store);
        close_rig(&r);
    }
}

/* A prefill that reads everything once must not push out what every token uses. */
static void test_what_is_used_often_survives_a_scan(void **state)
{
    struct rig r;
    const int32_t hot[] = {3, 5, 6};
    open_rig(&r, demo(), (struct expert_cache_params){.budget = 24 * 200000});
    int32_t layer = r.layout.layers[0].layer;
    for (int i = 0; i < 50; i++)
        assert_true(use(&r, layer, hot, 3, false));
    for (int32_t i = 1; i < r.layout.n_layers; i++) {
        int32_t ids[256];
        for (int k = 0; k < 256; k++)
            ids[k] = k;
        assert_true(use(&r, r.layout.layers[i].layer, ids, r.layout.layers[i].n_expert, true));
    }
    struct expert_counters before = counters(&r);
    assert_true(before.evictions > 0);
    assert_true(use(&r, layer, hot, 3, false));
    assert_int_equal(counters(&r).misses, before.misses);
    close_rig(&r);
}

static void test_the_budget_may_change(void **state)
{
    struct rig r;
    open_rig(&r, demo(), (struct expert_cache_params){.budget = 1u << 30});
    use_all(&r, false);
    struct expert_counters full = counters(&r);
    assert_int_equal(full.resident_experts, (uint64_t)expert_slots_count(&r.layout));
    expert_cache_set_budget(r.store, full.resident_bytes / 3);
    struct expert_counters less = counters(&r);
    assert_true(less.resident_bytes <= full.resident_bytes / 3);
    assert_true(less.evictions > 0);
    use_all(&r, false);
    assert_true(counters(&r).resident_bytes <= full.resident_bytes / 3);
    expert_cache_set_budget(r.store, 1u << 30);
    use_all(&r, false);
    assert_int_equal(counters(&r).resident_bytes, full.resident_bytes);
    close_rig(&r);
}

struct changer {
    struct expert_cache *store;
    atomic_bool stop;
};

static void *change(void *context)
{
    struct changer *c = context;
    struct expert_counters counted;
    for (uint64_t i = 0; !atomic_load(&c->stop); i++) {
        expert_cache_set_budget(c->store, (i * 2654435761u) % 3000000);
        expert_cache_counters(c->store, &counted);
    }
    return NULL;
}

static void test_the_budget_may_change_under_a_running_step(void **state)
{
    struct rig r;
    pthread_t thread;
    open_rig(&r, demo(), (struct expert_cache_params){.budget = 1u << 30});
    struct changer c = {.store = r.store};
    assert_int_equal(pthread_create(&thread, NULL, change, &c), 0);
    for (int i = 0; i < 4; i++) {
        const int32_t ids[] = {0, 2, 3, 7};
        for (int32_t k = 0; k < r.layout.n_layers; k++) {
            struct expert_want wants[4];
            int32_t out[4], got;
            for (int x = 0; x < 4; x++)
                wants[x] = (struct expert_want){.expert = ids[x], .rows = 1};
            expert_cache_begin(r.store,
                               &(struct expert_layer_request){.layer = r.layout.layers[k].layer,
                                                              .wants = wants,
                                                              .n = 4,
                                                              .rows = 1,
                                                              .in_order = i % 2});
            while ((got = expert_cache_take(r.store, out, 4, true, &e)) > 0) {
                for (int x = 0; x < got; x++)
                    check_bytes(&r, r.layout.layers[k].layer, out[x]);
                expert_cache_give(r.store, out, got);
            }
            assert_int_equal(got, 0);
            expert_cache_end(r.store);
        }
    }
    atomic_store(&c.stop, true);
    pthread_join(thread, NULL);
    close_rig(&r);
}

static uint64_t kernel_read_bytes(void)
{
    char line[128];
    unsigned long long n = 0;
    FILE *f = fopen("/proc/self/io", "r");
    if (!f)
        return 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "read_bytes: %llu", &n) == 1)
            break;
    fclose(f);
    return n;
}

static void test_our_bytes_are_the_kernels(void **state)
{
    struct rig r;
    open_rig(&r, demo(), (struct expert_cache_params){.budget = 1u << 20});
    if (!strstr(expert_cache_read_method(r.store), "O_DIRECT")) {
        close_rig(&r);
        skip();
    }
    uint64_t kernel = kernel_read_bytes(), ours = counters(&r).disk.bytes;
    int32_t ids[4] = {0, 1, 2, 3};
    for (int round = 0; round < 2; round++)
        for (int32_t i = 0; i < r.layout.n_layers; i++)
            for (int k = 0; k + 4 <= r.layout.layers[i].n_expert; k += 4) {
                for (int x = 0; x < 4; x++)
                    ids[x] = k + x;
                struct expert_want wants[4];
                int32_t out[4], got;
                for (int x = 0; x < 4; x++)
                    wants[x] = (struct expert_want){.expert = ids[x], .rows = 1};
                expert_cache_begin(
                    r.store,
                    &(struct expert_layer_request){
                        .layer = r.layout.layers[i].layer, .wants = wants, .n = 4, .rows = 1});
                while ((got = expert_cache_take(r.store, out, 4, true, &e)) > 0)
                    expert_cache_give(r.store, out, got);
                assert_int_equal(got, 0);
                expert_cache_end(r.store);
            }
    kernel = kernel_read_bytes() - kernel;
    ours = counters(&r).disk.bytes - ours;
    assert_true(ours > 10000000);
    if (!kernel) { /* a system that does not count */
        close_rig(&r);
        skip();
    }
    double ratio = (double)ours / (double)kernel;
    if (ratio < 0.99 || ratio > 1.01)
        fail_msg("we counted %llu bytes, the kernel %llu", (unsigned long long)ours,
                 (unsigned long long)kernel);
    struct expert_counters c = counters(&r);
    uint64_t latencies = 0;
    for (int i = 0; i < EXPERT_LATENCY_BUCKETS; i++)
        latencies += c.disk.latency[i];
    assert_int_equal(latencies, c.disk.reads);
    assert_int_equal(c.disk.under_way, 0);
    assert_true(c.miss_bytes >= c.disk.bytes &&
                c.miss_bytes - c.disk.bytes < EXPERT_ALIGN * c.disk.reads);
    close_rig(&r);
}

static void test_ranks_follow_recency_and_frequency(void **state)
{
    struct rig r;
    struct expert_history h;
    open_rig(&r, demo(), (struct expert_cache_params){.budget = 1});
    assert_true(expert_history_init(&h, &r.layout, 1, &e));
    for (int i = 0; i < 20; i++) { /* 0 always, 1 some time ago, 2 once just now */
        expert_history_advance(&h, 0, 1);
        expert_history_touch(&h, 0, 0, 1, 1);
    }
    expert_history_touch(&h, 0, 1, 1, 1);
    expert_history_advance(&h, 0, (int32_t)EXPERT_RECENCY_HALF_LIFE);
    expert_history_touch(&h, 0, 2, 1, 1);
    assert_true(expert_history_recency(&h, 0, 0) > expert_history_recency(&h, 0, 2));
    assert_true(expert_history_recency(&h, 0, 2) > expert_history_recency(&h, 0, 1));
    assert_true(expert_history_recency(&h, 0, 3) < expert_history_recency(&h, 0, 1));
    double before = expert_history_recency(&h, 0, 2);
    expert_history_advance(&h, 1, 1000000); /* another layer's rows make nothing older here */
    assert_true(expert_history_recency(&h, 0, 2) == before);
    expert_history_fini(&h);
    close_rig(&r);
}

/* A size that has its share of the cache makes room among its own, so that memory is handed on; so
 * is a spare slot's. */
static void test_each_size_of_record_has_its_share(void **state)
{
    struct expert_layer layers[] = {{.n_expert = 2, .record_bytes = 4096},
                                    {.n_expert = 6, .record_bytes = 8192}};
    const struct expert_layout layout = {.layers = layers, .n_layers = 2};
    struct expert_slots s;
    assert_true(expert_slots_init(&s, &layout, &e));
    assert_int_equal(s.n_classes, 2);
    struct expert_slot *small = expert_slots_take(&s, 0), *other = expert_slots_take(&s, 0),
                       *large = expert_slots_take(&s, 1);
    assert_true(expert_slots_has_share(&s, s.class_of[0]));
    assert_false(
        expert_slots_has_share(&s, s.class_of[1])); /* one of three, and it has six of eight */
    for (int i = 0; i < 4; i++) {
        assert_non_null(expert_slots_take(&s, 1));
        assert_true(expert_slots_has_share(&s, s.class_of[0]));
        assert_int_equal(expert_slots_has_share(&s, s.class_of[1]),
                         i > 0); /* two of four are less than one slot short */
    }
    const uint64_t bytes = s.bytes;
    expert_slots_spare(&s, small);
    assert_null(expert_slots_reuse(&s, 1)); /* of another size */
    assert_ptr_equal(expert_slots_reuse(&s, 0), small);
    assert_null(expert_slots_reuse(&s, 0));
    assert_int_equal(s.bytes, bytes); /* it was never given back */
    expert_slots_release(&s, small);
    expert_slots_release(&s, other);
    assert_false(expert_slots_has_share(&s, s.class_of[0]));
    expert_slots_release(&s, large);
    expert_slots_fini(&s);
}

int main(void)
{
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_layer_larger_than_the_budget_goes_in_waves),
        cmocka_unit_test(test_heads_come_before_the_whole),
        cmocka_unit_test(test_what_is_used_often_survives_a_scan),
        cmocka_unit_test(test_the_budget_may_change),
        cmocka_unit_test(test_the_budget_may_change_under_a_running_step),
        cmocka_unit_test(test_our_bytes_are_the_kernels),
        cmocka_unit_test(test_each_size_of_record_has_its_share),
        cmocka_unit_test(test_ranks_follow_recency_and_frequency),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
