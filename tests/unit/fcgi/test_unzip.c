/* Archives that are imported: what the process that unpacks them can reach, and what a worker makes
 * of a process that lies (reader/unzip.h, fcgi/import/zip_process.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sys/wait.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/zip_writer.h"
#include "fcgi/import/zip_process.h"
#include "reader/unzip.h"
#include "tests/unit/support/confined.h"

/* ---- the process ---- */

static void try_to_escape(void *unused)
{
    const char *why;
    char path[] = "/tmp/sluice-unzip-XXXXXX", *const args[] = {"/bin/true", NULL};
    const int file = mkstemp(path), library = open("/usr/lib/os-release", O_RDONLY);
    struct stat st;
    unlink(path);
    signal(SIGXFSZ, SIG_IGN);
    CONFINED_EXPECT(write(file, "archive", 7) == 7);
    CONFINED_EXPECT(unzip_lock_in(&why));
    CONFINED_REFUSED(open("/usr/lib/os-release", O_RDONLY), EPERM);
    CONFINED_REFUSED(open("/tmp/new", O_CREAT | O_RDWR, 0600), EPERM);
    CONFINED_REFUSED(stat("/etc", &st), EPERM);
    CONFINED_REFUSED(fstat(file, &st), EPERM);
    CONFINED_REFUSED(write(file, "x", 1), EFBIG); /* not even what it was given */
    CONFINED_REFUSED(pwrite(file, "x", 1, 0), EPERM);
    CONFINED_REFUSED(ftruncate(file, 0), EPERM);
    CONFINED_REFUSED(socket(AF_UNIX, SOCK_STREAM, 0), EPERM);
    CONFINED_REFUSED(socket(AF_INET, SOCK_STREAM, 0), EPERM);
    CONFINED_REFUSED(fork(), EPERM);
    CONFINED_REFUSED(execv("/bin/true", args), EPERM);
    CONFINED_REFUSED(kill(getppid(), 0), EPERM);
    CONFINED_EXPECT(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, library, 0) == MAP_FAILED);
    CONFINED_EXPECT(lseek(file, 0, SEEK_SET) == 0);
}

static void test_what_unpacks_an_archive_reaches_nothing(void **unused)
{
    assert_int_equal(confined_run(try_to_escape, NULL), 0);
}

/* ---- its words ---- */

/* A "process" that has said all this already, and then is gone, or not. */
static struct zip_process *speaker(const void *data, size_t len, bool leaves, int *other)
{
    int pair[2];
    struct err e = {0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(write(pair[1], data, len), (ssize_t)len);
    if (leaves)
        shutdown(pair[1], SHUT_WR);
    *other = pair[1];
    struct zip_process *z = zip_process_attach(pair[0], &e);
    assert_non_null(z);
    return z;
}

struct said {
    struct unzip_frame frame;
    char bytes[64];
};

static void expect_refused(struct unzip_frame f, const char *bytes, enum err_code code)
{
    struct said s = {.frame = f};
    struct zip_process_entry entry;
    struct err e = {0};
    int other;
    snprintf(s.bytes, sizeof s.bytes, "%s", bytes);
    struct zip_process *z = speaker(&s, sizeof f + strlen(bytes), true, &other);
    assert_int_equal(zip_process_next(z, &entry, &e), -1);
    assert_int_equal(e.code, code);
    for (const char *c = e.text; *c; c++)
        assert_in_range(*c, ' ', '~');
    zip_process_close(&z);
    close(other);
}

static void test_a_reply_out_of_bounds_is_refused(void **unused)
{
    const uint32_t whole = UNZIP_WHOLE;
    expect_refused((struct unzip_frame){.reply = UNZIP_DATA, .len = 1}, "x", ERR_INPUT);
    expect_refused((struct unzip_frame){.reply = 77}, "", ERR_INPUT);
    expect_refused((struct unzip_frame){.reply = UNZIP_ENTRY, .len = UNZIP_NAME + 1}, "x",
                   ERR_INPUT);
    expect_refused((struct unzip_frame){.reply = UNZIP_ENTRY, .len = UINT32_MAX}, "x", ERR_INPUT);
    expect_refused((struct unzip_frame){.reply = UNZIP_ENTRY, .len = 10}, "short", ERR_INPUT);
    expect_refused((struct unzip_frame){.reply = UNZIP_DAMAGED, .len = UINT32_MAX}, "x", ERR_INPUT);
    expect_refused((struct unzip_frame){.reply = UNZIP_DAMAGED, .flags = whole, .len = 5},
                   "a\x1b[2J", ERR_INPUT);
    expect_refused((struct unzip_frame){.reply = UNZIP_DAMAGED, .len = 5}, "words", ERR_FORMAT);
}

static void test_a_name_longer_than_a_name_is_refused(void **unused)
{
    static struct {
        struct unzip_frame entry;
        char name[UNZIP_NAME + 1];
    } s = {.entry = {.reply = UNZIP_ENTRY, .len = UNZIP_NAME + 1}};
    struct zip_process_entry entry;
    struct err e = {0};
    int other;
    memset(s.name, 'n', sizeof s.name);
    struct zip_process *z = speaker(&s, sizeof s, true, &other);
    assert_int_equal(zip_process_next(z, &entry, &e), -1);
    assert_int_equal(e.code, ERR_INPUT);
    zip_process_close(&z);
    close(other);
}

static void test_a_block_larger_than_a_block_is_refused(void **unused)
{
    static struct {
        struct unzip_frame entry;
        char name[8]; /* so that nothing is between */
        struct unzip_frame data;
        char bytes[UNZIP_BLOCK + 1];
    } s = {.entry = {.reply = UNZIP_ENTRY, .len = 8, .size = -5},
           .name = {'a', '/', 0, 'b'},
           .data = {.reply = UNZIP_DATA, .len = UNZIP_BLOCK + 1}};
    struct zip_process_entry entry;
    struct err e = {0};
    char piece[100];
    int other;
    struct zip_process *z = speaker(&s, sizeof s, true, &other);
    assert_int_equal(zip_process_read(z, piece, sizeof piece, &e), 0); /* no entry yet */
    assert_int_equal(zip_process_next(z, &entry, &e), 1);
    assert_string_equal(entry.name, "a/"); /* a name ends where it ends */
    assert_int_equal(entry.bytes, 0);
    assert_int_equal(zip_process_read(z, piece, sizeof piece, &e), -1);
    assert_int_equal(e.code, ERR_INPUT);
    zip_process_close(&z);
    close(other);
}

/* ---- both ---- */

static bool keep(void *out, const void *data, size_t len, struct err *e)
{
    return buf_append(out, data, len) || err_set(e, ERR_NOMEM, "no memory");
}

/* Two entries in a file without a name. */
static int sample(void)
{
    char path[] = "/tmp/sluice-unzip-XXXXXX", piece[1000] = "";
    const int fd = mkstemp(path);
    struct buf b = {0};
    struct err e = {0};
    struct zip_writer *z = zip_writer_create(keep, &b, &e);
    unlink(path);
    assert_true(z && zip_writer_entry(z, "passed over", 0, true, &e));
    for (int i = 0; i < 200; i++)
        assert_true(zip_writer_write(z, piece, sizeof piece, &e));
    assert_true(zip_writer_entry(z, "long", 0, false, &e));
    for (int i = 0; i < 300; i++)
        assert_true(zip_writer_write(z, piece, sizeof piece, &e));
    assert_true(zip_writer_finish(z, &e));
    zip_writer_destroy(&z);
    assert_int_equal(write(fd, b.data, b.len), (ssize_t)b.len);
    buf_fini(&b);
    return fd;
}

_Noreturn static void serve(int archive, int socket)
{
    const char *why;
    _exit(unzip_lock_in(&why) ? unzip_serve(archive, socket) : 9);
}

static void test_an_archive_comes_through_the_walls(void **unused)
{
    char piece[1000];
    struct zip_process_entry entry;
    struct err e = {0};
    int pair[2], archive = sample(), status;
    size_t sum = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        serve(archive, pair[1]);
    }
    close(pair[1]);
    struct zip_process *z = zip_process_attach(pair[0], &e);
    assert_int_equal(zip_process_next(z, &entry, &e), 1);
    assert_string_equal(entry.name, "passed over");
    assert_int_equal(zip_process_next(z, &entry, &e), 1);
    assert_string_equal(entry.name, "long");
    assert_true(entry.regular);
    for (int64_t n; (n = zip_process_read(z, piece, sizeof piece, &e)) != 0; sum += (size_t)n)
        assert_true(n > 0);
    assert_int_equal(sum, 300000);
    assert_int_equal(zip_process_read(z, piece, sizeof piece, &e), 0);
    assert_true(zip_process_at(z) > 0);
    assert_int_equal(zip_process_next(z, &entry, &e), 0);
    zip_process_close(&z);
    close(archive);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_unpacks_an_archive_reaches_nothing),
        cmocka_unit_test(test_a_reply_out_of_bounds_is_refused),
        cmocka_unit_test(test_a_name_longer_than_a_name_is_refused),
        cmocka_unit_test(test_a_block_larger_than_a_block_is_refused),
        cmocka_unit_test(test_an_archive_comes_through_the_walls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
