/* Vectors and scores of tiny models against those of sentence-transformers and transformers
 * (tests/tools/make_embedding_goldens.py): tokens exactly, vectors by their cosine, on every set of
 * kernels that this processor has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json/json.h"
#include "engine/cpu/open.h"
#include "engine/model/model.h"
#include "engine/sched/embed/embed_load.h"
#include "engine/sched/embed/text_vector.h"
#include "engine/text/text_model.h"

#define MAX_ROWS 512
#define MAX_TEXTS 16
#define SMALLEST_COSINE 0.99999
#define LARGEST_SCORE_ERROR 2e-3 /* weights and keys have 11 bits */

struct fixture {
    struct text_model text;
    struct model *model;
    cJSON *golden;
    struct backend *backend;
    struct text_vector vector;
};

static void open_model(struct fixture *f, const char *name)
{
    char folder[1024], path[1200];
    struct err e = {0};
    const char *root = getenv("srcdir");
    snprintf(folder, sizeof folder, "%s/tests/data/embedding/%s", root ? root : ".", name);
    snprintf(path, sizeof path, "%s/golden.json", folder);
    f->golden = json_parse_file(path, 1 << 20, &e);
    if (!f->golden)
        fail_msg("%s: %s", path, e.text);
    const cJSON *file = cJSON_GetObjectItem(f->golden, "model");
    snprintf(path, sizeof path, "%s%s%s", folder, file ? "/" : "", file ? file->valuestring : "");
    f->model = model_open(path, &e);
    if (!f->model || !text_model_open(&f->text, path, NULL, &e))
        fail_msg("%s: %s", name, e.text);
}

static void open_backend(struct fixture *f, const struct kernels *k)
{
    struct err e = {0};
    const struct model_plan *plan = model_plan(f->model);
    const struct backend_params p = {.n_blocks = MAX_ROWS / BACKEND_BLOCK_TOKENS + MAX_TEXTS,
                                     .max_rows = MAX_ROWS,
                                     .max_sequences = MAX_TEXTS,
                                     .n_threads = 2,
                                     .kv_type = KV_F16};
    f->backend = cpu_open_with(plan, &p, k, &e);
    if (!f->backend || !text_vector_init(&f->vector, plan, &e))
        fail_msg("%s", e.text);
    embed_load_words(f->text.vocab, &f->vector.yes, &f->vector.no);
}

static void close_backend(struct fixture *f)
{
    text_vector_fini(&f->vector);
    cpu_backend.close(&f->backend);
}

static void close_model(struct fixture *f)
{
    model_close(&f->model);
    text_model_close(&f->text);
    cJSON_Delete(f->golden);
}

/* What is put around a text is not part of these. */
static void check_ids(const struct fixture *f, const char *text, const cJSON *want)
{
    struct ids ids = {0};
    struct err e = {0};
    const struct tokenizer_input in = {.text = text, .len = strlen(text), .mode = TOKENIZE_PLAIN};
    if (!tokenizer_encode(f->text.tokenizer, &in, &ids, &e))
        fail_msg("%s", e.text);
    size_t i = 0;
    for (const cJSON *one = want->child; one; one = one->next, i++)
        if (i >= ids.n || ids.at[i] != one->valueint)
            fail_msg("\"%s\": token %zu is %d, want %d", text, i, i < ids.n ? ids.at[i] : -1,
                     one->valueint);
    assert_int_equal(ids.n, i);
    ids_fini(&ids);
}

static void test_texts_become_the_reference_s_tokens(void **state)
{
    static const char *const names[] = {"bert", "bert-gguf", "xlmr", "qwen3"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        struct fixture f = {0};
        open_model(&f, names[n]);
        const cJSON *texts = cJSON_GetObjectItem(f.golden, "texts"),
                    *ids = cJSON_GetObjectItem(f.golden, "ids");
        for (int i = 0; i < cJSON_GetArraySize(texts); i++)
            check_ids(&f, cJSON_GetArrayItem(texts, i)->valuestring, cJSON_GetArrayItem(ids, i));
        close_model(&f);
    }
}

struct batch { /* texts of one step */
    int32_t tokens[MAX_ROWS], blocks[MAX_ROWS];
    struct step_sequence sequences[MAX_TEXTS];
    int32_t n, n_tokens, n_blocks;
};

static void batch_add(struct batch *b, const struct fixture *f, const int32_t *ids, int32_t n)
{
    const int32_t first = b->n_blocks, at = b->n_tokens;
    assert_true(b->n < MAX_TEXTS && n <= MAX_ROWS - at);
    memcpy(b->tokens + at, ids, (size_t)n * sizeof *ids);
    for (int32_t left = n; left > 0; left -= BACKEND_BLOCK_TOKENS, b->n_blocks++)
        b->blocks[b->n_blocks] = b->n_blocks;
    b->sequences[b->n++] = (struct step_sequence){.tokens = b->tokens + at,
                                                  .n_tokens = n,
                                                  .blocks = b->blocks + first,
                                                  .state = -1,
                                                  .n_out = text_vector_rows(&f->vector, n)};
    b->n_tokens += n;
}

static int32_t with_ends(const struct fixture *f, const cJSON *ids, int32_t *out)
{
    const struct vocab_around *a = vocab_around(f->text.vocab);
    int32_t n = 0;
    for (int32_t i = 0; i < a->n_before; i++)
        out[n++] = a->before[i];
    for (const cJSON *one = ids->child; one && n < 64 - a->n_after; one = one->next)
        out[n++] = one->valueint;
    for (int32_t i = 0; i < a->n_after; i++)
        out[n++] = a->after[i];
    return n;
}

static double cosine(const float *a, const cJSON *b, int32_t n)
{
    double dot = 0, aa = 0, bb = 0;
    for (int32_t i = 0; i < n; i++, b = b->next) {
        dot += (double)a[i] * b->valuedouble;
        aa += (double)a[i] * (double)a[i];
        bb += b->valuedouble * b->valuedouble;
    }
    assert_true(fabs(aa - 1) < 1e-5);
    return dot / sqrt(aa * bb);
}

/* All texts in one step: a row depends on its own text alone. */
static double worst_cosine(struct fixture *f, struct step_row *rows)
{
    struct err e = {0};
    struct batch b = {0};
    int32_t ids[MAX_ROWS];
    float v[64];
    double worst = 1;
    const int32_t d = model_plan(f->model)->d_model;
    const cJSON *list = cJSON_GetObjectItem(f->golden, "ids"),
                *vectors = cJSON_GetObjectItem(f->golden, "vectors");
    for (const cJSON *one = list->child; one; one = one->next)
        batch_add(&b, f, ids, with_ends(f, one, ids));
    const struct step step = {.sequences = b.sequences, .n_sequences = b.n, .hidden = true};
    if (!cpu_backend.step(f->backend, &step, rows, &e))
        fail_msg("%s", e.text);
    for (int32_t i = 0; i < b.n; rows += b.sequences[i++].n_out) {
        text_vector_embed(&f->vector, rows, b.sequences[i].n_out, d, v);
        const double c = cosine(v, cJSON_GetArrayItem(vectors, i)->child, d);
        worst = c < worst ? c : worst;
    }
    return worst;
}

static void test_vectors_are_those_of_sentence_transformers(void **state)
{
    static const char *const names[] = {"bert", "bert-gguf", "qwen3"};
    static struct step_row rows[MAX_ROWS];
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        struct fixture f = {0};
        open_model(&f, names[n]);
        for (int i = 0; kernels_available(i); i++) {
            open_backend(&f, kernels_available(i));
            const double worst = worst_cosine(&f, rows);
            print_message("%s, %s kernels: cosine >= %.9f\n", names[n], kernels_available(i)->name,
                          worst);
            if (!(worst >= SMALLEST_COSINE))
                fail_msg("%s, %s kernels: cosine %.9f", names[n], kernels_available(i)->name,
                         worst);
            close_backend(&f);
        }
        close_model(&f);
    }
}

static void check_scores(struct fixture *f, const char *name)
{
    struct err e = {0};
    int32_t ids[MAX_ROWS];
    static struct step_row rows[MAX_ROWS];
    const cJSON *pairs = cJSON_GetObjectItem(f->golden, "pair_ids"),
                *scores = cJSON_GetObjectItem(f->golden, "scores");
    for (int i = 0; i < cJSON_GetArraySize(pairs); i++) {
        struct batch b = {0};
        int32_t n = 0;
        for (const cJSON *one = cJSON_GetArrayItem(pairs, i)->child; one; one = one->next)
            ids[n++] = one->valueint;
        batch_add(&b, f, ids, n);
        const struct step step = {.sequences = b.sequences, .n_sequences = 1, .hidden = true};
        if (!cpu_backend.step(f->backend, &step, rows, &e))
            fail_msg("%s", e.text);
        const double got = (double)text_vector_score(&f->vector, rows),
                     want = cJSON_GetArrayItem(scores, i)->valuedouble;
        if (fabs(got - want) > LARGEST_SCORE_ERROR)
            fail_msg("%s: pair %d scores %.6f, want %.6f", name, i, got, want);
    }
}

static void test_scores_are_those_of_transformers(void **state)
{
    static const char *const names[] = {"xlmr", "qwen3"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        struct fixture f = {0};
        open_model(&f, names[n]);
        for (int i = 0; kernels_available(i); i++) {
            open_backend(&f, kernels_available(i));
            check_scores(&f, names[n]);
            close_backend(&f);
        }
        close_model(&f);
    }
}

static void test_a_text_s_vector_does_not_depend_on_the_others(void **state)
{
    static struct step_row rows[MAX_ROWS];
    struct fixture f = {0};
    struct err e = {0};
    int32_t ids[MAX_ROWS];
    float alone[64], together[64];
    open_model(&f, "bert");
    open_backend(&f, kernels_available(0));
    const cJSON *list = cJSON_GetObjectItem(f.golden, "ids");
    for (int with_others = 0; with_others < 2; with_others++) {
        struct batch b = {0};
        for (int i = 0; i < (with_others ? 6 : 1); i++)
            batch_add(&b, &f, ids, with_ends(&f, cJSON_GetArrayItem(list, i), ids));
        const struct step step = {.sequences = b.sequences, .n_sequences = b.n, .hidden = true};
        assert_true(cpu_backend.step(f.backend, &step, rows, &e));
        text_vector_embed(&f.vector, rows, b.sequences[0].n_out, 32,
                          with_others ? together : alone);
    }
    assert_memory_equal(alone, together, 32 * sizeof(float));
    close_backend(&f);
    close_model(&f);
}

static void test_fewer_dimensions_are_the_first_ones_at_length_1(void **state)
{
    static struct step_row rows[MAX_ROWS];
    struct fixture f = {0};
    struct err e = {0};
    struct batch b = {0};
    int32_t ids[MAX_ROWS];
    float all[64], few[64];
    open_model(&f, "qwen3");
    open_backend(&f, kernels_available(0));
    batch_add(&b, &f, ids, with_ends(&f, cJSON_GetObjectItem(f.golden, "ids")->child, ids));
    const struct step step = {.sequences = b.sequences, .n_sequences = 1, .hidden = true};
    assert_true(cpu_backend.step(f.backend, &step, rows, &e));
    text_vector_embed(&f.vector, rows, 1, 32, all);
    text_vector_embed(&f.vector, rows, 1, 8, few);
    double squares = 0;
    for (int i = 0; i < 8; i++) {
        squares += (double)few[i] * (double)few[i];
        assert_true(fabs((double)(few[i] * all[0] - few[0] * all[i])) < 1e-6);
    }
    assert_true(fabs(squares - 1) < 1e-6);
    close_backend(&f);
    close_model(&f);
}

static void test_a_model_is_refused_for_what_it_is_not_made_for(void **state)
{
    static const struct {
        const char *name;
        bool can[ENGINE_TASK__N];
    } cases[] = {{"bert", {false, true, false}},
                 {"xlmr", {false, false, true}},
                 {"qwen3", {true, true, true}}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct fixture f = {0};
        open_model(&f, cases[n].name);
        for (int task = 0; task < ENGINE_TASK__N; task++) {
            struct err e = {0};
            const bool can =
                embed_load_check((enum engine_task)task, model_plan(f.model), f.text.vocab, &e);
            assert_int_equal(can, cases[n].can[task]);
            assert_int_equal(e.code, can ? ERR_NONE : ERR_UNSUPPORTED);
        }
        close_model(&f);
    }
}

/* A tokenizer may have more tokens than the model has rows for. */
static void test_words_to_score_with_lie_within_the_head(void **state)
{
    struct fixture f = {0};
    struct err e = {0};
    int32_t yes, no;
    open_model(&f, "qwen3");
    embed_load_words(f.text.vocab, &yes, &no);
    struct model_plan plan = *model_plan(f.model);
    plan.n_vocab = (yes > no ? yes : no) + 1;
    assert_true(embed_load_check(ENGINE_TASK_SCORE, &plan, f.text.vocab, &e));
    plan.n_vocab--;
    assert_false(embed_load_check(ENGINE_TASK_SCORE, &plan, f.text.vocab, &e));
    assert_int_equal(e.code, ERR_UNSUPPORTED);
    close_model(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_become_the_reference_s_tokens),
        cmocka_unit_test(test_vectors_are_those_of_sentence_transformers),
        cmocka_unit_test(test_scores_are_those_of_transformers),
        cmocka_unit_test(test_a_text_s_vector_does_not_depend_on_the_others),
        cmocka_unit_test(test_fewer_dimensions_are_the_first_ones_at_length_1),
        cmocka_unit_test(test_a_model_is_refused_for_what_it_is_not_made_for),
        cmocka_unit_test(test_words_to_score_with_lie_within_the_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
