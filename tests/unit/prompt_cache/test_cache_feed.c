/* The cache feed from the recorder's client to a store of records in memory, over the real server
 * and its socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/cache/disk/record_feed.h"
#include "engine/sched/server.h"
#include "engine/base/clock.h"
#include "tests/unit/support/patience.h"

#define MANY 10000 /* references: more than one frame takes */

struct rig {
    char dir[64], socket[96];
    struct inbox inbox;
    struct status_writer *status;
    struct record_feed *feed;
    struct server *server;
    pthread_t thread;
    int32_t reconciled; /* rows since the last RECONCILE_BEGIN */
};

static void wake_server(void *context)
{
    server_wake(context);
}

static void answer(struct rig *g, const struct record_request *r)
{
    struct cache_event ev = {0};
    for (int32_t i = 0; r->type == RECORD_FORGET && i < r->n; i++) {
        ev =
            (struct cache_event){CACHE_FORGOTTEN, .key = r->refs[i].key, .place = r->refs[i].place};
        assert_true(record_feed_put(g->feed, &ev));
    }
    if (r->type == RECORD_RECONCILE_BEGIN)
        g->reconciled = 0;
    if (r->type == RECORD_RECONCILE)
        g->reconciled += r->n;
    if (r->type == RECORD_RECONCILE_END) {
        ev.type = CACHE_RECONCILED;
        ev.place.offset = (uint64_t)g->reconciled;
        assert_true(record_feed_put(g->feed, &ev));
    }
}

static void take_requests(void *context)
{
    struct rig *g = context;
    struct record_request *r;
    while ((r = record_feed_take(g->feed))) {
        answer(g, r);
        free(r);
    }
}

static void *run(void *context)
{
    server_run(context);
    return NULL;
}

static void begin(struct rig *g, bool with_feed)
{
    struct err e = {0};
    char status[96];
    *g = (struct rig){.dir = "/tmp/sluice-feed-XXXXXX"};
    assert_non_null(mkdtemp(g->dir));
    snprintf(g->socket, sizeof g->socket, "%s/engine.sock", g->dir);
    snprintf(status, sizeof status, "%s/status", g->dir);
    inbox_init(&g->inbox);
    g->status = status_create(status, &e);
    g->feed = with_feed ? record_feed_create(&e) : NULL;
    g->server = server_open(&(struct server_params){.socket_path = g->socket,
                                                    .group = (gid_t)-1,
                                                    .inbox = &g->inbox,
                                                    .status = g->status,
                                                    .feed = g->feed},
                            &e);
    assert_non_null(g->server);
    if (g->feed) {
        record_feed_on_events(g->feed, wake_server, g->server);
        record_feed_on_requests(g->feed, take_requests, g);
    }
    assert_int_equal(pthread_create(&g->thread, NULL, run, g->server), 0);
}

static void end(struct rig *g)
{
    char status[96];
    server_quit(g->server, 0);
    pthread_join(g->thread, NULL);
    server_close(&g->server);
    record_feed_destroy(&g->feed);
    status_close(&g->status);
    inbox_fini(&g->inbox);
    snprintf(status, sizeof status, "%s/status", g->dir);
    unlink(status);
    rmdir(g->dir);
}

static void put_stored(struct rig *g, int32_t i)
{
    struct cache_event ev = {.type = CACHE_STORED,
                             .key = {{(unsigned char)i, (unsigned char)(i >> 8)}},
                             .place = {3, 8192, (uint64_t)i << 32},
                             .parent = {{7}},
                             .end = 32 * (i + 1),
                             .state_bytes = 512,
                             .identity = 0x1122334455667788u,
                             .user = 9,
                             .owner = "conversation-1",
                             .keep_seconds = -1,
                             .forgets_seen = 1764000000123,
                             .compute_ms = 1.5};
    assert_true(record_feed_put(g->feed, &ev));
}

static struct cache_event next(struct cache_feed *f)
{
    struct cache_event ev;
    struct err e = {0};
    if (cache_feed_next(f, &ev, 10000, &e) != 1)
        fail_msg("no event: %s", e.text);
    return ev;
}

static struct cache_feed *follow(struct rig *g)
{
    struct err e = {0};
    struct cache_feed *f = cache_feed_open(g->socket, &e);
    if (!f)
        fail_msg("%s", e.text);
    return f;
}

static void refused(struct rig *g, enum err_code code)
{
    struct err e = {0};
    assert_null(cache_feed_open(g->socket, &e));
    assert_int_equal(e.code, code);
}

static void test_following_is_refused_while_loading_and_without_a_store(void **state)
{
    struct rig g;
    struct err why = {0};
    begin(&g, true);
    refused(&g, ERR_UNAVAILABLE);
    err_set(&why, ERR_UNSUPPORTED, "off");
    record_feed_close(g.feed, &why);
    refused(&g, ERR_UNSUPPORTED);
    record_feed_open(g.feed);
    struct cache_feed *f = follow(&g);
    cache_feed_close(&f);
    end(&g);
    begin(&g, false);
    refused(&g, ERR_UNSUPPORTED);
    end(&g);
}

static void test_an_event_arrives_whole_and_again_until_acknowledged(void **state)
{
    struct rig g;
    struct cache_event ev;
    struct err e = {0};
    begin(&g, true);
    record_feed_open(g.feed);
    put_stored(&g, 0); /* before anyone follows */
    struct cache_feed *f = follow(&g);
    ev = next(f);
    assert_int_equal(ev.type, CACHE_STORED);
    assert_int_equal(ev.parent.bytes[0], 7);
    assert_true(ev.place.segment == 3 && ev.place.bytes == 8192 && ev.place.offset == 0);
    assert_true(ev.end == 32 && ev.state_bytes == 512 && ev.identity == 0x1122334455667788u);
    assert_true(ev.user == 9 && ev.keep_seconds == -1 && ev.compute_ms == 1.5);
    assert_string_equal(ev.owner, "conversation-1");
    assert_int_equal(ev.forgets_seen, 1764000000123);
    assert_int_equal(cache_feed_next(f, &ev, 0, &e), 0);
    put_stored(&g, 1); /* while it follows */
    assert_int_equal(next(f).end, 64);
    cache_feed_close(&f); /* as if killed before it had committed */
    f = follow(&g);
    assert_int_equal(next(f).end, 32);
    assert_true(cache_feed_acknowledge(f, &e));
    put_stored(&g, 2);
    assert_int_equal(next(f).end, 64);
    assert_int_equal(next(f).end, 96);
    cache_feed_close(&f);
    f = follow(&g);
    assert_int_equal(next(f).end, 64); /* the first was acknowledged */
    cache_feed_close(&f);
    end(&g);
}

static void test_a_newer_follower_replaces_the_one_there_is(void **state)
{
    struct rig g;
    struct cache_event ev;
    struct err e = {0};
    begin(&g, true);
    record_feed_open(g.feed);
    struct cache_feed *old = follow(&g), *new = follow(&g);
    assert_int_equal(cache_feed_next(old, &ev, 10000, &e), -1);
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    put_stored(&g, 0);
    assert_int_equal(next(new).end, 32);
    cache_feed_close(&old);
    cache_feed_close(&new);
    end(&g);
}

static void test_each_reference_is_answered_however_many_there_are(void **state)
{
    struct rig g;
    struct err e = {0};
    struct stored_ref *refs = calloc(MANY, sizeof *refs);
    begin(&g, true);
    record_feed_open(g.feed);
    struct cache_feed *f = follow(&g);
    for (int32_t i = 0; i < MANY; i++) {
        memcpy(refs[i].key.bytes, &i, sizeof i);
        refs[i].place = (struct stored_place){1, 4096, (uint64_t)i * 4096};
    }
    assert_true(cache_feed_forget(f, refs, MANY, &e));
    for (int32_t i = 0; i < MANY; i++) {
        struct cache_event ev = next(f);
        assert_int_equal(ev.type, CACHE_FORGOTTEN);
        assert_memory_equal(&ev.key, &refs[i].key, sizeof ev.key);
        assert_int_equal(ev.place.offset, refs[i].place.offset);
    }
    assert_true(cache_feed_acknowledge(f, &e));
    assert_true(cache_feed_reconcile_begin(f, &e));
    assert_true(cache_feed_reconcile(f, refs, MANY, &e));
    assert_true(cache_feed_reconcile(f, refs, 1, &e));
    assert_true(cache_feed_reconcile_end(f, &e));
    struct cache_event ev = next(f);
    assert_int_equal(ev.type, CACHE_RECONCILED);
    assert_int_equal(ev.place.offset, MANY + 1);
    cache_feed_close(&f);
    free(refs);
    end(&g);
}

static void test_a_feed_that_nobody_reads_is_full_and_loses_nothing(void **state)
{
    struct err e = {0};
    struct rig g;
    begin(&g, true);
    record_feed_open(g.feed);
    int32_t n = 0;
    for (; !record_feed_full(g.feed); n++)
        put_stored(&g, n);
    assert_in_range(n, 1000, 100000);
    struct cache_feed *f = follow(&g);
    for (int32_t i = 0; i < n; i++)
        assert_int_equal(next(f).end, 32 * (i + 1));
    assert_true(record_feed_full(g.feed));
    assert_true(cache_feed_acknowledge(f, &e));
    for (double end = clock_ms() + PATIENCE_MS; record_feed_full(g.feed) && clock_ms() < end;)
        usleep(10000);
    assert_false(record_feed_full(g.feed));
    cache_feed_close(&f);
    end(&g);
}

static void test_keys_depend_on_everything_before_a_block(void **state)
{
    struct prompt_key a, b;
    int32_t tokens[ENGINE_STORED_TOKENS] = {1, 2, 3};
    /* Keys are in rows and files: they must not change. */
    const unsigned char known[ENGINE_PROMPT_KEY_BYTES] = {0x76, 0xda, 0x8e, 0x7e, 0x74, 0x74,
                                                          0xd2, 0xbf, 0x73, 0x1e, 0xdc, 0x05,
                                                          0x72, 0xc2, 0xe8, 0xfb};
    prompt_key_begin(&a, 0x0123456789abcdefu, "user:42", 0);
    prompt_key_next(&a, NULL, tokens);
    assert_memory_equal(a.bytes, known, sizeof known);
    prompt_key_begin(&b, 0x0123456789abcdefu, "user:43", 0);
    prompt_key_next(&b, NULL, tokens);
    assert_memory_not_equal(&a, &b, sizeof a);
    prompt_key_begin(&b, 0x0123456789abcdeeu, "user:42", 0);
    prompt_key_next(&b, NULL, tokens);
    assert_memory_not_equal(&a, &b, sizeof a);
    prompt_key_begin(&b, 0x0123456789abcdefu, "user:42", 4);
    prompt_key_next(&b, NULL, tokens);
    assert_memory_not_equal(&a, &b, sizeof a);
    b = a;
    prompt_key_next(&a, NULL, tokens);
    tokens[31] = 1;
    prompt_key_next(&b, NULL, tokens);
    assert_memory_not_equal(&a, &b, sizeof a);
}

/* Else whoever sees two keys could try what stands between them. */
static void test_keys_of_sealed_blocks_need_the_users_key(void **state)
{
    struct prompt_key before, plain, sealed, other;
    struct prompt_seal seal = {.key = {1, 2, 3}};
    const int32_t tokens[ENGINE_STORED_TOKENS] = {1, 2, 3};
    prompt_key_begin(&before, 0x0123456789abcdefu, "user:42", 0);
    plain = sealed = other = before;
    prompt_key_next(&plain, NULL, tokens);
    prompt_key_next(&sealed, &seal, tokens);
    assert_memory_equal(&plain, &sealed, sizeof plain); /* the seal is off */
    seal.on = true;
    sealed = before;
    prompt_key_next(&sealed, &seal, tokens);
    assert_memory_not_equal(&plain, &sealed, sizeof plain);
    seal.key[31] = 1;
    prompt_key_next(&other, &seal, tokens);
    assert_memory_not_equal(&sealed, &other, sizeof sealed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_following_is_refused_while_loading_and_without_a_store),
        cmocka_unit_test(test_an_event_arrives_whole_and_again_until_acknowledged),
        cmocka_unit_test(test_a_newer_follower_replaces_the_one_there_is),
        cmocka_unit_test(test_each_reference_is_answered_however_many_there_are),
        cmocka_unit_test(test_a_feed_that_nobody_reads_is_full_and_loses_nothing),
        cmocka_unit_test(test_keys_depend_on_everything_before_a_block),
        cmocka_unit_test(test_keys_of_sealed_blocks_need_the_users_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
