/* engine/base: arena, buf, err, hash, file, option. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/busy_poll.h"
#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#define LOG_MODULE "test"
#include "engine/base/log.h"
#include "engine/base/option.h"

static void test_arena_gives_zeroed_aligned_memory_up_to_its_limit(void **state)
{
    (void)state;
    struct arena *a = arena_create(100000);
    for (size_t n = 1; n < 300; n++) {
        unsigned char *p = arena_alloc(a, n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xFF, n);
    }
    assert_null(arena_alloc(a, 100000));
    assert_null(arena_alloc(a, SIZE_MAX));
    assert_string_equal(arena_printf(a, "%s-%d", "x", 5), "x-5");
    arena_reset(a);
    assert_int_equal(arena_used(a), 0);
    char *copy = arena_copy(a, "abc", 2);
    assert_string_equal(copy, "ab");
    arena_destroy(&a);
    assert_null(a);
    arena_destroy(&a);
}

static void test_buf_remembers_that_it_failed(void **state)
{
    (void)state;
    struct buf b = {.limit = 10};
    assert_true(buf_puts(&b, "12345"));
    assert_false(buf_puts(&b, "678901"));
    assert_false(buf_putc(&b, 'x'));
    assert_true(b.failed);
    assert_string_equal(b.data, "12345");
    buf_clear(&b);
    assert_true(buf_puts(&b, "ok"));
    assert_true(buf_ends_with(&b, 'k') && !buf_ends_with(&b, 'o') &&
                !buf_ends_with(&(struct buf){.failed = true}, 'k'));
    buf_consume(&b, 1);
    assert_string_equal(b.data, "k");
    buf_fini(&b);
}

static void test_buf_json_string_is_always_valid_utf8(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_json_string(&b, "a\"\\\n\x01\x7F\xE2\x80\xA8\xC3\xA9\xFF\xE2\x82", 14);
    assert_string_equal(b.data,
                        "\"a\\\"\\\\\\n\\u0001\\u007f\\u2028\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD\"");
    buf_fini(&b);
}

static void test_buf_json_number_is_shortest_that_reads_back(void **state)
{
    (void)state;
    const struct {
        double v;
        const char *text;
    } cases[] = {{0.1, "0.1"},        {1, "1"},
                 {-3, "-3"},          {1e21, "1e+21"},
                 {2.5e-7, "2.5e-07"}, {1.0 / 3, "0.3333333333333333"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf b = {0};
        buf_json_number(&b, cases[i].v);
        assert_string_equal(b.data, cases[i].text);
        buf_fini(&b);
    }
}

static void test_hash64_equals_the_published_vectors(void **state)
{
    (void)state;
    assert_true(hash64("", 0, 0) == 0xEF46DB3751D8E999u);
    assert_true(hash64("a", 1, 0) == 0xD24EC4F1A98C6E5Bu);
    assert_true(hash64("abc", 3, 0) == 0x44BC2CF5AD770999u);
    const char *text = "Nobody inspects the spammish repetition";
    assert_true(hash64(text, strlen(text), 0) == 0xFBCEA83C8A378BF1u);
    assert_true(hash64(NULL, 0, 0) == 0xEF46DB3751D8E999u);
}

/* Packs and caches on disk hold these values: of all lengths to 256 bytes, each hash the seed of
 * the next. */
static void test_hash64_is_what_files_hold(void **state)
{
    unsigned char bytes[256];
    uint64_t chain = 0;
    for (int i = 0; i < 256; i++)
        bytes[i] = (unsigned char)i;
    for (size_t len = 0; len <= sizeof bytes; len++)
        chain = hash64(bytes, len, chain);
    assert_true(chain == 0x54FFE343E565F68Du);
    assert_true(hash64(bytes, sizeof bytes, 0x9E3779B185EBCA87u) == 0x0B8D47FE1516AF3Eu);
}

static void test_hash128_equals_the_published_vector(void **state)
{
    const unsigned char empty[HASH128_BYTES] = {0x99, 0xaa, 0x06, 0xd3, 0x01, 0x47, 0x98, 0xd8,
                                                0x60, 0x01, 0xc3, 0x24, 0x46, 0x8d, 0x49, 0x7f};
    unsigned char out[HASH128_BYTES];
    hash128("", 0, 0, out);
    assert_memory_equal(out, empty, sizeof empty);
}

/* Killed in mid-write: the file as it was, and nothing beside it. */
static void test_file_write_atomic_leaves_nothing_when_killed(void **state)
{
    char dir[] = "/tmp/sluice-test-XXXXXX", path[64];
    static char large[65536];
    struct err e = {0};
    struct buf b = {0};
    int status;
    assert_non_null(mkdtemp(dir));
    int fd = open(dir, O_TMPFILE | O_WRONLY, 0600);
    if (fd < 0) {
        rmdir(dir);
        skip(); /* a file system without files that have no name */
    }
    close(fd);
    snprintf(path, sizeof path, "%s/file", dir);
    assert_true(file_write_atomic(path, "one", 3, 0600, &e));
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096}); /* SIGXFSZ in the middle */
        signal(SIGXFSZ, SIG_DFL);
        file_write_atomic(path, large, sizeof large, 0600, &e);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_true(file_read(path, 100, &b, &e));
    assert_string_equal(b.data, "one");
    buf_fini(&b);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0); /* empty */
}

static void test_file_write_atomic_replaces_whole(void **state)
{
    (void)state;
    char dir[] = "/tmp/sluice-test-XXXXXX", path[64], nested[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/file", dir);
    snprintf(nested, sizeof nested, "%s/a/b/c", dir);
    struct err e = {0};
    assert_true(file_write_atomic(path, "one", 3, 0600, &e));
    assert_true(file_write_atomic(path, "second", 6, 0640, &e));
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    struct buf b = {0};
    assert_true(file_read(path, 100, &b, &e));
    assert_string_equal(b.data, "second");
    buf_clear(&b);
    assert_false(file_read(path, 3, &b, &e));
    assert_int_equal(e.code, ERR_LIMIT);
    buf_fini(&b);
    struct file_map m;
    assert_true(file_map(path, &m, &e));
    assert_int_equal(m.size, 6);
    file_unmap(&m);
    assert_false(file_map(dir, &m, &e));
    assert_true(file_mkdirs(nested, 0700, &e) && file_is_dir(nested));
    assert_false(file_map(nested, &m, &e));
    assert_false(file_read("/nonexistent/x", 1, &b, &e));
    assert_int_equal(e.code, ERR_NOTFOUND);
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

struct values {
    bool flag;
    int64_t count, size;
    double rate;
    const char *name, *mode;
};

static const struct option table[] = {
    {"flag", OPTION_BOOL, offsetof(struct values, flag), "true", 0, 0, NULL, NULL, "a flag"},
    {"count", OPTION_INT, offsetof(struct values, count), "3", 1, 10, NULL, "N", "a count"},
    {"size", OPTION_BYTES, offsetof(struct values, size), "1K", 0, 0, NULL, "SIZE", "a size"},
    {"rate", OPTION_FLOAT, offsetof(struct values, rate), NULL, 0, 1, NULL, "X", "a rate"},
    {"name", OPTION_STRING, offsetof(struct values, name), NULL, 0, 0, NULL, "S", "a name"},
    {"mode", OPTION_CHOICE, offsetof(struct values, mode), "auto", 0, 0, "auto|cpu", NULL,
     "a mode"},
};

static bool parse(struct values *v, char **rest, struct err *e, int argc, char **argv)
{
    return option_parse(table, sizeof table / sizeof table[0],
                        &(struct option_args){.argc = argc, .argv = argv, .rest = rest}, v, e);
}

static void test_option_reads_values_and_keeps_the_rest(void **state)
{
    (void)state;
    struct values v;
    struct err e = {0};
    char *rest[20];
    char *argv[] = {"p",   "--no-flag", "--count=7", "first", "--size", "2MiB",    "--rate",
                    "0.5", "--name=",   "--mode",    "cpu",   "--",     "--count", NULL};
    assert_true(parse(&v, rest, &e, 13, argv));
    assert_false(v.flag);
    assert_int_equal(v.count, 7);
    assert_int_equal(v.size, 2 << 20);
    assert_true(v.rate == 0.5);
    assert_string_equal(v.name, "");
    assert_string_equal(v.mode, "cpu");
    assert_string_equal(rest[0], "first");
    assert_string_equal(rest[1], "--count");
    assert_null(rest[2]);
    char *none[] = {"p", NULL};
    assert_true(parse(&v, NULL, &e, 1, none));
    assert_true(v.flag && v.count == 3 && v.size == 1024 && !v.name);
}

static void test_option_refuses_with_the_option_named(void **state)
{
    (void)state;
    struct values v;
    char *const bad[][2] = {{"--count", "11"},      {"--count", "x"},    {"--count", "1.5"},
                            {"--size", "5Q"},       {"--rate", "nan"},   {"--mode", "gpu"},
                            {"--flag=maybe", NULL}, {"--unknown", NULL}, {"--name", NULL},
                            {"stray", NULL}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e = {0};
        char *argv[] = {"p", bad[i][0], bad[i][1], NULL};
        assert_false(parse(&v, NULL, &e, bad[i][1] ? 3 : 2, argv));
        assert_int_equal(e.code, ERR_INPUT);
        assert_true(e.text[0] != '\0');
    }
}

static void test_an_error_has_the_reason_and_the_numbers_of_its_own_alone(void **state)
{
    (void)state;
    struct err e = {0};
    assert_false(err_set(&e, ERR_LIMIT, "%d of %d", 7, 5) || err_reason(&e, "too_many"));
    assert_false(err_param(&e, "used", 7));
    assert_false(err_param(&e, "limit", INT64_MIN));
    assert_string_equal(e.reason, "too_many");
    assert_string_equal(e.params, "\"used\":7,\"limit\":-9223372036854775808");
    err_set(&e, ERR_IO, "another");
    assert_string_equal(e.reason, "");
    assert_string_equal(e.params, "");
    err_reason(&e, "a_reason_that_is_longer_than_its_room_is");
    assert_string_equal(e.reason, "");
    for (int i = 0; i < 100; i++) /* what does not fit is left out whole: the members stay JSON */
        err_param(&e, "number", 1000 + i);
    assert_true(strlen(e.params) < sizeof e.params);
    assert_string_equal(strrchr(e.params, ':') + 1, "1010");
    assert_false(err_reason(NULL, "x") || err_param(NULL, "x", 1));
}

/* A wait of so many microseconds that begins at *now; was it awake? */
static bool waits(struct busy_poll *b, double *now_ms, double us)
{
    const bool awake = busy_poll_begin(b, *now_ms);
    busy_poll_end(b, awake, us);
    *now_ms += us / 1e3;
    return awake;
}

static void test_waits_are_awake_where_they_were_short_of_late(void **state)
{
    struct busy_poll b = {0};
    double now = 1e6;
    assert_false(waits(&b, &now, 90));   /* nothing is known */
    assert_true(waits(&b, &now, 20000)); /* a model computes */
    waits(&b, &now, 20000);
    assert_false(waits(&b, &now, 20000));
    for (int i = 0; i < 1000; i++)
        waits(&b, &now, 1e6);
    int n = 0;
    while (!waits(&b, &now, 100))
        n++;
    assert_in_range(n, 2, 10); /* neither at once nor for ever */
    for (int i = 0; i < 1000; i++)
        assert_true(waits(&b, &now, 100)); /* what comes in time costs no credit */
}

/* Three requests that follow each other, then none for a while: each pause is waited for awake as
 * long as the credit lasts. */
static void test_waits_in_vain_are_a_small_share_of_the_time(void **state)
{
    struct busy_poll b = {0};
    double now = 1e6, in_vain = 0;
    const double began = now;
    for (int i = 0; i < 10000; i++)
        in_vain += waits(&b, &now, i % 4 ? 10 : 1000) && i % 4 == 0 ? BUSY_POLL_US / 1e3 : 0;
    assert_true(in_vain > 0.01 * (now - began)); /* else this shows nothing */
    assert_true(in_vain < 0.02 * (now - began) + 10 * BUSY_POLL_US / 1e3);
}

/* Upstreams fail and clients leave before the first word; several are awaited at once. */
static void test_waits_that_are_given_up_count_as_in_vain(void **state)
{
    struct busy_poll b = {0};
    double now = 1e6, in_vain = 0;
    waits(&b, &now, 10);
    const double began = now;
    for (int i = 0; i < 10000; i++, now++)
        in_vain += busy_poll_begin(&b, now) ? BUSY_POLL_US / 1e3 : 0;
    assert_true(in_vain > 0.01 * (now - began));
    assert_true(in_vain < 0.02 * (now - began) + 10 * BUSY_POLL_US / 1e3);
    now += 1000;
    bool awake[8];
    for (int i = 0; i < 8; i++)
        assert_true(awake[i] = busy_poll_begin(&b, now));
    for (int i = 0; i < 8; i++)
        busy_poll_end(&b, awake[i], 10);
    assert_true(busy_poll_begin(&b, now) && busy_poll_begin(&b, now) && busy_poll_begin(&b, now));
}

static void test_buf_printf_grows_and_fails_whole(void **state)
{
    struct buf b = {.limit = 20};
    assert_true(buf_printf(&b, "%s", "0123456789"));
    assert_true(buf_printf(&b, "-%d", 12345)); /* into the room that there is */
    assert_string_equal(b.data, "0123456789-12345");
    assert_false(buf_printf(&b, "%s", "too long for it"));
    assert_string_equal(b.data, "0123456789-12345");
    assert_int_equal(b.len, 16);
    buf_fini(&b);
}

/* What a reader of standard error finds; "" when there is nothing. */
static const char *read_log(int fd)
{
    static char text[8192];
    const ssize_t n = read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void write_gathered(int reader)
{
    log_gather();
    log_info("one=1");
    assert_string_equal(read_log(reader), "");
    assert_true(log_gathered());
    log_info("two=2");
    log_flush();
    const char *both = read_log(reader);
    assert_true(strstr(both, "one=1\n") && strstr(strstr(both, "one=1"), "two=2\n"));
    assert_false(log_gathered());
    log_info("three=3");
    log_warn("four=4"); /* never waits, nor what came before it */
    assert_non_null(strstr(read_log(reader), "three=3\n"));
    int n = 0;
    while (!*read_log(reader) && n < 1000) {
        log_info("line=%d", n++);
        assert_true(log_gathered());
    }
    assert_in_range(n, 20, 200); /* a buffer full */
}

static void test_log_lines_wait_for_each_other_where_they_are_gathered(void **state)
{
    const pid_t pid = fork(); /* since it is once and for all */
    if (pid == 0) {
        int ends[2];
        if (pipe(ends) || fcntl(ends[0], F_SETFL, O_NONBLOCK) || dup2(ends[1], 2) != 2)
            _exit(1);
        write_gathered(ends[0]);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_are_awake_where_they_were_short_of_late),
        cmocka_unit_test(test_waits_in_vain_are_a_small_share_of_the_time),
        cmocka_unit_test(test_waits_that_are_given_up_count_as_in_vain),
        cmocka_unit_test(test_buf_printf_grows_and_fails_whole),
        cmocka_unit_test(test_log_lines_wait_for_each_other_where_they_are_gathered),
        cmocka_unit_test(test_arena_gives_zeroed_aligned_memory_up_to_its_limit),
        cmocka_unit_test(test_buf_remembers_that_it_failed),
        cmocka_unit_test(test_buf_json_string_is_always_valid_utf8),
        cmocka_unit_test(test_buf_json_number_is_shortest_that_reads_back),
        cmocka_unit_test(test_an_error_has_the_reason_and_the_numbers_of_its_own_alone),
        cmocka_unit_test(test_hash64_equals_the_published_vectors),
        cmocka_unit_test(test_hash64_is_what_files_hold),
        cmocka_unit_test(test_hash128_equals_the_published_vector),
        cmocka_unit_test(test_file_write_atomic_replaces_whole),
        cmocka_unit_test(test_file_write_atomic_leaves_nothing_when_killed),
        cmocka_unit_test(test_option_reads_values_and_keeps_the_rest),
        cmocka_unit_test(test_option_refuses_with_the_option_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
