/* The gate of slow work: shares, turns, and what is left for others. */
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include "engine/base/clock.h"
#include "fcgi/process/work_gate.h"
#include "tests/unit/support/patience.h"

static enum work_answer take(struct work_gate *g, enum work_kind kind, int64_t owner)
{
    return work_gate_take(g, kind, &(struct work_owner){.id = owner});
}

static void test_one_owner_never_has_the_whole_share(void **state)
{
    struct work_gate g = WORK_GATE_INIT;
    for (int k = 0; k < WORK__N; k++) {
        const enum work_kind kind = (enum work_kind)k;
        int own = 0, others = 0;
        while (own < 100 && take(&g, kind, 7) == WORK_TAKEN)
            own++;
        assert_int_equal(take(&g, kind, 7), WORK_FULL_OWNER);
        while (others < 100 && take(&g, kind, 100 + others) == WORK_TAKEN)
            others++;
        assert_true(own > 0 && others > 0);
        assert_int_equal(take(&g, kind, 8), WORK_FULL);
        for (int i = 0; i < own; i++)
            work_gate_give(&g, kind, 7, false);
        assert_int_equal(take(&g, kind, 7), WORK_TAKEN);
        work_gate_give(&g, kind, 7, false);
        for (int i = 0; i < others; i++)
            work_gate_give(&g, kind, 100 + i, false);
        assert_int_equal(g.held[k], 0);
    }
}

static void test_no_kind_takes_from_another(void **state)
{
    struct work_gate g = WORK_GATE_INIT;
    int all = 0;
    for (int k = 0; k < WORK__N; k++) {
        int n = 0;
        for (int64_t owner = 1; owner <= 50; owner++)
            n += take(&g, (enum work_kind)k, owner) == WORK_TAKEN;
        assert_in_range(n, 3, WORK_HELD_MAX);
        all += n;
    }
    for (int64_t owner = 101; owner <= 150; owner++)
        all += work_gate_take(&g, WORK_PASSWORD, &(struct work_owner){owner, true}) == WORK_TAKEN;
    assert_int_equal(all, WORK_THREADS);
}

/* From the first moment on, while nobody knows yet that he is heavy. */
static void test_who_has_some_leaves_places_and_a_turn(void **state)
{
    static const enum work_kind slow[] = {WORK_TEXT, WORK_FILE, WORK_SHARE};
    for (int i = 0; i < 3; i++) {
        struct work_gate g = WORK_GATE_INIT;
        const enum work_kind kind = slow[i];
        int own = 0;
        while (own < 100 && take(&g, kind, 7) == WORK_TAKEN)
            own++;
        assert_true(own >= 2);
        assert_true(work_gate_turn(&g, kind, 7, 0));
        assert_false(work_gate_turn(&g, kind, 7, 0));
        assert_int_equal(take(&g, kind, 8), WORK_TAKEN);
        assert_true(work_gate_turn(&g, kind, 8, 0));
        work_gate_give(&g, kind, 7, true);
        assert_true(work_gate_turn(&g, kind, 7, 0));
    }
}

static void test_strangers_leave_places_for_who_is_known(void **state)
{
    struct work_gate g = WORK_GATE_INIT;
    int strangers = 0;
    for (int64_t owner = 1; owner <= 50; owner++)
        strangers += take(&g, WORK_PASSWORD, owner) == WORK_TAKEN;
    const struct work_owner one = {.id = 100, .known = true}, two = {.id = 101, .known = true};
    assert_int_equal(work_gate_take(&g, WORK_PASSWORD, &one), WORK_TAKEN);
    assert_int_equal(work_gate_take(&g, WORK_PASSWORD, &one), WORK_FULL); /* not both */
    assert_int_equal(work_gate_take(&g, WORK_PASSWORD, &two), WORK_TAKEN);
    assert_int_equal(g.held[WORK_PASSWORD], WORK_HELD_MAX);
    work_gate_give(&g, WORK_PASSWORD, 1, false);
    work_gate_give(&g, WORK_PASSWORD, 100, false);
    assert_int_equal(take(&g, WORK_PASSWORD, 60), WORK_FULL);
    assert_int_equal(work_gate_take(&g, WORK_PASSWORD, &one), WORK_TAKEN);
    assert_int_equal(strangers, WORK_HELD_MAX - 2);
}

struct waiter {
    struct work_gate *g;
    bool turn;
};

static void *wait_turn(void *context)
{
    struct waiter *w = context;
    w->turn = work_gate_turn(w->g, WORK_PASSWORD, 2, 5 * PATIENCE_MS);
    return NULL;
}

static void test_one_waits_until_another_has_ended(void **state)
{
    struct work_gate g = WORK_GATE_INIT;
    struct waiter w = {.g = &g};
    pthread_t thread;
    assert_int_equal(take(&g, WORK_PASSWORD, 1), WORK_TAKEN);
    assert_int_equal(take(&g, WORK_PASSWORD, 2), WORK_TAKEN);
    assert_true(work_gate_turn(&g, WORK_PASSWORD, 1, 0));
    const double before = clock_ms();
    assert_false(work_gate_turn(&g, WORK_PASSWORD, 2, 30));
    assert_true(clock_ms() - before >= 25);
    assert_int_equal(pthread_create(&thread, NULL, wait_turn, &w), 0);
    work_gate_give(&g, WORK_PASSWORD, 1, true);
    pthread_join(thread, NULL);
    assert_true(w.turn);
    assert_true(clock_ms() - before < 4 * PATIENCE_MS); /* woken, and not when its time was over */
    work_gate_give(&g, WORK_PASSWORD, 2, true);
    assert_int_equal(g.held[WORK_PASSWORD] + g.running[WORK_PASSWORD], 0);
}

static void test_heavy_owners_leave_places_and_a_turn(void **state)
{
    struct work_gate g = WORK_GATE_INIT;
    for (int64_t heavy = 1; heavy <= 9; heavy++)
        work_use_add(&g.use, heavy, 60000, clock_ms());
    assert_int_equal(take(&g, WORK_FILE, 1), WORK_TAKEN);
    assert_int_equal(take(&g, WORK_FILE, 1), WORK_FULL_OWNER);
    int places = 1;
    while (places < 9 && take(&g, WORK_FILE, places + 1) == WORK_TAKEN)
        places++;
    assert_int_equal(take(&g, WORK_FILE, 9), WORK_FULL);
    assert_true(work_gate_turn(&g, WORK_FILE, 1, 0));
    assert_false(work_gate_turn(&g, WORK_FILE, 2, 0)); /* the other turn is for light ones */
    assert_int_equal(take(&g, WORK_FILE, 50), WORK_TAKEN);
    assert_true(work_gate_turn(&g, WORK_FILE, 50, 0));
    work_gate_give(&g, WORK_FILE, 50, true);
    work_gate_give(&g, WORK_FILE, 1, true);
    assert_true(work_gate_turn(&g, WORK_FILE, 2, 0));
    work_gate_give(&g, WORK_FILE, 2, true);
    for (int64_t heavy = 3; heavy <= places; heavy++)
        work_gate_give(&g, WORK_FILE, heavy, false);
    assert_int_equal(g.held[WORK_FILE] + g.running[WORK_FILE], 0);
}

static void test_use_is_forgotten(void **state)
{
    struct work_use u = {0};
    work_use_add(&u, 7, 8 * WORK_USE_HEAVY_MS, 1000);
    assert_true(work_use_heavy(&u, 7, 1000));
    assert_true(work_use_heavy(&u, 7, 1000 + 2.9 * WORK_USE_HALF_MS));
    assert_false(work_use_heavy(&u, 7, 1000 + 3.1 * WORK_USE_HALF_MS));
    assert_false(work_use_heavy(&u, 8, 1000));
    for (int64_t owner = 100; owner < 100 + 10 * WORK_USE_OWNERS;
         owner++) /* a crowd of light ones */
        work_use_add(&u, owner, 1, 2000);
    assert_true(work_use_heavy(&u, 7, 2000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_owner_never_has_the_whole_share),
        cmocka_unit_test(test_no_kind_takes_from_another),
        cmocka_unit_test(test_who_has_some_leaves_places_and_a_turn),
        cmocka_unit_test(test_strangers_leave_places_for_who_is_known),
        cmocka_unit_test(test_one_waits_until_another_has_ended),
        cmocka_unit_test(test_heavy_owners_leave_places_and_a_turn),
        cmocka_unit_test(test_use_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
