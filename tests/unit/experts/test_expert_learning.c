/* What the expert cache learns: statistics that survive a restart, checksums, and when prefetching
 * pays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_MODULE "test"
#include "engine/base/log.h"
#include "engine/experts/cache/expert_cache.h"
#include "engine/experts/cache/expert_slots.h"
#include "engine/experts/policy/expert_history.h"
#include "tests/unit/experts/expert_cache_rig.h"
#include "tests/unit/support/expert_models.h"
#include "tests/unit/support/tiny_model.h"

/* A folder of our own with the demo's weights, and where its state is kept. */
static void make_tiny(struct tiny *t, char *state_dir, size_t size)
{
    *t = (struct tiny){.experts = TINY_STACKED};
    tiny_make(t);
    tiny_write(t, "model.safetensors", 0, 1);
    snprintf(state_dir, size, "%s-state", t->dir);
}

static void remove_tiny(struct tiny *t, const char *state_dir)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", state_dir);
    assert_int_equal(system(command), 0);
    tiny_remove(t);
}

static void test_what_was_learnt_warms_the_next_start(void **state)
{
    struct tiny t;
    struct rig r;
    char dir[128];
    const int32_t hot[] = {0, 2};
    make_tiny(&t, dir, sizeof dir);
    open_rig(&r, t.dir, (struct expert_cache_params){.budget = 1u << 20, .state_dir = dir});
    assert_int_equal(counters(&r).warm_bytes, 0);
    for (int i = 0; i < 3; i++)
        assert_true(use(&r, 0, hot, 2, false));
    close_rig(&r);
    open_rig(&r, t.dir, (struct expert_cache_params){.budget = 1u << 20, .state_dir = dir});
    assert_int_equal(counters(&r).resident_experts, 2);
    assert_int_equal(counters(&r).warm_bytes, counters(&r).disk.bytes);
    assert_true(use(&r, 0, hot, 2, false));
    assert_int_equal(counters(&r).hits, 2);
    assert_int_equal(counters(&r).misses, 0);
    close_rig(&r);
    remove_tiny(&t, dir);
}

/* Same name, size and time, other bytes: the checksum that an earlier run learnt tells. */
static void test_bytes_that_changed_behind_our_back_are_not_used(void **state)
{
    struct tiny t;
    struct rig r;
    struct stat st;
    char dir[128], path[256];
    const int32_t one = 2; /* the fingerprint looks at the middle one */
    make_tiny(&t, dir, sizeof dir);
    open_rig(&r, t.dir, (struct expert_cache_params){.budget = 1u << 20, .state_dir = dir});
    assert_true(use(&r, 0, &one, 1, false));
    const struct expert_record *record = &r.layout.layers[0].records[2];
    const struct expert_part *part = &record->parts[0];
    uint32_t plane = record->planes[EXPERT_GATE][EXPERT_DATA];
    off_t at = (off_t)(part->offset + (plane - part->at) + 3);
    for (int i = 0; i < record->n_parts; i++)
        if (plane >= record->parts[i].at && plane < record->parts[i].at + record->parts[i].length)
            at = (off_t)(record->parts[i].offset + (plane - record->parts[i].at) + 3);
    close_rig(&r);
    snprintf(path, sizeof path, "%s/model.safetensors", t.dir);
    assert_int_equal(stat(path, &st), 0);
    int fd = open(path, O_RDWR);
    uint8_t byte;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    fsync(fd);
    close(fd);
    struct timespec times[2] = {st.st_atim, st.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    open_rig(&r, t.dir, (struct expert_cache_params){.budget = 1u << 20, .state_dir = dir});
    assert_true(counters(&r).failures > 0); /* warming met it */
    memset(&e, 0, sizeof e);
    assert_false(use(&r, 0, &one, 1, false));
    assert_int_equal(e.code, ERR_IO);
    assert_non_null(strstr(e.text, "layer 0, expert 2"));
    assert_non_null(strstr(e.text, "checksum"));
    const int32_t other = 0;
    assert_true(use(&r, 0, &other, 1, false));
    close_rig(&r);
    remove_tiny(&t, dir);
}

static void test_a_damaged_history_is_passed_over(void **state)
{
    struct tiny t;
    struct rig r;
    char dir[128], command[512];
    const int32_t one = 1;
    make_tiny(&t, dir, sizeof dir);
    for (int round = 0; round < 2; round++) {
        open_rig(&r, t.dir, (struct expert_cache_params){.budget = 1u << 20, .state_dir = dir});
        assert_int_equal(counters(&r).warm_bytes, 0);
        assert_true(use(&r, 0, &one, 1, false));
        close_rig(&r);
        snprintf(command, sizeof command,
                 "for f in '%s'/experts-*; do printf x | dd of=$f bs=1 seek=%d conv=notrunc "
                 "2>/dev/null; done",
                 dir, round ? 30 : 2);
        assert_int_equal(system(command), 0);
    }
    remove_tiny(&t, dir);
}

/* One layer of a token that wants one expert, and what is guessed of the next layer meanwhile. */
static void use_and_guess(struct rig *r, int32_t k, int32_t id,
                          const struct expert_prediction *guesses, int32_t n)
{
    const struct expert_want want = {.expert = id, .rows = 1};
    int32_t out;
    expert_cache_begin(r->store,
                       &(struct expert_layer_request){
                           .layer = r->layout.layers[k].layer, .wants = &want, .n = 1, .rows = 1});
    expert_cache_prefetch(r->store, r->layout.layers[k].layer, guesses, n);
    assert_int_equal(expert_cache_take(r->store, &out, 1, true, &e), 1);
    expert_cache_give(r->store, &out, 1);
    expert_cache_end(r->store);
}

/* One token of a model that keeps wanting what was foretold, or never. */
static void foretold(struct rig *r, int rounds, bool right)
{
    int32_t n = r->layout.layers[0].n_expert;
    for (int i = 0; i < rounds; i++)
        for (int32_t k = 0; k < r->layout.n_layers; k++) {
            const struct expert_prediction next = {.expert = (i * 5 + k + 1 + !right) % n};
            use_and_guess(r, k, (i * 5 + k) % n, &next, 1);
        }
}

static void test_reading_ahead_is_counted_and_rests_when_it_does_not_pay(void **state)
{
    struct rig r;
    open_rig(&r, demo(), (struct expert_cache_params){.budget = 3000000, .no_trial = true});
    foretold(&r, 60, true);
    struct expert_counters c = counters(&r);
    assert_true(c.prefetching);
    assert_true(c.prefetch_useful_bytes > 0);
    assert_true(c.prefetch_wasted_bytes < c.prefetch_useful_bytes / 4);
    foretold(&r, 300, false);
    c = counters(&r);
    assert_false(c.prefetching);
    uint64_t wasted = c.prefetch_wasted_bytes;
    assert_true(wasted > 0);
    foretold(&r, 20, false);
    assert_int_equal(counters(&r).prefetch_wasted_bytes, wasted);
    close_rig(&r);
}

/* Two guesses a layer: the surer one comes true, the other never. Returns the bytes that were read
 * in vain. */
static uint64_t foretold_by_rank(struct rig *r, int rounds)
{
    const int32_t n = r->layout.layers[0].n_expert;
    const uint64_t before = counters(r).prefetch_wasted_bytes;
    for (int i = 0; i < rounds; i++)
        for (int32_t k = 0; k < r->layout.n_layers; k++) {
            const struct expert_prediction guesses[] = {
                {.expert = (i * 5 + k + 1) % n}, {.expert = (i * 5 + k + 12) % n, .rank = 5}};
            use_and_guess(r, k, (i * 5 + k) % n, guesses, 2);
        }
    return counters(r).prefetch_wasted_bytes - before;
}

static void test_guesses_of_a_rank_that_is_wrong_are_not_read(void **state)
{
    struct rig r;
    open_rig(&r, demo(), (struct expert_cache_params){.budget = 1000000, .no_trial = true});
    foretold_by_rank(&r, 40);
    const uint64_t useful = counters(&r).prefetch_useful_bytes;
    assert_int_equal(foretold_by_rank(&r, 40), 0);
    assert_true(counters(&r).prefetch_useful_bytes > useful);
    assert_true(counters(&r).prefetching);
    close_rig(&r);
}

/* Tokens with and without it by turns, then the quicker way: here nothing computes, so that reading
 * ahead gains nothing, and either may be chosen; but it is tried, both ways, and then one is kept.
 */
static void test_reading_ahead_is_tried_against_time(void **state)
{
    struct rig r;
    int changes = 0;
    open_rig(&r, demo(), (struct expert_cache_params){.budget = 400000});
    bool was = true;
    for (int i = 0; i < 120; i++) {
        foretold(&r, 1, true);
        bool is = counters(&r).prefetching;
        changes += is != was;
        was = is;
    }
    assert_in_range(changes, 16,
                    18); /* off and on eight times; then one way, and at last the next trial */
    close_rig(&r);
}

int main(void)
{
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_learnt_warms_the_next_start),
        cmocka_unit_test(test_bytes_that_changed_behind_our_back_are_not_used),
        cmocka_unit_test(test_a_damaged_history_is_passed_over),
        cmocka_unit_test(test_reading_ahead_is_counted_and_rests_when_it_does_not_pay),
        cmocka_unit_test(test_guesses_of_a_rank_that_is_wrong_are_not_read),
        cmocka_unit_test(test_reading_ahead_is_tried_against_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
