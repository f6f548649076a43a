/* fcgi/relay/upstreams.c: which upstream gets a job, and when one gets none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "fcgi/relay/upstreams.h"
#include "sql/core/statement.h"
#include "sql/core/store.h"
#include "sql/models/store_models.h"

#define MODEL 5

/* n upstreams with ids from 1, all of priority 0 and weight 1. */
static void make(struct upstreams *all, int n)
{
    *all = (struct upstreams){0};
    all->routes = calloc((size_t)n, sizeof *all->routes);
    all->n_routes = all->cap_routes = n;
    for (int i = 0; i < n; i++) {
        struct upstream *u = calloc(1, sizeof *u);
        u->id = i + 1;
        u->next = all->first;
        all->first = u;
        all->routes[i] = (struct upstream_route){.model = MODEL, .to = u, .weight = 1};
    }
}

static int64_t choose(struct upstreams *all, uint64_t affinity)
{
    struct upstream_route *r;
    const struct upstream_wish w = {.model = MODEL, .affinity = affinity, .now = clock_ms()};
    return upstreams_choose(all, &w, &r) == UPSTREAM_CHOSEN ? r->to->id : 0;
}

static uint64_t name(int i)
{
    return (uint64_t)(i + 1) * 0xD1B54A32D192ED03u;
}

static void test_an_affinity_stays_with_its_upstream(void **state)
{
    struct upstreams all;
    int64_t before[1000];
    int moved = 0, share[5] = {0};
    (void)state;
    make(&all, 4);
    for (int i = 0; i < 1000; i++)
        share[before[i] = choose(&all, name(i))]++;
    for (int u = 1; u <= 4; u++)
        assert_in_range(share[u], 190, 310);
    all.routes[2].to->drained = true; /* only its own move */
    for (int i = 0; i < 1000; i++) {
        const int64_t now = choose(&all, name(i));
        assert_int_not_equal(now, 3);
        moved += now != before[i];
    }
    assert_int_equal(moved, share[3]);
    upstreams_fini(&all);
}

static void test_a_weight_is_a_share(void **state)
{
    struct upstreams all;
    int share[3] = {0};
    (void)state;
    make(&all, 2);
    all.routes[0].weight = 3;
    for (int i = 0; i < 2000; i++)
        share[choose(&all, name(i))]++;
    assert_in_range(share[1], 1420, 1580);
    upstreams_fini(&all);
}

static void test_one_that_has_over_its_share_passes_jobs_on(void **state)
{
    struct upstreams all;
    (void)state;
    make(&all, 2);
    const int64_t own = choose(&all, name(1));
    struct upstream *u = all.routes[own - 1].to;
    u->in_flight = 3; /* of 3: over a quarter more than its half of them */
    assert_int_equal(choose(&all, name(1)), 3 - own);
    all.routes[2 - own].to->in_flight = 3;
    assert_int_equal(choose(&all, name(1)), own);
    u->in_flight = 0;
    upstreams_fini(&all);
}

static void test_without_affinity_the_least_loaded_answers(void **state)
{
    struct upstreams all;
    (void)state;
    make(&all, 3);
    all.routes[0].to->in_flight = 2;
    all.routes[1].to->in_flight = 1;
    all.routes[2].to->in_flight = 2;
    assert_int_equal(choose(&all, 0), 2);
    all.routes[2].weight = 10;
    assert_int_equal(choose(&all, 0), 3);
    upstreams_fini(&all);
}

static void test_a_lower_priority_answers_while_it_is_well(void **state)
{
    struct upstreams all;
    (void)state;
    make(&all, 2);
    all.routes[0].priority = 1;
    for (int i = 0; i < 50; i++)
        assert_int_equal(choose(&all, name(i)), 2);
    upstream_failed(&all, all.routes[1].to, true, "refused");
    assert_int_equal(choose(&all, name(1)), 1);
    upstreams_fini(&all);
}

static void test_the_breaker_opens_tries_once_and_closes(void **state)
{
    struct upstreams all;
    struct upstream_route *r;
    (void)state;
    make(&all, 1);
    struct upstream *u = all.first;
    upstream_failed(&all, u, false, "500");
    upstream_failed(&all, u, false, "500");
    assert_int_equal(choose(&all, 0), 1);
    upstream_failed(&all, u, false, "500");
    assert_int_equal(choose(&all, 0), 0);
    struct upstream_wish w = {.model = MODEL, .now = clock_ms()};
    assert_int_equal(upstreams_choose(&all, &w, &r), UPSTREAM_DOWN);
    w.now = u->open_until + 1;
    assert_int_equal(upstreams_choose(&all, &w, &r), UPSTREAM_CHOSEN);
    u->trying = true; /* its one request */
    assert_int_equal(upstreams_choose(&all, &w, &r), UPSTREAM_DOWN);
    const double first = u->open_ms;
    upstream_failed(&all, u, false, "500");
    assert_true(u->open_ms == 2 * first && !u->trying);
    w.now = u->open_until + 1;
    u->trying = true;
    upstream_succeeded(&all, u);
    assert_int_equal(choose(&all, 0), 1);
    upstream_failed(&all, u, false, "500");
    assert_int_equal(choose(&all, 0), 1); /* the count began anew */
    upstreams_fini(&all);
}

/* At the end of the time that its breaker is open; choices are made then. */
static enum upstream_choice choose_later(struct upstreams *all)
{
    struct upstream_route *r;
    const struct upstream_wish w = {.model = MODEL, .now = all->first->open_until + 1};
    return upstreams_choose(all, &w, &r);
}

static void test_a_trial_that_answers_lets_others_in(void **state)
{
    struct upstreams all;
    (void)state;
    make(&all, 1);
    struct upstream *u = all.first;
    for (int i = 0; i < 3; i++)
        upstream_failed(&all, u, false, "500");
    u->trying = true;
    assert_int_equal(choose_later(&all), UPSTREAM_DOWN);
    upstream_answers(&all, u);
    assert_int_equal(choose(&all, 0), 1);
    upstream_failed(&all, u, false, "it broke after all"); /* one is enough, and for longer */
    assert_int_equal(choose(&all, 0), 0);
    assert_true(u->open_ms == 2 * UPSTREAM_OPEN_MS);
    u->trying = true;
    upstream_answers(&all, u);
    upstream_succeeded(&all, u);
    upstream_failed(&all, u, false, "500");
    assert_int_equal(choose(&all, 0), 1);
    upstreams_fini(&all);
}

static void test_a_probe_says_nothing_of_answers(void **state)
{
    struct upstreams all;
    (void)state;
    make(&all, 1);
    struct upstream *u = all.first;
    upstream_failed(&all, u, false, "500");
    upstream_failed(&all, u, false, "500");
    upstream_probed(&all, u, false, NULL);
    upstream_failed(&all, u, false, "500");
    assert_int_equal(choose(&all, 0), 0); /* three in a row, whatever a probe found between them */
    u->trying = true;
    assert_int_equal(choose_later(&all), UPSTREAM_DOWN);
    upstream_probed(&all, u, false, NULL);
    assert_true(u->open_until > 0);
    assert_int_equal(choose_later(&all), UPSTREAM_CHOSEN); /* one more trial */
    const double first = u->open_ms;
    upstream_probed(&all, u, false, "a timeout");
    assert_true(u->open_ms == 2 * first);
    upstreams_fini(&all);
}

static void test_a_probe_closes_what_connections_opened(void **state)
{
    struct upstreams all;
    (void)state;
    make(&all, 1);
    struct upstream *u = all.first;
    upstream_failed(&all, u, true, "refused");
    assert_int_equal(choose(&all, 0), 0);
    upstream_probed(&all, u, false, NULL);
    assert_int_equal(choose(&all, 0), 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(choose(&all, 0), 1);
        upstream_probed(&all, u, false, "a timeout");
    }
    assert_int_equal(choose(&all, 0), 0);
    upstream_probed(&all, u, false, NULL);
    assert_int_equal(choose(&all, 0), 1);
    upstreams_fini(&all);
}

static void test_full_busy_and_nobody_are_told_apart(void **state)
{
    struct upstreams all;
    struct upstream_route *r;
    (void)state;
    make(&all, 1);
    struct upstream_wish w = {.model = MODEL, .now = clock_ms()};
    all.first->max_streams = 1;
    all.first->in_flight = 1;
    assert_int_equal(upstreams_choose(&all, &w, &r), UPSTREAM_FULL);
    all.first->in_flight = 0;
    upstream_is_busy(&all, all.first, 5000);
    assert_int_equal(upstreams_choose(&all, &w, &r), UPSTREAM_FULL);
    w.now += 6000;
    assert_int_equal(upstreams_choose(&all, &w, &r), UPSTREAM_CHOSEN);
    all.first->drained = true;
    assert_int_equal(upstreams_choose(&all, &w, &r), UPSTREAM_NONE);
    w.only = 1; /* a test asks one that is drained */
    assert_int_equal(upstreams_choose(&all, &w, &r), UPSTREAM_CHOSEN);
    w.model = MODEL + 1;
    assert_int_equal(upstreams_choose(&all, &w, &r), UPSTREAM_NONE);
    upstreams_fini(&all);
}

static void test_what_cannot_be_read_leaves_the_table_as_it_was(void **state)
{
    char dir[] = "/tmp/upstreams-XXXXXX", path[64];
    struct err e = {0};
    struct upstreams all = {0};
    int64_t id, model;
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/db", dir);
    struct store *s = store_open(&(struct store_params){.path = path, .create = true}, &e);
    assert_non_null(s);
    const struct store_upstream u = {.name = "a", .dialect = "openai", .url = "http://a"};
    assert_true(store_upstream_add(s, &u, NULL, &id, &e));
    assert_true(
        store_model_add(s, &(struct store_model){.name = "m", .everyone = true}, &model, &e));
    const struct store_model_route route = {
        .model_id = model, .upstream_id = id, .remote = "r", .weight = 1};
    assert_true(store_model_route_set(s, &route, &e));
    assert_true(upstreams_load(&all, s, true, &e));
    struct upstream *known = all.first;
    known->in_flight = 1;
    assert_true(upstreams_load(&all, s, true, &e));
    assert_ptr_equal(all.first, known); /* it keeps how it is */
    assert_ptr_equal(all.routes[0].to, known);
    known->in_flight = 0;
    assert_true(store_exec(s, "ALTER TABLE model_upstreams RENAME TO away", &e));
    assert_false(upstreams_load(&all, s, true, &e));
    assert_int_equal(all.n_routes, 1);
    assert_ptr_equal(all.routes[0].to, known);
    assert_false(known->gone);
    upstreams_fini(&all);
    store_close(&s);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_affinity_stays_with_its_upstream),
        cmocka_unit_test(test_a_weight_is_a_share),
        cmocka_unit_test(test_one_that_has_over_its_share_passes_jobs_on),
        cmocka_unit_test(test_without_affinity_the_least_loaded_answers),
        cmocka_unit_test(test_a_lower_priority_answers_while_it_is_well),
        cmocka_unit_test(test_the_breaker_opens_tries_once_and_closes),
        cmocka_unit_test(test_a_trial_that_answers_lets_others_in),
        cmocka_unit_test(test_a_probe_says_nothing_of_answers),
        cmocka_unit_test(test_a_probe_closes_what_connections_opened),
        cmocka_unit_test(test_full_busy_and_nobody_are_told_apart),
        cmocka_unit_test(test_what_cannot_be_read_leaves_the_table_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
