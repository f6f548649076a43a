/* What memory a machine has, read from made-up /proc and /sys trees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/memory/machine.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static char root[64];

static void put(const char *path, const char *text)
{
    char full[512];
    struct err e = {0};
    snprintf(full, sizeof full, "%s%s", root, path);
    *strrchr(full, '/') = '\0';
    assert_true(file_mkdirs(full, 0700, &e));
    snprintf(full, sizeof full, "%s%s", root, path);
    assert_true(file_write_atomic(full, text, strlen(text), 0600, &e));
}

static int make_root(void **state)
{
    strcpy(root, "/tmp/test-machine-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    put("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:   12582912 kB\n"
                         "SwapTotal:       2097152 kB\nSwapFree:        1048576 kB\n");
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return remove(path);
}

static int remove_root(void **state)
{
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct machine read_it(void)
{
    struct machine m;
    struct err e = {0};
    assert_true(machine_read(root, &m, &e));
    return m;
}

static void mounts_v2(const char *own)
{
    char line[256];
    snprintf(line, sizeof line, "0::%s\n", own);
    put("/proc/self/cgroup", line);
    put("/proc/self/mountinfo", "24 1 0:22 / / rw - ext4 /dev/vda rw\n31 24 0:27 / /sys/fs/cgroup "
                                "rw,nosuid shared:9 - cgroup2 cgroup2 rw\n");
}

static void test_without_groups_the_kernels_count_stands(void **state)
{
    struct machine m = read_it();
    assert_int_equal(m.total, 16 * GIB);
    assert_int_equal(m.available, 12 * GIB);
    assert_int_equal(m.swap_total, 2 * GIB);
    assert_int_equal(m.swap_free, GIB);
    assert_true(m.group_limit == MACHINE_NO_LIMIT);
}

static void test_no_meminfo_is_an_error(void **state)
{
    struct machine m;
    struct err e = {0};
    assert_false(machine_read("/nonexistent", &m, &e));
    assert_int_equal(e.code, ERR_IO);
}

static void test_the_tightest_group_on_the_way_counts(void **state)
{
    mounts_v2("/user.slice/sluice.service");
    put("/sys/fs/cgroup/cgroup.controllers", "memory\n");
    put("/sys/fs/cgroup/user.slice/memory.max", "4294967296\n");
    put("/sys/fs/cgroup/user.slice/memory.high", "max\n");
    put("/sys/fs/cgroup/user.slice/memory.current",
        "3221225472\n"); /* of 4 GiB 1 is left, and 512 MiB of it are droppable */
    put("/sys/fs/cgroup/user.slice/memory.stat",
        "anon 1\nfile 9\ninactive_file 268435456\nactive_file 268435456\n");
    put("/sys/fs/cgroup/user.slice/sluice.service/memory.max", "max\n");
    put("/sys/fs/cgroup/user.slice/sluice.service/memory.high", "8589934592\n");
    put("/sys/fs/cgroup/user.slice/sluice.service/memory.current", "1073741824\n");
    struct machine m = read_it();
    assert_int_equal(m.group_limit, 4 * GIB);
    assert_int_equal(m.total, 4 * GIB);
    assert_int_equal(m.group_available, GIB + 512 * MIB);
    assert_int_equal(m.available, GIB + 512 * MIB);
    assert_int_equal(m.system_available, 12 * GIB);
}

static void test_memory_high_is_a_limit(void **state)
{
    mounts_v2("/a");
    put("/sys/fs/cgroup/a/memory.max", "8589934592\n");
    put("/sys/fs/cgroup/a/memory.high", "2147483648\n");
    put("/sys/fs/cgroup/a/memory.current", "3221225472\n");
    struct machine m = read_it();
    assert_int_equal(m.group_limit, 2 * GIB);
    assert_int_equal(m.available, 0); /* over its limit: nothing may be taken */
}

static void test_a_container_sees_its_own_part_of_the_tree(void **state)
{
    put("/proc/self/cgroup", "0::/docker/abc/inner\n");
    put("/proc/self/mountinfo", "31 24 0:27 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    put("/sys/fs/cgroup/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/memory.current", "104857600\n");
    put("/sys/fs/cgroup/inner/memory.current", "1048576\n");
    struct machine m = read_it();
    assert_int_equal(m.group_limit, GIB);
    assert_int_equal(m.available, GIB - 100 * MIB);
}

static void test_version_1_is_read_as_well(void **state)
{
    put("/proc/self/cgroup", "4:memory:/box\n1:cpu:/\n0::/\n");
    put("/proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                                "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "999999999\n");
    put("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "2147483648\n");
    put("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "1610612736\n");
    put("/sys/fs/cgroup/memory/box/memory.stat",
        "inactive_file 1\ntotal_inactive_file 268435456\ntotal_active_file 0\n");
    put("/sys/fs/cgroup/memory/box/memory.failcnt", "7\n");
    struct machine m = read_it();
    assert_int_equal(m.group_limit, 2 * GIB);
    assert_int_equal(m.available, 768 * MIB);
    struct machine_stress s;
    machine_stress_read(root, &s);
    assert_int_equal(s.limit_hits, 7);
}

static void test_stress_is_our_groups_own(void **state)
{
    struct machine_stress s;
    mounts_v2("/a");
    put("/sys/fs/cgroup/a/memory.current", "1\n");
    put("/sys/fs/cgroup/a/memory.events", "low 0\nhigh 3\nmax 4\noom 1\noom_kill 2\n");
    put("/proc/pressure/memory", "some avg10=9.50 avg60=0.00 avg300=0.00 total=0\n");
    machine_stress_read(root, &s);
    assert_int_equal(s.limit_hits, 7);
    assert_int_equal(s.kills, 2);
    assert_float_equal(s.stalled, 9.5, 1e-9); /* the machine's, where the group has none */
    put("/sys/fs/cgroup/a/memory.pressure",
        "some avg10=1.25 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00\n");
    machine_stress_read(root, &s);
    assert_float_equal(s.stalled, 1.25, 1e-9);
}

static void test_this_machine_has_memory(void **state)
{
    struct machine m;
    struct err e = {0};
    assert_true(machine_read("", &m, &e));
    assert_true(m.total >= 64 * MIB && m.available > 0 && m.available <= m.total);
}

int main(void)
{
#define WITH_ROOT(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        WITH_ROOT(test_without_groups_the_kernels_count_stands),
        cmocka_unit_test(test_no_meminfo_is_an_error),
        WITH_ROOT(test_the_tightest_group_on_the_way_counts),
        WITH_ROOT(test_memory_high_is_a_limit),
        WITH_ROOT(test_a_container_sees_its_own_part_of_the_tree),
        WITH_ROOT(test_version_1_is_read_as_well),
        WITH_ROOT(test_stress_is_our_groups_own),
        cmocka_unit_test(test_this_machine_has_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
