/* Drafts over real models of each family, attention and recurrent layers, resident and streamed: on
 * the cpu backend the answers are those without drafts to the bit of each log probability, greedy
 * and sampled, while several jobs share the steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "engine/draft/draft_model.h"
#include "engine/experts/streaming.h"
#include "engine/model/model.h"
#include "engine/wire/message.h"
#include "tests/unit/support/expert_models.h"
#include "tests/unit/support/draw_test.h"
#include "tests/unit/support/drafter_folder.h"
#include "tests/unit/support/sanitized.h"
#include "tests/unit/support/scheduler_rig.h"

#define JOBS 6
#define ANSWER 60
#define PROMPT 48
#define BLOCKS 40
#define PROVISIONAL 34
#define CHECKPOINTS 3
#define SEATS 4 /* fewer than jobs: the others have no draft model until one is free */
#define WINDOW 128

struct said { /* an answer, and what its speculation did */
    int32_t n;
    struct {
        int32_t id;
        float logprob;
    } tokens[ANSWER];
    struct engine_speculation speculation;
};

static struct model *model;
static struct streaming *streaming;
static int32_t prompts[JOBS][PROMPT], predictions[JOBS][ANSWER];
static struct said plain[JOBS];
static struct model *drafting; /* the draft model of rigs that are made from now on; NULL: none */
static struct backend *draft_backend;
static bool by_layer; /* `drafting` is the model's own next-token layer */
static struct draft_model *draft_model;

#define DRAWS 1080 /* of each drafter; SLUICE_DRAWS=100000 by hand */

static bool unforeseen;         /* no predictions: the text before and earlier answers alone */
static struct draw_test *draws; /* counts what is read from now on; NULL: nothing does */

static void open_draft_model(void)
{
    struct err e = {0};
    const struct model_plan *plan = model_plan(drafting);
    draft_backend = cpu_backend.open(
        plan,
        &(struct backend_params){.n_blocks = SEATS * WINDOW / BACKEND_BLOCK_TOKENS,
                                 .n_states = plan->n_recurrent ? SEATS * DRAFT_SEAT_STATES : 0,
                                 .max_rows = DRAFT_STEP_ROWS,
                                 .max_sequences = SEATS,
                                 .n_threads = 1},
        &e);
    if (!draft_backend)
        fail_msg("%s", e.text);
    draft_model = draft_model_create(
        &(struct draft_model_params){.ops = &cpu_backend,
                                     .backend = draft_backend,
                                     .n_vocab = plan->n_vocab,
                                     .target_vocab = model_plan(model)->n_vocab,
                                     .n_recurrent = plan->n_recurrent,
                                     .n_seats = SEATS,
                                     .window = WINDOW,
                                     .d_hidden = by_layer ? plan->d_model : plan->context.fc.cols,
                                     .block = plan->context.block,
                                     .mask_token = plan->context.mask_token},
        &e);
    assert_non_null(draft_model);
}

static void open_rig(struct rig *r, enum engine_speculate speculate, int32_t forced)
{
    static int32_t eos[] = {-1};
    struct err e = {0};
    const struct model_plan *plan = streaming ? streaming_plan(streaming) : model_plan(model);
    struct expert_cache *experts = streaming ? streaming_cache(streaming) : NULL;
    *r = (struct rig){0};
    if (drafting)
        open_draft_model();
    struct backend_params p = {.n_blocks = BLOCKS,
                               .n_states = plan->n_recurrent ? JOBS + CHECKPOINTS : 0,
                               .max_rows = 96,
                               .max_sequences = JOBS,
                               .n_threads = 1,
                               .provisional_rows = PROVISIONAL,
                               .n_taps = drafting ? model_plan(drafting)->context.n_taps : 0,
                               .experts = experts};
    if (drafting)
        memcpy(p.taps, model_plan(drafting)->context.taps, sizeof p.taps);
    r->backend = cpu_backend.open(plan, &p, &e);
    if (!r->backend)
        fail_msg("%s", e.text);
    r->scheduler = scheduler_create(
        &(struct scheduler_params){.ops = &cpu_backend,
                                   .backend = r->backend,
                                   .vocab = rig_vocab(),
                                   .eos = eos,
                                   .n_eos = 1,
                                   .n_vocab = plan->n_vocab,
                                   .n_ctx = 256,
                                   .n_slots = JOBS,
                                   .n_blocks = BLOCKS,
                                   .max_rows = 96,
                                   .n_recurrent = plan->n_recurrent,
                                   .n_checkpoints = plan->n_recurrent ? CHECKPOINTS : 0,
                                   .experts = experts,
                                   .speculate = speculate,
                                   .draft_model = draft_model,
                                   .provisional_rows = PROVISIONAL,
                                   .forced_drafts = forced},
        &e);
    assert_non_null(r->scheduler);
}

static void close_rig(struct rig *r)
{
    assert_all_returned(r, JOBS);
    if (draft_model) /* every seat was given back */
        assert_int_equal(draft_model_counts(draft_model).taken, 0);
    scheduler_destroy(&r->scheduler);
    cpu_backend.close(&r->backend);
    draft_model_destroy(&draft_model);
    if (draft_backend)
        cpu_backend.close(&draft_backend);
}

static struct engine_job_params question(int i)
{
    struct engine_job_params p = params_of(prompts[i], PROMPT - 7 * (i % 3), ANSWER);
    p.ignore_eos = true;
    p.top_logprobs = 0;
    p.sampling.temperature = i % 2 ? 0.8f : 0;
    p.sampling.top_p = i == 3 ? 0.9f : 1;
    p.sampling.top_k = i == 5 ? 20 : 0;
    p.sampling.presence_penalty = i == 1 ? 0.4f : 0;
    p.sampling.seed = (uint64_t)i;
    p.prediction = predictions[i];
    p.n_prediction = i < 4 && !unforeseen ? ANSWER : 0;
    return p;
}

static void read_said(struct job *j, struct said *out)
{
    struct event_box box = {0};
    struct buf whole = {0};
    char piece[1000];
    struct engine_event ev;
    struct frame f;
    struct err e = {0};
    bool end;
    size_t used, from = 0;
    *out = (struct said){0};
    for (size_t n; (n = event_log_read(&j->log, whole.len, piece, sizeof piece, &end)) > 0;)
        buf_append(&whole, piece, n);
    for (; frame_parse(whole.data + from, whole.len - from, &f, &used, &e) == 1; from += used) {
        assert_true(message_get_event(&f, &ev, &box, &e));
        if (ev.type == ENGINE_FAILED)
            fail_msg("%s", ev.error.text);
        for (int32_t i = 0; ev.type == ENGINE_TOKENS && i < ev.n_tokens; i++, out->n++) {
            out->tokens[out->n].id = ev.tokens[i].id;
            out->tokens[out->n].logprob = ev.tokens[i].logprob;
            if (draws)
                draw_test_count(draws, &ev.tokens[i]);
        }
        if (ev.type == ENGINE_DONE)
            out->speculation = ev.usage.speculation;
    }
    assert_int_equal(out->n, ANSWER);
    event_box_fini(&box);
    buf_fini(&whole);
}

static void ask_all(struct rig *r, struct said *said)
{
    struct job *jobs[JOBS];
    for (int i = 0; i < JOBS; i++) {
        const struct engine_job_params p = question(i);
        jobs[i] = add(r, &p);
    }
    run(r);
    for (int i = 0; i < JOBS; i++) {
        read_said(jobs[i], &said[i]);
        job_unref(&jobs[i]);
    }
}

/* The predictions are the answers, with every ninth token or so wrong. */
static void ask_plainly(void)
{
    struct rig r;
    const int32_t n_vocab = model_plan(model)->n_vocab;
    for (int i = 0; i < JOBS; i++) {
        fill_prompt(prompts[i], PROMPT, (unsigned)(i % 4));
        for (int32_t k = 0; k < PROMPT; k++)
            prompts[i][k] = k < PROMPT / 2 ? prompts[i][k] % n_vocab : prompts[i][k - PROMPT / 2];
    }
    open_rig(&r, ENGINE_SPECULATE_OFF, 0);
    ask_all(&r, plain);
    close_rig(&r);
    for (int i = 0; i < JOBS; i++)
        for (int32_t k = 0; k < ANSWER; k++)
            predictions[i][k] = (plain[i].tokens[k].id + ((k + i) % 9 == 8)) % n_vocab;
}

struct drafted {
    int32_t drafted, accepted;
};

/* Asks twice: the second time reuses blocks and states of the first. */
static struct drafted ask_and_compare(enum engine_speculate speculate, int32_t forced)
{
    struct rig r;
    struct drafted sum = {0};
    open_rig(&r, speculate, forced);
    for (int turn = 0; turn < 2; turn++) {
        struct said said[JOBS];
        ask_all(&r, said);
        for (int i = 0; i < JOBS; i++) {
            assert_memory_equal(said[i].tokens, plain[i].tokens, sizeof said[i].tokens);
            sum.drafted += said[i].speculation.drafted;
            sum.accepted += said[i].speculation.accepted;
        }
    }
    close_rig(&r);
    return sum;
}

static void assert_plain(int32_t forced)
{
    const struct drafted d = ask_and_compare(ENGINE_SPECULATE_AUTO, forced);
    if (forced)
        assert_true(d.accepted > 100 && d.accepted < d.drafted);
}

static void test_answers_are_those_without_drafts(void **state)
{
    struct err e = {0};
    model = model_open(expert_model_path(*state), &e);
    if (!model)
        fail_msg("%s", e.text);
    ask_plainly();
    assert_plain(3);
    assert_plain(DRAFT_MAX);
    model_close(&model);
}

static void test_streamed_answers_are_those_without_drafts(void **state)
{
    struct err e = {0};
    model = model_open(expert_model_path(*state), &e);
    if (!model)
        fail_msg("%s", e.text);
    ask_plainly(); /* resident */
    streaming = streaming_open(
        model, &(struct streaming_params){.cache_bytes = model_stats(model)->expert_bytes * 2 / 5},
        &e);
    if (!streaming)
        fail_msg("%s", e.text);
    assert_plain(2);
    assert_plain(DRAFT_MAX);
    streaming_close(&streaming);
    model_close(&model);
}

/* The model drafts for itself, over a window that is shorter than prompt and answer together. */
static void test_a_draft_model_changes_no_answer(void **state)
{
    struct err e = {0};
    model = model_open(expert_model_path(*state), &e);
    if (!model)
        fail_msg("%s", e.text);
    ask_plainly();
    drafting = model;
    for (int32_t depth = 3; depth <= DRAFT_MAX; depth += DRAFT_MAX - 3) {
        struct drafted d = ask_and_compare(ENGINE_SPECULATE_DRAFT, depth);
        assert_true(d.accepted > 300);
        d = ask_and_compare(ENGINE_SPECULATE_AUTO, depth); /* with predictions and text before */
        assert_true(d.accepted > 100);
    }
    ask_and_compare(ENGINE_SPECULATE_AUTO, 0); /* as it pays */
    drafting = NULL;
    model_close(&model);
}

/* Models of other vocabularies: what the one has no token for the other neither reads nor drafts.
 */
static void test_a_draft_model_that_knows_nothing_changes_no_answer(void **state)
{
    static const char *const small = "tests/data/golden/qwen3moe/mlx-q4";
    struct err e = {0};
    for (int turn = 0; turn < 2; turn++) {
        model = model_open(expert_model_path(turn ? *state : small), &e);
        if (!model)
            fail_msg("%s", e.text);
        ask_plainly();
        drafting = model_open(expert_model_path(turn ? small : *state), &e);
        if (!drafting)
            fail_msg("%s", e.text);
        const struct drafted d = ask_and_compare(ENGINE_SPECULATE_DRAFT, 5);
        assert_true(turn || (d.drafted > 100 && d.accepted < d.drafted / 4));
        model_close(&drafting);
        model_close(&model);
    }
}

/* Of files in which it is trained (the demo model's) or random, behind attention and behind
 * recurrent layers; over a window that is shorter than prompt and answer together; while blocks run
 * out, so that jobs are preempted. */
static void ask_its_own_layer(const char *path, int32_t least)
{
    struct err e = {0};
    model = model_open(path, &e);
    drafting = model ? model_next(model, &e) : NULL;
    if (!drafting)
        fail_msg("%s", e.text);
    ask_plainly();
    by_layer = true;
    for (int32_t depth = 1; depth <= (least ? 6 : 1); depth += 5) {
        const struct drafted d = ask_and_compare(ENGINE_SPECULATE_MTP, depth);
        if (d.drafted < 300 || d.accepted < least)
            fail_msg("depth %d: %d of %d came true", depth, d.accepted, d.drafted);
    }
    ask_and_compare(ENGINE_SPECULATE_AUTO, 3); /* with predictions and text before */
    if (least)
        ask_and_compare(ENGINE_SPECULATE_AUTO, 0); /* as it pays */
    by_layer = false;
    drafting = NULL;
    model_close(&model);
}

static void test_a_next_token_layer_changes_no_answer(void **state)
{
    ask_its_own_layer(expert_model_path(*state), 60); /* of tokens that fit no text */
}

static void test_a_random_next_token_layer_changes_no_answer(void **state)
{
    struct drafter_folder f;
    drafter_folder_make_layer(&f, *state);
    ask_its_own_layer(f.path, 0);
    drafter_folder_remove(&f);
}

/* A DFlash drafter of random values; behind recurrent layers, and while experts are streamed.
 * Prompt and answer together are longer than its window. */
static void test_a_dflash_drafter_changes_no_answer(void **state)
{
    struct drafter_folder f;
    struct err e = {0};
    model = model_open(expert_model_path(*state), &e);
    if (!model)
        fail_msg("%s", e.text);
    const struct model_plan *plan = model_plan(model);
    const bool streams = plan->d_model == 512;
    drafter_folder_make_dflash(&f, &(struct dflash_shape){.d = plan->d_model,
                                                          .n_vocab = plan->n_vocab,
                                                          .n_layer = plan->n_layer,
                                                          .block = 6});
    ask_plainly();
    if (streams)
        streaming = streaming_open(
            model,
            &(struct streaming_params){.cache_bytes = model_stats(model)->expert_bytes * 2 / 5},
            &e);
    struct model *own = drafting = model_open_drafter(f.path, &e);
    if (!own || (streams && !streaming))
        fail_msg("%s", e.text);
    model_next_share(own, streaming ? streaming_plan(streaming) : plan);
    const struct drafted d = ask_and_compare(ENGINE_SPECULATE_DFLASH, 4);
    assert_true(d.drafted > 300);
    ask_and_compare(ENGINE_SPECULATE_AUTO, 7); /* with predictions and text before */
    drafting = NULL;
    model_close(&own);
    streaming_close(&streaming);
    model_close(&model);
    drafter_folder_remove(&f);
}

static int32_t draw(struct draw_test *t, enum engine_speculate speculate)
{
    const char *wanted = getenv("SLUICE_DRAWS");
    const int32_t most = wanted ? atoi(wanted) : DRAWS;
    struct rig r;
    int32_t accepted = 0;
    open_rig(&r, speculate, 3);
    for (uint64_t seed = 1; t->n < most; seed++) {
        struct job *jobs[JOBS];
        for (int i = 0; i < JOBS; i++) {
            struct engine_job_params p = question(i);
            draw_test_sampling(&p, (seed << 8 | (uint64_t)speculate << 4) + (uint64_t)i);
            jobs[i] = add(&r, &p);
        }
        run(&r);
        draws = t;
        for (int i = 0; i < JOBS; i++) {
            struct said said;
            read_said(jobs[i], &said);
            accepted += said.speculation.accepted;
            job_unref(&jobs[i]);
        }
        draws = NULL;
    }
    close_rig(&r);
    return accepted;
}

/* Sampled tokens follow the model's distribution whoever drafts, by a chi-square test; drafters are
 * those that were trained for the model. "auto": by the user's earlier answers, to the same
 * questions but with other random numbers. */
static void test_draws_follow_the_model(void **state)
{
    const enum engine_speculate by = *(const enum engine_speculate *)*state;
    struct err e = {0};
    model = model_open(expert_model_path("engine/demo-model"), &e);
    if (!model)
        fail_msg("%s", e.text);
    const char *path = by == ENGINE_SPECULATE_DRAFT    ? "engine/demo-model/draft"
                       : by == ENGINE_SPECULATE_DFLASH ? "engine/demo-model/dflash"
                                                       : NULL;
    struct model *own = path ? model_open_drafter(expert_model_path(path), &e) : NULL;
    ask_plainly();
    by_layer = by == ENGINE_SPECULATE_MTP;
    drafting = by_layer ? model_next(model, &e) : own;
    unforeseen = by == ENGINE_SPECULATE_AUTO;
    if (!drafting && by != ENGINE_SPECULATE_NGRAM && !unforeseen)
        fail_msg("%s", e.text);
    if (by_layer || by == ENGINE_SPECULATE_DFLASH)
        model_next_share(drafting, model_plan(model));
    struct draw_test t = {0};
    const int32_t accepted = draw(&t, by);
    print_message("%s: %d draws, %d of drafted tokens, chi-square %.1f\n",
                  engine_speculate_name(by), t.n, accepted, draw_test_chi_square(&t));
    assert_true(accepted > 0 && draw_test_chi_square(&t) < DRAW_TEST_CHI_SQUARE);
    by_layer = unforeseen = false;
    drafting = NULL;
    model_close(&own);
    model_close(&model);
}

int main(void)
{
    struct CMUnitTest tests[64];
    size_t n = 0;
    const size_t every = SANITIZED ? 3 : 1; /* memory is looked at there: some families will do */
    for (size_t i = 0; expert_models[i]; i++) {
        if (i % every == 0)
            tests[n++] = (struct CMUnitTest){.name = expert_models[i],
                                             .test_func = test_answers_are_those_without_drafts,
                                             .initial_state = (void *)expert_models[i]};
        if (i % every == every - 1 && (SANITIZED || expert_models_first_form(i)))
            tests[n++] = (struct CMUnitTest){.name = expert_models[i],
                                             .test_func = test_a_draft_model_changes_no_answer,
                                             .initial_state = (void *)expert_models[i]};
    }
    tests[n++] = (struct CMUnitTest){.name = "next-token layer: engine/demo-model",
                                     .test_func = test_a_next_token_layer_changes_no_answer,
                                     .initial_state = "engine/demo-model"};
    static const char *const random[] = {"tests/data/golden/glm4moe/hf",
                                         "tests/data/golden/qwen35moe/mlx-mixed3"};
    for (size_t i = 0; i < 2; i++)
        tests[n++] =
            (struct CMUnitTest){.name = random[i],
                                .test_func = test_a_random_next_token_layer_changes_no_answer,
                                .initial_state = (void *)random[i]};
    static const char *const blocks[] = {"tests/data/golden/glm4moe/hf",
                                         "tests/data/golden/qwen35moe/mlx-mixed3",
                                         "engine/demo-model"};
    for (size_t i = 0; i < 3; i++)
        tests[n++] = (struct CMUnitTest){.name = blocks[i],
                                         .test_func = test_a_dflash_drafter_changes_no_answer,
                                         .initial_state = (void *)blocks[i]};
    static const enum engine_speculate drawn[] = {ENGINE_SPECULATE_NGRAM, ENGINE_SPECULATE_DRAFT,
                                                  ENGINE_SPECULATE_MTP, ENGINE_SPECULATE_DFLASH,
                                                  ENGINE_SPECULATE_AUTO};
    for (size_t i = SANITIZED ? 5 : 0; i != 5; i++)
        tests[n++] = (struct CMUnitTest){.name = "draws",
                                         .test_func = test_draws_follow_the_model,
                                         .initial_state = (void *)(uintptr_t)&drawn[i]};
    tests[n++] =
        (struct CMUnitTest){.name = "a foreign draft model",
                            .test_func = test_a_draft_model_that_knows_nothing_changes_no_answer,
                            .initial_state = "engine/demo-model"};
    tests[n++] = (struct CMUnitTest){.name = "streamed: engine/demo-model",
                                     .test_func = test_streamed_answers_are_those_without_drafts,
                                     .initial_state = "engine/demo-model"};
    return _cmocka_run_group_tests("speculation over models", tests, n, rig_load_vocab,
                                   rig_unload_vocab);
}
