/* The demo model on a backend against transformers in f32: logits, greedy answers, perplexity; and
 * against itself: chunks of any size, and a sequence beside others, give what it gives alone.
 *
 * usage: test_demo [BACKEND [POSITIONS]]; without arguments as built (GOLDEN_BACKEND,
 * GOLDEN_POSITIONS). 77 where the backend can't run here. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/json/json.h"
#include "engine/format/weight_bits.h"
#include "tests/golden/golden.h"

#ifndef GOLDEN_BACKEND
#define GOLDEN_BACKEND "cpu"
#endif
#ifndef GOLDEN_POSITIONS
#define GOLDEN_POSITIONS 4096
#endif

#define LOGIT_TOLERANCE 0.05f
#define EXACT_TOLERANCE 2e-3f
#define NEAR_TIE 0.02f
#define N_LOGITS 96
#define EVERY 4 /* position has golden logits, and of its ids as many: see golden_id */

static const char *backend = GOLDEN_BACKEND;
static int32_t positions = GOLDEN_POSITIONS;
static bool slow;                /* a device that is the cpu: less of each */
static struct golden_rows whole; /* rows of the logits' ids, fed in one chunk */
static struct tensor_file logits_file, nll_file;
static struct ids ids;    /* of the logits */
static const float *want; /* [N_LOGITS / EVERY, n_vocab / EVERY]: of positions 3, 7, 11 ... */
static cJSON *greedy;

static void must(bool ok, const struct err *e)
{
    if (!ok)
        fail_msg("%s", e->text);
}

static int open_data(void **state)
{
    struct err e = {0};
    bool ok = tensor_file_open(&logits_file,
                               golden_path("tests/data/demo-golden/logits.safetensors"), &e) &&
              tensor_file_open(
                  &nll_file, golden_path("tests/data/demo-golden/held_out_nll.safetensors"), &e) &&
              golden_ids(&logits_file, "input_ids", &ids, &e);
    const struct tensor *t = ok ? tensor_file_get(&logits_file, "logits", "F32", &e) : NULL;
    greedy =
        t ? json_parse_file(golden_path("tests/data/demo-golden/greedy.json"), 1 << 20, &e) : NULL;
    float *copy = greedy ? malloc(t->bytes) : NULL; /* the file's data need not be aligned */
    if (!copy || ids.n != N_LOGITS) {
        fprintf(stderr, "%s\n", e.text);
        return -1;
    }
    memcpy(copy, t->data, t->bytes);
    want = copy;
    return 0;
}

static int close_data(void **state)
{
    tensor_file_close(&logits_file);
    tensor_file_close(&nll_file);
    cJSON_Delete(greedy);
    free((void *)(uintptr_t)want);
    golden_rows_free(&whole);
    ids_fini(&ids);
    return 0;
}

static void open_run(struct cli_run *r, int32_t n_tokens, int32_t chunk, int32_t n_sequences,
                     bool exact)
{
    struct err e = {0};
    static char model[4096];
    snprintf(model, sizeof model, "%s", golden_path("engine/demo-model"));
    struct cli_run_params p = {.model = model,
                               .backend = backend,
                               .n_tokens = n_tokens,
                               .chunk = chunk,
                               .n_sequences = n_sequences,
                               .exact = exact};
    must(cli_run_open(r, &p, &e), &e);
}

static struct golden_rows rows_in_chunks(int32_t n, int32_t chunk, bool exact)
{
    struct cli_run r;
    struct golden_rows rows = {0};
    struct err e = {0};
    open_run(&r, N_LOGITS, chunk, 1, exact);
    must(golden_feed(&r, 0, ids.at, n, 0, n, &rows, &e), &e);
    cli_run_close(&r);
    assert_int_equal(rows.n, n);
    return rows;
}

/* Which id the golden logit j of row i is of. A wrong hidden row changes all its logits, and a
 * wrong row of the output's weights that id in all rows: so a fourth of each, in turn, misses
 * neither. */
static int32_t golden_id(int32_t i, int32_t j)
{
    return EVERY * j + (i + j) % EVERY;
}

static void check_logits(const struct golden_rows *rows, float tolerance)
{
    const int32_t n = rows->n_vocab / EVERY;
    float worst = 0;
    for (int32_t i = 0; i < N_LOGITS / EVERY; i++) {
        const float *row = rows->at + (size_t)(EVERY * (i + 1) - 1) * (size_t)rows->n_vocab;
        for (int32_t j = 0; j < n; j++) {
            float d = golden_distance(&row[golden_id(i, j)], &want[i * n + j], 1);
            worst = d > worst ? d : worst;
        }
    }
    print_message("largest difference of a logit: %.6f\n", (double)worst);
    assert_true(worst <= tolerance);
}

static void test_logits_equal_reference(void **state)
{
    whole = rows_in_chunks(N_LOGITS, 0, false);
    check_logits(&whole, LOGIT_TOLERANCE);
}

static void test_exact_logits_equal_reference(void **state)
{
    struct golden_rows rows = rows_in_chunks(N_LOGITS, 0, true);
    check_logits(&rows, EXACT_TOLERANCE);
    golden_rows_free(&rows);
}

static void test_chunks_agree_with_whole(void **state)
{
    static const int32_t chunks[] = {7, 64, 1};
    assert_non_null(whole.at);
    for (int i = 0; i < (slow ? 2 : 3); i++) {
        /* a row knows nothing of those after it */
        struct golden_rows rows =
            rows_in_chunks(slow ? chunks[i] + 21 : N_LOGITS, chunks[i], false);
        float d = golden_distance(rows.at, whole.at, (size_t)rows.n * (size_t)whole.n_vocab);
        print_message("chunks of %d: largest difference %.6f\n", chunks[i], (double)d);
        assert_true(d <= (strcmp(backend, "cpu") ? LOGIT_TOLERANCE
                                                 : 0)); /* backend.h promises it of the cpu */
        golden_rows_free(&rows);
    }
}

/* Decodes greedily; where our choice is not the golden one, both logits must be nearly equal. */
static void check_answer(struct cli_run *r, const cJSON *one)
{
    struct err e = {0};
    struct ids prompt = {0};
    struct golden_rows rows = {0};
    const cJSON *v;
    cJSON_ArrayForEach (v, json_member(one, "input_ids"))
        ids_push(&prompt, (int32_t)v->valuedouble);
    int32_t start = 0, n = (int32_t)prompt.n;
    int32_t *next = prompt.at;
    int32_t id;
    cJSON_ArrayForEach (v, json_member(one, "greedy_ids")) {
        int32_t golden = (int32_t)v->valuedouble;
        rows.n = 0;
        must(golden_feed(r, 0, next, n, start, 1, &rows, &e), &e);
        id = golden_argmax(rows.at, rows.n_vocab);
        if (id != golden) {
            float margin = rows.at[id] - rows.at[golden];
            if (margin >= NEAR_TIE)
                fail_msg("'%s': id %d, want %d; margin %.4f",
                         json_member(one, "prompt")->valuestring, id, golden, (double)margin);
            break; /* from a near tie on another answer is no fault */
        }
        start += n;
        n = 1;
        next = &id;
    }
    golden_rows_free(&rows);
    ids_fini(&prompt);
}

static void test_greedy_answers_equal_reference(void **state)
{
    const int every = slow ? 9 : 1; /* more of them: test_vulkan_model.c */
    struct cli_run r;
    const cJSON *one;
    int i = 0;
    open_run(&r, 1024, 0, 1, false);
    cJSON_ArrayForEach (one, greedy)
        if (i++ % every == 0)
            check_answer(&r, one);
    cli_run_close(&r);
}

struct loss {
    const struct ids *ids;
    double sum;
    int32_t n;
};

static bool add_loss(void *context, int32_t position, const struct step_row *row, struct err *e)
{
    struct loss *l = context;
    l->sum += (double)row->log_sum_exp - (double)row->logits[l->ids->at[position + 1]];
    l->n++;
    return true;
}

static void test_perplexity_equals_reference(void **state)
{
    struct err e = {0};
    struct ids held_out = {0};
    struct cli_run r;
    must(golden_ids(&nll_file, "input_ids", &held_out, &e), &e);
    const struct tensor *t = tensor_file_get(&nll_file, "nll", "F32", &e);
    assert_non_null(t);
    int32_t n = positions < (int32_t)held_out.n ? positions - 1 : (int32_t)held_out.n - 1;
    double golden = 0;
    for (int32_t i = 0; i < n; i++)
        golden += (double)f32_from_bits(load_u32(t->data + 4 * (size_t)i));
    struct loss loss = {.ids = &held_out};
    struct cli_run_feed feed = {.tokens = held_out.at,
                                .n = n,
                                .n_out = n,
                                .want_logits = true,
                                .on_row = add_loss,
                                .context = &loss};
    open_run(&r, n, slow ? 48 : 256, 1, false);
    must(cli_run_feed(&r, &feed, &e), &e);
    cli_run_close(&r);
    double ours = exp(loss.sum / loss.n), reference = exp(golden / n);
    print_message("perplexity %.4f, reference %.4f, over %d tokens\n", ours, reference, n);
    assert_int_equal(loss.n, n);
    assert_true(fabs(ours / reference - 1) < 0.005);
    ids_fini(&held_out);
}

/* Three sequences in one step, of different lengths and at different positions. */
static void test_batch_agrees_with_each_alone(void **state)
{
    enum { N = 3, VOCAB = 8192 };
    static const int32_t begins[N] = {0, 20, 50}, lengths[N] = {33, 1, 7}, starts[N] = {0, 5, 32};
    struct err e = {0};
    struct cli_run r;
    struct golden_rows alone[N] = {{0}};
    struct step_sequence sequences[N];
    struct step_row rows[N];
    open_run(&r, N_LOGITS, 64, 2 * N, false);
    for (int i = 0; i < N; i++) {
        const int32_t *tokens = ids.at + begins[i];
        struct golden_rows ignored = {0};
        for (int copy = 0; copy < 2 && starts[i];
             copy++) { /* what comes before, in both sequences */
            must(golden_feed(&r, i + copy * N, tokens, starts[i], 0, 1, &ignored, &e), &e);
            golden_rows_free(&ignored);
        }
        must(golden_feed(&r, i, tokens + starts[i], lengths[i], starts[i], 1, &alone[i], &e), &e);
        sequences[i] = (struct step_sequence){.tokens = tokens + starts[i],
                                              .n_tokens = lengths[i],
                                              .start = starts[i],
                                              .blocks = cli_run_blocks(&r, i + N),
                                              .state = -1,
                                              .n_out = 1,
                                              .want_logits = true};
    }
    must(r.ops->step(r.backend,
                     &(struct step){.sequences = sequences, .n_sequences = N, .n_top = 1}, rows,
                     &e),
         &e);
    for (int i = 0; i < N; i++) {
        float d = golden_distance(rows[i].logits, alone[i].at, VOCAB);
        print_message("sequence %d: largest difference %.6f\n", i, (double)d);
        assert_true(d <= (strcmp(backend, "cpu") ? LOGIT_TOLERANCE : 0));
        assert_int_equal(rows[i].top_ids[0], golden_argmax(rows[i].logits, VOCAB));
        assert_true(rows[i].top_logits[0] == rows[i].logits[rows[i].top_ids[0]]);
        golden_rows_free(&alone[i]);
    }
    cli_run_close(&r);
}

static void test_counters_agree_with_the_plan(void **state)
{
    struct err e = {0};
    struct cli_run r;
    struct golden_rows rows = {0};
    struct backend_counters before, after;
    const int32_t n = slow ? 4 : 40; /* how deep a token lies is no matter of its weights */
    open_run(&r, N_LOGITS, 0, 1, false);
    must(golden_feed(&r, 0, ids.at, n, 0, 1, &rows, &e), &e);
    r.ops->counters(r.backend, &before);
    must(golden_feed(&r, 0, ids.at + n, 1, n, 1, &rows, &e), &e);
    r.ops->counters(r.backend, &after);
    double read = (double)(after.weight_bytes_read - before.weight_bytes_read);
    double planned = (double)model_stats(r.model)->active_bytes;
    print_message("one token read %.0f bytes of weights, the plan says %.0f\n", read, planned);
    assert_true(fabs(read / planned - 1) < 0.02);
    assert_int_equal(after.steps - before.steps, 1);
    golden_rows_free(&rows);
    cli_run_close(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits_equal_reference),
        cmocka_unit_test(test_exact_logits_equal_reference),
        cmocka_unit_test(test_greedy_answers_equal_reference),
        cmocka_unit_test(test_perplexity_equals_reference),
        cmocka_unit_test(test_chunks_agree_with_whole),
        cmocka_unit_test(test_batch_agrees_with_each_alone),
        cmocka_unit_test(test_counters_agree_with_the_plan),
    };
    if (argc > 1)
        backend = argv[1];
    if (argc > 2)
        positions = atoi(argv[2]);
    struct err e = {0};
    if (!backend_select(backend, &e)) {
        printf("1..0 # SKIP %s: %s\n", backend, e.text);
        return 77;
    }
    slow = golden_slow_device(backend);
    return cmocka_run_group_tests(tests, open_data, close_data);
}
