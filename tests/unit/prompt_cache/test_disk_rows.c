/* The prompt cache on disk and the rows that there are of it: what is forgotten, and what a
 * reconciliation leaves. */
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
#include "engine/base/log.h"
#include "engine/cache/disk/disk_cache_internal.h"
#include "engine/cache/disk/disk_tier.h"
#include "tests/unit/prompt_cache/disk_rig.h"
#include "tests/unit/support/patience.h"

#define BUDGET ((uint64_t)1 << 30)

static struct disk_rig g;

static int set_up(void **state)
{
    log_set_level(LOG_ERROR);
    disk_rig_init(&g);
    disk_rig_open(&g, BUDGET, RIG_IDENTITY);
    return 0;
}

static int tear_down(void **state)
{
    disk_rig_fini(&g);
    return 0;
}

static void test_forgotten_records_give_their_space_back(void **state)
{
    disk_rig_write_many(&g, 0, 20);
    const struct stored_ref first = g.rows[0];
    uint64_t before = disk_rig_blocks(&g, 19);
    for (int32_t i = 0; i < 10; i++)
        disk_rig_forget(&g, i);
    assert_in_range(disk_rig_blocks(&g, 19), 1, before - 10 * 4096);
    assert_int_equal(disk_rig_load(&g, 10, 10), 10);
    struct prompt_key keys[20];
    assert_int_equal(disk_cache_take_forgotten(g.cache, keys, 20), 10);
    g.rows[0] = first; /* a row that is wrong about it */
    assert_int_equal(disk_rig_load(&g, 0, 1), 0);
    disk_rig_again(&g, BUDGET, RIG_IDENTITY);
    disk_rig_reconcile(&g);
    assert_int_equal(disk_rig_counters(&g).records, 10);
    char path[160];
    disk_rig_path(&g, 19, path);
    for (int32_t i = 10; i < 20; i++)
        disk_rig_forget(&g, i);
    assert_int_equal(access(path, F_OK), -1); /* an empty file goes */
    assert_int_equal(disk_rig_counters(&g).disk_bytes, 0);
}

/* Of a model that is not loaded, whose engine may begin meanwhile. */
static void test_another_folder_is_let_go_between_steps(void **state)
{
    enum { N = 300 };
    static struct disk_rig other;
    struct segments there;
    struct err e = {0};
    bool between = false, gone = false;
    char path[sizeof other.dir];
    disk_rig_init(&other);
    disk_rig_open(&other, BUDGET, RIG_IDENTITY);
    disk_rig_write_many(&other, 0, N);
    disk_rig_close(&other);
    snprintf(path, sizeof path, "%.60s-7", g.dir);
    assert_int_equal(rename(other.dir, path), 0);
    memcpy(other.dir, path, sizeof path);
    /* Who is asked again says once more of some that they are forgotten, so the number alone does
     * not tell that all are. */
    for (double asked = 0, until = clock_ms() + PATIENCE_MS; !gone;) {
        assert_true(clock_ms() < until);
        if (clock_ms() > asked + 1000) /* what met this test with the lock is asked for again */
            assert_true(record_feed_ask_of(g.feed, 7, other.rows, N));
        asked = clock_ms() > asked + 1000 ? clock_ms() : asked;
        clock_sleep_us(DISK_LOCK_STEP_US / 2);
        disk_rig_read_events(&g);
        const bool ours = segments_open(&there, path, &e);
        between |= ours && there.disk_bytes && g.forgotten > 0;
        gone = ours && !there.n && g.forgotten >= N;
        segments_close(&there);
    }
    assert_true(between);
    assert_true(segments_open(&there, path, &e));
    assert_int_equal(there.n, 0);
    segments_close(&there);
    disk_rig_fini(&other);
}

/* In one request, in any order. */
static void test_many_are_forgotten_at_once(void **state)
{
    enum { N = 448 };
    struct stored_ref refs[N];
    uint64_t left = 0;
    int32_t n = 0;
    disk_rig_write_many(&g, 0, N);
    for (int32_t i = 0; i < N; i++) {
        const struct stored_ref *ref = &g.rows[i * 75 % N]; /* each once */
        if (i % 3)
            refs[n++] = *ref;
        else
            left += ref->place.bytes;
    }
    g.forgotten = 0;
    assert_true(record_feed_ask(g.feed, RECORD_FORGET, refs, n));
    for (double end = clock_ms() + PATIENCE_MS; g.forgotten < n && clock_ms() < end;
         clock_sleep_us(200))
        disk_rig_read_events(&g);
    assert_int_equal(g.forgotten, n);
    assert_int_equal(disk_rig_counters(&g).records, N - n);
    assert_int_equal(disk_rig_counters(&g).disk_bytes, left);
    assert_true(disk_rig_blocks(&g, 0) <= left + 16384); /* and the file's list of extents */
    for (int32_t i = 0; i < N; i += 3)
        assert_int_equal(disk_rig_load(&g, i * 75 % N, 1), 1);
}

/* Removals of a model whose engine does not run, asked for at another's. */
static void test_records_of_a_model_that_is_not_loaded_are_forgotten(void **state)
{
    enum { N = 24 };
    struct disk_rig first;
    char there[80], path[160];
    disk_rig_write_many(&g, 0, N);
    disk_rig_init(&first);
    disk_rig_open(&first, BUDGET, RIG_IDENTITY + 1);
    snprintf(there, sizeof there, "%s-7", first.dir);
    assert_int_equal(symlink(g.dir, there), 0);
    assert_true(record_feed_ask_of(first.feed, 7, g.rows, N / 2));
    disk_rig_write_many(&first, 0, 1); /* the request has been served by then */
    disk_rig_forget(&first, 0);
    assert_int_equal(first.forgotten, 1); /* its own engine has the folder: no answer of it */
    disk_rig_path(&g, 0, path);
    disk_rig_close(&g);
    assert_true(record_feed_ask_of(first.feed, 7, g.rows, N / 2));
    for (double end = clock_ms() + PATIENCE_MS; first.forgotten < 1 + N / 2 && clock_ms() < end;
         clock_sleep_us(200))
        disk_rig_read_events(&first);
    assert_int_equal(first.forgotten, 1 + N / 2);
    assert_int_equal(access(path, F_OK), 0);
    assert_true(record_feed_ask_of(first.feed, 7, g.rows + N / 2, N - N / 2));
    assert_true(record_feed_ask_of(first.feed, 8, g.rows, 1)); /* it has no folder */
    for (double end = clock_ms() + PATIENCE_MS; first.forgotten < 2 + N && clock_ms() < end;
         clock_sleep_us(200))
        disk_rig_read_events(&first);
    assert_int_equal(first.forgotten, 2 + N);
    assert_int_equal(access(path, F_OK), -1); /* an empty file goes */
    disk_rig_open(&g, BUDGET, RIG_IDENTITY);
    unlink(there);
    disk_rig_fini(&first);
}

/* A place that is still known somewhere names nothing newer, also when the folder was emptied. */
static void test_a_segments_number_is_not_used_twice(void **state)
{
    char command[160];
    uint32_t before = 0;
    for (int i = 0; i < 3; i++) {
        disk_rig_write_many(&g, 0, 1);
        assert_true(g.rows[0].place.segment > before);
        before = g.rows[0].place.segment;
        disk_rig_forget(&g, 0);
        disk_rig_again(&g, BUDGET, RIG_IDENTITY);
        disk_rig_reconcile(&g);
    }
    disk_rig_close(&g);
    snprintf(command, sizeof command, "rm %s/lock", g.dir);
    assert_int_equal(system(command), 0);
    while (clock_wall_s() <= before) /* another folder: then the time tells them apart */
        clock_sleep_us(1000);
    disk_rig_open(&g, BUDGET, RIG_IDENTITY);
    disk_rig_write_many(&g, 0, 1);
    assert_true(g.rows[0].place.segment > before);
}

static void test_a_record_without_a_row_goes_and_a_row_without_a_record_is_told(void **state)
{
    disk_rig_write_many(&g, 0, 20);
    disk_rig_again(&g, BUDGET, RIG_IDENTITY);
    const struct stored_ref lost = g.rows[3];
    g.rows[3].place.bytes = 0;
    g.rows[30] = lost;
    g.rows[30].place.offset += (uint64_t)1 << 20;
    disk_rig_reconcile(&g);
    assert_int_equal(g.gone, 1);
    assert_int_equal(g.rows[30].place.bytes, 0);
    struct disk_counters c = disk_rig_counters(&g);
    assert_int_equal(c.records, 19);
    g.rows[3] = lost;
    assert_int_equal(disk_rig_load(&g, 3, 1), 0);
    disk_rig_read_events(&g);
    uint64_t live = 0;
    for (int32_t i = 0; i < 20; i++)
        live += g.rows[i].place.bytes;
    assert_int_equal(c.disk_bytes, live);
    assert_true(disk_rig_blocks(&g, 0) <= live);
}

/* Before rows have told, a block that they have is stored again: its old record stays until the row
 * has moved on, also if a kill comes in between. */
static void test_a_row_stays_while_its_block_is_stored_again(void **state)
{
    disk_rig_write_many(&g, 0, 8);
    disk_rig_again(&g, BUDGET, RIG_IDENTITY);
    const struct stored_ref old = g.rows[3];
    assert_true(disk_rig_write(&g, 2)); /* its event waits */
    while (disk_cache_writing(g.cache))
        clock_sleep_us(100);
    assert_true(disk_rig_write(&g, 3)); /* being written, or just announced */
    disk_rig_reconcile(&g);
    disk_rig_settle(&g);
    assert_int_equal(g.gone, 0);
    assert_int_equal(disk_rig_counters(&g).damaged, 0);
    assert_memory_not_equal(&g.rows[3].place, &old.place, sizeof old.place);
    assert_true(record_feed_ask(g.feed, RECORD_FORGET, &old, 1));
    disk_rig_reconcile(&g);
    assert_int_equal(disk_rig_counters(&g).records, 8);
    assert_int_equal(disk_rig_load(&g, 0, 8), 8);
    g.rows[2].place.offset += 4096; /* a row that is wrong about a record that it was told of */
    disk_rig_reconcile(&g);
    assert_int_equal(g.gone, 1);
    assert_int_equal(disk_rig_counters(&g).records, 7);
}

/* Reads nothing into the rows: the recorder is killed before it has committed. */
static void reconcile_unseen(void)
{
    struct cache_event ev = {0};
    uint64_t at = g.read;
    assert_true(record_feed_ask(g.feed, RECORD_RECONCILE_BEGIN, NULL, 0));
    for (int32_t i = 0; i < 8; i++)
        assert_true(record_feed_ask(g.feed, RECORD_RECONCILE, &g.rows[i], 1));
    assert_true(record_feed_ask(g.feed, RECORD_RECONCILE_END, NULL, 0));
    for (double end = clock_ms() + PATIENCE_MS; ev.type != CACHE_RECONCILED && clock_ms() < end;) {
        const uint64_t number = record_feed_next(g.feed, at, &ev);
        at = number ? number : at;
        clock_sleep_us(number ? 0 : 200);
    }
    assert_int_equal(ev.type, CACHE_RECONCILED);
}

static void test_an_old_record_stays_until_the_new_ones_row_is_acknowledged(void **state)
{
    disk_rig_write_many(&g, 0, 8);
    disk_rig_again(&g, BUDGET, RIG_IDENTITY);
    assert_true(disk_rig_write(&g, 2));
    while (disk_cache_writing(g.cache))
        clock_sleep_us(100);
    assert_true(disk_rig_write(&g, 3)); /* announced before, while or after rows are compared */
    reconcile_unseen();
    disk_rig_kill(&g);
    disk_rig_open(&g, BUDGET, RIG_IDENTITY);
    disk_rig_reconcile(&g); /* the rows that there are name the old records */
    assert_int_equal(g.gone, 0);
    assert_int_equal(disk_rig_load(&g, 0, 8), 8);
    assert_int_equal(disk_rig_counters(&g).records, 8);
    uint64_t live = 0;
    for (int32_t i = 0; i < 8; i++)
        live += g.rows[i].place.bytes;
    assert_int_equal(disk_rig_counters(&g).disk_bytes, live); /* those that no row names are gone */
}

/* Such file systems give the space back with the file: until then nothing is counted off twice. */
static void test_without_holes_a_record_is_counted_off_once(void **state)
{
    g.cache->segments.cannot_punch = true;
    disk_rig_write_many(&g, 0, 4);
    const struct stored_ref first = g.rows[0];
    const uint64_t bytes = disk_rig_counters(&g).disk_bytes;
    disk_rig_forget(&g, 0);
    for (int again = 0; again < 6; again++) { /* a removal that comes again */
        g.rows[0] = first;
        disk_rig_forget(&g, 0);
    }
    assert_int_equal(disk_rig_counters(&g).forgotten, 1);
    assert_int_equal(disk_rig_counters(&g).disk_bytes, bytes);
    const struct stored_ref second = g.rows[1];
    disk_rig_close(&g);
    g.rows[1].place.bytes = 0; /* removed while the engine was away */
    disk_rig_open(&g, BUDGET, RIG_IDENTITY);
    g.cache->segments.cannot_punch = true;
    disk_rig_reconcile(&g);
    for (int again = 0; again < 6; again++) {
        g.rows[1] = second;
        disk_rig_forget(&g, 1);
    }
    disk_rig_write_many(&g, 4, 1); /* the old file is not the current one any more */
    assert_int_equal(disk_rig_load(&g, 2, 3), 3);
    disk_rig_forget(&g, 2);
    disk_rig_forget(&g, 3);
    assert_int_equal(disk_rig_counters(&g).disk_bytes, disk_rig_blocks(&g, 4));
}

/* It could be read with other tools, whatever its header says. */
static void test_without_holes_a_damaged_record_is_overwritten_too(void **state)
{
    static unsigned char junk[64], bytes[1 << 16];
    char path[160];
    g.cache->segments.cannot_punch = true;
    disk_rig_write_many(&g, 0, 4);
    const struct stored_ref row = g.rows[1];
    disk_rig_path(&g, 1, path);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && row.place.bytes <= sizeof bytes);
    assert_int_equal(pwrite(fd, junk, sizeof junk, (off_t)row.place.offset), sizeof junk);
    disk_rig_forget(&g, 1);
    assert_int_equal(pread(fd, bytes, row.place.bytes, (off_t)row.place.offset), row.place.bytes);
    for (uint32_t i = 0; i < row.place.bytes; i++)
        assert_int_equal(bytes[i], 0);
    close(fd);
    assert_int_equal(disk_rig_load(&g, 2, 2), 2); /* its neighbours are whole */
    assert_int_equal(disk_rig_load(&g, 0, 1), 1);
}

/* Rows that a recorder was about to write do not make their records orphans. */
static void test_a_record_that_is_being_announced_survives_a_reconciliation(void **state)
{
    disk_rig_write_many(&g, 0, 5);
    assert_true(disk_rig_write(&g, 5));
    while (disk_cache_writing(g.cache))
        clock_sleep_us(100);
    g.reconciled = 0; /* the event of record 5 has not been read */
    assert_true(record_feed_ask(g.feed, RECORD_RECONCILE_BEGIN, NULL, 0));
    assert_true(record_feed_ask(g.feed, RECORD_RECONCILE_END, NULL, 0));
    for (double end = clock_ms() + PATIENCE_MS; !g.reconciled && clock_ms() < end;
         clock_sleep_us(200))
        disk_rig_read_events(&g);
    assert_int_equal(disk_rig_load(&g, 5, 1), 1);
    assert_int_equal(disk_rig_load(&g, 0, 1), 0);
}

static void move_files_away(bool away)
{
    char command[200];
    snprintf(command, sizeof command,
             away ? "mkdir %s/away && mv %s/*.kv %s/away" : "mv %s/away/* %s && rmdir %s/away",
             g.dir, g.dir, g.dir);
    assert_int_equal(system(command), 0);
}

/* With a GPU: what was written or read lately comes back without the disk. */
static void test_copies_in_ram_are_read_in_place_of_the_disk(void **state)
{
    const uint64_t plain = record_bytes(RIG_BLOCK, 0),
                   with_state = record_bytes(RIG_BLOCK, RIG_STATE);
    g.ram_budget = 16 * plain + 4 * with_state;            /* twenty records */
    g.seal = (struct prompt_seal){.key = {1}, .on = true}; /* copies are sealed as well */
    disk_rig_again(&g, BUDGET, RIG_IDENTITY);
    disk_rig_write_many(&g, 0, 40);
    assert_int_equal(disk_rig_counters(&g).ram_bytes, g.ram_budget);
    move_files_away(true);
    assert_int_equal(disk_rig_load(&g, 20, 20), 20);
    assert_int_equal(disk_rig_counters(&g).read_bytes, 0);
    move_files_away(false);
    assert_true(disk_cache_in_ram(g.cache, &g.rows[20]));
    assert_false(disk_cache_in_ram(g.cache, &g.rows[19]));
    disk_rig_forget(&g, 39);
    assert_int_equal(disk_rig_counters(&g).ram_bytes, g.ram_budget - with_state);
    assert_int_equal(disk_rig_load(&g, 0, 5), 5); /* from the disk, and they stay */
    move_files_away(true);
    assert_int_equal(disk_rig_load(&g, 0, 5), 5);
    assert_int_equal(disk_rig_load(&g, 20, 1), 0); /* made room */
    move_files_away(false);
    disk_rig_again(&g, BUDGET, RIG_IDENTITY);
    assert_int_equal(disk_rig_counters(&g).ram_bytes, 0);
    assert_int_equal(disk_rig_load(&g, 0, 5), 5);
    assert_int_equal(disk_rig_counters(&g).ram_bytes, 0); /* no row has told of them yet */
    disk_rig_reconcile(&g);
    assert_int_equal(disk_rig_load(&g, 0, 5), 5);
    assert_int_equal(disk_rig_counters(&g).ram_bytes, 4 * plain + with_state);
    g.rows[1].place.bytes = 0; /* its row went while the recorder was away */
    disk_rig_reconcile(&g);
    assert_int_equal(disk_rig_counters(&g).ram_bytes, 3 * plain + with_state);
}

static void test_who_asks_for_ram_is_told_what_it_is_good_for(void **state)
{
    struct err e = {0};
    uint64_t bytes;
    assert_true(disk_tier_ram(DISK_TIER_AUTO, true, 1000, &bytes, &e) && bytes == 0);
    assert_true(disk_tier_ram(DISK_TIER_OFF, false, 1000, &bytes, &e) && bytes == 0);
    assert_true(disk_tier_ram(DISK_TIER_AUTO, false, 1000, &bytes, &e) && bytes == 250);
    assert_true(disk_tier_ram(700, false, 1000, &bytes, &e) && bytes == 700);
    assert_false(disk_tier_ram(1001, false, 1000, &bytes, &e));
    assert_int_equal(e.code, ERR_LIMIT);
    assert_false(disk_tier_ram(700, true, 1000, &bytes, &e));
    assert_string_equal(e.field, "prompt-cache-ram");
    assert_non_null(strstr(e.text, "not needed"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        CASE(test_forgotten_records_give_their_space_back),
        CASE(test_another_folder_is_let_go_between_steps),
        CASE(test_many_are_forgotten_at_once),
        CASE(test_records_of_a_model_that_is_not_loaded_are_forgotten),
        CASE(test_a_segments_number_is_not_used_twice),
        CASE(test_a_record_without_a_row_goes_and_a_row_without_a_record_is_told),
        CASE(test_a_row_stays_while_its_block_is_stored_again),
        CASE(test_an_old_record_stays_until_the_new_ones_row_is_acknowledged),
        CASE(test_without_holes_a_record_is_counted_off_once),
        CASE(test_without_holes_a_damaged_record_is_overwritten_too),
        CASE(test_a_record_that_is_being_announced_survives_a_reconciliation),
        CASE(test_copies_in_ram_are_read_in_place_of_the_disk),
        CASE(test_who_asks_for_ram_is_told_what_it_is_good_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
