/* Experts of which only some are on the device: the choice of those by itself, and a Vulkan device with few slots against
 * one that holds all. 77 where no Vulkan device answers. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/experts/streaming.h"
#include "engine/model/backend.h"
#include "engine/model/model.h"
#include "engine/vulkan/slot_policy.h"

#define VOCAB 8192
#define PROMPT 12
#define STEPS 10

static void use(struct slot_policy *p, int32_t layer, const int32_t *experts, int n, uint64_t *hits, uint64_t *misses,
                struct slot_move *moves, int32_t *n_moves)
{
    uint32_t used[2] = {0};
    for (int i = 0; i < n; i++)
        used[experts[i] / 32] |= 1u << (experts[i] % 32);
    slot_policy_see(p, layer, used, hits, misses);
    *n_moves = slot_policy_move(p, layer, used, used, moves, 4);
}

static void test_what_comes_back_gets_a_slot(void **state)
{
    struct slot_policy p;
    struct slot_move moves[4];
    struct err e = {0};
    uint64_t hits = 0, misses = 0;
    int32_t n;
    assert_true(slot_policy_open(&p, 2, 40, 3, false, &e));
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
    const int32_t once[] = {0, 1, 5}; /* one that comes once does not push out one that was used twice */
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
    assert_true(slot_policy_open(&p, 1, 60, 9, false, &e));
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

static struct model *model;

/* streaming: NULL, or where experts come from that are neither in slots nor among `host_experts` bytes. */
static float *answer_from(struct streaming *streaming, uint64_t device_experts, uint64_t host_experts, bool exact, struct backend_counters *c,
                          struct backend_memory *m)
{
    struct err e = {0};
    struct backend_params p = {.n_blocks = 8, .max_rows = 64, .max_sequences = 2, .exact = exact, .device_experts = device_experts,
                               .host_experts = host_experts, .experts = streaming ? streaming_store(streaming) : NULL};
    struct backend_memory planned;
    struct backend *b = vulkan_backend.open(streaming ? streaming_plan(streaming) : model_plan(model), &p, &e);
    if (!b)
        fail_msg("%s", e.text);
    float *all = malloc((STEPS + 1) * VOCAB * sizeof *all);
    int32_t tokens[PROMPT + STEPS], blocks[8];
    for (int32_t i = 0; i < PROMPT + STEPS; i++)
        tokens[i] = (i * 37 + i * i) % 8000;
    for (int32_t i = 0; i < 8; i++)
        blocks[i] = 7 - i;
    for (int32_t i = 0; i <= STEPS; i++) {
        struct step_sequence q = {.tokens = i ? tokens + PROMPT + i - 1 : tokens, .n_tokens = i ? 1 : PROMPT,
                                  .start = i ? PROMPT + i - 1 : 0, .blocks = blocks, .state = -1, .n_out = 1, .n_experts = i == STEPS ? 2 : 0,
                                  .want_logits = true};
        struct step_row row;
        if (!vulkan_backend.step(b, &(struct step){.sequences = &q, .n_sequences = 1, .n_top = 1}, &row, &e))
            fail_msg("%s", e.text);
        memcpy(all + (size_t)i * VOCAB, row.logits, VOCAB * sizeof *all);
    }
    vulkan_backend.counters(b, c);
    vulkan_backend.memory(b, m);
    vulkan_backend.close(&b);
    assert_true(vulkan_backend.estimate(model_plan(model), &p, &planned, &e));
    if (streaming) { /* of the pool what the store allows, and memory for what passes through */
        struct expert_counters now;
        expert_store_counters(p.experts, &now);
        const uint64_t outside = expert_store_outside(p.experts);
        planned.weights -= host_experts - outside;
        assert_in_range(m->weights, planned.weights + now.budget_bytes - outside - host_experts / 16, planned.weights + now.budget_bytes - outside);
        planned.weights = m->weights;
    }
    assert_int_equal(planned.weights, m->weights);
    assert_int_equal(planned.device, m->device);
    return all;
}

static float *answer(uint64_t device_experts, bool exact, struct backend_counters *c, struct backend_memory *m)
{
    return answer_from(NULL, device_experts, 0, exact, c, m);
}

static void compare(bool exact)
{
    struct backend_counters whole, few;
    struct backend_memory all, part;
    float *want = answer(0, exact, &whole, &all);
    const uint64_t experts = model_facts(model)->expert_bytes;
    float *got = answer(experts / 4, exact, &few, &part);
    assert_memory_equal(want, got, (STEPS + 1) * VOCAB * sizeof *want); /* the same sums, wherever the weights lie */
    assert_int_equal(whole.expert_hits + whole.expert_misses, 0);
    assert_true(few.expert_hits > 0 && few.expert_misses > 0 && few.expert_copied_bytes > 0);
    assert_int_equal(few.weight_bytes_read, whole.weight_bytes_read);
    assert_true(part.device < all.device - experts / 2);
    assert_true(part.device + part.host >= all.device + all.host + experts / 8); /* slots hold copies */
    free(want);
    free(got);
}

static void test_few_slots_change_no_result(void **state)
{
    compare(false);
    compare(true);
}

/* Experts on disk, few in host memory, fewer in slots: the same sums, and each figure fits the others. */
static void stream(bool exact, bool shrink)
{
    struct err e = {0};
    struct backend_counters whole, few;
    struct backend_memory all, part;
    struct expert_counters c;
    float *want = answer(0, exact, &whole, &all);
    const uint64_t experts = model_facts(model)->expert_bytes, passing = experts / 16, pool = experts / 3;
    struct streaming *s = streaming_open(model, &(struct streaming_params){.cache_bytes = passing + pool, .outside = pool}, &e);
    if (!s)
        fail_msg("%s", e.text);
    struct expert_store *store = streaming_store(s);
    assert_int_equal(expert_store_outside(store), pool);
    if (shrink)
        expert_store_set_budget(store, passing + pool / 2);
    float *got = answer_from(s, experts / 8, pool, exact, &few, &part);
    assert_memory_equal(want, got, (STEPS + 1) * VOCAB * sizeof *want);
    expert_store_counters(store, &c);
    assert_int_equal(few.weight_bytes_read, whole.weight_bytes_read);
    assert_int_equal(c.asked, c.hits + c.late + c.misses);
    assert_true(few.expert_hits + few.expert_misses == c.asked); /* what steps used, counted on both sides */
    assert_true(c.misses > 0 && c.hits > 0 && few.expert_hits > 0);
    assert_true(c.misses * 2 > c.asked / 8 && c.miss_bytes == c.disk.bytes);
    assert_true(c.resident_bytes <= passing + pool);
    assert_true(part.device < all.device - experts / 2);
    assert_int_equal(c.failures, 0);
    free(want);
    free(got);
    streaming_close(&s);
}

static void test_experts_from_disk_change_no_result(void **state)
{
    stream(false, false);
    stream(true, true);
}

static void test_a_pool_too_small_is_refused(void **state)
{
    struct err e = {0};
    struct backend_memory m;
    struct backend_params p = {.n_blocks = 8, .max_rows = 64, .max_sequences = 2, .device_experts = 1 << 20, .host_experts = 4096};
    assert_false(vulkan_backend.estimate(model_plan(model), &p, &m, &e));
    assert_int_equal(e.code, ERR_LIMIT);
    assert_non_null(strstr(e.text, "4096"));
}

static void test_room_for_all_is_no_split(void **state)
{
    struct err e = {0};
    struct backend_params p = {.n_blocks = 8, .max_rows = 64, .max_sequences = 2};
    struct backend_memory all, roomy;
    assert_true(vulkan_backend.estimate(model_plan(model), &p, &all, &e));
    p.device_experts = UINT64_C(1) << 40;
    assert_true(vulkan_backend.estimate(model_plan(model), &p, &roomy, &e));
    assert_memory_equal(&all, &roomy, sizeof all);
}

static void test_too_little_is_refused_with_numbers(void **state)
{
    struct err e = {0};
    struct backend_params p = {.n_blocks = 8, .max_rows = 64, .max_sequences = 2, .device_experts = 4096};
    assert_null(vulkan_backend.open(model_plan(model), &p, &e));
    assert_int_equal(e.code, ERR_LIMIT);
    assert_non_null(strstr(e.text, "4096"));
}

int main(void)
{
    struct err e = {0};
    char path[4096];
    const char *srcdir = getenv("srcdir");
    const struct CMUnitTest alone[] = {cmocka_unit_test(test_what_comes_back_gets_a_slot),
                                       cmocka_unit_test(test_moves_keep_both_lists_true)};
    const struct CMUnitTest device[] = {cmocka_unit_test(test_few_slots_change_no_result),
                                        cmocka_unit_test(test_experts_from_disk_change_no_result),
                                        cmocka_unit_test(test_a_pool_too_small_is_refused),
                                        cmocka_unit_test(test_room_for_all_is_no_split),
                                        cmocka_unit_test(test_too_little_is_refused_with_numbers)};
    int failed = cmocka_run_group_tests_name("slot policy", alone, NULL, NULL);
    if (!vulkan_backend.probe(&e)) {
        printf("1..0 # SKIP no Vulkan device: %s\n", e.text);
        return failed ? failed : 77;
    }
    snprintf(path, sizeof path, "%s/engine/demo-model", srcdir ? srcdir : ".");
    model = model_open(path, &e);
    if (!model) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    failed += cmocka_run_group_tests_name("expert slots", device, NULL, NULL);
    model_close(&model);
    return failed;
}
