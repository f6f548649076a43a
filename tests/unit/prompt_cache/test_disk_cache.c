/* The prompt cache on disk: what it gives back is what was given to it, or nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "tests/unit/prompt_cache/disk_rig.h"
#include "tests/unit/support/patience.h"

#define BUDGET ((uint64_t)1 << 30)
#define MANY 64

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

static void test_records_come_back_after_a_restart(void **state)
{
    disk_rig_write_many(&g, 0, MANY);
    assert_int_equal(disk_rig_load(&g, 0, MANY), MANY);
    disk_rig_again(&g, BUDGET, RIG_IDENTITY);
    assert_int_equal(disk_rig_load(&g, 0, MANY), MANY);
    assert_int_equal(disk_rig_load(&g, 17, 1), 1);
    struct disk_counters c = disk_rig_counters(&g);
    assert_int_equal(c.loaded, MANY + 1);
    assert_true(c.read_bytes > (uint64_t)MANY * RIG_BLOCK && c.read_seconds > 0);
    assert_int_equal(g.gone, 0);
}

static void test_a_key_is_written_once(void **state)
{
    disk_rig_write_many(&g, 0, 2);
    assert_false(disk_rig_write(&g, 1));
    disk_rig_again(&g, BUDGET, RIG_IDENTITY);
    disk_rig_reconcile(&g);
    assert_false(disk_rig_write(&g, 1)); /* rows have told */
    assert_int_equal(disk_rig_counters(&g).records, 2);
}

static void flip(int32_t i, uint64_t at)
{
    char path[160];
    unsigned char byte;
    disk_rig_path(&g, i, path);
    int fd = open(path, O_RDWR);
    off_t offset = (off_t)(g.rows[i].place.offset + at);
    assert_int_equal(pread(fd, &byte, 1, offset), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
    close(fd);
}

/* Each byte of a record: header, block, padding, state, padding. */
static void test_a_damaged_byte_anywhere_is_found(void **state)
{
    disk_rig_write_many(&g, 0, 5);
    disk_rig_again(&g, BUDGET, RIG_IDENTITY); /* what it does not know yet it does not free */
    const struct stored_ref kept = g.rows[4];
    assert_int_equal(kept.place.bytes, record_bytes(RIG_BLOCK, RIG_STATE));
    for (uint32_t at = 0; at < kept.place.bytes; at += at < 600 ? 1 : 37) {
        flip(4, at);
        g.gone = 0;
        assert_int_equal(disk_rig_load(&g, 3, 2), 1);
        disk_rig_read_events(&g);
        assert_int_equal(g.gone, 1);
        assert_int_equal(g.rows[4].place.bytes, 0);
        g.rows[4] = kept;
        flip(4, at);
    }
    assert_int_equal(disk_rig_load(&g, 3, 2), 2);
}

static void test_what_is_not_this_very_text_is_never_taken(void **state)
{
    struct record_about about;
    const unsigned char *block, *s;
    disk_rig_write_many(&g, 0, 3);
    disk_rig_about(1, &about);
    for (int change = 0; change < 6; change++) {
        struct disk_block wanted = {g.rows[1].key, g.rows[1].place};
        struct disk_load_params p = {.blocks = &wanted,
                                     .n = 1,
                                     .parent = about.parent,
                                     .tokens = about.tokens,
                                     .end = about.end,
                                     .scope = about.scope};
        int32_t tokens[ENGINE_STORED_TOKENS];
        enum disk_next next;
        memcpy(tokens, about.tokens, sizeof tokens);
        tokens[31]++;
        p.scope = change == 1 ? "user:8" : p.scope;
        p.tokens = change == 2 ? tokens : p.tokens;
        p.parent.bytes[3] ^= change == 3;
        p.variant = change == 4;
        wanted.key.bytes[0] ^= change == 5;
        struct disk_load *l = disk_cache_load(g.cache, &p);
        while ((next = disk_load_next(l, &block, &s)) == DISK_NOT_YET)
            clock_sleep_us(20);
        assert_int_equal(next, change ? DISK_DAMAGED : DISK_LOADED);
        disk_load_close(&l);
    }
}

static bool is_in_file(int32_t i, const void *bytes, size_t n)
{
    char path[160];
    disk_rig_path(&g, i, path);
    int fd = open(path, O_RDONLY);
    struct stat st;
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    void *all = malloc((size_t)st.st_size);
    assert_int_equal(read(fd, all, (size_t)st.st_size), st.st_size);
    const bool found = memmem(all, (size_t)st.st_size, bytes, n) != NULL;
    free(all);
    close(fd);
    return found;
}

/* Neither text nor content is on the disk in clear, and only the key brings them back. */
static void test_sealed_records_are_read_with_their_key_alone(void **state)
{
    struct record_about about;
    unsigned char content[64];
    disk_rig_about(1, &about);
    for (int i = 0; i < 64; i++)
        content[i] = disk_rig_byte(1, (uint32_t)i + 100);
    disk_rig_write_many(&g, 0, 5);
    assert_true(
        is_in_file(1, about.tokens, sizeof about.tokens)); /* it looks for the right thing */
    assert_true(is_in_file(1, content, sizeof content));
    for (int32_t i = 0; i < 5; i++)
        disk_rig_forget(&g, i);
    g.seal = (struct prompt_seal){.key = {1, 2, 3}, .on = true};
    disk_rig_write_many(&g, 0, 5);
    assert_false(is_in_file(1, about.tokens, sizeof about.tokens));
    assert_false(is_in_file(1, about.scope, strlen(about.scope)));
    assert_false(is_in_file(1, content, sizeof content));
    disk_rig_again(&g, BUDGET, RIG_IDENTITY);
    assert_int_equal(disk_rig_load(&g, 0, 5), 5);
    assert_int_equal(disk_rig_load(&g, 0, 5), 5);
    g.seal.key[31]++;
    assert_int_equal(disk_rig_load(&g, 0, 5), 0);
    g.seal.on = false;
    assert_int_equal(disk_rig_load(&g, 0, 5), 0);
    g.seal = (struct prompt_seal){.key = {1, 2, 3}, .on = true};
    assert_int_equal(disk_rig_load(&g, 0, 5), 5); /* rows had not told of them: they are there */
    flip(4, g.rows[4].place.bytes - 1);
    assert_int_equal(disk_rig_load(&g, 0, 5), 4);
}

static void test_another_models_records_are_kept_and_not_taken(void **state)
{
    disk_rig_write_many(&g, 0, 3);
    disk_rig_again(&g, BUDGET, RIG_IDENTITY + 1);
    struct disk_rig before = g;
    assert_int_equal(disk_rig_load(&g, 0, 3), 0);
    disk_rig_read_events(&g);
    memcpy(g.rows, before.rows, sizeof g.rows);
    disk_rig_reconcile(&g);
    assert_int_equal(disk_rig_counters(&g).records, 3);
    disk_rig_again(&g, BUDGET, RIG_IDENTITY);
    assert_int_equal(disk_rig_load(&g, 0, 3), 3);
}

static void test_a_damaged_records_space_is_given_back(void **state)
{
    disk_rig_write_many(&g, 0, 20);
    const uint64_t before = disk_rig_counters(&g).disk_bytes, bytes = g.rows[2].place.bytes;
    flip(2, 700);
    assert_int_equal(disk_rig_load(&g, 0, 3), 2);
    for (double end = clock_ms() + PATIENCE_MS; clock_ms() < end; clock_sleep_us(200))
        if (disk_rig_counters(&g).disk_bytes == before - bytes)
            break;
    assert_int_equal(disk_rig_counters(&g).disk_bytes, before - bytes);
    disk_rig_read_events(&g);
    assert_true(disk_rig_write(&g, 2));
    disk_rig_settle(&g);
    assert_int_equal(disk_rig_load(&g, 0, 20), 20);
}

static void test_a_short_or_missing_file_is_gone(void **state)
{
    char path[160];
    disk_rig_write_many(&g, 0, 10);
    disk_rig_path(&g, 0, path);
    assert_int_equal(truncate(path, (off_t)g.rows[6].place.offset + 700), 0);
    assert_int_equal(disk_rig_load(&g, 7, 1), 0);
    assert_int_equal(disk_rig_load(&g, 6, 1), 0);
    assert_int_equal(disk_rig_load(&g, 0, 6), 6);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(disk_rig_load(&g, 0, 6), 0);
    disk_rig_read_events(&g);
    assert_int_equal(g.gone, 3);
}

static void test_the_budget_is_kept(void **state)
{
    const uint64_t budget = 10 * record_bytes(RIG_BLOCK, 0);
    disk_rig_close(&g);
    disk_rig_open(&g, budget, RIG_IDENTITY);
    int32_t n = 0;
    for (int32_t i = 0; i < 40; i++)
        n += disk_rig_write(&g, i);
    disk_rig_settle(&g);
    struct disk_counters c = disk_rig_counters(&g);
    assert_in_range(n, 4, 10);
    assert_int_equal(c.stored, n);
    assert_int_equal(c.refused, 40 - n);
    assert_true(c.disk_bytes <= budget && disk_rig_blocks(&g, 0) <= budget);
    disk_rig_forget(&g, 0);
    assert_true(disk_rig_write(&g, 50));
    disk_rig_settle(&g);
    assert_true(disk_rig_counters(&g).disk_bytes <= budget);
}

static void test_a_full_disk_refuses_and_breaks_nothing(void **state)
{
    struct rlimit none = {40960, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN); /* as if the disk were full beyond 40 KiB of a file */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    for (int32_t i = 0; i < 30; i++) {
        disk_rig_write(&g, i);
        disk_rig_settle(&g);
    }
    struct disk_counters c = disk_rig_counters(&g);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_in_range(c.stored, 1, 10);
    assert_int_equal(c.refused, 30 - c.stored);
    assert_non_null(strstr(c.note, "nothing is stored"));
    assert_true(disk_rig_blocks(&g, 0) <= 40960);
    assert_int_equal(disk_rig_load(&g, 0, (int32_t)c.stored), c.stored);
    disk_rig_forget(&g, 0); /* makes room: it is tried again at once */
    assert_true(disk_rig_write(&g, 40));
    disk_rig_settle(&g);
    assert_string_equal(disk_rig_counters(&g).note, "");
    assert_int_equal(disk_rig_load(&g, 40, 1), 1);
}

static void test_the_folder_is_private_and_ours_alone(void **state)
{
    struct err e = {0};
    struct stat st;
    char path[160];
    disk_rig_write_many(&g, 0, 1);
    assert_int_equal(stat(g.dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    disk_rig_path(&g, 0, path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    struct record_feed *feed = record_feed_create(&e);
    assert_null(disk_cache_open(
        &(struct disk_cache_params){
            .dir = g.dir, .budget = BUDGET, .block_bytes = 10, .feed = feed},
        &e));
    assert_int_equal(e.code, ERR_CONFLICT);
    record_feed_destroy(&feed);
}

/* The child writes and says which records were announced; it is killed in the middle. */
static void test_a_kill_while_writing_loses_nothing_that_was_announced(void **state)
{
    int out[2];
    assert_int_equal(pipe(out), 0);
    disk_rig_close(&g);
    pid_t child = fork();
    if (!child) {
        disk_rig_open(&g, BUDGET, RIG_IDENTITY);
        for (int32_t i = 0; i < RIG_ROWS; i++) {
            disk_rig_write(&g, i);
            disk_rig_read_events(&g);
            for (int32_t k = 0; k <= i; k++) {
                if (!g.rows[k].place.bytes)
                    continue;
                struct {
                    int32_t record;
                    struct stored_ref row;
                } said = {k, g.rows[k]};
                if (write(out[1], &said, sizeof said) != sizeof said)
                    _exit(1);
                g.rows[k].place.bytes = 0;
            }
        }
        pause();
    }
    close(out[1]);
    struct {
        int32_t record;
        struct stored_ref row;
    } said;
    int32_t n = 0;
    while (n < 300 && read(out[0], &said, sizeof said) == sizeof said) {
        g.rows[said.record] = said.row;
        n++;
    }
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    while (read(out[0], &said, sizeof said) == sizeof said)
        g.rows[said.record] = said.row;
    close(out[0]);
    disk_rig_open(&g, BUDGET, RIG_IDENTITY);
    disk_rig_reconcile(&g);
    assert_int_equal(g.gone, 0);
    uint64_t live = 0;
    for (int32_t i = 0; i < RIG_ROWS; i++) {
        if (!g.rows[i].place.bytes)
            continue;
        live += g.rows[i].place.bytes;
        assert_int_equal(disk_rig_load(&g, i, 1), 1);
    }
    assert_true(n >= 300);
    assert_int_equal(disk_rig_counters(&g).disk_bytes, live);
    assert_true(disk_rig_blocks(&g, 0) <= live);
}

/* Writes, loads, forgets, damages and restarts in any order, against the rows. */
static void test_any_order_of_operations_agrees_with_the_rows(void **state)
{
    unsigned seed = 4711;
    for (int round = 0; round < 1500; round++) {
        int32_t i = (int32_t)(rand_r(&seed) % 400u);
        bool known = g.rows[i].place.bytes > 0;
        switch (rand_r(&seed) % 16u) {
        case 0:
            if (known)
                disk_rig_forget(&g, i);
            break;
        case 1:
            if (!known)
                break;
            flip(i, rand_r(&seed) % g.rows[i].place.bytes);
            assert_int_equal(disk_rig_load(&g, i, 1), 0);
            disk_rig_read_events(&g);
            assert_int_equal(g.rows[i].place.bytes, 0);
            break;
        case 2:
            if (rand_r(&seed) % 4u)
                break;
            disk_rig_again(&g, BUDGET, RIG_IDENTITY);
            disk_rig_reconcile(&g);
            break;
        case 3:
        case 4:
        case 5:
            assert_int_equal(disk_rig_load(&g, i, 1), known);
            disk_rig_read_events(&g);
            break;
        default:
            assert_int_equal(disk_rig_write(&g, i), !known);
            disk_rig_settle(&g);
            assert_true(g.rows[i].place.bytes > 0);
        }
    }
    int32_t n = 0;
    for (int32_t i = 0; i < RIG_ROWS; i++) {
        n += g.rows[i].place.bytes > 0;
        if (g.rows[i].place.bytes)
            assert_int_equal(disk_rig_load(&g, i, 1), 1);
    }
    assert_int_equal(disk_rig_counters(&g).records, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        CASE(test_records_come_back_after_a_restart),
        CASE(test_a_key_is_written_once),
        CASE(test_a_damaged_byte_anywhere_is_found),
        CASE(test_what_is_not_this_very_text_is_never_taken),
        CASE(test_sealed_records_are_read_with_their_key_alone),
        CASE(test_another_models_records_are_kept_and_not_taken),
        CASE(test_a_damaged_records_space_is_given_back),
        CASE(test_a_short_or_missing_file_is_gone),
        CASE(test_the_budget_is_kept),
        CASE(test_a_full_disk_refuses_and_breaks_nothing),
        CASE(test_the_folder_is_private_and_ours_alone),
        CASE(test_a_kill_while_writing_loses_nothing_that_was_announced),
        CASE(test_any_order_of_operations_agrees_with_the_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
