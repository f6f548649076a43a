/* Which expert goes: the two rules, how they are judged by what is wanted again, layers of one size
 * of record. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/experts/policy/expert_eviction.h"

#define LAYERS 2
#define EXPERTS 4

enum { OLD_FRIEND, PASSING, UNKNOWN }; /* experts of layer 0 */

struct rig {
    struct expert_layer layers[LAYERS];
    struct expert_record records[EXPERTS];
    struct expert_layout layout;
    struct expert_history history;
    struct expert_eviction eviction;
};

static struct err e;

static void want(struct rig *r, int32_t layer, int32_t expert)
{
    expert_history_touch(&r->history, layer, expert, 1, 1);
    expert_eviction_wanted(&r->eviction, layer, expert);
}

static void pass(struct rig *r, int32_t layer, int32_t rows)
{
    expert_history_advance(&r->history, layer, rows);
    expert_eviction_advance(&r->eviction, layer, rows);
}

static struct eviction_choice choose(struct rig *r)
{
    return expert_eviction_choose(&r->eviction, NULL, -1);
}

/* One expert was wanted by a hundred rows until a while ago, another just now for the first time.
 */
static void open_rig(struct rig *r)
{
    *r = (struct rig){.layout = {.n_layers = LAYERS}};
    for (int i = 0; i < LAYERS; i++)
        r->layers[i] = (struct expert_layer){.n_expert = EXPERTS, .records = r->records};
    r->layout.layers = r->layers;
    assert_true(expert_history_init(&r->history, &r->layout, 1, &e));
    assert_true(expert_eviction_init(&r->eviction, &r->history, &e));
    for (int i = 0; i < 100; i++) {
        pass(r, 0, 1);
        want(r, 0, OLD_FRIEND);
    }
    pass(r, 0, 64);
    want(r, 0, PASSING);
}

static void close_rig(struct rig *r)
{
    expert_eviction_fini(&r->eviction);
    expert_history_fini(&r->history);
}

static void test_only_what_may_go_is_chosen(void **state)
{
    struct rig r;
    open_rig(&r);
    assert_int_equal(choose(&r).layer, -1);
    expert_eviction_allow(&r.eviction, 0, OLD_FRIEND, true);
    assert_int_equal(choose(&r).expert, OLD_FRIEND);
    expert_eviction_allow(&r.eviction, 0, UNKNOWN, true);
    assert_int_equal(choose(&r).expert, UNKNOWN); /* by either rule: it was never wanted */
    expert_eviction_allow(&r.eviction, 0, UNKNOWN, false);
    expert_eviction_allow(&r.eviction, 0, OLD_FRIEND, false);
    assert_int_equal(choose(&r).layer, -1);
    close_rig(&r);
}

static void test_the_rule_that_was_wrong_gives_way(void **state)
{
    struct rig r;
    open_rig(&r);
    expert_eviction_allow(&r.eviction, 0, OLD_FRIEND, true);
    expert_eviction_allow(&r.eviction, 0, PASSING, true);
    struct eviction_choice c = choose(&r);
    assert_int_equal(c.named[EVICT_BY_RECENCY], OLD_FRIEND);
    assert_int_equal(c.named[EVICT_BY_FREQUENCY], PASSING);
    assert_int_equal(expert_eviction_rule(&r.eviction), EVICT_BY_FREQUENCY);
    assert_int_equal(c.expert, PASSING);
    expert_eviction_done(&r.eviction, &c);
    want(&r, 0, PASSING); /* it should have stayed */
    assert_int_equal(expert_eviction_rule(&r.eviction), EVICT_BY_RECENCY);
    pass(&r, 0, 16); /* then they differ again */
    c = choose(&r);
    assert_int_equal(c.named[EVICT_BY_FREQUENCY], PASSING);
    assert_int_equal(c.expert, OLD_FRIEND);
    expert_eviction_done(&r.eviction, &c);
    want(&r, 0, UNKNOWN); /* no part of it */
    assert_int_equal(expert_eviction_rule(&r.eviction), EVICT_BY_RECENCY);
    want(&r, 0, OLD_FRIEND);
    want(&r, 0, OLD_FRIEND); /* a choice is judged once */
    assert_int_equal(expert_eviction_rule(&r.eviction), EVICT_BY_FREQUENCY);
    close_rig(&r);
}

/* Wrong long ago counts less than wrong just now. */
static void test_judgements_fade(void **state)
{
    struct rig r;
    open_rig(&r);
    for (int i = 0; i < 3; i++) { /* the usual rule is wrong three times */
        const struct eviction_choice c = {
            .layer = 0, .expert = PASSING, .named = {OLD_FRIEND, PASSING}};
        expert_eviction_done(&r.eviction, &c);
        want(&r, 0, PASSING);
    }
    assert_int_equal(expert_eviction_rule(&r.eviction), EVICT_BY_RECENCY);
    for (int32_t layer = 0; layer < LAYERS; layer++)
        pass(&r, layer, 64);
    const struct eviction_choice c = {
        .layer = 0, .expert = OLD_FRIEND, .named = {OLD_FRIEND, UNKNOWN}};
    expert_eviction_done(&r.eviction, &c);
    want(&r, 0, OLD_FRIEND); /* the other one once */
    assert_int_equal(expert_eviction_rule(&r.eviction), EVICT_BY_FREQUENCY);
    close_rig(&r);
}

static void test_layers_of_one_size_are_chosen_among(void **state)
{
    struct rig r;
    const int32_t class_of[LAYERS] = {0, 1};
    open_rig(&r);
    expert_eviction_allow(&r.eviction, 0, UNKNOWN, true);
    expert_eviction_allow(&r.eviction, 1, 3, true);
    want(&r, 1, 3);
    assert_int_equal(expert_eviction_choose(&r.eviction, class_of, -1).layer, 0);
    const struct eviction_choice c = expert_eviction_choose(&r.eviction, class_of, 1);
    assert_int_equal(c.layer, 1);
    assert_int_equal(c.expert, 3);
    expert_eviction_allow(&r.eviction, 1, 3, false);
    assert_int_equal(expert_eviction_choose(&r.eviction, class_of, 1).layer, -1);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_what_may_go_is_chosen),
        cmocka_unit_test(test_the_rule_that_was_wrong_gives_way),
        cmocka_unit_test(test_judgements_fade),
        cmocka_unit_test(test_layers_of_one_size_are_chosen_among),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
