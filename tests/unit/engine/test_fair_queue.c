/* Whose job the queue gives next, by what the device has computed for each user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/sched/fair_queue.h"

static struct fair_queue *queue;

static int up(void **state)
{
    struct err e = {0};
    (void)state;
    return (queue = fair_queue_create(&e)) ? 0 : -1;
}

static struct job job_of(uint64_t id, uint64_t user)
{
    return (struct job){.id = id, .params.user = user};
}

static uint64_t take(void)
{
    struct job *j = fair_queue_first(queue);
    assert_non_null(j);
    fair_queue_remove(queue, j);
    return j->id;
}

static int down(void **state)
{
    (void)state;
    while (fair_queue_count(queue))
        take();
    fair_queue_destroy(&queue);
    return 0;
}

static void test_user_with_the_smallest_counter_is_next(void **state)
{
    (void)state;
    static struct job jobs[3]; /* the queue holds one when the test returns */
    jobs[0] = job_of(1, 1), jobs[1] = job_of(2, 1), jobs[2] = job_of(3, 2);
    for (int i = 0; i < 3; i++)
        assert_true(fair_queue_push(queue, &jobs[i], false));
    fair_queue_charge(queue, &jobs[0], 10);
    assert_int_equal(take(), 3);
    assert_int_equal(take(), 1);
}

/* User 1 computes a million tokens beside user 2, who is there and asks for nothing. Then both want
 * the device: user 2 gets some thousand tokens ahead, not a million. */
static void test_use_of_an_idle_device_is_not_held_against_anyone(void **state)
{
    (void)state;
    static struct job busy, light;
    busy = job_of(1, 1), light = job_of(2, 2);
    assert_true(fair_queue_push(queue, &busy, false) && fair_queue_push(queue, &light, false));
    fair_queue_charge(queue, &busy, 1e6);
    assert_ptr_equal(fair_queue_first(queue), &light);
    double computed = 0;
    while (fair_queue_first(queue) == &light && computed < 2e6) {
        fair_queue_charge(queue, &light, 64);
        computed += 64;
    }
    assert_in_range((uintmax_t)computed, 1024, 16384);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_user_with_the_smallest_counter_is_next, up, down),
        cmocka_unit_test_setup_teardown(test_use_of_an_idle_device_is_not_held_against_anyone, up,
                                        down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
