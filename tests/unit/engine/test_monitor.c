/* Memory that others take, in made-up /proc and /sys trees: the cache of experts gives way within a
 * second, says so in the log and on the status page, and what the kernel counts for the process
 * stands there too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#define LOG_MODULE "test"
#include "engine/base/log.h"
#include "engine/sched/watch/monitor.h"
#include "tests/unit/support/expert_models.h"
#include "engine/base/clock.h"
#include "tests/unit/support/patience.h"

#define MIB ((uint64_t)1 << 20)
#define BUDGET (8 * MIB)
#define MARGIN (BUDGET / 16) /* given back beside what is missing */
#define LOW_MIB 32           /* half the reserve of a machine of 4 GiB */

static char root[64], page_path[96];
static struct model *model;
static struct expert_layout layout;
static struct expert_cache *store;
static struct status_writer *writer;
static struct monitor *monitor;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_line[512];

static void keep_line(enum log_level level, const char *module, const char *text, size_t len)
{
    pthread_mutex_lock(&log_lock);
    if (strstr(text, "expert cache"))
        snprintf(last_line, sizeof last_line, "%s", text);
    pthread_mutex_unlock(&log_lock);
}

static void put(const char *path, const char *format, unsigned long long value)
{
    char full[256], text[256];
    struct err e = {0};
    snprintf(full, sizeof full, "%s%s", root, path);
    *strrchr(full, '/') = '\0';
    assert_true(file_mkdirs(full, 0700, &e));
    snprintf(full, sizeof full, "%s%s", root, path);
    snprintf(text, sizeof text, format, value);
    assert_true(file_write_atomic(full, text, strlen(text), 0600, &e));
}

static void available_mib(unsigned long long n)
{
    put("/proc/meminfo", "MemTotal: 4194304 kB\nMemAvailable: %llu kB\n", n * 1024);
}

static struct expert_counters counters(void)
{
    struct expert_counters c;
    expert_cache_counters(store, &c);
    return c;
}

static struct status_page page(void)
{
    static struct status_page p;
    struct err e = {0};
    assert_true(status_read(page_path, &p, &e));
    return p;
}

/* Every expert of every layer, so that the budget is full. */
static void fill_cache(void)
{
    struct err e = {0};
    int32_t ids[256], n;
    for (int32_t i = 0; i < layout.n_layers; i++) {
        struct expert_want wants[256];
        for (int32_t x = 0; x < layout.layers[i].n_expert; x++)
            wants[x] = (struct expert_want){.expert = x, .rows = 1};
        expert_cache_begin(store, &(struct expert_layer_request){.layer = layout.layers[i].layer,
                                                                 .wants = wants,
                                                                 .n = layout.layers[i].n_expert,
                                                                 .rows = 64,
                                                                 .in_order = true});
        while ((n = expert_cache_take(store, ids, 256, true, &e)) > 0)
            expert_cache_give(store, ids, n);
        expert_cache_end(store);
        assert_int_equal(n, 0);
    }
}

static int begin(void **state)
{
    struct err e = {0};
    strcpy(root, "/tmp/test-monitor-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    snprintf(page_path, sizeof page_path, "%s/page", root);
    last_line[0] = 0;
    available_mib(1024);
    put("/proc/self/status",
        "Name:\tengine\nRssAnon:\t    %llu kB\nRssFile:\t    2000 kB\nRssShmem:\t      24 kB\n",
        3000);
    put("/proc/self/io", "rchar: 5\nread_bytes: %llu\nwrite_bytes: 3\n", 123456789);
    model = model_open(expert_model_path("engine/demo-model"), &e);
    if (!model || !expert_layout_open(&layout, model, &e))
        fail_msg("%s", e.text);
    store = expert_cache_open(&(struct expert_cache_params){.layout = &layout,
                                                            .plan = model_plan(model),
                                                            .budget = BUDGET},
                              &e);
    writer = status_create(page_path, &e);
    if (!store || !writer)
        fail_msg("%s", e.text);
    fill_cache();
    return 0;
}

static void watch(void)
{
    struct err e = {0};
    monitor = monitor_create(writer, root, &e);
    assert_non_null(monitor);
    monitor_set_expert_cache(monitor, store, expert_cache_min_bytes(&layout));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return remove(path);
}

static int end(void **state)
{
    monitor_destroy(&monitor);
    status_close(&writer);
    expert_cache_close(&store);
    expert_layout_close(&layout);
    model_close(&model);
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Until the page counts so many. */
static void until_shrinks(uint64_t n)
{
    for (double end = clock_ms() + PATIENCE_MS;
         page().memory_pressure_shrinks < n && clock_ms() < end;)
        usleep(10000);
    assert_true(page().memory_pressure_shrinks >= n);
}

static void check_gave_way(const struct expert_counters *before, uint64_t give)
{
    struct expert_counters now = counters();
    unsigned long long bytes = 0, planned = 0;
    assert_true(now.budget_bytes <= before->resident_bytes - give);
    assert_true(now.resident_bytes <= now.budget_bytes);
    assert_true(now.evictions > before->evictions);
    pthread_mutex_lock(&log_lock);
    int found = sscanf(last_line, "expert cache shrinks bytes=%llu before=%*u planned=%llu", &bytes,
                       &planned);
    pthread_mutex_unlock(&log_lock);
    assert_int_equal(found, 2);
    assert_int_equal(planned, BUDGET);
    assert_int_equal(bytes, now.budget_bytes);
}

static void test_the_page_has_what_the_kernel_counts(void **state)
{
    watch();
    for (double end = clock_ms() + PATIENCE_MS; !page().resident_bytes && clock_ms() < end;)
        usleep(10000);
    assert_int_equal(page().anonymous_bytes, 3000 * 1024);
    assert_int_equal(page().mapped_bytes, 2024 * 1024);
    assert_int_equal(page().resident_bytes, 5024 * 1024);
    assert_int_equal(page().disk_read_bytes, 123456789);
    assert_int_equal(page().memory_available, 1024 * MIB);
    assert_int_equal(page().memory_pressure_shrinks, 0);
    assert_int_equal(counters().budget_bytes, BUDGET);
}

static void test_other_programs_take_memory(void **state)
{
    struct expert_counters full = counters();
    assert_true(full.resident_bytes > BUDGET / 2 && full.resident_bytes <= BUDGET);
    available_mib(LOW_MIB - 1);
    watch();
    until_shrinks(1);
    available_mib(1024);
    check_gave_way(&full, MIB + MARGIN);
    fill_cache(); /* it works on with less */
    assert_true(counters().resident_bytes <= counters().budget_bytes);
}

static void test_a_groups_limit_comes_near(void **state)
{
    struct expert_counters full = counters();
    put("/proc/self/cgroup", "0::/box\n", 0);
    put("/proc/self/mountinfo",
        "31 24 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n", 0);
    put("/sys/fs/cgroup/cgroup.controllers", "memory\n", 0);
    put("/sys/fs/cgroup/box/memory.max", "%llu\n", 4096 * MIB);
    put("/sys/fs/cgroup/box/memory.current", "%llu\n", 100 * MIB);
    watch();
    put("/sys/fs/cgroup/box/memory.current", "%llu\n",
        4096 * MIB); /* nothing is left: all but the least is given back */
    until_shrinks(1);
    assert_int_equal(counters().budget_bytes, expert_cache_min_bytes(&layout));
    check_gave_way(&full, full.resident_bytes - expert_cache_min_bytes(&layout));
    assert_int_equal(page().memory_available, 0);
}

int main(void)
{
#define IN_A_MACHINE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        IN_A_MACHINE(test_the_page_has_what_the_kernel_counts),
        IN_A_MACHINE(test_other_programs_take_memory),
        IN_A_MACHINE(test_a_groups_limit_comes_near),
    };
    log_set_sink(keep_line);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
