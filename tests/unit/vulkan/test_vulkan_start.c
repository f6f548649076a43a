/* What the start of an engine with a GPU does before the model is there: the device is measured by
 * a model in miniature, and goes on to the model with all that was compiled; pipelines are kept
 * between two starts. Run from the build folder; $srcdir as automake sets it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/model/model.h"
#include "engine/vulkan/device/pipeline_file.h"
#include "engine/vulkan/measure/proxy_model.h"
#include "engine/vulkan/device/backend_kept.h"
#include "engine/vulkan/ops/backend_state.h"

static struct model *model; /* DeltaNet and attention in turn */
static char folder[] = "/tmp/sluice-start-XXXXXX";
static char path[128]; /* of kept pipelines */
static VkPhysicalDeviceProperties about;

static int open_device(void)
{
    struct gpu g = {0};
    struct err e = {0};
    if (!gpu_open(&g, folder, &e))
        return -1;
    vkGetPhysicalDeviceProperties(g.physical, &about);
    snprintf(path, sizeof path, "%s", g.cache_path);
    gpu_close(&g);
    return 0;
}

static int open_all(void **state)
{
    const char *srcdir = getenv("srcdir");
    char name[4096];
    struct err e = {0};
    snprintf(name, sizeof name, "%s/tests/data/golden/qwen35moe/mlx-mixed3", srcdir ? srcdir : ".");
    model = model_open(name, &e);
    return model && mkdtemp(folder) ? open_device() : -1;
}

static int close_all(void **state)
{
    model_close(&model);
    unlink(path);
    return rmdir(folder);
}

static void test_a_miniature_stands_for_all_layers(void **state)
{
    struct err e = {0};
    struct proxy_model m;
    const struct model_plan *plan = model_plan(model);
    assert_true(proxy_model_init(&m, plan, 1 << 20, &e));
    int32_t layers = 0, n = 0;
    for (int32_t i = 0; i < m.n_kinds; i++) {
        layers += m.kinds[i].count;
        assert_int_equal(m.kinds[i].first, n);
        n += m.kinds[i].n;
        assert_int_equal(m.plan.layers[m.kinds[i].first].mixer,
                         plan->layers[m.kinds[i].like].mixer);
    }
    assert_true(m.n_kinds >= 2);
    assert_int_equal(layers, plan->n_layer);
    assert_int_equal(n, m.plan.n_layer);
    proxy_model_fini(&m);
}

/* Of the model with so many experts in its layers, beside which each has a shared one with a gate.
 */
static bool planned(int32_t n_expert, struct err *e)
{
    const struct backend_params p = {
        .n_blocks = 2, .n_states = 1, .max_rows = 4, .max_sequences = 1};
    struct model_plan plan = *model_plan(model);
    struct layer_plan *layers = calloc((size_t)plan.n_layer, sizeof *layers);
    struct backend_memory m;
    assert_non_null(layers);
    memcpy(layers, plan.layers, (size_t)plan.n_layer * sizeof *layers);
    for (int32_t i = 0; i < plan.n_layer; i++) {
        assert_true(layers[i].moe.shared_gate.n_matrix > 0);
        layers[i].moe.n_expert = n_expert;
    }
    plan.layers = layers;
    const bool ok = vulkan_backend.probe->estimate(&plan, &p, &m, e);
    free(layers);
    return ok;
}

static void test_the_shared_expert_takes_no_place_of_a_routed_one(void **state)
{
    struct err e = {0};
    if (!planned(32 * USED_WORDS, &e))
        fail_msg("%s", e.text);
    assert_false(planned(32 * USED_WORDS + 1, &e));
    assert_int_equal(e.code, ERR_UNSUPPORTED);
}

static void measure(struct backend_kept **kept, struct backend_speed *s)
{
    struct err e = {0};
    const struct backend_params p = {
        .device_experts = 1, .host_experts = 1, .cache_dir = folder, .kept = kept};
    if (!vulkan_backend.probe->speed(model_plan(model), &p, s, &e))
        fail_msg("%s", e.text);
}

static struct backend *open_with(struct backend_kept **kept)
{
    struct err e = {0};
    const struct backend_params p = {
        .n_blocks = 2, .n_states = 1, .max_rows = 4, .max_sequences = 1, .kept = kept};
    struct backend *b = vulkan_backend.open(model_plan(model), &p, &e);
    if (!b)
        fail_msg("%s", e.text);
    return b;
}

static void logits_of(struct backend *b, float *out)
{
    static const int32_t token = 7, block = 1;
    const size_t bytes = (size_t)model_plan(model)->n_vocab * sizeof *out;
    struct err e = {0};
    struct step_row row;
    struct step_sequence q = {
        .tokens = &token, .n_tokens = 1, .blocks = &block, .n_out = 1, .want_logits = true};
    struct step s = {.sequences = &q, .n_sequences = 1, .n_top = 1};
    if (!vulkan_backend.step(b, &s, &row, &e))
        fail_msg("%s", e.text);
    memcpy(out, row.logits, bytes);
}

static void test_the_measured_device_runs_the_model(void **state)
{
    const size_t n = (size_t)model_plan(model)->n_vocab;
    float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    struct backend_kept *kept = NULL;
    struct backend_speed s = {0};
    assert_true(want && got);
    measure(&kept, &s);
    assert_true(s.dense > 0 && s.experts > 0 && s.memory > 0 && s.link > 0 && s.unpack > 0 &&
                s.layer_s > 0 && s.waits);
    assert_non_null(kept);
    const VkDevice device = kept->gpu.device;
    const int compiled = kept->gpu.n_pipelines;
    struct backend *goes_on = open_with(&kept), *fresh = open_with(NULL);
    assert_null(kept);
    assert_ptr_equal(goes_on->gpu.device, device);
    logits_of(fresh, want);
    logits_of(goes_on, got);
    assert_memory_equal(want, got, n * sizeof *got);
    /* of those that it needs some were there */
    assert_true(goes_on->gpu.n_pipelines < compiled + fresh->gpu.n_pipelines - 5);
    vulkan_backend.close(&goes_on);
    vulkan_backend.close(&fresh);
    free(want);
    free(got);
}

static void test_a_device_that_nobody_took_is_closed(void **state)
{
    struct backend_kept *kept = NULL;
    struct err e = {0};
    assert_true(backend_kept_open(&kept, &(struct backend_params){0}, &e));
    vulkan_backend.probe->drop(&kept);
    assert_null(kept);
    vulkan_backend.probe->drop(&kept);
}

static void test_a_device_that_is_lost_while_it_is_kept_is_opened_anew(void **state)
{
    struct backend_kept *kept = NULL;
    struct gpu g;
    struct err e = {0};
    assert_true(backend_kept_open(&kept, &(struct backend_params){0}, &e));
    kept->gpu.lost = true;
    assert_true(backend_kept_take(&(struct backend_params){.kept = &kept}, &g, &e));
    assert_null(kept);
    assert_false(g.lost);
    gpu_close(&g);
}

/* --- pipelines on disk */
static void put(const char *text)
{
    struct err e = {0};
    const struct buf data = {.data = (char *)(uintptr_t)text, .len = strlen(text)};
    assert_true(pipeline_file_write(path, &about, &data, &e));
}

static void expect(const VkPhysicalDeviceProperties *p, const char *text)
{
    struct buf data = {0};
    pipeline_file_read(path, p, &data);
    assert_int_equal(data.len, strlen(text));
    if (data.len)
        assert_memory_equal(data.data, text, data.len);
    assert_int_equal(file_exists(path), text[0] != 0);
    buf_fini(&data);
}

static void test_kept_pipelines_come_back_to_their_driver(void **state)
{
    struct stat s;
    VkPhysicalDeviceProperties other = about;
    put("what it compiled");
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    expect(&about, "what it compiled");
    other.driverVersion++;
    expect(&other, "");
    put("what it compiled");
    other = about;
    other.pipelineCacheUUID[3] ^= 1;
    expect(&other, "");
}

static void test_damaged_pipelines_are_removed(void **state)
{
    struct err e = {0};
    struct buf whole = {0};
    put("what it compiled");
    assert_true(file_read(path, 4096, &whole, &e));
    for (size_t i = 0; i < whole.len; i += 3) {
        whole.data[i] ^= 4;
        assert_true(file_write_unsynced(path, whole.data, whole.len, 0600, &e));
        expect(&about, "");
        whole.data[i] ^= 4;
    }
    for (size_t len = 0; len < whole.len; len += 5) {
        assert_true(file_write_unsynced(path, whole.data, len, 0600, &e));
        expect(&about, "");
    }
    buf_fini(&whole);
}

static void test_pipelines_that_cannot_be_read_now_stay(void **state)
{
    struct rlimit files;
    struct buf data = {0};
    put("what it compiled");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, files.rlim_max}), 0);
    pipeline_file_read(path, &about, &data);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(data.len, 0);
    expect(&about, "what it compiled");
    buf_fini(&data);
}

static void test_a_device_opens_over_damaged_pipelines_and_keeps_its_own(void **state)
{
    struct err e = {0};
    struct gpu g = {0};
    struct buf data = {0};
    assert_true(file_write_atomic(path, "broken", 6, 0600, &e));
    assert_true(gpu_open(&g, folder, &e));
    assert_false(file_exists(path));
    gpu_close(&g);
    pipeline_file_read(path, &about, &data);
    assert_true(data.len > 0); /* the driver's header at least */
    buf_fini(&data);
}

int main(void)
{
    struct err e = {0};
    if (!vulkan_backend.probe->usable(&e)) {
        fprintf(stderr, "skipped: %s\n", e.text);
        return 77;
    }
    log_set_level(LOG_WARN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_miniature_stands_for_all_layers),
        cmocka_unit_test(test_the_shared_expert_takes_no_place_of_a_routed_one),
        cmocka_unit_test(test_the_measured_device_runs_the_model),
        cmocka_unit_test(test_a_device_that_nobody_took_is_closed),
        cmocka_unit_test(test_a_device_that_is_lost_while_it_is_kept_is_opened_anew),
        cmocka_unit_test(test_kept_pipelines_come_back_to_their_driver),
        cmocka_unit_test(test_damaged_pipelines_are_removed),
        cmocka_unit_test(test_pipelines_that_cannot_be_read_now_stay),
        cmocka_unit_test(test_a_device_opens_over_damaged_pipelines_and_keeps_its_own),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
