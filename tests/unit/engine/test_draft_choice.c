/* The choice of how much to draft, over devices whose step times are scripted: it wins where there
 * is something to win, and never loses more than a little. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "engine/sched/policy/draft_choice.h"

#define STEPS 4000

struct device {         /* milliseconds of a step */
    double first, each; /* one row; each more */
};

struct texts {
    double right; /* share of drafted tokens that come true, if those before them did */
    int32_t n;    /* drafted tokens that are on offer in each step */
    int32_t jobs;
    enum draft_ground ground;
};

static unsigned seed;

static double chance(void)
{
    seed = seed * 1103515245u + 12345;
    return (seed >> 8) / (double)(1u << 24);
}

static double time_of(const struct device *d, int32_t rows)
{
    return d->first + d->each * (rows - 1);
}

/* Steps of one answer without drafts. */
static void note_plain(struct draft_costs *c, int n, double ms)
{
    for (int i = 0; i < n; i++)
        draft_costs_note(c, &(struct draft_step){.rows = 1, .tokens = 1, .ms = ms});
}

struct sum {
    double ms, tokens, drafted;
};

static struct draft_habit all;

/* Plays one phase. A drafted token that is not verified is compared all the same, as the scheduler
 * does. */
static struct sum play(struct draft_costs *costs, struct draft_habit *habits,
                       const struct device *device, const struct texts *t, int steps)
{
    struct sum sum = {0};
    for (int k = 0; k < steps; k++) {
        struct draft_offer offers[16] = {{0}};
        struct draft_step step = {.rows = t->jobs};
        for (int32_t i = 0; i < t->jobs; i++) {
            offers[i].n = t->n;
            for (int32_t d = 0; d < t->n; d++)
                offers[i].share[d] = draft_habit_share(&habits[i], &all, t->ground);
        }
        draft_choice_make(costs, t->jobs, offers, t->jobs, DRAFT_ROWS_MAX);
        for (int32_t i = 0; i < t->jobs; i++) {
            step.drafted += offers[i].taken;
            step.tokens++;
            for (int32_t d = 0; d < t->n; d++) {
                bool right = chance() < t->right;
                draft_habit_note(&habits[i], t->ground, right);
                draft_habit_note(&all, t->ground, right);
                if (!right || d >= offers[i].taken)
                    break;
                step.tokens++;
            }
        }
        step.ms = time_of(device, t->jobs + step.drafted) * (0.95 + 0.1 * chance());
        draft_costs_note(costs, &step);
        sum.ms += step.ms;
        sum.tokens += step.tokens;
        sum.drafted += step.drafted;
    }
    return sum;
}

/* Tokens per millisecond over those of plain steps. */
static double gain(const struct sum *s, const struct device *d, const struct texts *t)
{
    return s->tokens / s->ms * time_of(d, t->jobs) / t->jobs;
}

static double play_anew(const struct device *d, const struct texts *t)
{
    struct draft_costs costs = {0};
    struct draft_habit habits[16] = {0};
    all = (struct draft_habit){0};
    struct sum s = play(&costs, habits, d, t, STEPS);
    return gain(&s, d, t);
}

static void test_text_that_repeats_wins_what_it_can(void **state)
{
    const struct device cheap = {10, 1}, dear = {10, 6};
    const struct texts sure = {.right = 0.95, .n = 16, .jobs = 1, .ground = DRAFT_MATCH_20};
    /* 16 rows more cost 26 ms and give 11.6 tokens; 6 ms a row still leave a third */
    assert_true(play_anew(&cheap, &sure) > 4.0);
    assert_true(play_anew(&dear, &sure) > 1.2);
}

static void test_the_worst_case_costs_next_to_nothing(void **state)
{
    static const struct device devices[] = {{10, 0.5}, {10, 5}, {10, 10}, {10, 30}};
    static const double rights[] = {0, 0.02, 0.2, 0.5};
    for (size_t d = 0; d < 4; d++)
        for (size_t r = 0; r < 4; r++)
            for (int32_t jobs = 1; jobs <= 16; jobs *= 4) {
                const struct texts t = {.right = rights[r], .n = 16, .jobs = jobs};
                double g = play_anew(&devices[d], &t);
                if (g < 0.984)
                    fail_msg("device %zu, right %.2f, %d jobs: %.4f", d, rights[r], jobs, g);
            }
}

/* A grammar whose drafts take a tenth of a step, and of which none is verified. */
static void test_drafts_that_are_made_anyway_do_not_keep_others_out(void **state)
{
    struct draft_costs costs = {0};
    for (int k = 0; k < 200; k++)
        draft_costs_note(&costs,
                         &(struct draft_step){.rows = 1, .tokens = 1, .ms = 10, .free_ms = 1});
    assert_true(draft_costs_may_try(&costs, 1));
    const double before = costs.balance;
    draft_costs_note(
        &costs, &(struct draft_step){.rows = 1, .drafted = 1, .tokens = 2, .ms = 18, .free_ms = 4});
    assert_true(costs.balance < before); /* 20 ms for 22 */
}

static void test_a_plain_step_that_was_disturbed_pays_for_no_more_tries(void **state)
{
    struct draft_costs costs = {0};
    for (int k = 0; k < 20; k++)
        draft_costs_note(&costs, &(struct draft_step){.rows = 1, .tokens = 1, .ms = 10});
    const double before = costs.balance;
    draft_costs_note(&costs, &(struct draft_step){.rows = 1, .tokens = 1, .ms = 60000});
    assert_true(costs.balance - before < 0.01); /* as one of 15 ms */
}

/* As on a GPU, which compiles and records a step of a new size. */
static void test_the_first_step_of_a_size_says_little_of_the_next(void **state)
{
    struct draft_costs costs = {0};
    for (int k = 0; k < 20; k++)
        draft_costs_note(&costs, &(struct draft_step){.rows = 1, .tokens = 1, .ms = 10});
    draft_costs_note(&costs, &(struct draft_step){.rows = 1, .drafted = 3, .tokens = 1, .ms = 999});
    assert_true(draft_costs_may_try(&costs, 1));
    assert_true(draft_costs_ms(&costs, 1, 3) < 15);
    draft_costs_note(&costs, &(struct draft_step){.rows = 1, .drafted = 2, .tokens = 1, .ms = 40});
    draft_costs_note(&costs, &(struct draft_step){.rows = 1, .drafted = 2, .tokens = 3, .ms = 12});
    assert_true(draft_costs_ms(&costs, 1, 2) < 15);
}

static double plain_after(double first, double then, int n)
{
    struct draft_costs costs = {0};
    draft_costs_note(&costs, &(struct draft_step){.rows = 5, .tokens = 5, .ms = first});
    for (int k = 0; k < n; k++)
        draft_costs_note(&costs, &(struct draft_step){.rows = 5, .tokens = 5, .ms = then});
    return draft_costs_ms(&costs, 5, 0);
}

/* Each number of answers has a first step, which must not make what follows look cheap. */
static void test_the_first_plain_step_says_little_of_the_next(void **state)
{
    assert_true(plain_after(999, 10, 3) < 11);
    assert_true(plain_after(12, 10, 3) > 10);
}

static void test_a_time_of_long_ago_does_not_hold_back_what_is_measured_now(void **state)
{
    struct draft_costs costs = {0};
    draft_costs_note(&costs, &(struct draft_step){.rows = 1, .tokens = 1, .ms = 10});
    for (int k = 0; k < 1100; k++)
        draft_costs_note(&costs, &(struct draft_step){.rows = 2, .tokens = 2, .ms = 50});
    draft_costs_note(&costs, &(struct draft_step){.rows = 1, .tokens = 1, .ms = 40});
    assert_true(draft_costs_ms(&costs, 1, 0) > 39);
}

static void test_a_full_step_is_not_filled_with_drafts(void **state)
{
    const struct device busy = {10, 10}; /* each row costs a whole one: nothing is to be won */
    struct draft_costs costs = {0};
    struct draft_habit habits[16] = {0};
    const struct texts t = {.right = 0.9, .n = 16, .jobs = 8, .ground = DRAFT_MATCH_10};
    all = (struct draft_habit){0};
    struct sum s = play(&costs, habits, &busy, &t, STEPS);
    assert_true(s.drafted < 0.02 * STEPS * 8);
}

/* Sixteen begin together and end one after the other: a step of fewer is no cheap step of more. */
static void test_answers_that_end_make_drafts_look_no_cheaper(void **state)
{
    const struct device busy = {10, 9};
    struct draft_costs costs = {0};
    struct draft_habit habits[16] = {0};
    double ms = 0, plain = 0, drafted = 0;
    all = (struct draft_habit){0};
    for (int turn = 0; turn < 60; turn++)
        for (int32_t jobs = 16; jobs > 8; jobs--) {
            const struct texts t = {.right = 0.85, .n = 8, .jobs = jobs, .ground = DRAFT_MATCH_6};
            const struct sum s = play(&costs, habits, &busy, &t, 6);
            ms += s.ms;
            plain += s.tokens / jobs * time_of(&busy, jobs);
            drafted += s.drafted;
        }
    if (plain / ms < 0.99)
        fail_msg("%.3f, %.0f drafted", plain / ms, drafted);
}

static void test_a_change_of_the_text_changes_the_choice(void **state)
{
    const struct device device = {10, 2};
    const struct texts good = {.right = 0.95, .n = 16, .jobs = 1, .ground = DRAFT_MATCH_6};
    const struct texts bad = {.right = 0.02, .n = 16, .jobs = 1, .ground = DRAFT_MATCH_6};
    struct draft_costs costs = {0};
    struct draft_habit habit = {0};
    all = (struct draft_habit){0};
    play(&costs, &habit, &device, &good, 1000);
    struct sum turn = play(&costs, &habit, &device, &bad, 40); /* forty tokens */
    assert_true(turn.drafted > 0);
    struct sum after = play(&costs, &habit, &device, &bad, 200);
    assert_true(after.drafted < 20);
    play(&costs, &habit, &device, &good, 40);
    struct sum again = play(&costs, &habit, &device, &good, 200);
    assert_true(gain(&again, &device, &good) > 2);
}

static void test_a_job_is_not_slowed_by_what_another_guesses(void **state)
{
    /* one job's drafts are sure, the other's are wrong: only the first gets rows */
    struct draft_costs costs = {0};
    for (int i = 0; i < 10; i++)
        draft_costs_note(&costs, &(struct draft_step){.rows = 2, .tokens = 2, .ms = 10});
    struct draft_offer offers[2] = {{.n = 3, .share = {0.95, 0.95, 0.95}},
                                    {.n = 3, .share = {0.01, 0.01, 0.01}}};
    draft_choice_make(&costs, 2, offers, 2, DRAFT_ROWS_MAX);
    assert_int_equal(offers[0].taken, 3);
    assert_int_equal(offers[1].taken, 0);
}

static void test_nothing_is_drafted_before_a_plain_step_was_timed(void **state)
{
    struct draft_costs costs = {0};
    struct draft_offer sure = {.n = 2, .share = {1, 1}};
    for (int i = 0; i < 3; i++) {
        draft_choice_make(&costs, 1, &sure, 1, DRAFT_ROWS_MAX);
        assert_int_equal(sure.taken, 0);
        draft_costs_note(&costs, &(struct draft_step){.rows = 1, .tokens = 1, .ms = 5});
    }
    draft_choice_make(&costs, 1, &sure, 1, DRAFT_ROWS_MAX);
    assert_int_equal(sure.taken, 2);
    draft_choice_make(&costs, 1, &sure, 1, 1);
    assert_int_equal(sure.taken, 1);
}

/* Alone among steps with drafts it takes longer than where plain steps follow each other. */
static void test_a_plain_step_alone_says_little_of_plain_steps(void **state)
{
    struct draft_costs costs = {0};
    note_plain(&costs, 20, 1);
    for (int i = 0; i < 20; i++) {
        draft_costs_note(&costs,
                         &(struct draft_step){.rows = 1, .drafted = 4, .tokens = 5, .ms = 3});
        draft_costs_note(&costs, &(struct draft_step){.rows = 1, .tokens = 1, .ms = 1.4});
    }
    assert_true(draft_costs_ms(&costs, 1, 0) < 1.01);
    note_plain(&costs, 40, 1.4);
    assert_true(draft_costs_ms(&costs, 1, 0) > 1.35);
}

static void test_a_plain_step_after_one_of_many_answers_is_not_alone(void **state)
{
    struct draft_costs costs = {0};
    note_plain(&costs, 20, 1);
    for (int i = 0; i < 40; i++) {
        draft_costs_note(&costs,
                         &(struct draft_step){.rows = 1, .drafted = 4, .tokens = 5, .ms = 3});
        draft_costs_note(&costs, &(struct draft_step){.rows = DRAFT_JOBS_MAX + 1, .ms = 9});
        draft_costs_note(&costs, &(struct draft_step){.rows = 1, .tokens = 1, .ms = 1.4});
    }
    assert_true(draft_costs_ms(&costs, 1, 0) > 1.35);
}

/* Others had the processor while a draft was made: it is no reason to make none for long. */
static void test_a_draft_whose_making_was_disturbed_closes_no_gate(void **state)
{
    struct draft_costs costs = {0};
    note_plain(&costs, 50, 1);
    assert_true(draft_costs_may_try(&costs, 1));
    struct draft_step late = {
        .rows = 1, .drafted = 1, .tokens = 2, .ms = 1.5, .draft_ms = 0.4, .draft_late_ms = 54};
    draft_costs_note(&costs, &late);
    assert_true(draft_costs_may_try(&costs, 1));
    const double once = draft_costs_ms(&costs, 1, 1);
    draft_costs_note(&costs, &late); /* but a drafter that is late each time is one, */
    assert_true(draft_costs_ms(&costs, 1, 1) > once);
    draft_costs_note(
        &costs, /* and so is one that is slow */
        &(struct draft_step){.rows = 1, .drafted = 1, .tokens = 2, .ms = 1.5, .draft_ms = 54});
    assert_false(draft_costs_may_try(&costs, 1));
}

/* What is lost beside other answers is not forgotten in the shorter steps of one alone. */
static void test_a_debt_is_kept_where_the_number_of_answers_changes(void **state)
{
    struct draft_costs costs = {0};
    int tries = 0;
    for (int i = 0; i < 3000; i++) {
        struct draft_step beside = {.rows = 4, .tokens = 4, .ms = 10};
        if (draft_costs_may_try(&costs, 4)) {
            beside.drafted = 1; /* which does not come true */
            beside.ms = 15;
            tries++;
        }
        draft_costs_note(&costs, &beside);
        draft_costs_note(&costs, &(struct draft_step){.rows = 1, .tokens = 1, .ms = 3});
    }
    assert_in_range(tries, 20, 80); /* half a step each, of 27 that were paid, and 3 */
}

static void test_what_never_fails_is_believed(void **state)
{
    struct draft_habit own = {0}, others = {0}, little = {0};
    for (int i = 0; i < 200; i++)
        draft_habit_note(&others, DRAFT_RECALL, true);
    assert_true(draft_habit_share(&own, &others, DRAFT_RECALL) > 0.99);
    for (int i = 0; i < 200; i++)
        draft_habit_note(&others, DRAFT_RECALL, false);
    assert_true(draft_habit_share(&own, &others, DRAFT_RECALL) < 0.01);
    /* and a single draft says little */
    draft_habit_note(&little, DRAFT_RECALL, true);
    assert_true(draft_habit_share(&own, &little, DRAFT_RECALL) < 0.75);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_that_repeats_wins_what_it_can),
        cmocka_unit_test(test_the_worst_case_costs_next_to_nothing),
        cmocka_unit_test(test_drafts_that_are_made_anyway_do_not_keep_others_out),
        cmocka_unit_test(test_a_plain_step_that_was_disturbed_pays_for_no_more_tries),
        cmocka_unit_test(test_the_first_step_of_a_size_says_little_of_the_next),
        cmocka_unit_test(test_the_first_plain_step_says_little_of_the_next),
        cmocka_unit_test(test_a_time_of_long_ago_does_not_hold_back_what_is_measured_now),
        cmocka_unit_test(test_a_full_step_is_not_filled_with_drafts),
        cmocka_unit_test(test_answers_that_end_make_drafts_look_no_cheaper),
        cmocka_unit_test(test_a_change_of_the_text_changes_the_choice),
        cmocka_unit_test(test_a_job_is_not_slowed_by_what_another_guesses),
        cmocka_unit_test(test_a_plain_step_alone_says_little_of_plain_steps),
        cmocka_unit_test(test_a_plain_step_after_one_of_many_answers_is_not_alone),
        cmocka_unit_test(test_a_draft_whose_making_was_disturbed_closes_no_gate),
        cmocka_unit_test(test_a_debt_is_kept_where_the_number_of_answers_changes),
        cmocka_unit_test(test_what_never_fails_is_believed),
        cmocka_unit_test(test_nothing_is_drafted_before_a_plain_step_was_timed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
