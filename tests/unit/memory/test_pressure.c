/* The expert cache gives way at once and comes back slowly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/memory/pressure.h"

#define MIB ((uint64_t)1 << 20)

static const struct machine_stress none;
static struct pressure p;

static int begin(void **state)
{
    pressure_init(&p, 1600 * MIB, 100 * MIB, 200 * MIB, &none);
    return 0;
}

static void test_enough_memory_changes_nothing(void **state)
{
    for (int i = 0; i < 100; i++)
        assert_false(pressure_step(&p, 200 * MIB, &none, 1600 * MIB, i));
    assert_int_equal(p.budget, 1600 * MIB);
    assert_int_equal(p.shrinks, 0);
}

static void test_what_is_missing_is_given_back_at_once(void **state)
{
    assert_true(pressure_step(&p, 50 * MIB, &none, 1600 * MIB, 1));
    assert_int_equal(p.budget, (1600 - 150 - 100) * MIB);
    assert_int_equal(p.shrinks, 1);
}

static void test_memory_that_the_cache_never_had_is_not_given_back(void **state)
{
    /* the budget is 1600, held are 500: only a budget below that frees anything */
    assert_true(pressure_step(&p, 100 * MIB, &none, 500 * MIB, 1));
    assert_int_equal(p.budget, 300 * MIB);
}

static void test_it_never_goes_below_the_least(void **state)
{
    assert_true(pressure_step(&p, 0, &none, 200 * MIB, 1));
    assert_int_equal(p.budget, 100 * MIB);
    assert_false(pressure_step(&p, 0, &none, 100 * MIB, 2));
    assert_int_equal(p.budget, 100 * MIB);
    assert_int_equal(p.shrinks, 1);
}

static void test_it_grows_slowly_and_only_while_calm(void **state)
{
    pressure_step(&p, 0, &none, 1600 * MIB, 0);
    uint64_t low = p.budget;
    assert_false(pressure_step(&p, 4000 * MIB, &none, low, PRESSURE_CALM_S / 2));
    assert_true(pressure_step(&p, 4000 * MIB, &none, low, PRESSURE_CALM_S));
    assert_true(p.budget > low && p.budget <= low + 1600 * MIB / 32 + 1);
    uint64_t grown = p.budget;
    assert_false(pressure_step(&p, 410 * MIB, &none, low,
                               3 * PRESSURE_CALM_S)); /* would come near the limit again */
    assert_int_equal(p.budget, grown);
    for (int i = 4; i < 100; i++)
        pressure_step(&p, 4000 * MIB, &none, p.budget, i * PRESSURE_CALM_S);
    assert_int_equal(p.budget, 1600 * MIB);
}

static void test_hits_count_where_little_is_left(void **state)
{
    struct machine_stress hit = {.limit_hits = 5}, stalled = {.limit_hits = 6, .stalled = 60};
    assert_false(pressure_step(&p, 1000 * MIB, &hit, 1600 * MIB, 1));
    assert_false(pressure_step(&p, 300 * MIB, &hit, 1600 * MIB, 2)); /* no new hit */
    assert_true(pressure_step(&p, 300 * MIB, &stalled, 1600 * MIB, 3));
    assert_int_equal(p.budget, 1500 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_enough_memory_changes_nothing, begin),
        cmocka_unit_test_setup(test_what_is_missing_is_given_back_at_once, begin),
        cmocka_unit_test_setup(test_memory_that_the_cache_never_had_is_not_given_back, begin),
        cmocka_unit_test_setup(test_it_never_goes_below_the_least, begin),
        cmocka_unit_test_setup(test_it_grows_slowly_and_only_while_calm, begin),
        cmocka_unit_test_setup(test_hits_count_where_little_is_left, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
