/* The choice of experts for the device's slots, and of who computes the others; no device is
 * needed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backend/backend.h"
#include "engine/base/file.h"
#include "engine/experts/policy/miss_policy.h"
#include "engine/experts/streaming.h"
#include "engine/model/model.h"
#include "engine/vulkan/experts/expert_views.h"
#include "engine/vulkan/experts/slot_policy.h"
#include "engine/vulkan/weights/block_decode.h"
#include "tests/unit/support/cpu_weights.h"

static void use(struct slot_policy *p, int32_t layer, const int32_t *experts, int n, uint64_t *hits,
                uint64_t *misses, struct slot_move *moves, int32_t *n_moves)
{
    uint32_t used[2] = {0};
    for (int i = 0; i < n; i++)
        used[experts[i] / 32] |= 1u << (experts[i] % 32);
    slot_policy_see(p, layer, used, hits, misses);
    *n_moves = slot_policy_move(
        p, &(struct slot_candidates){.layer = layer, .used = used, .available = used}, moves, 4);
}

static void test_what_comes_back_gets_a_slot(void **state)
{
    struct slot_policy p;
    struct slot_move moves[4];
    struct err e = {0};
    uint64_t hits = 0, misses = 0;
    int32_t n;
    assert_true(slot_policy_open(
        &p,
        &(struct slot_policy_params){.n_layer = 2, .n_expert = 40, .n_slots = 3, .empty = false},
        &e));
    const int32_t wanted[] = {0, 1, 39};
    use(&p, 1, wanted, 3, &hits, &misses, moves, &n);
    assert_int_equal(hits, 2);
    assert_int_equal(misses, 1);
    assert_int_equal(n, 1); /* expert 2 was never used */
    assert_int_equal(moves[0].layer, 1);
    assert_int_equal(moves[0].expert, 39);
    assert_int_equal(moves[0].left, 2);
    use(&p, 1, wanted, 3, &hits, &misses, moves, &n);
    assert_int_equal(hits, 5);
    assert_int_equal(n, 0);
    const int32_t once[] = {0, 1,
                            5}; /* one that comes once does not push out one that was used twice */
    use(&p, 1, once, 3, &hits, &misses, moves, &n);
    assert_int_equal(misses, 2);
    assert_int_equal(n, 0);
    for (int i = 0; i < 4 && !n; i++)
        use(&p, 1, once, 3, &hits, &misses, moves, &n);
    assert_int_equal(n, 1); /* but one that comes again does */
    assert_int_equal(moves[0].left, 39);
    assert_int_equal(p.slot_of[0 * 40 + 2], 2); /* the other layer is as it was */
    slot_policy_close(&p);
}

static void test_moves_keep_both_lists_true(void **state)
{
    struct slot_policy p;
    struct slot_move moves[4];
    struct err e = {0};
    uint64_t hits = 0, misses = 0, x = 7;
    int32_t n;
    assert_true(slot_policy_open(
        &p,
        &(struct slot_policy_params){.n_layer = 1, .n_expert = 60, .n_slots = 9, .empty = false},
        &e));
    for (int step = 0; step < 3000; step++) {
        int32_t experts[4];
        for (int i = 0; i < 4; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            experts[i] = (int32_t)((x >> 33) % 60) * (int32_t)((x >> 40) % 2);
        }
        use(&p, 0, experts, 4, &hits, &misses, moves, &n);
        for (int32_t s = 0; s < 9; s++)
            assert_int_equal(p.slot_of[p.expert_in[s]], s);
        int32_t with = 0;
        for (int32_t i = 0; i < 60; i++)
            with += p.slot_of[i] >= 0;
        assert_int_equal(with, 9);
        for (int32_t i = 0; i < n; i++) /* what a step used is not taken away */
            for (int k = 0; k < 4; k++)
                assert_true(moves[i].left != experts[k]);
    }
    slot_policy_close(&p);
}

/* An expert of 4.8 MB that crosses the bus in 240 us and passes through the processor in 60. */
static const struct miss_rates measured = {
    .bus = 20e9, .sync_s = 100e-6, .expert_s = 60e-6, .row_s = 20e-6, .cached = true, .rows = 512};

static void test_the_processor_is_taken_where_it_is_clearly_faster(void **state)
{
    const struct miss_shape s = {
        .n_expert = 128, .n_used = 8, .expert_bytes = 4800000, .missing = 0.5};
    struct miss_rates r = measured;
    int32_t first, last;
    char text[64];
    /* one row misses 4 experts: 960 us of the bus, 100 + 4 * 60 of the processor */
    assert_true(fabs(miss_policy_bus_seconds(&r, &s, 1) - 960e-6) < 1e-9);
    assert_true(fabs(miss_policy_cpu_seconds(&r, &s, 1) - 340e-6) < 1e-9);
    assert_true(miss_policy_on_cpu(&r, &s, 1));
    r.sync_s = 960e-6 / 1.25 - 239e-6; /* just not 1.25 times faster; then just that */
    assert_false(miss_policy_on_cpu(&r, &s, 1));
    r.sync_s -= 2e-6;
    assert_true(miss_policy_on_cpu(&r, &s, 1));
    /* many rows: each expert crosses the bus once, but the processor works for every row of it */
    r = measured;
    assert_false(miss_policy_on_cpu(&r, &s, 512));
    assert_true(miss_policy_range(&r, &s, &first, &last));
    assert_int_equal(first, 1);
    assert_in_range(last, 9, 511);
    assert_true(miss_policy_on_cpu(&r, &s, last) && !miss_policy_on_cpu(&r, &s, last + 1));
    r.rows = 8; /* more go by tiles */
    assert_false(miss_policy_on_cpu(&r, &s, 9));
    assert_true(miss_policy_range(&r, &s, &first, &last));
    assert_int_equal(first, 1);
    assert_int_equal(last, 8);
    r.rows = 0;
    assert_false(miss_policy_range(&r, &s, &first, &last));
    r = measured;
    assert_string_equal(miss_policy_text(true, 1, 8, text), "computed on the cpu up to 8 rows");
    assert_string_equal(miss_policy_text(true, 1, 1, text), "computed on the cpu up to 1 row");
    /* a stop that costs more than one row's misses pays for several */
    r.sync_s = 900e-6;
    assert_true(miss_policy_range(&r, &s, &first, &last));
    assert_in_range(first, 2, 4);
    assert_string_equal(miss_policy_text(true, 2, 30, text),
                        "computed on the cpu for 2 to 30 rows");
    /* nothing missed, a slow processor, or a rate that is not known: the bus */
    assert_false(miss_policy_on_cpu(
        &measured, &(struct miss_shape){.n_expert = 128, .n_used = 8, .expert_bytes = 4800000}, 1));
    r = measured;
    r.expert_s = 300e-6;
    assert_false(miss_policy_range(&r, &s, &first, &last));
    assert_string_equal(miss_policy_text(false, 0, 0, text), "read over the bus");
    r = measured;
    r.bus = 0;
    assert_false(miss_policy_on_cpu(&r, &s, 1));
}

static void test_rates_are_kept_for_a_day(void **state)
{
    char dir[] = "/tmp/sluice-rates-XXXXXX", path[64];
    struct miss_rates r;
    struct err e = {0};
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/expert-rates", dir);
    assert_false(miss_rates_load(dir, "a GPU", 7, &r));
    assert_false(miss_rates_load(NULL, "a GPU", 7, &r));
    miss_rates_save(dir, "a GPU", 7, &(struct miss_rates){.bus = 1, .sync_s = 1, .expert_s = 1});
    miss_rates_save(dir, "a GPU", 7, &measured); /* the last one counts */
    miss_rates_save(dir, "a GPU", 8, &(struct miss_rates){.bus = 2, .sync_s = 1, .expert_s = 1});
    assert_true(miss_rates_load(dir, "a GPU", 7, &r));
    assert_true(r.bus == measured.bus && fabs(r.sync_s - measured.sync_s) < 1e-9 &&
                fabs(r.expert_s - measured.expert_s) < 1e-9 &&
                fabs(r.row_s - measured.row_s) < 1e-9 && r.cached && r.rows == measured.rows);
    assert_false(miss_rates_load(dir, "another GPU", 7, &r));
    struct buf b = {0};
    assert_true(file_read(path, 4096, &b, &e));
    char *when = strrchr(b.data, ' '); /* of the last line: yesterday, then nonsense */
    snprintf(when, 12, " 1000000000");
    assert_true(file_write_atomic(path, b.data, strlen(b.data), 0600, &e));
    assert_false(miss_rates_load(dir, "a GPU", 8, &r));
    assert_true(file_write_atomic(path, "x y z\n\n-1", 9, 0600, &e));
    assert_false(miss_rates_load(dir, "a GPU", 7, &r));
    /* years later: a file that has grown long begins anew, at whatever length the next line finds
     * it */
    for (size_t len = 32000; len < 130000; len = len < 33000 ? len + 250 : len * 2) {
        for (buf_clear(&b); b.len < len;)
            buf_puts(&b, "0 0 1 1 1 1 0 1 1000000000\n");
        assert_true(file_write_atomic(path, b.data, b.len, 0600, &e));
        miss_rates_save(dir, "a GPU", len, &measured);
        assert_true(miss_rates_load(dir, "a GPU", len, &r));
    }
    buf_fini(&b);
    remove(path);
    remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_comes_back_gets_a_slot),
        cmocka_unit_test(test_moves_keep_both_lists_true),
        cmocka_unit_test(test_the_processor_is_taken_where_it_is_clearly_faster),
        cmocka_unit_test(test_rates_are_kept_for_a_day),
    };
    return cmocka_run_group_tests_name("slot policy", tests, NULL, NULL);
}
