/* disk_rig.h: a disk cache, its records and rows. */
#include "tests/unit/prompt_cache/disk_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "tests/unit/support/patience.h"

#define CHAIN 64

void disk_rig_init(struct disk_rig *g)
{
    *g = (struct disk_rig){.dir = "/tmp/sluice-disk-XXXXXX"};
    assert_non_null(mkdtemp(g->dir));
}

void disk_rig_open(struct disk_rig *g, uint64_t budget, uint64_t identity)
{
    struct err e = {0};
    g->feed = record_feed_create(&e);
    g->read = 0;
    g->cache = disk_cache_open(&(struct disk_cache_params){.dir = g->dir,
                                                           .budget = budget,
                                                           .ram_budget = g->ram_budget,
                                                           .identity = identity,
                                                           .block_bytes = RIG_BLOCK,
                                                           .state_bytes = RIG_STATE,
                                                           .feed = g->feed},
                               &e);
    if (!g->cache)
        fail_msg("%s", e.text);
}

void disk_rig_close(struct disk_rig *g)
{
    disk_cache_close(&g->cache);
    disk_rig_read_events(g);
    record_feed_destroy(&g->feed);
}

void disk_rig_kill(struct disk_rig *g)
{
    disk_cache_close(&g->cache);
    record_feed_destroy(&g->feed);
}

void disk_rig_fini(struct disk_rig *g)
{
    char command[96];
    if (g->cache)
        disk_rig_close(g);
    snprintf(command, sizeof command, "rm -rf %s", g->dir);
    assert_int_equal(system(command), 0);
}

void disk_rig_about(int32_t i, struct record_about *about)
{
    int32_t first = i / CHAIN * CHAIN;
    *about = (struct record_about){
        .identity = RIG_IDENTITY, .block_bytes = RIG_BLOCK, .scope = "user:7"};
    prompt_key_begin(&about->key, RIG_IDENTITY, about->scope, 0);
    for (int32_t k = first; k <= i; k++) {
        for (int32_t t = 0; t < ENGINE_STORED_TOKENS; t++)
            about->tokens[t] = k * 1000 + t;
        about->parent = about->key;
        prompt_key_next(&about->key, NULL, about->tokens);
    }
    about->end = (i - first + 1) * ENGINE_STORED_TOKENS;
    about->state_bytes = disk_rig_has_state(i) ? RIG_STATE : 0;
}

bool disk_rig_has_state(int32_t i)
{
    return i % 5 == 4;
}

unsigned char disk_rig_byte(int32_t i, uint32_t at)
{
    return (unsigned char)(i * 131 + (int32_t)at * 7 + (int32_t)(at >> 8));
}

static void fill(unsigned char *to, int32_t i, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        to[k] = disk_rig_byte(i, k);
}

bool disk_rig_write(struct disk_rig *g, int32_t i)
{
    struct disk_write *w;
    struct record_about about;
    enum disk_room room;
    disk_rig_about(i, &about);
    if (!disk_cache_wants(g->cache, &about.key, about.state_bytes > 0))
        return false;
    while ((room = disk_cache_begin_write(g->cache, disk_rig_has_state(i), &w)) == DISK_WAIT)
        clock_sleep_us(100);
    if (room == DISK_NO_ROOM)
        return false;
    fill(record_block(w->record), i, RIG_BLOCK);
    if (about.state_bytes)
        fill(record_state(w->record, RIG_BLOCK), i + 1, RIG_STATE);
    about.identity = w->about.identity;
    w->about = about;
    w->user = (uint64_t)i;
    w->seal = g->seal;
    disk_cache_end_write(g->cache, w, true);
    return true;
}

/* A record's user is its number. */
static int32_t record_of(const struct disk_rig *g, const struct cache_event *ev)
{
    if (ev->type == CACHE_STORED)
        return (int32_t)ev->user;
    for (int32_t i = 0; i < RIG_ROWS; i++)
        if (g->rows[i].place.bytes && !memcmp(&g->rows[i].key, &ev->key, sizeof ev->key) &&
            !memcmp(&g->rows[i].place, &ev->place, sizeof ev->place))
            return i;
    return -1;
}

void disk_rig_read_events(struct disk_rig *g)
{
    struct cache_event ev;
    uint64_t number;
    while ((number = record_feed_next(g->feed, g->read, &ev))) {
        g->read = number;
        int32_t i = record_of(g, &ev);
        if (ev.type == CACHE_STORED)
            g->rows[i] = (struct stored_ref){ev.key, ev.place};
        else if (ev.type == CACHE_GONE && i >= 0)
            g->rows[i].place.bytes = 0;
        g->gone += ev.type == CACHE_GONE;
        g->forgotten += ev.type == CACHE_FORGOTTEN;
        g->reconciled += ev.type == CACHE_RECONCILED;
    }
    record_feed_acknowledge(g->feed, g->read);
}

void disk_rig_settle(struct disk_rig *g)
{
    for (double end = clock_ms() + PATIENCE_MS; disk_cache_writing(g->cache);) {
        assert_true(clock_ms() < end);
        clock_sleep_us(200);
    }
    disk_rig_read_events(g);
}

void disk_rig_write_many(struct disk_rig *g, int32_t first, int32_t n)
{
    for (int32_t i = first; i < first + n; i++)
        assert_true(disk_rig_write(g, i));
    disk_rig_settle(g);
}

void disk_rig_again(struct disk_rig *g, uint64_t budget, uint64_t identity)
{
    disk_rig_close(g);
    disk_rig_open(g, budget, identity);
}

static bool is_whole(const unsigned char *block, const unsigned char *state, int32_t i)
{
    for (uint32_t k = 0; k < RIG_BLOCK; k++)
        if (block[k] != disk_rig_byte(i, k))
            return false;
    for (uint32_t k = 0; state && k < RIG_STATE; k++)
        if (state[k] != disk_rig_byte(i + 1, k))
            return false;
    return !state == !disk_rig_has_state(i);
}

int32_t disk_rig_load(struct disk_rig *g, int32_t i, int32_t n)
{
    struct disk_block blocks[CHAIN];
    int32_t tokens[CHAIN][ENGINE_STORED_TOKENS], came = 0;
    struct record_about about;
    const unsigned char *block, *state;
    enum disk_next next;
    for (int32_t k = n - 1; k >= 0; k--) {
        disk_rig_about(i + k, &about);
        blocks[k] = (struct disk_block){g->rows[i + k].key, g->rows[i + k].place};
        memcpy(tokens[k], about.tokens, sizeof about.tokens);
    }
    struct disk_load *l =
        disk_cache_load(g->cache, &(struct disk_load_params){.blocks = blocks,
                                                             .n = n,
                                                             .parent = about.parent,
                                                             .tokens = tokens[0],
                                                             .end = about.end,
                                                             .scope = about.scope,
                                                             .seal = &g->seal});
    assert_non_null(l);
    for (double end = clock_ms() + PATIENCE_MS;
         (next = disk_load_next(l, &block, &state)) == DISK_NOT_YET || next == DISK_LOADED;) {
        assert_true(clock_ms() < end);
        if (next == DISK_LOADED)
            assert_true(is_whole(block, state, i + came++));
        else
            clock_sleep_us(20);
    }
    assert_int_equal(next == DISK_END, came == n);
    disk_load_close(&l);
    return came;
}

static void wait_for(struct disk_rig *g, const int32_t *count, int32_t n)
{
    for (double end = clock_ms() + PATIENCE_MS; *count < n; clock_sleep_us(200)) {
        disk_rig_read_events(g);
        assert_true(clock_ms() < end);
    }
}

void disk_rig_forget(struct disk_rig *g, int32_t i)
{
    g->forgotten = 0;
    assert_true(record_feed_ask(g->feed, RECORD_FORGET, &g->rows[i], 1));
    g->rows[i].place.bytes = 0; /* rows go first */
    wait_for(g, &g->forgotten, 1);
}

void disk_rig_reconcile(struct disk_rig *g)
{
    g->reconciled = 0;
    assert_true(record_feed_ask(g->feed, RECORD_RECONCILE_BEGIN, NULL, 0));
    for (int32_t i = 0; i < RIG_ROWS; i++)
        if (g->rows[i].place.bytes)
            assert_true(record_feed_ask(g->feed, RECORD_RECONCILE, &g->rows[i], 1));
    assert_true(record_feed_ask(g->feed, RECORD_RECONCILE_END, NULL, 0));
    wait_for(g, &g->reconciled, 1);
}

struct disk_counters disk_rig_counters(struct disk_rig *g)
{
    struct disk_counters c;
    disk_cache_counters(g->cache, &c);
    return c;
}

void disk_rig_path(const struct disk_rig *g, int32_t i, char path[160])
{
    snprintf(path, 160, "%s/%08x.kv", g->dir, g->rows[i].place.segment);
}

uint64_t disk_rig_blocks(const struct disk_rig *g, int32_t i)
{
    struct stat st;
    char path[160];
    disk_rig_path(g, i, path);
    return stat(path, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}
