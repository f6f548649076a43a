/* The cpu backend as the scheduler sees it, on the demo model: the same bits for every chunking,
 * batch and number of threads; block copies; counters and memory; refusals. The goldens are
 * tests/golden's business. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/cache/disk/disk_tier.h"
#include "engine/cpu/kernels/kernels.h"
#include "engine/cpu/open.h"
#include "engine/model/model.h"
#include "tests/unit/cpu/cpu_backend_rig.h"

static enum kv_type kv_type; /* of the backends that are opened */

static struct backend *open_backend(const struct kernels *k, int threads, bool exact)
{
    struct backend_params p = {.n_blocks = 32,
                               .n_states = STATES,
                               .max_rows = ROWS,
                               .max_sequences = SEQUENCES,
                               .n_threads = threads,
                               .exact = exact,
                               .kv_type = kv_type};
    struct backend *b = cpu_open_with(plan, &p, k, &e);
    if (!b)
        fail_msg("%s", e.text);
    return b;
}

static void prefill(struct backend *b, int s, int from, int chunk)
{
    for (int at = from; at < TOKENS; at += chunk) {
        struct step_sequence q = part(s, at, TOKENS - at < chunk ? TOKENS - at : chunk);
        run(b, &q, 1);
    }
}

static void reference(struct backend *b)
{
    for (int s = 0; s < SEQUENCES; s++) {
        prefill(b, s, 0, 61);
        free(alone[s]);
        alone[s] = malloc((size_t)plan->n_vocab * sizeof(float));
        memcpy(alone[s], rows[0].logits, (size_t)plan->n_vocab * sizeof(float));
    }
}

static void expect_row(const struct step_row *row, int s, const char *what)
{
    if (memcmp(row->logits, alone[s], (size_t)plan->n_vocab * sizeof(float)))
        fail_msg("%s: logits of sequence %d differ from those it has alone", what, s);
}

static void check_results(const struct step_row *row)
{
    double sum = 0;
    for (int v = 0; v < plan->n_vocab; v++)
        sum += exp((double)row->logits[v]);
    assert_true(fabs(log(sum) - (double)row->log_sum_exp) < 1e-5);
    for (int i = 0; i < 8; i++) {
        assert_true(row->top_logits[i] == row->logits[row->top_ids[i]]);
        int better = 0;
        for (int v = 0; v < plan->n_vocab; v++)
            better += row->logits[v] > row->top_logits[i] ||
                      (row->logits[v] == row->top_logits[i] && v < row->top_ids[i]);
        assert_int_equal(better, i);
    }
}

/* Sequences at different lengths, some prefilling, some decoding, in one step after another. */
static void check_mixed(struct backend *b, const char *what)
{
    int done[SEQUENCES] = {0}, stride[SEQUENCES] = {1, 13, 32, 2, 7};
    for (int s = 0; s < SEQUENCES; s += 2) { /* the even ones are far on, so that they decode */
        struct step_sequence q = part(s, 0, 60 - s);
        run(b, &q, 1);
        done[s] = 60 - s;
        stride[s] = 1;
    }
    for (bool more = true; more;) {
        struct step_sequence q[SEQUENCES];
        int n = 0, which[SEQUENCES];
        more = false;
        for (int s = 0; s < SEQUENCES; s++) {
            int left = TOKENS - done[s], count = left < stride[s] ? left : stride[s];
            if (!count)
                continue;
            q[n] = part(s, done[s], count);
            which[n++] = s;
            done[s] += count;
            more = true;
        }
        if (!n)
            break;
        run(b, q, n);
        for (int i = 0, out = 0; i < n; i++)
            if (q[i].n_out)
                expect_row(&rows[out++], which[i], what);
    }
}

/* Plain C is slow: one sequence must do. */
static void check_generic(void)
{
    struct backend *b = open_backend(&kernels_generic, 1, false);
    float *want = malloc((size_t)plan->n_vocab * sizeof *want);
    prefill(b, 1, 0, 7);
    memcpy(want, rows[0].logits, (size_t)plan->n_vocab * sizeof *want);
    cpu_backend.close(&b);
    b = open_backend(&kernels_generic, 3, false);
    prefill(b, 1, 0, ROWS);
    assert_memory_equal(rows[0].logits, want, (size_t)plan->n_vocab * sizeof *want);
    free(want);
    cpu_backend.close(&b);
}

static void test_chunks_batches_and_threads_give_the_same_bits(void **state)
{
    for (int i = 0; kernels_available(i) != &kernels_generic; i++) {
        const struct kernels *k = kernels_available(i);
        for (int exact = 0; exact < (i == 0 ? 2 : 1); exact++) {
            struct backend *b = open_backend(k, 1, exact);
            reference(b);
            check_results(&rows[0]);
            cpu_backend.close(&b);
            for (int threads = 1; threads <= 3; threads += i == 0 ? 1 : 2) {
                b = open_backend(k, threads, exact);
                for (int chunk = 7; chunk <= ROWS; chunk += 57) {
                    prefill(b, 1, 0, chunk);
                    expect_row(&rows[0], 1, k->name);
                }
                check_mixed(b, k->name);
                cpu_backend.close(&b);
            }
        }
    }
    check_generic();
}

/* A token's key and value are quantised by themselves, so this holds for packed ones too; and they
 * are not the bits of f16. */
static void test_packed_keys_and_values_give_the_same_bits(void **state)
{
    float *half = malloc((size_t)plan->n_vocab * sizeof *half);
    struct backend *b = open_backend(kernels_best(), 1, false);
    prefill(b, 1, 0, ROWS);
    memcpy(half, rows[0].logits, (size_t)plan->n_vocab * sizeof *half);
    cpu_backend.close(&b);
    for (kv_type = KV_Q8; kv_type <= KV_K8V4; kv_type++) {
        b = open_backend(kernels_best(), 1, false);
        reference(b);
        cpu_backend.close(&b);
        b = open_backend(kernels_best(), 3, false);
        prefill(b, 1, 0, 7);
        expect_row(&rows[0], 1, kv_type_name(kv_type));
        assert_memory_not_equal(rows[0].logits, half, (size_t)plan->n_vocab * sizeof *half);
        check_mixed(b, kv_type_name(kv_type));
        cpu_backend.close(&b);
        check_generic();
    }
    kv_type = KV_AUTO;
    free(half);
}

/* Each row of a mixed step is what it is alone, and alone it is what a model is that was cut to so
 * many experts. */
static void test_rows_of_a_step_may_use_fewer_experts(void **state)
{
    static const int32_t wishes[SEQUENCES] = {0, 1, 2, 3, 1};
    memcpy(experts_of, wishes, sizeof experts_of);
    struct backend *b = open_backend(kernels_best(), 2, false);
    reference(b);
    check_mixed(b, "fewer experts");
    cpu_backend.close(&b);
    memset(experts_of, 0, sizeof experts_of);
    for (int s = 0; s < 4; s++) {
        assert_int_equal(open_path("engine/demo-model"), 0);
        assert_true(wishes[s] == 0 || model_limit_experts(model, wishes[s], &e));
        b = open_backend(kernels_best(), 2, false);
        prefill(b, s, 0, ROWS);
        expect_row(&rows[0], s, "a cut model");
        cpu_backend.close(&b);
    }
    assert_int_equal(open_path("engine/demo-model"), 0);
    b = open_backend(kernels_best(), 2, false);
    prefill(b, 1, 0, ROWS);
    assert_memory_not_equal(rows[0].logits, alone[1], (size_t)plan->n_vocab * sizeof(float));
    cpu_backend.close(&b);
}

static void check_copied_block(void)
{
    struct backend *b = open_backend(kernels_best(), 2, false);
    reference(b);
    prefill(b, 0, 0, ROWS);
    int32_t pairs[2][2], other[4];
    for (int i = 0; i < 4; i++)
        other[i] = blocks_of(3)[i];
    for (int i = 0; i < 2; i++) {
        pairs[i][0] = blocks_of(0)[i];
        pairs[i][1] = other[i];
    }
    assert_true(cpu_backend.copy_blocks(b, (const int32_t(*)[2])pairs, 2, &e));
    struct step_sequence q = part(0, 64, TOKENS - 64);
    q.blocks = other;
    run(b, &q, 1);
    expect_row(&rows[0], 0, "copied blocks");
    assert_false(cpu_backend.copy_blocks(b, (const int32_t(*)[2])(int32_t[1][2]){{0, 32}}, 1, &e));
    cpu_backend.close(&b);
}

static void test_a_copied_block_serves_another_sequence(void **state)
{
    for (kv_type = KV_F16; kv_type <= KV_K8V4; kv_type++)
        check_copied_block();
    kv_type = KV_AUTO;
}

/* Content leaves one backend and goes on in another, in blocks and a state that were used. */
static void carry_over(int32_t start, const char *what)
{
    const struct backend_content *content = cpu_backend.content;
    struct backend *b = open_backend(kernels_best(), 2, false);
    reference(b);
    prefill(b, 0, 0, ROWS);
    const size_t bytes = content->block_bytes(b), state_bytes = content->state_bytes(b);
    void *kv[2] = {malloc(bytes), malloc(bytes)}, *state = malloc(state_bytes + 1);
    struct step_sequence q = part(0, 0, start);
    run(b, &q, 1);
    assert_true(content->save_blocks(b, blocks_of(0), 2, kv, &e));
    assert_true(!state_bytes || content->save_state(b, 0, state, &e));
    cpu_backend.close(&b);
    b = open_backend(kernels_best(), 1, false);
    prefill(b, 1, 0, ROWS);
    prefill(b, 3, 0, ROWS);
    assert_true(content->load_blocks(b, blocks_of(3), 2, (const void *const *)kv, &e));
    assert_true(!state_bytes || content->load_state(b, 3, state, &e));
    q = part(0, start, TOKENS - start);
    q.blocks = blocks_of(3);
    q.state = state_bytes ? 3 : q.state;
    run(b, &q, 1);
    expect_row(&rows[0], 0, what);
    assert_false(content->save_blocks(b, (const int32_t[]){-1}, 1, kv, &e));
    assert_false(
        content->load_blocks(b, (const int32_t[]){1 << 20}, 1, (const void *const *)kv, &e));
    assert_false(content->save_state(b, STATES, state, &e));
    assert_false(content->load_state(b, -1, state, &e));
    cpu_backend.close(&b);
    free(kv[0]);
    free(kv[1]);
    free(state);
}

static void test_content_goes_on_in_another_backend(void **state)
{
    carry_over(64, "carried blocks");
}

static void test_a_carried_state_goes_on_where_it_was(void **state)
{
    carry_over(64, "carried state");
}

/* Who changes these bytes raises DISK_TIER_KV_VERSION and writes their new hash here. */
static void test_bytes_of_kv_are_of_this_version(void **state)
{
    static const struct {
        int version;
        uint64_t hash;
    } known = {2, 0x3b4d7ac9e8315791u};
    struct backend *b = open_backend(&kernels_generic, 1, false);
    struct step_sequence q = part(0, 0, BACKEND_BLOCK_TOKENS);
    void *block = malloc(cpu_backend.content->block_bytes(b)), *to[1] = {block};
    run(b, &q, 1);
    assert_true(cpu_backend.content->save_blocks(b, q.blocks, 1, to, &e));
    const uint64_t hash = hash64(block, cpu_backend.content->block_bytes(b), 0);
    print_message("version %d, hash 0x%016llx\n", DISK_TIER_KV_VERSION, (unsigned long long)hash);
    assert_int_equal(DISK_TIER_KV_VERSION, known.version);
    assert_true(hash == known.hash);
    cpu_backend.close(&b);
    free(block);
}

static void refuse(struct backend *b, const struct step_sequence *s, int n, int n_top,
                   enum err_code code)
{
    struct step step = {.sequences = s, .n_sequences = n, .n_top = n_top};
    memset(&e, 0, sizeof e);
    assert_false(cpu_backend.step(b, &step, rows, &e));
    assert_int_equal(e.code, code);
    assert_true(e.text[0]);
}

/* The demo's test again, where sequences have a state beside keys and values. */
static void test_recurrent_sequences_do_not_meet(void **state)
{
    struct backend *b = open_backend(kernels_best(), 1, false);
    reference(b);
    cpu_backend.close(&b);
    b = open_backend(kernels_best(), 2, false);
    for (int chunk = 1; chunk <= ROWS; chunk += 9) {
        prefill(b, 1, 0, chunk); /* the state that the last round left is begun anew */
        expect_row(&rows[0], 1, "recurrent chunks");
    }
    check_mixed(b, "recurrent batch");
    cpu_backend.close(&b);
}

static void test_a_copied_state_goes_on_where_it_was(void **state)
{
    struct backend *b = open_backend(kernels_best(), 2, false);
    reference(b);
    struct step_sequence q = part(2, 0, 40);
    run(b, &q, 1);
    assert_true(cpu_backend.copy_state(b, 2, 6, &e));
    for (int round = 0; round < 2;
         round++) { /* twice from the checkpoint, the second over a used state */
        assert_true(cpu_backend.copy_state(b, 6, 2, &e));
        prefill(b, 2, 40, 8);
        expect_row(&rows[0], 2, "copied state");
    }
    assert_false(cpu_backend.copy_state(b, 0, STATES, &e));
    q = part(2, 0, 5);
    q.state = -1;
    refuse(b, &q, 1, 1, ERR_INTERNAL);
    cpu_backend.close(&b);
}

static uint64_t moe_bytes(const struct layer_plan *layer, int experts)
{
    const struct moe_plan *m = &layer->moe;
    return (weight_matrix_bytes(&m->gate) + weight_matrix_bytes(&m->up) +
            weight_matrix_bytes(&m->down)) *
           (uint64_t)experts;
}

/* One of /proc/self/status's sizes, in KiB: of VmHWM, the most that was ever resident. */
static long size_of_this(const char *name)
{
    char line[256];
    long size = -1;
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    while (size < 0 && fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name)))
            assert_int_equal(sscanf(line + strlen(name), ": %ld", &size), 1);
    fclose(f);
    assert_true(size > 0);
    return size;
}

/* Pages that were never written to would all be one page of zeros, which is not resident and comes
 * from the first cache. */
static void test_bandwidth_is_that_of_memory_which_is_given_back(void **state)
{
    struct backend *b = open_backend(kernels_best(), 2, false);
    const long before = size_of_this("VmRSS"), most = size_of_this("VmHWM");
    const double rate = cpu_backend.read_bandwidth(b);
    assert_true(rate > 0 && rate < 4e12);
    assert_true(size_of_this("VmHWM") > most + (100 << 10));
    assert_true(size_of_this("VmRSS") < before + (20 << 10));
    cpu_backend.close(&b);
}

/* One row: every dense matrix once, the head once, one embedding row, n_used experts a layer. */
static void test_counters_tell_the_packed_bytes_of_a_step(void **state)
{
    struct backend *b = open_backend(kernels_best(), 2, false);
    struct backend_counters before, after;
    struct step_sequence q = part(0, 0, 40);
    run(b, &q, 1);
    cpu_backend.counters(b, &before);
    q = part(0, 40, 1);
    q.n_out = 1;
    run(b, &q, 1);
    cpu_backend.counters(b, &after);
    uint64_t want = weight_matrix_bytes(&plan->head) +
                    weight_matrix_bytes(&plan->embed) / (uint64_t)plan->embed.rows;
    uint64_t kv = 0;
    for (int i = 0; i < plan->n_layer; i++) {
        const struct attention_plan *a = &plan->layers[i].attention;
        want += weight_matrix_bytes(&a->wq) + weight_matrix_bytes(&a->wk) +
                weight_matrix_bytes(&a->wv) + weight_matrix_bytes(&a->wo) +
                weight_matrix_bytes(&plan->layers[i].moe.router) +
                moe_bytes(&plan->layers[i], plan->layers[i].moe.n_used);
        kv += 41 * (uint64_t)a->n_kv_head *
              kv_head_bytes(a->d_head, kv_type_stored(KV_AUTO, kernels_best()->half_kv));
    }
    assert_int_equal(after.weight_bytes_read - before.weight_bytes_read, want);
    assert_int_equal(after.kv_bytes_read - before.kv_bytes_read, kv);
    assert_int_equal(after.steps, 2);
    assert_int_equal(after.rows, 41);
    assert_true(after.step_ns > before.step_ns);
    cpu_backend.close(&b);
}

static void check_estimate(int32_t n_threads, enum kv_type type)
{
    struct backend_params p = {.n_blocks = 32,
                               .n_states = STATES,
                               .max_rows = ROWS,
                               .max_sequences = SEQUENCES,
                               .n_threads = n_threads,
                               .kv_type = type};
    struct backend_memory want, got;
    assert_true(cpu_backend.probe->estimate(plan, &p, &want, &e));
    struct backend *b = cpu_backend.open(plan, &p, &e);
    assert_non_null(b);
    struct step_sequence q = part(0, 0, 1);
    q.n_out = 1;
    run(b, &q, 1);
    cpu_backend.memory(b, &got);
    assert_int_equal(got.weights, want.weights);
    assert_int_equal(got.weights, model_stats(model)->weight_bytes);
    assert_int_equal(got.kv, want.kv);
    assert_int_equal(got.kv, 32 * 32 * kv_token_bytes(plan, got.kv_type));
    assert_int_equal(got.kv_type, want.kv_type);
    assert_int_equal(got.kv_type, kv_type_stored(type, kernels_best()->half_kv));
    assert_int_equal(got.work, want.work);
    assert_int_equal(got.host, want.host);
    assert_int_equal(got.device, 0);
    assert_true(cpu_backend.threads(b) >= 1 && cpu_backend.threads(b) <= n_threads);
    cpu_backend.close(&b);
}

static void test_estimate_is_what_open_takes(void **state)
{
    check_estimate(2, KV_AUTO);
    check_estimate(300, KV_AUTO); /* more than a pool has */
    check_estimate(1, KV_Q8);
    check_estimate(1, KV_K8V4);
}

static void test_steps_that_make_no_sense_are_refused(void **state)
{
    struct backend *b = open_backend(kernels_best(), 2, false);
    struct step_sequence good = part(0, 0, 5), bad = good, many[SEQUENCES + 1];
    int32_t wrong_tokens[5] = {1, 2, plan->n_vocab, 3, 4}, wrong_block = 32;
    refuse(b, &good, 0, 1, ERR_INTERNAL);
    refuse(b, &good, 1, 0, ERR_INTERNAL);
    refuse(b, &good, 1, BACKEND_MAX_TOP + 1, ERR_INTERNAL);
    bad.tokens = wrong_tokens;
    refuse(b, &bad, 1, 1, ERR_INPUT);
    bad = good;
    bad.blocks = &wrong_block;
    refuse(b, &bad, 1, 1, ERR_INTERNAL);
    bad = good;
    bad.start = plan->n_ctx - 2;
    refuse(b, &bad, 1, 1, ERR_LIMIT);
    bad = good;
    bad.n_out = 6;
    refuse(b, &bad, 1, 1, ERR_INTERNAL);
    for (int i = 0; i <= SEQUENCES; i++)
        many[i] = good;
    refuse(b, many, SEQUENCES + 1, 1, ERR_INTERNAL);
    bad = part(0, 0, ROWS + 1);
    refuse(b, &bad, 1, 1, ERR_LIMIT);
    run(b, &good, 1); /* and it still works */
    cpu_backend.close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_chunks_batches_and_threads_give_the_same_bits,
                                        open_model_of_many_runs, open_model),
        cmocka_unit_test_setup_teardown(test_packed_keys_and_values_give_the_same_bits,
                                        open_model_of_many_runs, open_model),
        cmocka_unit_test(test_rows_of_a_step_may_use_fewer_experts),
        cmocka_unit_test(test_a_copied_block_serves_another_sequence),
        cmocka_unit_test(test_content_goes_on_in_another_backend),
        cmocka_unit_test(test_bytes_of_kv_are_of_this_version),
        cmocka_unit_test(test_bandwidth_is_that_of_memory_which_is_given_back),
        cmocka_unit_test(test_counters_tell_the_packed_bytes_of_a_step),
        cmocka_unit_test(test_estimate_is_what_open_takes),
        cmocka_unit_test(test_steps_that_make_no_sense_are_refused),
    };
    const struct CMUnitTest recurrent[] = {
        cmocka_unit_test(test_recurrent_sequences_do_not_meet),
        cmocka_unit_test(test_a_copied_state_goes_on_where_it_was),
        cmocka_unit_test(test_a_carried_state_goes_on_where_it_was),
    };
    int failed = cmocka_run_group_tests(tests, open_model, NULL);
    return failed + cmocka_run_group_tests(recurrent, open_recurrent_model, close_model);
}
