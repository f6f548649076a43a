/* Blocks: each is in exactly one state, and idle ones go least recently used first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "engine/cache/block_pool.h"

static int32_t evicted[64], n_evicted;

static void note(void *context, int32_t block)
{
    evicted[n_evicted++] = block;
}

static struct block_pool *make(int32_t n)
{
    struct err e = {0};
    n_evicted = 0;
    struct block_pool *p = block_pool_create(n, note, NULL, &e);
    assert_non_null(p);
    return p;
}

static void test_every_block_is_given_once(void **state)
{
    struct block_pool *p = make(8);
    bool seen[8] = {false};
    for (int i = 0; i < 8; i++) {
        int32_t b = block_pool_take(p);
        assert_true(b >= 0 && b < 8 && !seen[b]);
        seen[b] = true;
    }
    assert_int_equal(block_pool_take(p), -1);
    assert_int_equal(block_pool_counts(p).used, 8);
    for (int32_t i = 0; i < 8; i++)
        block_pool_give(p, i);
    assert_int_equal(block_pool_counts(p).free, 8);
    block_pool_destroy(&p);
}

static void test_shared_block_returns_with_its_last_user(void **state)
{
    struct block_pool *p = make(2);
    int32_t b = block_pool_take(p);
    block_pool_share(p, b);
    block_pool_give(p, b);
    assert_int_equal(block_pool_counts(p).used, 1);
    block_pool_give(p, b);
    assert_int_equal(block_pool_counts(p).free, 2);
    block_pool_destroy(&p);
}

static void test_idle_blocks_are_evicted_oldest_first(void **state)
{
    struct block_pool *p = make(3);
    int32_t b[3];
    for (int i = 0; i < 3; i++) {
        b[i] = block_pool_take(p);
        block_pool_keep(p, b[i]);
    }
    block_pool_give(p, b[1]);
    block_pool_give(p, b[0]);
    block_pool_give(p, b[2]);
    assert_int_equal(block_pool_counts(p).idle, 3);
    block_pool_share(p, b[1]); /* used again: now the youngest */
    block_pool_give(p, b[1]);
    assert_int_equal(block_pool_take(p), b[0]);
    assert_int_equal(block_pool_take(p), b[2]);
    assert_int_equal(block_pool_take(p), b[1]);
    assert_int_equal(n_evicted, 3);
    assert_int_equal(evicted[0], b[0]);
    block_pool_give(p, b[0]); /* evicted: no longer kept */
    assert_int_equal(block_pool_counts(p).free, 1);
    block_pool_destroy(&p);
}

static void test_free_blocks_are_taken_before_idle_ones(void **state)
{
    struct block_pool *p = make(2);
    int32_t b = block_pool_take(p);
    block_pool_keep(p, b);
    block_pool_give(p, b);
    assert_true(block_pool_take(p) != b);
    assert_int_equal(n_evicted, 0);
    assert_int_equal(block_pool_take(p), b);
    assert_int_equal(n_evicted, 1);
    block_pool_destroy(&p);
}

static void test_counts_stay_true_under_random_use(void **state)
{
    enum { BLOCKS = 16 };
    struct block_pool *p = make(BLOCKS);
    int references[BLOCKS] = {0};
    unsigned seed = 7;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1103515245u + 12345;
        int32_t b = (int32_t)(seed >> 16) % BLOCKS;
        n_evicted = 0;
        if (seed >> 30 == 0) {
            int32_t taken = block_pool_take(p);
            if (taken >= 0) {
                assert_int_equal(references[taken], 0);
                references[taken] = 1;
            }
        } else if (references[b]) {
            if (seed >> 30 == 1)
                block_pool_keep(p, b);
            if (seed >> 30 == 2) {
                block_pool_share(p, b);
                references[b]++;
            } else {
                block_pool_give(p, b);
                references[b]--;
            }
        }
        int used = 0;
        for (int k = 0; k < BLOCKS; k++)
            used += references[k] > 0;
        struct block_counts c = block_pool_counts(p);
        assert_int_equal(c.used, used);
        assert_int_equal(c.used + c.idle + c.free, BLOCKS);
    }
    block_pool_destroy(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_block_is_given_once),
        cmocka_unit_test(test_shared_block_returns_with_its_last_user),
        cmocka_unit_test(test_idle_blocks_are_evicted_oldest_first),
        cmocka_unit_test(test_free_blocks_are_taken_before_idle_ones),
        cmocka_unit_test(test_counts_stay_true_under_random_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
