/* The disk's probe over a reader that is as slow, or as broken, as a test wants it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/experts/disk_probe.h"
#include "engine/experts/io/expert_reader.h"

#define RECORD_BYTES ((uint32_t)40 << 20) /* one at a time in the probe's memory */

struct expert_reader {
    struct expert_job *job; /* the only one */
    uint64_t bytes;
};

static uint64_t pause_us; /* of each read */
static bool broken;

struct expert_reader *expert_reader_open(const struct expert_reader_params *p, struct err *e)
{
    return calloc(1, sizeof(struct expert_reader));
}

void expert_reader_close(struct expert_reader **r)
{
    free(*r);
    *r = NULL;
}

const char *expert_reader_method(const struct expert_reader *r)
{
    return "a test";
}

void expert_reader_add(struct expert_reader *r, struct expert_job *job, bool urgent)
{
    assert_null(r->job);
    r->job = job;
}

void expert_reader_make_urgent(struct expert_reader *r, struct expert_job *job)
{
}

bool expert_reader_cancel(struct expert_reader *r, struct expert_job *job)
{
    return false;
}

struct expert_job *expert_reader_take(struct expert_reader *r, bool wait, bool *head)
{
    struct expert_job *job = r->job;
    r->job = NULL;
    if (!job)
        return NULL;
    clock_sleep_us(pause_us);
    if (broken) {
        job->failed = true;
        err_set(&job->err, ERR_IO, "a broken disk");
    }
    r->bytes += RECORD_BYTES;
    return job;
}

void expert_reader_counters(const struct expert_reader *r, struct expert_reader_counters *c)
{
    *c = (struct expert_reader_counters){.bytes = r->bytes};
}

static struct disk_speed probe(struct err *e)
{
    struct expert_record record = {0};
    struct expert_layer layer = {.records = &record, .n_expert = 1};
    const struct expert_layout l = {.layers = &layer,
                                    .n_layers = 1,
                                    .record_bytes_max = RECORD_BYTES,
                                    .expert_bytes = RECORD_BYTES};
    return disk_probe(&l, 1, e);
}

/* There is a rate, and it is not above what came. */
static void check_rate(uint64_t us_each)
{
    struct err e = {0};
    pause_us = us_each;
    broken = false;
    const struct disk_speed speed = probe(&e);
    assert_string_equal(e.text, "");
    assert_true(speed.bytes_per_s > 0);
    assert_true(speed.bytes_per_s <= RECORD_BYTES / ((double)us_each / 1e6));
    assert_true(speed.depth > 0);
}

/* Slower than the whole probe wants to last: its rate is what the one read took, not none. */
static void test_a_disk_slower_than_the_probe_has_a_rate(void **state)
{
    check_rate(260000);
}

static void test_a_rate_is_not_above_what_came(void **state)
{
    check_rate(5000);
}

static void test_a_broken_disk_says_so(void **state)
{
    struct err e = {0};
    pause_us = 0;
    broken = true;
    assert_true(probe(&e).bytes_per_s == 0);
    assert_string_equal(e.text, "a broken disk");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_disk_slower_than_the_probe_has_a_rate),
        cmocka_unit_test(test_a_rate_is_not_above_what_came),
        cmocka_unit_test(test_a_broken_disk_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
