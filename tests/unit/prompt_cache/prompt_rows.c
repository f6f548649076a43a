/* prompt_rows.h: the recorder's and the worker's side of a disk cache. */
#include "tests/unit/prompt_cache/prompt_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "tests/unit/support/patience.h"

static void open_cache(struct prompt_rows *r)
{
    struct err e = {0};
    r->feed = record_feed_create(&e);
    r->read = 0;
    r->cache = disk_cache_open(&(struct disk_cache_params){.dir = r->dir,
                                                           .budget = (uint64_t)1 << 30,
                                                           .identity = ROWS_IDENTITY,
                                                           .block_bytes = r->block_bytes,
                                                           .state_bytes = r->state_bytes,
                                                           .feed = r->feed},
                               &e);
    if (!r->cache)
        fail_msg("%s", e.text);
}

static void close_cache(struct prompt_rows *r)
{
    disk_cache_close(&r->cache);
    prompt_rows_read(r);
    record_feed_destroy(&r->feed);
}

void prompt_rows_init(struct prompt_rows *r, uint32_t block_bytes, uint32_t state_bytes)
{
    *r = (struct prompt_rows){
        .dir = "/tmp/sluice-rows-XXXXXX", .block_bytes = block_bytes, .state_bytes = state_bytes};
    assert_non_null(mkdtemp(r->dir));
    open_cache(r);
}

void prompt_rows_fini(struct prompt_rows *r)
{
    char command[96];
    close_cache(r);
    snprintf(command, sizeof command, "rm -rf %s", r->dir);
    assert_int_equal(system(command), 0);
}

void prompt_rows_reopen(struct prompt_rows *r)
{
    close_cache(r);
    r->stored = r->gone = r->forgotten = r->used = 0;
    open_cache(r);
}

static int32_t find(const struct prompt_rows *r, const struct prompt_key *key)
{
    for (int32_t i = 0; i < r->n; i++)
        if (!memcmp(&r->rows[i].key, key, sizeof *key))
            return i;
    return -1;
}

void prompt_rows_read(struct prompt_rows *r)
{
    struct cache_event ev;
    uint64_t number;
    while ((number = record_feed_next(r->feed, r->read, &ev))) {
        int32_t i = find(r, &ev.key);
        r->read = number;
        r->stored += ev.type == CACHE_STORED;
        r->gone += ev.type == CACHE_GONE;
        r->forgotten += ev.type == CACHE_FORGOTTEN;
        r->used += ev.type == CACHE_USED;
        if (ev.type == CACHE_GONE && i >= 0)
            r->rows[i] = r->rows[--r->n];
        if (ev.type != CACHE_STORED)
            continue;
        r->last = ev;
        i = i < 0 ? r->n++ : i;
        assert_true(i < ROWS_MOST);
        r->rows[i] = (struct stored_ref){ev.key, ev.place};
    }
    record_feed_acknowledge(r->feed, r->read);
}

void prompt_rows_settle(struct prompt_rows *r, struct scheduler *s)
{
    struct err e = {0};
    double end = clock_ms() + PATIENCE_MS;
    while (scheduler_stores(s) || disk_cache_writing(r->cache)) {
        assert_true(clock_ms() < end);
        assert_true(scheduler_step(s, &e));
        clock_sleep_us(100);
    }
    prompt_rows_read(r);
}

void prompt_rows_name(struct prompt_rows *r, struct engine_job_params *p)
{
    static struct stored_ref refs[ROWS_MOST];
    struct prompt_key key;
    int32_t n = 0;
    prompt_key_begin(&key, ROWS_IDENTITY, p->scope, p->experts_per_token);
    for (; (n + 1) * ENGINE_STORED_TOKENS <= p->n_prompt; n++) {
        prompt_key_next(&key, NULL, p->prompt + n * ENGINE_STORED_TOKENS);
        int32_t i = find(r, &key);
        if (i < 0)
            break;
        refs[n] = r->rows[i];
    }
    p->stored = refs;
    p->n_stored = n;
}

void prompt_rows_forget_all(struct prompt_rows *r)
{
    const int32_t n = r->n;
    double end = clock_ms() + PATIENCE_MS;
    assert_true(record_feed_ask(r->feed, RECORD_FORGET, r->rows, n));
    r->n = r->forgotten = 0;
    while (r->forgotten < n) {
        assert_true(clock_ms() < end);
        prompt_rows_read(r);
        clock_sleep_us(100);
    }
}

void prompt_rows_damage(const struct prompt_rows *r, const struct stored_ref *ref)
{
    char path[160];
    unsigned char byte;
    snprintf(path, sizeof path, "%s/%08x.kv", r->dir, ref->place.segment);
    int fd = open(path, O_RDWR);
    off_t at = (off_t)ref->place.offset + RECORD_HEADER_BYTES + 5;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}
