/* Parts of prompts, over a device that is a formula: short enough beside answers, and as large as
 * the disk makes them anyway where experts are streamed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "engine/sched/policy/prefill_budget.h"

struct device {
    double row_ms;     /* computing of a row */
    double reading_ms; /* of all experts that are not in memory; 0: none are on disk */
    double share;      /* of a layer's experts that a row uses */
    int32_t answers;   /* rows that are in each step besides */
    int32_t chunk;     /* prompt rows of a step at most */
};

static struct prefill_budget_step run(const struct device *d, int32_t rows)
{
    double wanted = 1 - pow(1 - d->share, rows + d->answers);
    double reading = d->reading_ms * wanted, computing = d->row_ms * (rows + d->answers);
    double ms = fmax(reading, computing) + 1;
    return (struct prefill_budget_step){
        .ms = ms, .waited_ms = ms - computing, .reading_ms = reading, .prefill_rows = rows};
}

static int32_t next_rows(const struct prefill_budget *p, const struct device *d)
{
    int32_t rows = prefill_budget_rows(p, d->answers > 0);
    rows = rows < d->chunk ? rows : d->chunk;
    return rows > PREFILL_BUDGET_MIN_ROWS ? rows : PREFILL_BUDGET_MIN_ROWS;
}

/* Until the sizes have settled; returns the rows of a step then, *longest the longest step of all
 * but the first. */
static int32_t settle(struct prefill_budget *p, const struct device *d, double *longest)
{
    *longest = 0;
    for (int i = 0; i < 60; i++) {
        struct prefill_budget_step s = run(d, next_rows(p, d));
        prefill_budget_note(p, &s);
        if (i && s.ms > *longest)
            *longest = s.ms;
    }
    return next_rows(p, d);
}

static void test_in_memory_a_step_keeps_its_time(void **state)
{
    const struct device alone = {.row_ms = 2, .chunk = 512},
                        beside = {.row_ms = 2, .chunk = 512, .answers = 2};
    struct prefill_budget p = {0};
    double longest;
    assert_in_range(next_rows(&p, &alone), 32, 256); /* nothing is known: no long step */
    assert_in_range(settle(&p, &alone, &longest), 240, 250);
    assert_true(longest < 550);
    p = (struct prefill_budget){0};
    assert_in_range(settle(&p, &beside, &longest), 40, 50);
    assert_in_range(prefill_budget_rows(&p, false), 200, 250); /* the answers ended */
}

static void test_a_fast_device_is_bound_by_its_chunk(void **state)
{
    const struct device d = {.row_ms = 0.02, .chunk = 512, .answers = 4};
    struct prefill_budget p = {0};
    double longest;
    assert_int_equal(settle(&p, &d, &longest), 512);
}

/* Eight rows of a prompt read 40 % of what five hundred read: with the time of reading laid to the
 * rows, parts would shrink to eight rows, and 2048 tokens would read the experts a hundred times
 * over. */
static void test_streaming_does_not_shrink_the_parts(void **state)
{
    const struct device d = {
        .row_ms = 5, .reading_ms = 1200, .share = 8.0 / 256, .chunk = 2048, .answers = 8};
    struct prefill_budget p = {0};
    double longest;
    assert_in_range(settle(&p, &d, &longest), 200,
                    260); /* computes for about as long as it reads */
    assert_true(longest < 2 * 1200);
}

static void test_a_slow_disk_gets_whole_chunks(void **state)
{
    const struct device d = {
        .row_ms = 5, .reading_ms = 30000, .share = 8.0 / 256, .chunk = 2048, .answers = 8};
    struct prefill_budget p = {0};
    double longest;
    assert_int_equal(settle(&p, &d, &longest), 2048);
}

static void test_what_became_resident_is_not_read_any_more(void **state)
{
    const struct device cold = {
        .row_ms = 5, .reading_ms = 3000, .share = 0.1, .chunk = 2048, .answers = 2};
    struct device warm = cold;
    struct prefill_budget p = {0};
    double longest;
    assert_true(settle(&p, &cold, &longest) > 500);
    warm.reading_ms = 0;
    assert_in_range(settle(&p, &warm, &longest), 15, 25);
}

static void test_short_ends_of_prompts_tell_nothing(void **state)
{
    struct prefill_budget p = {0};
    prefill_budget_note(&p, &(struct prefill_budget_step){.ms = 200, .prefill_rows = 100});
    struct prefill_budget before = p;
    prefill_budget_note(&p, &(struct prefill_budget_step){.ms = 50, .prefill_rows = 1});
    prefill_budget_note(&p, &(struct prefill_budget_step){.ms = 50, .prefill_rows = 0});
    assert_memory_equal(&p, &before, sizeof p);
    prefill_budget_note(&p, &(struct prefill_budget_step){.ms = 10,
                                                          .waited_ms = 11,
                                                          .reading_ms = 10,
                                                          .prefill_rows = 32}); /* clocks differ */
    assert_true(prefill_budget_rows(&p, true) >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_memory_a_step_keeps_its_time),
        cmocka_unit_test(test_a_fast_device_is_bound_by_its_chunk),
        cmocka_unit_test(test_streaming_does_not_shrink_the_parts),
        cmocka_unit_test(test_a_slow_disk_gets_whole_chunks),
        cmocka_unit_test(test_what_became_resident_is_not_read_any_more),
        cmocka_unit_test(test_short_ends_of_prompts_tell_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
