/* The expert store by itself: what it hands out is what the model's file holds; what it keeps, within which budget;
 * what it learns and keeps over a restart; and that its bytes are the kernel's. */
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
#include "engine/experts/cache/expert_slots.h"
#include "engine/experts/cache/expert_cache.h"
#include "engine/experts/policy/expert_history.h"
#include "tests/unit/expert_models.h"
#include "tests/unit/tiny_model.h"

struct rig {
    struct model *model;
    struct expert_layout layout;
    struct expert_cache *store;
};

static struct err e;

static void open_rig(struct rig *r, const char *path, struct expert_cache_params p)
{
    memset(&e, 0, sizeof e);
    r->model = model_open(path, &e);
    if (!r->model || !expert_layout_open(&r->layout, r->model, &e))
        fail_msg("%s", e.text);
    p.layout = &r->layout;
    p.plan = model_plan(r->model);
    r->store = expert_cache_open(&p, &e);
    if (!r->store)
        fail_msg("%s", e.text);
}

static void close_rig(struct rig *r)
{
    expert_cache_close(&r->store);
    expert_layout_close(&r->layout);
    model_close(&r->model);
}

static const char *demo(void)
{
    return expert_model_path("engine/demo-model");
}

static struct expert_counters counters(const struct rig *r)
{
    struct expert_counters c;
    expert_cache_counters(r->store, &c);
    return c;
}

/* The store's table shows the bytes that the model's mapping shows, in the first n matrices. */
static void check_matrices(const struct rig *r, int32_t layer, int32_t expert, int n)
{
    const struct moe_plan *got = &expert_cache_plan(r->store)->layers[layer].moe;
    const struct moe_plan *want = &model_plan(r->model)->layers[layer].moe;
    const struct weight a[] = {got->gate, got->up, got->down}, b[] = {want->gate, want->up, want->down};
    struct weight_planes x[3] = {0}, y[3] = {0};
    for (int i = 0; i < n; i++) {
        x[i] = weight_planes(&a[i], expert);
        y[i] = weight_planes(&b[i], expert);
    }
    assert_true(expert_record_checksum(a, x) == expert_record_checksum(b, y)); /* planes that are nowhere are left out */
}

static void check_bytes(const struct rig *r, int32_t layer, int32_t expert)
{
    check_matrices(r, layer, expert, EXPERT_MATRIX__N);
}

/* One layer of a step; returns false when the store says that it failed. */
static bool use(struct rig *r, int32_t layer, const int32_t *ids, int32_t n, bool in_order)
{
    struct expert_want wants[256];
    int32_t out[256], seen = 0, got;
    for (int32_t i = 0; i < n; i++)
        wants[i] = (struct expert_want){.expert = ids[i], .rows = 1};
    expert_cache_begin(r->store,
                       &(struct expert_layer_request){.layer = layer, .wants = wants,
                                                      .n = n, .rows = in_order ? 64 : 1, .in_order = in_order});
    while ((got = expert_cache_take(r->store, out, 256, true, &e)) > 0) {
        for (int32_t i = 0; i < got; i++) {
            if (in_order)
                assert_int_equal(out[i], ids[seen + i]);
            check_bytes(r, layer, out[i]);
        }
        seen += got;
        struct expert_counters c = counters(r);
        assert_true(c.resident_bytes <= c.budget_bytes);
        expert_cache_give(r->store, out, got);
    }
    expert_cache_end(r->store);
    if (got == 0)
        assert_int_equal(seen, n);
    return got == 0;
}

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
        open_rig(&r, demo(), (struct expert_cache_params){.budget = 1, .no_uring = way, .chunk = 8192});
        assert_int_equal(counters(&r).budget_bytes, expert_cache_min_bytes(&r.layout));
        use_all(&r, true);
        use_all(&r, false);
        close_rig(&r);
    }
}

/* Who can begin with gate and up gets them while down is still read: right bytes, each expert once, whole later. */
static void test_heads_come_before_the_whole(void **state)
{
    struct rig r;
    for (int way = 0; way < 2; way++) {
        open_rig(&r, demo(), (struct expert_cache_params){.budget = 1u << 24, .no_uring = way, .chunk = 4096, .depth = 1});
        const int32_t layer = r.layout.layers[1].layer, n = 6;
        struct expert_want wants[6];
        int32_t ids[6], heads[6], n_heads = 0, n_whole = 0;
        bool had[6] = {0}, whole[6] = {0};
        for (int32_t i = 0; i < n; i++)
            wants[i] = (struct expert_want){.expert = i, .rows = 1};
        expert_cache_begin(r.store,
                           &(struct expert_layer_request){.layer = layer, .wants = wants,
                                                          .n = n, .rows = 1});
        for (struct expert_taken t = {.ids = ids, .gate_up_ready = heads}; n_whole < n; n_whole += t.n, n_heads += t.n_gate_up_ready) {
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
                               &(struct expert_layer_request){.layer = r.layout.layers[k].layer, .wants = wants,
                                                              .n = 4, .rows = 1, .in_order = i % 2});
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

/* A folder of our own with the demo's weights, and where its state is kept. */
static void make_tiny(struct tiny *t, char *state_dir, size_t size)
{
    *t = (struct tiny){.experts = TINY_STACKED};
    tiny_make(t);
    tiny_write(t, "model.safetensors", 0, 1);
    snprintf(state_dir, size, "%s-state", t->dir);
}

static void remove_tiny(struct tiny *t, const char *state_dir)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", state_dir);
    assert_int_equal(system(command), 0);
    tiny_remove(t);
}

static void test_what_was_learnt_warms_the_next_start(void **state)
{
    struct tiny t;
    struct rig r;
    char dir[128];
    const int32_t hot[] = {0, 2};
    make_tiny(&t, dir, sizeof dir);
    open_rig(&r, t.dir, (struct expert_cache_params){.budget = 1u << 20, .state_dir = dir});
    assert_int_equal(counters(&r).warm_bytes, 0);
    for (int i = 0; i < 3; i++)
        assert_true(use(&r, 0, hot, 2, false));
    close_rig(&r);
    open_rig(&r, t.dir, (struct expert_cache_params){.budget = 1u << 20, .state_dir = dir});
    assert_int_equal(counters(&r).resident_experts, 2);
    assert_int_equal(counters(&r).warm_bytes, counters(&r).disk.bytes);
    assert_true(use(&r, 0, hot, 2, false));
    assert_int_equal(counters(&r).hits, 2);
    assert_int_equal(counters(&r).misses, 0);
    close_rig(&r);
    remove_tiny(&t, dir);
}

/* Same name, size and time, other bytes: the checksum that an earlier run learnt tells. */
static void test_bytes_that_changed_behind_our_back_are_not_used(void **state)
{
    struct tiny t;
    struct rig r;
    struct stat st;
    char dir[128], path[256];
    const int32_t one = 2; /* the fingerprint looks at the middle one */
    make_tiny(&t, dir, sizeof dir);
    open_rig(&r, t.dir, (struct expert_cache_params){.budget = 1u << 20, .state_dir = dir});
    assert_true(use(&r, 0, &one, 1, false));
    const struct expert_record *record = &r.layout.layers[0].records[2];
    const struct expert_part *part = &record->parts[0];
    uint32_t plane = record->planes[EXPERT_GATE][EXPERT_DATA];
    off_t at = (off_t)(part->offset + (plane - part->at) + 3);
    for (int i = 0; i < record->n_parts; i++)
        if (plane >= record->parts[i].at && plane < record->parts[i].at + record->parts[i].length)
            at = (off_t)(record->parts[i].offset + (plane - record->parts[i].at) + 3);
    close_rig(&r);
    snprintf(path, sizeof path, "%s/model.safetensors", t.dir);
    assert_int_equal(stat(path, &st), 0);
    int fd = open(path, O_RDWR);
    uint8_t byte;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    fsync(fd);
    close(fd);
    struct timespec times[2] = {st.st_atim, st.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    open_rig(&r, t.dir, (struct expert_cache_params){.budget = 1u << 20, .state_dir = dir});
    assert_true(counters(&r).failures > 0); /* warming met it */
    memset(&e, 0, sizeof e);
    assert_false(use(&r, 0, &one, 1, false));
    assert_int_equal(e.code, ERR_IO);
    assert_non_null(strstr(e.text, "layer 0, expert 2"));
    assert_non_null(strstr(e.text, "checksum"));
    const int32_t other = 0;
    assert_true(use(&r, 0, &other, 1, false));
    close_rig(&r);
    remove_tiny(&t, dir);
}

static void test_a_damaged_history_is_passed_over(void **state)
{
    struct tiny t;
    struct rig r;
    char dir[128], command[512];
    const int32_t one = 1;
    make_tiny(&t, dir, sizeof dir);
    for (int round = 0; round < 2; round++) {
        open_rig(&r, t.dir, (struct expert_cache_params){.budget = 1u << 20, .state_dir = dir});
        assert_int_equal(counters(&r).warm_bytes, 0);
        assert_true(use(&r, 0, &one, 1, false));
        close_rig(&r);
        snprintf(command, sizeof command, "for f in '%s'/experts-*; do printf x | dd of=$f bs=1 seek=%d conv=notrunc 2>/dev/null; done",
                 dir, round ? 30 : 2);
        assert_int_equal(system(command), 0);
    }
    remove_tiny(&t, dir);
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
                expert_cache_begin(r.store,
                                   &(struct expert_layer_request){.layer = r.layout.layers[i].layer, .wants = wants,
                                                                  .n = 4, .rows = 1});
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
        fail_msg("we counted %llu bytes, the kernel %llu", (unsigned long long)ours, (unsigned long long)kernel);
    struct expert_counters c = counters(&r);
    uint64_t latencies = 0;
    for (int i = 0; i < EXPERT_LATENCY_BUCKETS; i++)
        latencies += c.disk.latency[i];
    assert_int_equal(latencies, c.disk.reads);
    assert_int_equal(c.disk.under_way, 0);
    assert_true(c.miss_bytes >= c.disk.bytes && c.miss_bytes - c.disk.bytes < EXPERT_ALIGN * c.disk.reads);
    close_rig(&r);
}

/* One layer of a token that wants one expert, and what is guessed of the next layer meanwhile. */
static void use_and_guess(struct rig *r, int32_t k, int32_t id, const struct expert_prediction *guesses, int32_t n)
{
    const struct expert_want want = {.expert = id, .rows = 1};
    int32_t out;
    expert_cache_begin(r->store,
                       &(struct expert_layer_request){.layer = r->layout.layers[k].layer, .wants = &want,
                                                      .n = 1, .rows = 1});
    expert_cache_prefetch(r->store, r->layout.layers[k].layer, guesses, n);
    assert_int_equal(expert_cache_take(r->store, &out, 1, true, &e), 1);
    expert_cache_give(r->store, &out, 1);
    expert_cache_end(r->store);
}

/* One token of a model that keeps wanting what was foretold, or never. */
static void foretold(struct rig *r, int rounds, bool right)
{
    int32_t n = r->layout.layers[0].n_expert;
    for (int i = 0; i < rounds; i++)
        for (int32_t k = 0; k < r->layout.n_layers; k++) {
            const struct expert_prediction next = {.expert = (i * 5 + k + 1 + !right) % n};
            use_and_guess(r, k, (i * 5 + k) % n, &next, 1);
        }
}

static void test_reading_ahead_is_counted_and_rests_when_it_does_not_pay(void **state)
{
    struct rig r;
    open_rig(&r, demo(), (struct expert_cache_params){.budget = 3000000, .no_trial = true});
    foretold(&r, 60, true);
    struct expert_counters c = counters(&r);
    assert_true(c.prefetching);
    assert_true(c.prefetch_useful_bytes > 0);
    assert_true(c.prefetch_wasted_bytes < c.prefetch_useful_bytes / 4);
    foretold(&r, 300, false);
    c = counters(&r);
    assert_false(c.prefetching);
    uint64_t wasted = c.prefetch_wasted_bytes;
    assert_true(wasted > 0);
    foretold(&r, 20, false);
    assert_int_equal(counters(&r).prefetch_wasted_bytes, wasted);
    close_rig(&r);
}

/* Two guesses a layer: the surer one comes true, the other never. Returns the bytes that were read in vain. */
static uint64_t foretold_by_rank(struct rig *r, int rounds)
{
    const int32_t n = r->layout.layers[0].n_expert;
    const uint64_t before = counters(r).prefetch_wasted_bytes;
    for (int i = 0; i < rounds; i++)
        for (int32_t k = 0; k < r->layout.n_layers; k++) {
            const struct expert_prediction guesses[] = {{.expert = (i * 5 + k + 1) % n},
                                                   {.expert = (i * 5 + k + 12) % n, .rank = 5}};
            use_and_guess(r, k, (i * 5 + k) % n, guesses, 2);
        }
    return counters(r).prefetch_wasted_bytes - before;
}

static void test_guesses_of_a_rank_that_is_wrong_are_not_read(void **state)
{
    struct rig r;
    open_rig(&r, demo(), (struct expert_cache_params){.budget = 1000000, .no_trial = true});
    foretold_by_rank(&r, 40);
    const uint64_t useful = counters(&r).prefetch_useful_bytes;
    assert_int_equal(foretold_by_rank(&r, 40), 0);
    assert_true(counters(&r).prefetch_useful_bytes > useful);
    assert_true(counters(&r).prefetching);
    close_rig(&r);
}

/* Tokens with and without it by turns, then the quicker way: here nothing computes, so that reading ahead gains nothing, and
 * either may be chosen; but it is tried, both ways, and then one is kept. */
static void test_reading_ahead_is_tried_against_time(void **state)
{
    struct rig r;
    int changes = 0;
    open_rig(&r, demo(), (struct expert_cache_params){.budget = 400000});
    bool was = true;
    for (int i = 0; i < 120; i++) {
        foretold(&r, 1, true);
        bool is = counters(&r).prefetching;
        changes += is != was;
        was = is;
    }
    assert_in_range(changes, 16, 18); /* off and on eight times; then one way, and at last the next trial */
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

/* A size that has its share of the cache makes room among its own, so that memory is handed on; so is a spare slot's. */
static void test_each_size_of_record_has_its_share(void **state)
{
    struct expert_layer layers[] = {{.n_expert = 2, .record_bytes = 4096}, {.n_expert = 6, .record_bytes = 8192}};
    const struct expert_layout layout = {.layers = layers, .n_layers = 2};
    struct expert_slots s;
    assert_true(expert_slots_init(&s, &layout, &e));
    assert_int_equal(s.n_classes, 2);
    struct expert_slot *small = expert_slots_take(&s, 0), *other = expert_slots_take(&s, 0), *large = expert_slots_take(&s, 1);
    assert_true(expert_slots_has_share(&s, s.class_of[0]));
    assert_false(expert_slots_has_share(&s, s.class_of[1])); /* one of three, and it has six of eight */
    for (int i = 0; i < 4; i++) {
        assert_non_null(expert_slots_take(&s, 1));
        assert_true(expert_slots_has_share(&s, s.class_of[0]));
        assert_int_equal(expert_slots_has_share(&s, s.class_of[1]), i > 0); /* two of four are less than one slot short */
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
        cmocka_unit_test(test_what_was_learnt_warms_the_next_start),
        cmocka_unit_test(test_bytes_that_changed_behind_our_back_are_not_used),
        cmocka_unit_test(test_a_damaged_history_is_passed_over),
        cmocka_unit_test(test_our_bytes_are_the_kernels),
        cmocka_unit_test(test_reading_ahead_is_counted_and_rests_when_it_does_not_pay),
        cmocka_unit_test(test_guesses_of_a_rank_that_is_wrong_are_not_read),
        cmocka_unit_test(test_reading_ahead_is_tried_against_time),
        cmocka_unit_test(test_each_size_of_record_has_its_share),
        cmocka_unit_test(test_ranks_follow_recency_and_frequency),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
