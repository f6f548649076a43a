/* The Vulkan backend on the demo model: greedy answers side by side against its goldens
 * (tests/data/demo-golden; logits and chunks: tests/golden/test_demo.c), and that a row's result
 * does not depend on how it was batched. Run from the build folder; $srcdir as automake sets it.
 * With VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation any message of the layer is on stderr. */
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
#include "engine/base/json/json.h"
#include "engine/model/model.h"

#define VOCAB 8192
#define MAX_ROWS 96
#define MAX_SEQUENCES 6

static struct model *model;
static struct model_plan few; /* of its layers, for what is compared with another run alone */
static struct backend *plain, *exact, *packed[2]; /* f16, f32, q8 and k8v4 KV */
static struct file_map golden;
static const int32_t *golden_ids; /* [96] */
static struct step_row rows[MAX_ROWS];

static void path_of(char *out, size_t size, const char *name)
{
    const char *srcdir = getenv("srcdir");
    snprintf(out, size, "%s/%s", srcdir ? srcdir : ".", name);
}

static const void *tensor(const cJSON *header, const char *name)
{
    uint64_t header_bytes;
    memcpy(&header_bytes, golden.data, 8);
    const cJSON *offsets = cJSON_GetObjectItem(cJSON_GetObjectItem(header, name), "data_offsets");
    assert_non_null(offsets);
    return golden.data + 8 + header_bytes + (size_t)cJSON_GetArrayItem(offsets, 0)->valuedouble;
}

static int open_all(void **state)
{
    char path[4096];
    struct err e = {0};
    uint64_t header_bytes;
    struct backend_params p = {
        .n_blocks = 64, .max_rows = MAX_ROWS, .max_sequences = MAX_SEQUENCES};
    path_of(path, sizeof path, "engine/demo-model");
    model = model_open(path, &e);
    assert_non_null(model);
    few = *model_plan(model);
    few.n_layer = few.n_attention = 3;
    plain = vulkan_backend.open(model_plan(model), &p, &e);
    for (int i = 0; i < 2; i++) {
        p.kv_type = i ? KV_K8V4 : KV_Q8;
        packed[i] = vulkan_backend.open(&few, &p, &e);
    }
    p.kv_type = KV_F16;
    p.exact = true;
    exact = vulkan_backend.open(&few, &p, &e);
    if (!plain || !exact || !packed[0] || !packed[1]) {
        fprintf(stderr, "%s\n", e.text);
        return -1;
    }
    path_of(path, sizeof path, "tests/data/demo-golden/logits.safetensors");
    assert_true(file_map(path, &golden, &e));
    memcpy(&header_bytes, golden.data, 8);
    cJSON *header = json_parse((const char *)golden.data + 8, header_bytes, NULL, &e);
    assert_non_null(header);
    golden_ids = tensor(header, "input_ids");
    cJSON_Delete(header);
    return 0;
}

static int close_all(void **state)
{
    vulkan_backend.close(&plain);
    vulkan_backend.close(&exact);
    vulkan_backend.close(&packed[0]);
    vulkan_backend.close(&packed[1]);
    model_close(&model);
    file_unmap(&golden);
    return 0;
}

static void run(struct backend *b, const struct step_sequence *q, int32_t n, int32_t n_top)
{
    struct err e = {0};
    struct step s = {.sequences = q, .n_sequences = n, .n_top = n_top};
    if (!vulkan_backend.step(b, &s, rows, &e))
        fail_msg("%s", e.text);
}

/* Blocks of sequence i, in no order. */
static void blocks_of(int i, int32_t out[8])
{
    for (int j = 0; j < 8; j++)
        out[j] = (i * 8 + j) * 37 % 64;
}

static void test_candidates_are_sorted_and_complete(void **state)
{
    int32_t blocks[8], n_top = BACKEND_MAX_TOP;
    blocks_of(0, blocks);
    struct step_sequence q = {.tokens = golden_ids,
                              .n_tokens = 20,
                              .blocks = blocks,
                              .state = -1,
                              .n_out = 3,
                              .want_logits = true};
    run(exact, &q, 1, n_top);
    for (int r = 0; r < 3; r++) {
        const float *logits = rows[r].logits;
        double sum = 0;
        int better = 0;
        for (int v = 0; v < VOCAB; v++) {
            sum += exp((double)logits[v]);
            better += logits[v] > rows[r].top_logits[n_top - 1];
        }
        assert_true(fabs(log(sum) - rows[r].log_sum_exp) < 1e-4);
        assert_true(better <= n_top - 1);
        for (int i = 0; i < n_top; i++) {
            assert_true(rows[r].top_logits[i] == logits[rows[r].top_ids[i]]);
            if (i > 0) {
                float a = rows[r].top_logits[i - 1], b = rows[r].top_logits[i];
                assert_true(a > b || (a == b && rows[r].top_ids[i - 1] < rows[r].top_ids[i]));
            }
        }
    }
}

/* One candidate, which a shorter way finds, is the first of many. */
static void test_one_candidate_is_the_first_of_many(void **state)
{
    enum { N = 20 };
    int32_t blocks[8], ids[N];
    float logits[N], sums[N];
    blocks_of(0, blocks);
    const struct step_sequence q = {
        .tokens = golden_ids, .n_tokens = N, .blocks = blocks, .state = -1, .n_out = N};
    run(exact, &q, 1, 40);
    for (int r = 0; r < N; r++) {
        ids[r] = rows[r].top_ids[0];
        logits[r] = rows[r].top_logits[0];
        sums[r] = rows[r].log_sum_exp;
    }
    run(exact, &q, 1, 1);
    for (int r = 0; r < N; r++) {
        assert_int_equal(rows[r].top_ids[0], ids[r]);
        assert_true(rows[r].top_logits[0] == logits[r]);
        assert_true(fabsf(rows[r].log_sum_exp - sums[r]) < 1e-5f);
    }
}

/* Greedy answers of several prompts decoded side by side. */
static void test_greedy_batch_matches_golden(void **state)
{
    char path[4096];
    struct err e = {0};
    path_of(path, sizeof path, "tests/data/demo-golden/greedy.json");
    cJSON *cases = json_parse_file(path, 1 << 20, &e);
    assert_non_null(cases);
    const int prompts[] = {0, 2, 3}; /* of different lengths, and so are their answers */
    enum { N = 3, STEPS = 12 };
    int32_t blocks[N][8], position[N], next[N];
    for (int i = 0; i < N; i++) {
        const cJSON *ids = cJSON_GetObjectItem(cJSON_GetArrayItem(cases, prompts[i]), "input_ids");
        int32_t tokens[MAX_ROWS], n = cJSON_GetArraySize(ids);
        for (int j = 0; j < n; j++)
            tokens[j] = (int32_t)cJSON_GetArrayItem(ids, j)->valuedouble;
        blocks_of(i, blocks[i]);
        struct step_sequence q = {
            .tokens = tokens, .n_tokens = n, .blocks = blocks[i], .state = -1, .n_out = 1};
        run(plain, &q, 1, 1);
        next[i] = rows[0].top_ids[0];
        position[i] = n;
    }
    for (int step = 0; step < STEPS; step++) {
        struct step_sequence q[N];
        int n = 0, who[N];
        for (int i = 0; i < N; i++) {
            const cJSON *want =
                cJSON_GetObjectItem(cJSON_GetArrayItem(cases, prompts[i]), "greedy_ids");
            if (step < cJSON_GetArraySize(want)) {
                assert_int_equal(next[i], (int)cJSON_GetArrayItem(want, step)->valuedouble);
                who[n] = i;
                q[n++] = (struct step_sequence){.tokens = &next[i],
                                                .n_tokens = 1,
                                                .start = position[i]++,
                                                .blocks = blocks[i],
                                                .state = -1,
                                                .n_out = 1};
            }
        }
        if (n == 0)
            break;
        run(plain, q, n, 1);
        for (int i = 0; i < n; i++)
            next[who[i]] = rows[i].top_ids[0];
    }
    cJSON_Delete(cases);
}

static void check_batch(struct backend *b)
{
    static float alone[VOCAB];
    int32_t blocks[2][8];
    blocks_of(0, blocks[0]);
    blocks_of(1, blocks[1]);
    struct step_sequence first = {
        .tokens = golden_ids, .n_tokens = 40, .blocks = blocks[0], .state = -1};
    struct step_sequence other = {
        .tokens = golden_ids + 7, .n_tokens = 5, .blocks = blocks[1], .state = -1};
    run(b, &first, 1, 1);
    run(b, &other, 1, 1);
    struct step_sequence q[2] = {{.tokens = golden_ids + 40,
                                  .n_tokens = 1,
                                  .start = 40,
                                  .blocks = blocks[0],
                                  .state = -1,
                                  .n_out = 1,
                                  .want_logits = true},
                                 {.tokens = golden_ids + 12,
                                  .n_tokens = 1,
                                  .start = 5,
                                  .blocks = blocks[1],
                                  .state = -1,
                                  .n_out = 1,
                                  .want_logits = true}};
    run(b, q, 1, 1);
    memcpy(alone, rows[0].logits, sizeof alone);
    run(b, q, 2, 1);
    assert_memory_equal(alone, rows[0].logits, sizeof alone);
}

static void test_rows_do_not_depend_on_their_batch(void **state)
{
    check_batch(plain);
    check_batch(packed[0]);
    check_batch(packed[1]);
}

/* Rows of one step may use different numbers of experts: each is what it is alone, and what a model
 * is that was cut to so many; prefill (one row of many) and decode (fused choice), in every place
 * of a batch. */
static void test_rows_of_a_step_may_use_fewer_experts(void **state)
{
    enum { N = 3 };
    static const int32_t wishes[N] = {0, 1, 3};
    static float alone[N][VOCAB];
    int32_t blocks[N][8];
    struct step_sequence q[N];
    struct err e = {0};
    char path[4096];
    struct backend_params p = {
        .n_blocks = 64, .max_rows = MAX_ROWS, .max_sequences = MAX_SEQUENCES, .exact = true};
    for (int i = 0; i < N; i++) {
        blocks_of(i, blocks[i]);
        struct step_sequence first = {.tokens = golden_ids + i,
                                      .n_tokens = 20 + i,
                                      .blocks = blocks[i],
                                      .state = -1,
                                      .n_experts = wishes[i]};
        q[i] = (struct step_sequence){.tokens = golden_ids + 30,
                                      .n_tokens = 1,
                                      .start = 20 + i,
                                      .blocks = blocks[i],
                                      .state = -1,
                                      .n_out = 1,
                                      .n_experts = wishes[i],
                                      .want_logits = true};
        run(exact, &first, 1, 1);
        run(exact, &q[i], 1, 1);
        memcpy(alone[i], rows[0].logits, sizeof alone[i]);
    }
    run(exact, q, N, 1);
    for (int i = 0; i < N; i++)
        assert_memory_equal(alone[i], rows[i].logits, sizeof alone[i]);
    path_of(path, sizeof path, "engine/demo-model");
    for (int i = 1; i < N; i++) {
        struct model *cut = model_open(path, &e);
        assert_true(cut && model_limit_experts(cut, wishes[i], &e));
        struct model_plan less = *model_plan(cut);
        less.n_layer = less.n_attention = few.n_layer;
        struct backend *b = vulkan_backend.open(&less, &p, &e);
        assert_non_null(b);
        struct step_sequence first = {
            .tokens = golden_ids + i, .n_tokens = 20 + i, .blocks = blocks[i], .state = -1};
        q[i].n_experts = 0;
        run(b, &first, 1, 1);
        run(b, &q[i], 1, 1);
        double worst = 0, gap = 0;
        for (int v = 0; v < VOCAB; v++) {
            worst = fmax(worst, fabs((double)alone[i][v] - rows[0].logits[v]));
            gap = fmax(gap, fabs((double)alone[i][v] - alone[0][v]));
        }
        assert_true(worst < 1e-4 && gap > 0.1);
        vulkan_backend.close(&b);
        model_close(&cut);
    }
}

/* Distinct experts by layer, sequence and position, and a shift of all. */
static void follow_trace(void *context, int32_t layer, int32_t sequence, int32_t position,
                         int32_t *ids)
{
    const int32_t shift = *(const int32_t *)context;
    const struct moe_plan *m = &model_plan(model)->layers[layer].moe;
    for (int32_t i = 0; i < m->n_used; i++)
        ids[i] = (layer * 5 + sequence * 3 + position + i * 2 + shift) % m->n_expert;
}

/* The logits of a prefill and a step of two sequences, whose experts a trace names. */
static void run_trace(const struct backend_ops *ops, int32_t shift, float *out)
{
    struct err e = {0};
    struct backend_params p = {.n_blocks = 64,
                               .max_rows = MAX_ROWS,
                               .max_sequences = MAX_SEQUENCES,
                               .exact = true,
                               .n_threads = 2,
                               .route = follow_trace,
                               .route_context = &shift};
    struct backend *b = ops->open(&few, &p, &e);
    if (!b)
        fail_msg("%s", e.text);
    int32_t blocks[2][8];
    struct step_sequence first[2], q[2];
    for (int i = 0; i < 2; i++) {
        blocks_of(i, blocks[i]);
        first[i] = (struct step_sequence){
            .tokens = golden_ids + i, .n_tokens = 15, .blocks = blocks[i], .state = -1};
        q[i] = (struct step_sequence){.tokens = golden_ids + 30 + i,
                                      .n_tokens = 1,
                                      .start = 15,
                                      .blocks = blocks[i],
                                      .state = -1,
                                      .n_out = 1,
                                      .n_experts = i ? 2 : 0,
                                      .want_logits = true};
    }
    struct step_row got[2];
    assert_true(
        ops->step(b, &(struct step){.sequences = first, .n_sequences = 2, .n_top = 1}, got, &e));
    assert_true(
        ops->step(b, &(struct step){.sequences = q, .n_sequences = 2, .n_top = 1}, got, &e));
    for (int i = 0; i < 2; i++)
        memcpy(out + i * VOCAB, got[i].logits, VOCAB * sizeof *out);
    ops->close(&b);
}

static void test_a_trace_names_the_experts_as_on_the_cpu(void **state)
{
    static float want[2 * VOCAB], got[2 * VOCAB], other[2 * VOCAB];
    run_trace(&cpu_backend, 0, want);
    run_trace(&vulkan_backend, 0, got);
    run_trace(&vulkan_backend, 1, other);
    double worst = 0, gap = 0;
    for (int v = 0; v < 2 * VOCAB; v++) {
        worst = fmax(worst, fabs((double)want[v] - got[v]));
        gap = fmax(gap, fabs((double)other[v] - got[v]));
    }
    assert_true(worst < 2e-3 && gap > 0.1);
}

static void test_step_refuses_what_is_too_large(void **state)
{
    struct err e = {0};
    int32_t blocks[8];
    blocks_of(0, blocks);
    struct step_sequence q = {
        .tokens = golden_ids, .n_tokens = MAX_ROWS + 1, .blocks = blocks, .state = -1};
    struct step s = {.sequences = &q, .n_sequences = 1, .n_top = 1};
    assert_false(vulkan_backend.step(plain, &s, rows, &e));
    assert_int_equal(e.code, ERR_LIMIT);
}

static void check_copied_blocks(struct backend *b)
{
    struct err e = {0};
    static float before[VOCAB];
    int32_t blocks[8] = {5, 6, 7}, copied[8] = {15, 16, 17};
    const int32_t pairs[2][2] = {{5, 15}, {6, 16}};
    struct step_sequence q = {.tokens = golden_ids, .n_tokens = 50, .blocks = blocks, .state = -1};
    run(b, &q, 1, 1);
    assert_true(vulkan_backend.copy_blocks(b, pairs, 2, &e));
    struct step_sequence next = {.tokens = golden_ids + 50,
                                 .n_tokens = 1,
                                 .start = 50,
                                 .blocks = blocks,
                                 .state = -1,
                                 .n_out = 1,
                                 .want_logits = true};
    run(b, &next, 1, 1);
    memcpy(before, rows[0].logits, sizeof before);
    next.blocks = copied;
    run(b, &next, 1, 1);
    assert_memory_equal(before, rows[0].logits, sizeof before);
}

static void test_copied_blocks_hold_the_same(void **state)
{
    for (int i = 0; i < 3; i++)
        check_copied_blocks(i < 2 ? packed[i] : plain);
}

static void test_packed_blocks_take_what_was_planned(void **state)
{
    struct err e = {0};
    struct backend_memory want, got;
    for (int i = 0; i < 2; i++) {
        struct backend_params p = {
            .n_blocks = 64, .max_rows = MAX_ROWS, .max_sequences = MAX_SEQUENCES};
        p.kv_type = i ? KV_K8V4 : KV_Q8;
        vulkan_backend.memory(packed[i], &got);
        assert_true(vulkan_backend.probe->estimate(&few, &p, &want, &e));
        assert_true(got.kv == want.kv && got.kv_type == p.kv_type);
        assert_true(got.kv >= 64 * 32 * kv_token_bytes(&few, p.kv_type));
    }
}

static void test_content_goes_over_the_host_and_back(void **state)
{
    const struct backend_content *content = vulkan_backend.content;
    struct err e = {0};
    static float before[VOCAB];
    int32_t blocks[8] = {5, 6, 7}, other[8] = {25, 26, 27}, many[256];
    void *kv[256];
    struct step_sequence q = {.tokens = golden_ids, .n_tokens = 64, .blocks = blocks, .state = -1};
    run(plain, &q, 1, 1);
    const size_t bytes = content->block_bytes(plain);
    for (int i = 0; i < 256; i++) { /* more pieces than one round takes, the same blocks again */
        kv[i] = malloc(bytes);
        many[i] = 5 + i % 2;
    }
    assert_true(content->save_blocks(plain, many, 256, kv, &e));
    assert_memory_equal(kv[0], kv[254], bytes);
    assert_memory_equal(kv[1], kv[255], bytes);
    struct step_sequence next = {.tokens = golden_ids + 63,
                                 .n_tokens = 1,
                                 .start = 63,
                                 .blocks = blocks,
                                 .state = -1,
                                 .n_out = 1,
                                 .want_logits = true};
    run(plain, &next, 1, 1);
    memcpy(before, rows[0].logits, sizeof before);
    q.tokens = golden_ids + 1; /* the blocks that it is loaded into have been used */
    q.n_tokens = 50;
    q.blocks = other;
    run(plain, &q, 1, 1);
    assert_true(content->load_blocks(plain, (const int32_t[]){25, 26}, 2,
                                     (const void *const *)kv + 254, &e));
    next.blocks = other;
    run(plain, &next, 1, 1);
    assert_memory_equal(before, rows[0].logits, sizeof before);
    assert_false(
        content->load_blocks(plain, (const int32_t[]){-1}, 1, (const void *const *)kv, &e));
    for (int i = 0; i < 256; i++)
        free(kv[i]);
}

int main(void)
{
    struct err e = {0};
    if (!vulkan_backend.probe->usable(&e)) {
        fprintf(stderr, "skipped: %s\n", e.text);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_candidates_are_sorted_and_complete),
        cmocka_unit_test(test_one_candidate_is_the_first_of_many),
        cmocka_unit_test(test_greedy_batch_matches_golden),
        cmocka_unit_test(test_rows_of_a_step_may_use_fewer_experts),
        cmocka_unit_test(test_a_trace_names_the_experts_as_on_the_cpu),
        cmocka_unit_test(test_rows_do_not_depend_on_their_batch),
        cmocka_unit_test(test_step_refuses_what_is_too_large),
        cmocka_unit_test(test_copied_blocks_hold_the_same),
        cmocka_unit_test(test_packed_blocks_take_what_was_planned),
        cmocka_unit_test(test_content_goes_over_the_host_and_back),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
