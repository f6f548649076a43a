/* Whether a draft that has to be computed is asked for, over devices and drafters that are
 * scripted: it is where that wins, and where it cannot win next to nothing is lost by finding out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/sched/policy/draft_worth.h"

#define STEPS 4000
#define KINDS 3
#define STALL 60 /* ms */

struct device {               /* milliseconds */
    double plain, row, draft; /* a step; each drafted row of it; a token of the drafter */
    double late, stalls;      /* shares of the steps with drafts, and of all, that a stall meets */
};

struct kind { /* of drafted tokens */
    enum draft_ground ground;
    double often, right;
};

static const struct kind good[KINDS] = {
    {DRAFT_SURE_99, 0.5, 0.98}, {DRAFT_SURE_70, 0.3, 0.75}, {DRAFT_SURE_0, 0.2, 0.2}};
static const struct kind bad[KINDS] = {
    {DRAFT_SURE_99, 0.1, 0.3}, {DRAFT_SURE_70, 0.3, 0.1}, {DRAFT_SURE_0, 0.6, 0.02}};

static unsigned seed = 7;

static double chance(void)
{
    seed = seed * 1103515245u + 12345;
    return (seed >> 8) / (double)(1u << 24);
}

static const struct kind *draw(const struct kind *kinds)
{
    double left = chance();
    for (int i = 0; i < KINDS - 1; i++)
        if ((left -= kinds[i].often) < 0)
            return &kinds[i];
    return &kinds[KINDS - 1];
}

struct course { /* of one answer */
    struct draft_costs costs;
    struct draft_habit habit;
    struct draft_trials trials;
    double ms, tokens;
    int asked;
};

static bool right[DRAFT_MAX];

/* As far as the drafter goes; `right`: what will come true. */
static int32_t make_draft(const struct course *c, const struct kind *kinds, int32_t most,
                          double least, enum draft_ground ground[DRAFT_MAX])
{
    double sure = 1;
    int32_t n = 0;
    do {
        const struct kind *k = draw(kinds);
        ground[n] = k->ground;
        right[n++] = chance() < k->right;
        sure *= draft_habit_share(&c->habit, &c->habit, k->ground);
    } while (n < most && sure >= least);
    return n;
}

static void step(struct course *c, const struct device *d, const struct kind *kinds)
{
    const struct draft_price price = {.first = d->draft, .further = d->draft, .most = 16};
    struct draft_worth w = draft_worth_of(&c->habit, &c->habit, &c->costs, 1, 100, &price);
    enum draft_ground ground[DRAFT_MAX];
    struct draft_offer offer = {0};
    struct draft_step s = {.rows = 1, .tokens = 1};
    int32_t n = 0;
    if (draft_costs_may_try(&c->costs, 1) &&
        (w.ms > 0 || draft_trials_take(&c->trials, &c->costs, 1, &price))) {
        n = make_draft(c, kinds, w.ms > 0 ? DRAFT_MAX : 1, w.least, ground);
        c->asked++;
    }
    offer.n = n;
    for (int32_t i = 0; i < n; i++)
        offer.share[i] = draft_habit_share(&c->habit, &c->habit, ground[i]);
    draft_choice_make(&c->costs, 1, &offer, 1, DRAFT_ROWS_MAX);
    s.drafted = offer.taken;
    for (int32_t i = 0; i < n; i++) {
        draft_habit_note(&c->habit, ground[i], right[i]);
        if (!right[i] || i >= s.drafted)
            break;
        s.tokens++;
    }
    s.ms = (d->plain + d->row * s.drafted) * (0.95 + 0.1 * chance());
    if (chance() < d->stalls || (s.drafted && chance() < d->late))
        s.ms += STALL;
    s.draft_ms = d->draft * n;
    draft_costs_note(&c->costs, &s);
    c->ms += s.ms + s.draft_ms;
    c->tokens += s.tokens;
}

static double gain(const struct device *d, const struct kind *kinds, int *asked)
{
    struct course c = {0};
    for (int i = 0; i < STEPS; i++)
        step(&c, d, kinds);
    *asked = c.asked;
    return c.tokens / c.ms * d->plain;
}

static void test_a_good_drafter_wins_where_rows_are_cheap(void **state)
{
    const struct device memory_bound = {10, 0.5, 1, 0, 0}, fair = {10, 3, 1, 0, 0},
                        dear = {10, 7, 1, 0, 0};
    int asked;
    assert_true(gain(&memory_bound, good, &asked) > 1.8);
    assert_true(gain(&fair, good, &asked) > 1.25);
    assert_true(gain(&dear, good, &asked) > 0.985);
}

static void test_nothing_is_lost_where_nothing_can_be_won(void **state)
{
    static const struct device devices[] = {{10, 0.5, 1, 0, 0},
                                            {10, 3, 2, 0, 0},
                                            {10, 7, 1, 0, 0},
                                            {10, 10, 0.5, 0, 0},
                                            {10, 5, 9, 0, 0}};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        int asked;
        const double g = gain(&devices[i], bad, &asked);
        if (g < 0.98)
            fail_msg("device %zu: %.3f, asked %d times", i, g, asked);
    }
}

/* As beside a foreign process: threads that slept meanwhile get their processor late. */
static void test_steps_that_drafts_make_late_are_given_up(void **state)
{
    const struct device d = {10, 3, 1, 0.3, 0};
    int asked;
    const double g = gain(&d, good, &asked);
    if (g < 0.97)
        fail_msg("%.3f, asked %d times", g, asked);
}

static void test_stalls_that_meet_every_step_are_no_fault_of_drafts(void **state)
{
    const struct device d = {10, 3, 1, 0, 0.15};
    int asked;
    const double g = gain(&d, good, &asked) / gain(&d, bad, &asked);
    if (g < 1.6)
        fail_msg("%.3f", g);
}

static void test_a_change_of_the_text_is_noticed(void **state)
{
    const struct device d = {10, 2, 1, 0, 0};
    struct course c = {0};
    for (int i = 0; i < STEPS; i++)
        step(&c, &d, bad);
    const int before = c.asked;
    for (int i = 0; i < STEPS; i++)
        step(&c, &d, good);
    assert_true(c.asked - before > STEPS / 4);
    c.asked = 0;
    for (int i = 0; i < STEPS; i++)
        step(&c, &d, bad);
    assert_true(c.asked < STEPS / 8);
}

static void test_what_must_be_read_first_counts(void **state)
{
    const struct device d = {10, 1, 1, 0, 0};
    struct course c = {0};
    for (int i = 0; i < 200; i++)
        step(&c, &d, good);
    const struct draft_price long_text = {.read = 600, .first = 1, .further = 1, .most = 16};
    assert_true(draft_worth_of(&c.habit, &c.habit, &c.costs, 1, 1000, &long_text).ms > 0);
    assert_true(draft_worth_of(&c.habit, &c.habit, &c.costs, 1, 3, &long_text).ms < 0);
}

static void test_an_unknown_drafter_is_tried_at_first(void **state)
{
    struct draft_costs c = {0};
    struct draft_habit none = {0};
    struct draft_trials t = {0};
    int32_t made = 0;
    const struct draft_price price = {.first = 1, .further = 1, .most = 16};
    for (int i = 0; i < 1000; i++) {
        draft_costs_note(&c, &(struct draft_step){.rows = 1, .tokens = 1, .ms = 10});
        assert_true(draft_worth_of(&none, &none, &c, 1, 100, &price).ms <= 0);
        made += draft_trials_take(&t, &c, 1, &price);
    }
    assert_in_range(made, 8, 20);
}

static void test_a_dear_drafter_is_tried_rarely(void **state)
{
    const struct draft_price cheap = {.first = 0.1}, dear = {.read = 15, .first = 5};
    struct draft_costs c = {0};
    struct draft_trials t = {0}, u = {0};
    int32_t n_cheap = 0, n_dear = 0;
    for (int i = 0; i < 20000; i++) {
        draft_costs_note(&c, &(struct draft_step){.rows = 1, .tokens = 1, .ms = 10});
        n_cheap += draft_trials_take(&t, &c, 1, &cheap);
        n_dear += draft_trials_take(&u, &c, 1, &dear);
    }
    assert_in_range(n_cheap, 70, 100);
    assert_in_range(n_dear, 12, 30);
}

static int32_t notes_to_trial(struct draft_costs *c, struct draft_trials *t,
                              const struct draft_price *price)
{
    for (int32_t n = 1;; n++) {
        draft_costs_note(c, &(struct draft_step){.rows = 1, .tokens = 1, .ms = 10});
        if (draft_trials_take(t, c, 1, price))
            return n;
    }
}

static void test_each_draft_that_was_worth_it_halves_the_pause(void **state)
{
    const struct draft_price price = {.first = 0.1};
    struct draft_costs c = {0};
    struct draft_trials t = {0};
    int32_t longest = 0;
    for (int i = 0; i < 20; i++)
        longest = notes_to_trial(&c, &t, &price);
    draft_trials_won(&t);
    draft_trials_won(&t);
    notes_to_trial(&c, &t, &price);
    assert_int_equal(notes_to_trial(&c, &t, &price), longest / 2);
    for (int i = 0; i < 20; i++)
        draft_trials_won(&t);
    notes_to_trial(&c, &t, &price);
    assert_in_range(notes_to_trial(&c, &t, &price), 2, 16);
}

static void test_looks_become_rare_where_they_find_nothing_but_do_not_end(void **state)
{
    int looks = 0, last = 0, beside = 0;
    for (int idle = 0; idle < 1000; idle++) {
        const bool due = draft_look_due(idle, 1);
        assert_true(due || idle >= 16);
        assert_true(draft_look_due(idle, 1) || !draft_look_due(idle, 4));
        assert_true(idle >= 4 || draft_look_due(idle, 4));
        beside += idle < 16 && draft_look_due(idle, 4);
        assert_true(due || idle - last < 8);
        last = due ? idle : last;
        looks += due && idle >= 200;
    }
    assert_int_equal(looks, 100);
    assert_int_equal(beside, 8); /* 5 of the first, 2 of the next five, 1 of the next six */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_good_drafter_wins_where_rows_are_cheap),
        cmocka_unit_test(test_nothing_is_lost_where_nothing_can_be_won),
        cmocka_unit_test(test_steps_that_drafts_make_late_are_given_up),
        cmocka_unit_test(test_stalls_that_meet_every_step_are_no_fault_of_drafts),
        cmocka_unit_test(test_a_change_of_the_text_is_noticed),
        cmocka_unit_test(test_what_must_be_read_first_counts),
        cmocka_unit_test(test_an_unknown_drafter_is_tried_at_first),
        cmocka_unit_test(test_a_dear_drafter_is_tried_rarely),
        cmocka_unit_test(test_each_draft_that_was_worth_it_halves_the_pause),
        cmocka_unit_test(test_looks_become_rare_where_they_find_nothing_but_do_not_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
