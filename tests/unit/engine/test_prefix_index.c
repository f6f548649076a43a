/* The prefix index finds what was added after the same prefix in the same scope, and nothing else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "engine/cache/prefix_index.h"

#define T BACKEND_BLOCK_TOKENS

static int32_t a[T], b[T], c[T];
static struct prefix_index *x;
static struct block_pool *pool;

static int setup(void **state)
{
    struct err e = {0};
    for (int i = 0; i < T; i++) {
        a[i] = i;
        b[i] = 1000 + i;
        c[i] = 2000 + i;
    }
    x = prefix_index_create(4, 99, &e);
    pool = x ? prefix_index_pool(x) : NULL;
    return x ? 0 : -1;
}

static int teardown(void **state)
{
    prefix_index_destroy(&x);
    return 0;
}

static int32_t variant; /* of add_chain and found */

/* A job that computed these blocks in this order; gives them back from the end. */
static void add_chain(const char *scope, const int32_t *const *parts, int n)
{
    struct prefix_chain chain;
    int32_t blocks[4];
    prefix_chain_begin(x, scope, variant, &chain);
    for (int i = 0; i < n; i++)
        blocks[i] = prefix_index_add(x, &chain, parts[i], block_pool_take(pool));
    while (n)
        block_pool_give(pool, blocks[--n]);
}

/* How many of the parts are found; nothing stays referenced. */
static int found(const char *scope, const int32_t *const *parts, int n)
{
    struct prefix_chain chain;
    int32_t blocks[4];
    int k = 0;
    prefix_chain_begin(x, scope, variant, &chain);
    for (; k < n; k++)
        if ((blocks[k] = prefix_index_find(x, &chain, parts[k])) < 0)
            break;
    for (int i = k; i;)
        block_pool_give(pool, blocks[--i]);
    return k;
}

#define PARTS(...)                                                                                 \
    (const int32_t *const[])                                                                       \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void test_chain_is_found_in_order_only(void **state)
{
    add_chain("s", PARTS(a, b, c), 3);
    assert_int_equal(found("s", PARTS(a, b, c), 3), 3);
    assert_int_equal(found("s", PARTS(a, c), 2), 1);
    assert_int_equal(found("s", PARTS(b, c), 2), 0);
    assert_int_equal(found("s", PARTS(a, a), 2), 1);
}

static void test_scopes_do_not_share(void **state)
{
    add_chain("alice", PARTS(a), 1);
    assert_int_equal(found("bob", PARTS(a), 1), 0);
    assert_int_equal(found("", PARTS(a), 1), 0);
    assert_int_equal(found("alice", PARTS(a), 1), 1);
}

static void test_other_ways_of_making_it_do_not_share(void **state)
{
    add_chain("s", PARTS(a, b), 2);
    variant = 3;
    assert_int_equal(found("s", PARTS(a, b), 2), 0);
    add_chain("s", PARTS(a, b), 2);
    assert_int_equal(found("s", PARTS(a, b), 2), 2);
    variant = 2;
    assert_int_equal(found("s", PARTS(a, b), 2), 0);
    variant = 0;
    assert_int_equal(found("s", PARTS(a, b), 2), 2);
}

static void test_one_other_token_is_a_miss(void **state)
{
    int32_t other[T];
    memcpy(other, a, sizeof other);
    other[T - 1]++;
    add_chain("s", PARTS(a), 1);
    assert_int_equal(found("s", PARTS(other), 1), 0);
}

static void test_same_content_is_kept_once(void **state)
{
    struct prefix_chain one, two;
    prefix_chain_begin(x, "s", 0, &one);
    prefix_chain_begin(x, "s", 0, &two);
    int32_t mine = block_pool_take(pool), yours = block_pool_take(pool);
    assert_int_equal(prefix_index_add(x, &one, a, mine), mine);
    assert_int_equal(prefix_index_add(x, &two, a, yours), mine);
    assert_int_equal(block_pool_counts(pool).used, 1);
    assert_int_equal(one.serial, two.serial);
    block_pool_give(pool, mine);
    assert_int_equal(block_pool_counts(pool).used, 1);
    block_pool_give(pool, mine);
    assert_int_equal(block_pool_counts(pool).idle, 1);
}

static void test_end_of_a_chain_is_evicted_first(void **state)
{
    add_chain("s", PARTS(a, b, c), 3);
    block_pool_take(pool); /* the free one */
    block_pool_take(pool);
    assert_int_equal(found("s", PARTS(a, b, c), 3), 2);
    block_pool_take(pool);
    assert_int_equal(found("s", PARTS(a, b, c), 3), 1);
    block_pool_take(pool);
    assert_int_equal(found("s", PARTS(a, b, c), 3), 0);
}

static void test_block_of_a_forgotten_parent_is_not_found(void **state)
{
    struct prefix_chain chain;
    add_chain("s", PARTS(a), 1);
    prefix_chain_begin(x, "s", 0, &chain);
    int32_t block = prefix_index_find(x, &chain, a);
    block_pool_give(pool, block);
    for (int i = 0; i < 4; i++)
        block_pool_take(pool); /* a is gone; the chain stands behind it still */
    assert_int_equal(block_pool_counts(pool).idle, 0);
    block_pool_give(pool, 0);
    block = block_pool_take(pool);
    prefix_index_add(x, &chain, b, block);
    block_pool_give(pool, 1);
    add_chain("s", PARTS(a), 1); /* the same tokens again, but another entry */
    assert_int_equal(found("s", PARTS(a, b), 2), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_chain_is_found_in_order_only, setup, teardown),
        cmocka_unit_test_setup_teardown(test_scopes_do_not_share, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_ways_of_making_it_do_not_share, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_other_token_is_a_miss, setup, teardown),
        cmocka_unit_test_setup_teardown(test_same_content_is_kept_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end_of_a_chain_is_evicted_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_block_of_a_forgotten_parent_is_not_found, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
