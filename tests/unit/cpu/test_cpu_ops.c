/* The cpu backend's small parts: which experts a router takes, rotation, the thread pool. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/thread_pool.h"
#include "engine/cpu/matmul.h"
#include "engine/cpu/rope.h"
#include "engine/cpu/router.h"
#include "engine/cpu/thread_tuner.h"

static float scratch[64];

static void expect(float got, double want)
{
    if (fabs((double)got - want) > 1e-6)
        fail_msg("got %.9g, want %.9g", (double)got, want);
}

static void test_router_takes_the_best_after_softmax(void **state)
{
    struct moe_plan m = {
        .n_expert = 4, .n_used = 2, .score = ROUTER_SOFTMAX, .normalize = true, .scale = 1};
    float logits[] = {1, 3, 2, 0}, weights[2];
    int32_t ids[2];
    router_choose(&m, m.n_used, logits, &(struct router_choice){ids, weights}, scratch);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 2);
    expect(weights[0], 1 / (1 + exp(-1)));
    expect(weights[1], 1 / (1 + exp(1)));
    m.normalize = false;
    m.scale = 3;
    router_choose(&m, m.n_used, logits, &(struct router_choice){ids, weights}, scratch);
    double sum = exp(1) + exp(3) + exp(2) + 1;
    expect(weights[0], 3 * exp(3) / sum);
    expect(weights[1], 3 * exp(2) / sum);
}

static void test_router_takes_the_lower_id_among_equals(void **state)
{
    struct moe_plan m = {.n_expert = 5, .n_used = 3, .score = ROUTER_TOPK_SOFTMAX, .scale = 1};
    float logits[] = {1, 2, 2, 1, 1}, weights[3];
    int32_t ids[3];
    router_choose(&m, m.n_used, logits, &(struct router_choice){ids, weights}, scratch);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 2);
    assert_int_equal(ids[2], 0);
    expect(weights[0] + weights[1] + weights[2], 1);
}

static void test_router_adds_its_bias_before_the_choice_of_top_k_softmax(void **state)
{
    static const float bias[] = {0, 5, 0};
    struct moe_plan m = {.n_expert = 3,
                         .n_used = 2,
                         .score = ROUTER_TOPK_SOFTMAX,
                         .scale = 1,
                         .router_bias = {.at = bias, .n = 3}};
    float logits[] = {1, -3, 0.5f}, weights[2];
    int32_t ids[2];
    router_choose(&m, m.n_used, logits, &(struct router_choice){ids, weights}, scratch);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 0);
    expect(weights[0], 1 / (1 + exp(-1)));
}

/* Groups {0,1} {2,3} {4,5}: the bias makes the third group best and the first worst; weights have
 * no bias. */
static void test_sigmoid_router_chooses_within_the_best_groups(void **state)
{
    static const float bias[] = {0, 0, 0, 0, 1, 1};
    struct moe_plan m = {.n_expert = 6,
                         .n_used = 2,
                         .score = ROUTER_SIGMOID,
                         .normalize = true,
                         .scale = 2.5f,
                         .n_group = 3,
                         .n_group_used = 1,
                         .select_bias = {.at = bias, .n = 6}};
    float logits[] = {4, -4, 1, 1, 0, -1}, weights[2];
    int32_t ids[2];
    router_choose(&m, m.n_used, logits, &(struct router_choice){ids, weights}, scratch);
    assert_int_equal(ids[0], 4);
    assert_int_equal(ids[1], 5);
    double a = 0.5, b = 1 / (1 + exp(1));
    expect(weights[0], 2.5 * a / (a + b));
    expect(weights[1], 2.5 * b / (a + b));
}

static void test_rotation_turns_pairs_and_leaves_the_rest(void **state)
{
    struct rope_plan r = {.n_dims = 4, .scale = 1, .inv_freq = {1, 0.1f}};
    float table[4], head[6] = {1, 2, 3, 4, 5, 6}, other[6] = {1, 3, 2, 4, 5, 6};
    rope_fill(&r, 3, table);
    rope_apply(&r, table, head);
    expect(head[0], cos(3) - 3 * sin(3));
    expect(head[2], 3 * cos(3) + sin(3));
    assert_true(fabs((double)head[1] - (2 * cos(0.3) - 4 * sin(0.3))) < 1e-5);
    assert_true(head[4] == 5 && head[5] == 6);
    r.interleaved = true; /* the same pairs, lying next to each other */
    rope_apply(&r, table, other);
    assert_true(other[0] == head[0] && other[1] == head[2] && other[2] == head[1] &&
                other[3] == head[3]);
}

enum { PHASES = 2000 };

struct relay {
    struct thread_pool *pool;
    int32_t n;
    int32_t cells[16]; /* plain: the barrier orders them */
    int32_t phases;    /* counted by the last to come */
    _Atomic int32_t wrong;
};

static void count_phase(void *context)
{
    struct relay *r = context;
    for (int32_t i = 0; i < r->n; i++)
        if (r->cells[i] != r->phases + 1)
            atomic_fetch_add(&r->wrong, 1);
    r->phases++;
}

/* Each member adds what all cells held before the barrier: any tear shows in the sum. */
static void run_relay(void *context, int32_t member)
{
    struct relay *r = context;
    for (int phase = 0; phase < PHASES; phase++) {
        for (int32_t i = 0; i < r->n; i++)
            if (r->cells[i] != phase)
                atomic_fetch_add(&r->wrong, 1);
        thread_pool_barrier(r->pool);
        r->cells[member] = phase + 1;
        thread_pool_barrier_then(r->pool, count_phase, r);
    }
}

static void test_barriers_order_all_members(void **state)
{
    for (int32_t n = 1; n <= 5; n += 2) {
        struct relay r = {.pool = thread_pool_create(n, NULL), .n = n};
        assert_non_null(r.pool);
        assert_int_equal(thread_pool_threads(r.pool), n);
        thread_pool_run(r.pool, false, run_relay, &r);
        assert_int_equal(atomic_load(&r.wrong), 0);
        assert_int_equal(r.phases, PHASES);
        thread_pool_destroy(&r.pool);
        assert_null(r.pool);
        thread_pool_destroy(&r.pool);
    }
}

enum { UNITS = 700, LISTS = 60 };

struct bee {
    struct thread_pool *pool;
    int32_t n;
    _Atomic int32_t taken[LISTS][UNITS], by[LISTS][4];
    int32_t slow; /* of two members, the one that comes when the other has found nothing left; -1:
                     none */
    _Atomic int32_t done; /* lists that the other has left */
};

static int32_t units_of(int list)
{
    return list % 7 == 0 ? 0 : list % 5 == 0 ? 1 : UNITS - 11 * list;
}

static void wait_for_the_other(struct bee *b, int list)
{
    while (atomic_load(&b->done) <= list)
        sched_yield();
}

static void run_bee(void *context, int32_t member)
{
    struct bee *b = context;
    const bool slow = member == b->slow;
    for (int list = 0; list < LISTS; list++) {
        int32_t from, to;
        if (slow && list % 2)
            wait_for_the_other(b, list);
        thread_pool_loop_begin(b->pool, member, units_of(list),
                               b->slow < 0 && list % 3 == 0 ? THREAD_POOL_STATIC
                                                            : THREAD_POOL_STEALING);
        if (slow)
            wait_for_the_other(b, list);
        while (thread_pool_next_chunk(b->pool, member, &from, &to))
            for (int32_t i = from; i < to; i++) {
                atomic_fetch_add(&b->taken[list][i], 1);
                atomic_fetch_add(&b->by[list][member], 1);
            }
        if (!slow)
            atomic_fetch_add(&b->done, 1);
        thread_pool_barrier(b->pool);
    }
}

static void check_bee(struct bee *b, int32_t runs)
{
    for (int list = 0; list < LISTS; list++) {
        for (int32_t i = 0; i < UNITS; i++)
            assert_int_equal(atomic_load(&b->taken[list][i]), i < units_of(list) ? runs : 0);
        if (b->slow >= 0)
            assert_int_equal(atomic_load(&b->by[list][b->slow]), 0);
    }
}

static void test_each_unit_of_a_list_is_taken_once(void **state)
{
    for (int32_t n = 1; n <= 4; n++) {
        struct bee *b = calloc(1, sizeof *b);
        b->pool = thread_pool_create(n, NULL);
        b->n = n;
        b->slow = -1;
        thread_pool_run(b->pool, false, run_bee, b);
        thread_pool_run(b->pool, true, run_bee, b); /* lists of a run alone are the caller's */
        thread_pool_run(b->pool, false, run_bee, b);
        check_bee(b, 3);
        thread_pool_destroy(&b->pool);
        free(b);
    }
}

static void test_nobody_waits_for_a_member_that_is_held_up(void **state)
{
    for (int32_t slow = 0; slow < 2; slow++) {
        struct bee *b = calloc(1, sizeof *b);
        b->pool = thread_pool_create(2, NULL);
        b->n = 2;
        b->slow = slow;
        thread_pool_run(b->pool, false, run_bee, b);
        check_bee(b, 1);
        thread_pool_destroy(&b->pool);
        free(b);
    }
}

static void count_member(void *context, int32_t member)
{
    atomic_fetch_add((_Atomic int32_t *)context, 1 << (8 * member));
}

static void test_every_run_reaches_every_member_once(void **state)
{
    struct thread_pool *p = thread_pool_create(3, NULL);
    for (int i = 0; i < 500; i++) {
        _Atomic int32_t count = 0;
        thread_pool_run(p, false, count_member, &count);
        assert_int_equal(atomic_load(&count), 0x010101);
        if (i % 100 == 0)
            usleep(2000); /* long enough for them to sleep */
    }
    thread_pool_destroy(&p);
}

static void count_call(void *context, int32_t i)
{
    atomic_fetch_add(&((_Atomic int32_t *)context)[i], 1);
}

static void test_each_is_called_once(void **state)
{
    static _Atomic int32_t calls[1000];
    struct thread_pool *p = thread_pool_create_copiers(NULL);
    for (int32_t n = 0; n <= 1000; n += n < 10 ? 1 : 99) {
        memset(calls, 0, sizeof calls);
        thread_pool_each(p, n, count_call, calls);
        for (int32_t i = 0; i < 1000; i++)
            assert_int_equal(atomic_load(&calls[i]), i < n);
        if (n % 3 == 0)
            usleep(1000); /* long enough for them to sleep */
    }
    thread_pool_destroy(&p);
}

/* Online CPUs that the process may not use are not counted. */
static void test_copiers_keep_to_the_affinity(void **state)
{
    cpu_set_t all, one;
    int cpu = 0;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    struct thread_pool *p = thread_pool_create_copiers(NULL);
    const int32_t n = thread_pool_threads(p);
    thread_pool_destroy(&p);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(n, 1);
}

static void test_a_run_alone_leaves_the_others_asleep(void **state)
{
    struct thread_pool *p = thread_pool_create(3, NULL);
    for (int i = 0; i < 50; i++) {
        _Atomic int32_t count = 0;
        thread_pool_run(p, i % 2, count_member, &count);
        assert_int_equal(atomic_load(&count), i % 2 ? 1 : 0x010101);
    }
    thread_pool_destroy(&p);
}

/* Steps of one row cost `together` with all threads and `single` with one; who is used after a
 * while? */
static int single_of_last_100(struct thread_tuner *t, uint64_t together, uint64_t single)
{
    int alone = 0;
    for (int i = 0; i < 1100; i++) {
        bool one = thread_tuner_single(t, 1);
        thread_tuner_record(t, 1, one, one ? single : together);
        alone += i >= 1000 && one;
    }
    return alone;
}

/* Threads that sleep while one computes are slow in the first step that wakes them. */
static void test_thread_tuner_is_not_misled_by_threads_that_wake(void **state)
{
    struct thread_tuner t = {0};
    bool before = false;
    int single = 0;
    for (int i = 0; i < 2000; i++) {
        const bool one = thread_tuner_single(&t, 1), woke = before && !one;
        const uint64_t busy = i < 200 && !one ? 5000000 : 0; /* the others don't run at first */
        thread_tuner_record(&t, 1, one, busy + (one ? 300000u : woke ? 320000u : 200000u));
        before = one;
        single += i >= 1900 && one;
    }
    assert_in_range(single, 0, 3);
}

static void test_thread_tuner_finds_the_faster_way_and_follows_a_change(void **state)
{
    struct thread_tuner t = {0};
    assert_true(single_of_last_100(&t, 500, 900) <= 6); /* two tries */
    single_of_last_100(&t, 9000, 900);                  /* the machine gets busy */
    single_of_last_100(&t, 9000, 900);
    assert_true(single_of_last_100(&t, 9000, 900) >= 94);
    single_of_last_100(&t, 500, 900);
    single_of_last_100(&t, 500, 900);
    assert_true(single_of_last_100(&t, 500, 900) <= 6); /* two tries */
    assert_false(thread_tuner_single(&t, 17));          /* large steps: always together */
}

static void test_thread_tuner_ends_a_try_that_is_slower_at_once(void **state)
{
    struct thread_tuner t = {0};
    int single = 0;
    for (int i = 0; i < 100; i++) { /* two tries */
        const bool one = thread_tuner_single(&t, 1);
        thread_tuner_record(&t, 1, one, one ? 900 : 500);
        single += one;
    }
    assert_int_equal(single, 2);
}

static void test_an_idle_pool_uses_no_cpu(void **state)
{
    struct thread_pool *p = thread_pool_create(4, NULL);
    _Atomic int32_t count = 0;
    struct timespec before, after;
    double ms = 1e9;
    thread_pool_run(p, false, count_member, &count);
    for (int i = 0; i < 20 && ms > 5; i++) { /* until each has had the processor to fall asleep */
        usleep(20000);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
        usleep(200000);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
        ms = (double)(after.tv_sec - before.tv_sec) * 1e3 +
             (double)(after.tv_nsec - before.tv_nsec) * 1e-6;
    }
    if (ms > 5)
        fail_msg("200 ms of idling took %.1f ms of CPU", ms);
    thread_pool_destroy(&p);
}

/* No call of a few rows is left behind calls of many. */
static void test_rows_beyond_one_call_go_in_even_shares(void **state)
{
    for (int32_t n = 1; n <= 600; n++) {
        int32_t least = n, most = 0;
        for (int32_t left = n, rows; left; left -= rows) {
            rows = matmul_rows_at_once(left);
            assert_in_range(rows, 1, left < KERNEL_MAX_TILE_ROWS ? left : KERNEL_MAX_TILE_ROWS);
            least = rows < least ? rows : least;
            most = rows > most ? rows : most;
        }
        assert_true(n <= KERNEL_MAX_TILE_ROWS ? most == n : most - least < 8);
    }
}

/* Results of a call of several tiles have room for so many rows. */
static void test_a_call_takes_as_many_tiles_as_its_results_have_room_for(void **state)
{
    for (int32_t n = 1; n <= KERNEL_MAX_TILE_ROWS; n++)
        for (int32_t left = 1; left <= KERNEL_MAX_TILE_ROWS + 1; left++) {
            const int32_t count = matmul_at_once(n, left);
            assert_in_range(count, 1, left);
            assert_in_range(n * count, n, KERNEL_MAX_TILE_ROWS);
            if (n <= 8 && count < left) /* few rows: none would fit besides */
                assert_true(n * (count + 1) > KERNEL_MAX_TILE_ROWS);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_router_takes_the_best_after_softmax),
        cmocka_unit_test(test_router_takes_the_lower_id_among_equals),
        cmocka_unit_test(test_router_adds_its_bias_before_the_choice_of_top_k_softmax),
        cmocka_unit_test(test_sigmoid_router_chooses_within_the_best_groups),
        cmocka_unit_test(test_rotation_turns_pairs_and_leaves_the_rest),
        cmocka_unit_test(test_a_call_takes_as_many_tiles_as_its_results_have_room_for),
        cmocka_unit_test(test_rows_beyond_one_call_go_in_even_shares),
        cmocka_unit_test(test_barriers_order_all_members),
        cmocka_unit_test(test_each_unit_of_a_list_is_taken_once),
        cmocka_unit_test(test_nobody_waits_for_a_member_that_is_held_up),
        cmocka_unit_test(test_every_run_reaches_every_member_once),
        cmocka_unit_test(test_a_run_alone_leaves_the_others_asleep),
        cmocka_unit_test(test_thread_tuner_finds_the_faster_way_and_follows_a_change),
        cmocka_unit_test(test_thread_tuner_is_not_misled_by_threads_that_wake),
        cmocka_unit_test(test_thread_tuner_ends_a_try_that_is_slower_at_once),
        cmocka_unit_test(test_each_is_called_once),
        cmocka_unit_test(test_copiers_keep_to_the_affinity),
        cmocka_unit_test(test_an_idle_pool_uses_no_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
