/* Experts of which only some are on the device: the choice of those by itself, and a Vulkan device
 * with few slots against one that holds all. 77 where no Vulkan device answers. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backend/backend.h"
#include "engine/base/file.h"
#include "engine/experts/policy/miss_policy.h"
#include "engine/experts/streaming.h"
#include "engine/model/model.h"
#include "engine/vulkan/experts/expert_views.h"
#include "engine/vulkan/experts/slot_policy.h"
#include "engine/vulkan/weights/block_decode.h"
#include "tests/unit/support/cpu_weights.h"

#define VOCAB 8192
#define PROMPT 12
#define STEPS 5

/* Any bytes are blocks of any format: taken apart and put together again they are the same. */
static void test_blocks_come_back_bit_for_bit(void **state)
{
    enum { BLOCKS = 6, MOST = 256 };
    uint64_t x = 11;
    int n = 0;
    for (int type = 0; type < WEIGHT__N; type++) {
        struct device_block_format f;
        uint8_t row[BLOCKS * MOST], planes[BLOCK_PLANES][BLOCKS * MOST], back[BLOCKS * MOST];
        if (!device_block_format_of((enum weight_type)type, &f))
            continue;
        const size_t size = f.bytes[0] + f.bytes[1] + f.bytes[2];
        assert_true(size <= MOST);
        for (size_t i = 0; i < sizeof row; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            row[i] = (uint8_t)(x >> 40);
        }
        for (int p = 0; p < BLOCK_PLANES; p++)
            if (f.bytes[p])
                device_block_row(&f, p, row, BLOCKS, planes[p]);
        memset(back, 0xee, sizeof back);
        block_decode_row(&f, (const uint8_t *const[]){planes[0], planes[1], planes[2]}, BLOCKS,
                         back);
        assert_memory_equal(row, back, BLOCKS * size);
        assert_int_equal(back[BLOCKS * size], 0xee);
        n++;
    }
    assert_int_equal(n, BLOCK__N);
}

#define VIEWED 3       /* experts */
#define VIEW_BASE 4096 /* where the device would see the memory */
#define VIEW_BYTES (1 << 20)

/* Lays a matrix of each expert out behind `at` as plan_split_experts does: its rows from `below` on
 * of so many of a record. */
static void lay_out(const struct weight *w, const struct device_layout *l, int plane, int64_t below,
                    int64_t of, uint8_t *at)
{
    for (int64_t expert = 0; expert < VIEWED; expert++)
        device_layout_rows(
            w, l, &(struct device_rows){.plane = plane, .first = expert * w->rows, .n = w->rows},
            at + (size_t)((expert * of + below) * l->row_bytes[plane]));
}

/* The rows of a view, fetched `n` at a time, are those of the file's weight to the bit. */
static void check_view(const struct expert_rows_layer *v, const struct weight *view,
                       const struct weight *file, int n)
{
    assert_int_equal(weight_matrix_bytes(view), weight_matrix_bytes(file));
    float want[1024], got[1024];
    const size_t room = (size_t)n * (weight_row_size(file) + 2 * weight_scale_row_size(file));
    uint8_t *scratch = malloc(room + 1);
    assert_true(file->cols <= 1024);
    scratch[room] = 0xee;
    for (int32_t expert = 0; expert < VIEWED; expert++)
        for (int32_t row = 0; row < file->rows; row++) {
            struct weight out = *view;
            const int32_t first = row / n * n, left = file->rows - first;
            if (v->fetch)
                v->fetch(view, &(struct expert_rows_range){expert, first, left < n ? left : n},
                         scratch, &out);
            weight_row_f32(file, expert, row, want);
            weight_row_f32(&out, v->fetch ? 0 : expert, v->fetch ? row - first : row, got);
            if (memcmp(want, got, (size_t)file->cols * sizeof *want))
                fail_msg("%s: expert %d, row %d", file->name, expert, row);
        }
    assert_int_equal(scratch[room], 0xee);
    free(scratch);
}

/* Gate and up of one format, down of another. */
static void check_views(const struct weight_form *in, const struct weight_form *out)
{
    struct random_weight w[3]; /* gate, up, down */
    struct err e = {0};
    struct device_layer layer = {
        .split_experts = {.gate = &w[0].w, .up = &w[1].w, .down = &w[2].w}};
    uint8_t *memory = calloc(1, VIEW_BYTES);
    struct gpu_buffer buffer = {.address = VIEW_BASE, .map = memory, .size = VIEW_BYTES};
    struct device_model m = {.layers = &layer, .host = {.buffers = &buffer, .n_buffers = 1}};
    struct device_layout *l[2] = {&layer.mlp.gate_up.layout, &layer.mlp.down.layout};
    struct expert_rows_layer v;
    size_t at = 0;
    for (int i = 0; i < 3; i++) {
        const struct weight_form *f = i < 2 ? in : out;
        random_weight_init(&w[i], f, VIEWED, i < 2 ? 11 : 7, f->cols_step < 64 ? 64 : f->cols_step,
                           5, (unsigned)i);
    }
    assert_true(device_layout_of(&w[0].w, l[0], &e) && device_layout_of(&w[2].w, l[1], &e));
    device_layout_keep_codes(l[0]), device_layout_keep_codes(l[1]);
    for (int which = 0; which < 2; which++)
        for (int plane = 0; plane < DEVICE_PLANES; plane++) {
            const int64_t rows = which ? w[2].w.rows : 2 * w[0].w.rows;
            if (!l[which]->row_bytes[plane])
                continue;
            layer.split_experts.host[which][plane] = VIEW_BASE + at;
            layer.split_experts.each[which][plane] = (uint64_t)(rows * l[which]->row_bytes[plane]);
            for (int i = which ? 2 : 0; i < (which ? 3 : 2); i++)
                lay_out(&w[i].w, l[which], plane, i == 1 ? w[0].w.rows : 0, rows, memory + at);
            at += VIEWED * layer.split_experts.each[which][plane];
            assert_true(at <= VIEW_BYTES);
        }
    assert_true(expert_views_of(&m, 0, &v, &e));
    for (int n = 1; n <= 16; n += 5) {
        check_view(&v, &v.gate, &w[0].w, n);
        check_view(&v, &v.up, &w[1].w, n);
        check_view(&v, &v.down, &w[2].w, n);
    }
    for (int i = 0; i < 3; i++)
        random_weight_fini(&w[i]);
    free(memory);
}

static void test_the_processor_sees_any_formats_rows(void **state)
{
    for (int i = 0; i < n_weight_forms; i++) {
        check_views(&weight_forms[i], &weight_forms[i]);
        check_views(&weight_forms[i], &weight_forms[(i + 11) % n_weight_forms]);
    }
}

static struct model *model;
static struct model_plan first;       /* layers of it: each costs a software GPU the same again */
static const struct model_plan *plan; /* that answers come from: these, or all */
static enum expert_way way = EXPERTS_BUS;

static uint64_t expert_bytes(void)
{
    return model_stats(model)->expert_bytes * (uint64_t)plan->n_layer /
           (uint64_t)model_plan(model)->n_layer;
}

/* streaming: NULL, or where experts come from that are neither in slots nor among `host_experts`
 * bytes. */
static float *answer_from(struct streaming *streaming, uint64_t device_experts,
                          uint64_t host_experts, bool exact, struct backend_counters *c,
                          struct backend_memory *m)
{
    struct err e = {0};
    struct backend_params p = {.n_blocks = 8,
                               .max_rows = 64,
                               .max_sequences = 2,
                               .exact = exact,
                               .device_experts = device_experts,
                               .host_experts = host_experts,
                               .experts = streaming ? streaming_cache(streaming) : NULL,
                               .expert_way = way,
                               .expert_rows = &cpu_expert_rows};
    struct backend_memory planned;
    struct backend *b = vulkan_backend.open(streaming ? streaming_plan(streaming) : plan, &p, &e);
    if (!b)
        fail_msg("%s", e.text);
    float *all = malloc((STEPS + 1) * VOCAB * sizeof *all);
    int32_t tokens[PROMPT + STEPS], blocks[8];
    for (int32_t i = 0; i < PROMPT + STEPS; i++)
        tokens[i] = (i * 37 + i * i) % 8000;
    for (int32_t i = 0; i < 8; i++)
        blocks[i] = 7 - i;
    for (int32_t i = 0; i <= STEPS; i++) {
        struct step_sequence q = {.tokens = i ? tokens + PROMPT + i - 1 : tokens,
                                  .n_tokens = i ? 1 : PROMPT,
                                  .start = i ? PROMPT + i - 1 : 0,
                                  .blocks = blocks,
                                  .state = -1,
                                  .n_out = 1,
                                  .n_experts = i == STEPS ? 2 : 0,
                                  .want_logits = true};
        struct step_row row;
        if (!vulkan_backend.step(b, &(struct step){.sequences = &q, .n_sequences = 1, .n_top = 1},
                                 &row, &e))
            fail_msg("%s", e.text);
        memcpy(all + (size_t)i * VOCAB, row.logits, VOCAB * sizeof *all);
    }
    vulkan_backend.counters(b, c);
    vulkan_backend.memory(b, m);
    vulkan_backend.close(&b);
    assert_true(vulkan_backend.probe->estimate(plan, &p, &planned, &e));
    if (streaming) { /* of the pool what the store allows, and memory for what passes through */
        struct expert_counters now;
        expert_cache_counters(p.experts, &now);
        const uint64_t outside = expert_cache_device_share(p.experts);
        planned.weights -= host_experts - outside;
        assert_in_range(m->weights,
                        planned.weights + now.budget_bytes - outside - host_experts / 16,
                        planned.weights + now.budget_bytes - outside);
        planned.weights = m->weights;
    }
    assert_int_equal(planned.weights, m->weights);
    assert_int_equal(planned.device, m->device);
    return all;
}

static float *answer(uint64_t device_experts, bool exact, struct backend_counters *c,
                     struct backend_memory *m)
{
    return answer_from(NULL, device_experts, 0, exact, c, m);
}

static float worst_of(const float *a, const float *b, size_t n)
{
    float worst = 0;
    for (size_t i = 0; i < n; i++)
        worst = fabsf(a[i] - b[i]) > worst ? fabsf(a[i] - b[i]) : worst;
    return worst;
}

/* With what has no slot computed by the processor: other orders of addition, and activations
 * rounded as the cpu backend rounds them unless exact. */
static void compare_processor(bool exact, const float *want, const struct backend_counters *whole)
{
    struct backend_counters cpu;
    struct backend_memory part;
    way = EXPERTS_CPU;
    float *got = answer(expert_bytes() / 4, exact, &cpu, &part);
    way = EXPERTS_BUS;
    const float worst = worst_of(want, got, (STEPS + 1) * VOCAB);
    assert_true(worst <= (exact ? 1e-3f : 0.05f));
    assert_true(cpu.expert_on_cpu > 0 && cpu.expert_hits > 0);
    assert_int_equal(cpu.expert_on_cpu, cpu.expert_misses); /* counted on both sides */
    assert_int_equal(cpu.expert_bus_bytes, 0);
    assert_int_equal(cpu.weight_bytes_read, whole->weight_bytes_read);
    assert_true(cpu.expert_copied_bytes > 0); /* what comes back gets a slot here as well */
    free(got);
}

static void compare(bool exact)
{
    struct backend_counters whole, few;
    struct backend_memory all, part;
    float *want = answer(0, exact, &whole, &all);
    const uint64_t experts = expert_bytes();
    float *got = answer(experts / 4, exact, &few, &part);
    assert_memory_equal(want, got,
                        (STEPS + 1) * VOCAB *
                            sizeof *want); /* the same sums, wherever the weights lie */
    assert_int_equal(whole.expert_hits + whole.expert_misses, 0);
    assert_true(few.expert_hits > 0 && few.expert_misses > 0 && few.expert_copied_bytes > 0);
    assert_true(few.expert_on_cpu == 0 && few.expert_bus_bytes > 0);
    assert_int_equal(few.weight_bytes_read, whole.weight_bytes_read);
    assert_true(part.device < all.device - experts / 2);
    assert_true(part.device + part.host >=
                all.device + all.host + experts / 8); /* slots hold copies */
    compare_processor(exact, want, &whole);
    free(want);
    free(got);
}

static void test_few_slots_and_who_computes_the_rest(void **state)
{
    compare(false);
    compare(true);
}

#define MIXED 12 /* rows of one sequence's prefill, beside a row of another */
#define WANTED 3

/* One sequence decodes while another's prompt is read in the same step: [WANTED, VOCAB] logits. */
static float *mixed(struct backend *b)
{
    struct err e = {0};
    struct step_row rows[WANTED];
    int32_t tokens[9 + 1 + MIXED], blocks[2] = {3, 1};
    float *all = malloc(WANTED * VOCAB * sizeof *all);
    for (int32_t i = 0; i < 10 + MIXED; i++)
        tokens[i] = (i * 91 + i * i * 3) % 8000;
    struct step_sequence q[2] = {
        {.tokens = tokens, .n_tokens = 9, .blocks = &blocks[0], .state = -1},
        {.tokens = tokens + 10,
         .n_tokens = MIXED,
         .blocks = &blocks[1],
         .state = -1,
         .n_out = WANTED - 1,
         .want_logits = true}};
    assert_true(vulkan_backend.step(b, &(struct step){.sequences = q, .n_sequences = 1, .n_top = 1},
                                    rows, &e));
    q[0] = (struct step_sequence){.tokens = tokens + 9,
                                  .n_tokens = 1,
                                  .start = 9,
                                  .blocks = &blocks[0],
                                  .state = -1,
                                  .n_out = 1,
                                  .want_logits = true};
    assert_true(vulkan_backend.step(b, &(struct step){.sequences = q, .n_sequences = 2, .n_top = 1},
                                    rows, &e));
    for (int32_t i = 0; i < WANTED; i++)
        memcpy(all + (size_t)i * VOCAB, rows[i].logits, VOCAB * sizeof *all);
    return all;
}

static void test_mixed_batches_agree(void **state)
{
    struct err e = {0};
    struct backend_counters c[2];
    float *all[2];
    for (int i = 0; i < 2; i++) {
        struct backend_params p = {.n_blocks = 8,
                                   .max_rows = 64,
                                   .max_sequences = 2,
                                   .exact = true,
                                   .n_threads = 2,
                                   .device_experts = expert_bytes() / 4,
                                   .expert_way = i ? EXPERTS_CPU : EXPERTS_BUS,
                                   .expert_rows = &cpu_expert_rows};
        struct backend *b = vulkan_backend.open(plan, &p, &e);
        if (!b)
            fail_msg("%s", e.text);
        all[i] = mixed(b);
        vulkan_backend.counters(b, &c[i]);
        vulkan_backend.close(&b);
    }
    assert_true(worst_of(all[0], all[1], WANTED * VOCAB) <= 1e-3f);
    assert_true(c[1].expert_on_cpu > 0 && c[1].expert_on_cpu == c[1].expert_misses &&
                c[1].expert_bus_bytes == 0);
    assert_int_equal(c[0].expert_hits + c[0].expert_misses, c[1].expert_hits + c[1].expert_misses);
    free(all[0]);
    free(all[1]);
}

/* By measured rates, whatever they are here: kept, and found again by the next load. */
static void test_auto_measures_once(void **state)
{
    struct err e = {0};
    char dir[] = "/tmp/sluice-rates-XXXXXX", path[64];
    struct backend_params p = {.n_blocks = 8,
                               .max_rows = 64,
                               .max_sequences = 2,
                               .device_experts = model_stats(model)->expert_bytes / 4,
                               .expert_rows = &cpu_expert_rows,
                               .cache_dir = mkdtemp(dir)};
    struct backend_memory planned, taken;
    struct backend_device device;
    struct miss_rates r, again, unknown;
    assert_true(vulkan_backend.probe->device(NULL, &device, &e) &&
                vulkan_backend.probe->estimate(model_plan(model), &p, &planned, &e));
    for (int i = 0; i < 2; i++) {
        struct backend *b = vulkan_backend.open(model_plan(model), &p, &e);
        if (!b)
            fail_msg("%s", e.text);
        vulkan_backend.memory(b, &taken);
        struct backend_counters c;
        vulkan_backend.counters(b, &c);
        assert_int_equal(c.expert_on_cpu + c.expert_hits + c.expert_misses + c.steps,
                         0); /* measuring is no work */
        vulkan_backend.close(&b);
        assert_memory_equal(&planned, &taken, sizeof planned);
        assert_true(miss_rates_load(dir, device.name, miss_policy_key(model_plan(model), 0, false),
                                    i ? &again : &r));
        /* other kernels, other threads: other rates */
        assert_false(miss_rates_load(dir, device.name, miss_policy_key(model_plan(model), 0, true),
                                     &unknown));
        assert_false(miss_rates_load(dir, device.name, miss_policy_key(model_plan(model), 1, false),
                                     &unknown));
    }
    assert_true(r.bus == again.bus && r.expert_s == again.expert_s && r.row_s == again.row_s &&
                r.sync_s == again.sync_s);
    assert_true(r.bus > 1e8 && r.bus < 1e13 && r.expert_s > 1e-8 && r.expert_s < 1 && r.sync_s < 1);
    snprintf(path, sizeof path, "rm -r %s", dir);
    assert_int_equal(system(path), 0);
}

/* Experts on disk, few in host memory, fewer in slots: the same sums, but for the routers', and
 * each figure fits the others. */
static void stream(bool exact, bool shrink)
{
    struct err e = {0};
    struct backend_counters whole, few;
    struct backend_memory all, part;
    struct expert_counters c;
    float *want = answer(0, exact, &whole, &all);
    const uint64_t experts = expert_bytes(), passing = experts / 16, pool = experts / 3;
    struct streaming *s = streaming_open(
        model, &(struct streaming_params){.cache_bytes = passing + pool, .device_share = pool}, &e);
    if (!s)
        fail_msg("%s", e.text);
    struct expert_cache *store = streaming_cache(s);
    assert_int_equal(expert_cache_device_share(store), pool);
    if (shrink)
        expert_cache_set_budget(store, passing + pool / 2);
    float *got = answer_from(s, experts / 8, pool, exact, &few, &part);
    if (exact)
        assert_memory_equal(want, got, (STEPS + 1) * VOCAB * sizeof *want);
    else /* where no expert is elsewhere, a router is folded into other products (router_fold.h) */
        assert_true(worst_of(want, got, (STEPS + 1) * VOCAB) <= 0.005f);
    expert_cache_counters(store, &c);
    assert_int_equal(few.weight_bytes_read, whole.weight_bytes_read);
    assert_int_equal(c.asked, c.hits + c.late + c.misses);
    assert_true(few.expert_hits + few.expert_misses ==
                c.asked); /* what steps used, counted on both sides */
    assert_true(c.misses > 0 && c.hits > 0 && few.expert_hits > 0);
    assert_true(c.misses * 2 > c.asked / 8 && c.miss_bytes == c.disk.bytes);
    assert_true(c.resident_bytes <= passing + pool);
    assert_true(part.device < all.device - experts / 2);
    assert_int_equal(c.failures, 0);
    free(want);
    free(got);
    streaming_close(&s);
}

static void test_experts_from_disk_change_no_result(void **state)
{
    plan = model_plan(model);
    stream(false, false);
    stream(true, true);
}

static void test_a_pool_too_small_is_refused(void **state)
{
    struct err e = {0};
    struct backend_memory m;
    struct backend_params p = {.n_blocks = 8,
                               .max_rows = 64,
                               .max_sequences = 2,
                               .device_experts = 1 << 20,
                               .host_experts = 4096};
    assert_false(vulkan_backend.probe->estimate(model_plan(model), &p, &m, &e));
    assert_int_equal(e.code, ERR_LIMIT);
    assert_non_null(strstr(e.text, "4096"));
}

static void test_room_for_all_is_no_split(void **state)
{
    struct err e = {0};
    struct backend_params p = {.n_blocks = 8, .max_rows = 64, .max_sequences = 2};
    struct backend_memory all, roomy;
    assert_true(vulkan_backend.probe->estimate(model_plan(model), &p, &all, &e));
    p.device_experts = UINT64_C(1) << 40;
    assert_true(vulkan_backend.probe->estimate(model_plan(model), &p, &roomy, &e));
    assert_memory_equal(&all, &roomy, sizeof all);
}

static void test_too_little_is_refused_with_numbers(void **state)
{
    struct err e = {0};
    struct backend_params p = {
        .n_blocks = 8, .max_rows = 64, .max_sequences = 2, .device_experts = 4096};
    assert_null(vulkan_backend.open(model_plan(model), &p, &e));
    assert_int_equal(e.code, ERR_LIMIT);
    assert_non_null(strstr(e.text, "4096"));
}

int main(void)
{
    struct err e = {0};
    char path[4096];
    const char *srcdir = getenv("srcdir");
    const struct CMUnitTest alone[] = {cmocka_unit_test(test_blocks_come_back_bit_for_bit),
                                       cmocka_unit_test(test_the_processor_sees_any_formats_rows)};
    const struct CMUnitTest device[] = {cmocka_unit_test(test_few_slots_and_who_computes_the_rest),
                                        cmocka_unit_test(test_mixed_batches_agree),
                                        cmocka_unit_test(test_auto_measures_once),
                                        cmocka_unit_test(test_experts_from_disk_change_no_result),
                                        cmocka_unit_test(test_a_pool_too_small_is_refused),
                                        cmocka_unit_test(test_room_for_all_is_no_split),
                                        cmocka_unit_test(test_too_little_is_refused_with_numbers)};
    int failed = cmocka_run_group_tests_name("experts for the host", alone, NULL, NULL);
    if (!vulkan_backend.probe->usable(&e)) {
        printf("1..0 # SKIP no Vulkan device: %s\n", e.text);
        return failed ? failed : 77;
    }
    snprintf(path, sizeof path, "%s/engine/demo-model", srcdir ? srcdir : ".");
    model = model_open(path, &e);
    if (!model) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    first = *model_plan(model);
    first.n_layer = first.n_attention = 3;
    plan = &first;
    failed += cmocka_run_group_tests_name("expert slots", device, NULL, NULL);
    model_close(&model);
    return failed;
}
