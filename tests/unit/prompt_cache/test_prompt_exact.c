/* Blocks that come from the disk give the answer of a run that never stopped, to the last bit of
 * each log probability: over the real backends, with and without recurrent layers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backend/backend.h"
#include "engine/model/model.h"
#include "engine/wire/message.h"
#include "tests/unit/prompt_cache/prompt_rows.h"
#include "tests/unit/support/expert_models.h"
#include "tests/unit/support/scheduler_rig.h"

#define CHECKPOINTS 4
#define FIRST_PROMPT 100
#define ANSWER 40
#define SECOND_PROMPT 160 /* with the first and its answer */
#define TOP 5
/* A GPU's bits depend on the rows that share a step, and a step takes as many rows of a prompt as
 * its time allows, but no fewer than these: so on a busy machine it takes the same. */
#define STEP_ROWS BACKEND_BLOCK_TOKENS

struct setting {
    const struct backend_ops *ops;
    const char *model;
    bool exact;
};
static const struct setting settings[] = {
    {&cpu_backend, "engine/demo-model", false},
    {&cpu_backend, "tests/data/golden/qwen35moe/mlx-mixed3", false},
    {&cpu_backend, "engine/demo-model", true},
    {&vulkan_backend, "tests/data/golden/qwen3moe/mlx-q4",
     false}, /* small: the cpu may compute it */
    {&vulkan_backend, "tests/data/golden/qwen35moe/mlx-mixed3", false},
};

struct said { /* an answer: tokens and the alternatives of each */
    int32_t n;
    struct engine_token tokens[ANSWER];
    struct engine_usage usage;
};

static const struct setting *at;
static struct model *model;
static struct rig rig;
static struct prompt_rows rows;
static int32_t prompt[SECOND_PROMPT];

static void open_backend(void)
{
    struct err e = {0};
    const struct model_plan *plan = model_plan(model);
    rig = (struct rig){0};
    rig.backend =
        at->ops->open(plan,
                      &(struct backend_params){.n_blocks = 24,
                                               .n_states = plan->n_recurrent ? 1 + CHECKPOINTS : 0,
                                               .max_rows = 64,
                                               .max_sequences = 1,
                                               .n_threads = 1,
                                               .exact = at->exact},
                      &e);
    if (!rig.backend)
        fail_msg("%s", e.text);
}

static void open_scheduler(void)
{
    static int32_t eos[] = {-1};
    struct err e = {0};
    const struct model_plan *plan = model_plan(model);
    rig.scheduler = scheduler_create(
        &(struct scheduler_params){.ops = at->ops,
                                   .backend = rig.backend,
                                   .vocab = rig_vocab(),
                                   .eos = eos,
                                   .n_eos = 1,
                                   .n_vocab = plan->n_vocab,
                                   .n_ctx = 256,
                                   .n_slots = 1,
                                   .n_blocks = 24,
                                   .max_rows = 64,
                                   .prefill_chunk = STEP_ROWS,
                                   .n_recurrent = plan->n_recurrent,
                                   .n_checkpoints = plan->n_recurrent ? CHECKPOINTS : 0,
                                   .disk = rows.cache,
                                   .cache_identity = ROWS_IDENTITY},
        &e);
    assert_non_null(rig.scheduler);
}

static void read_said(struct job *j, struct said *out)
{
    struct event_box box = {0};
    struct buf all = {0};
    char piece[1000];
    struct engine_event ev;
    struct frame f;
    struct err e = {0};
    bool end;
    size_t used, from = 0;
    *out = (struct said){0};
    for (size_t n; (n = event_log_read(&j->log, all.len, piece, sizeof piece, &end)) > 0;)
        buf_append(&all, piece, n);
    for (; frame_parse(all.data + from, all.len - from, &f, &used, &e) == 1; from += used) {
        assert_true(message_get_event(&f, &ev, &box, &e));
        assert_int_not_equal(ev.type, ENGINE_FAILED);
        for (int32_t i = 0; ev.type == ENGINE_TOKENS && i < ev.n_tokens; i++) {
            struct engine_token *t = &out->tokens[out->n++];
            *t = (struct engine_token){.id = ev.tokens[i].id, .logprob = ev.tokens[i].logprob};
            t->n_top = ev.tokens[i].n_top;
            memcpy(t->top, ev.tokens[i].top, (size_t)t->n_top * sizeof t->top[0]);
        }
        if (ev.type == ENGINE_DONE)
            out->usage = ev.usage;
    }
    event_box_fini(&box);
    buf_fini(&all);
}

static struct said ask(int32_t n)
{
    struct said out;
    struct engine_job_params p = params_of(prompt, n, ANSWER);
    p.top_logprobs = TOP;
    p.ignore_eos = true;
    p.sampling.temperature = 0.8f;
    p.sampling.seed = 5;
    strcpy(p.scope, "user:1");
    prompt_rows_name(&rows, &p);
    struct job *j = add(&rig, &p);
    run(&rig);
    read_said(j, &out);
    job_unref(&j);
    assert_int_equal(out.n, ANSWER);
    return out;
}

static void close_all(void)
{
    scheduler_destroy(&rig.scheduler);
    at->ops->close(&rig.backend);
}

/* Two turns, the second after a restart or not. */
static struct said two_turns(bool restart)
{
    open_backend();
    const struct backend_content *content = at->ops->content;
    prompt_rows_init(&rows, (uint32_t)content->block_bytes(rig.backend),
                     (uint32_t)content->state_bytes(rig.backend));
    open_scheduler();
    struct said first = ask(FIRST_PROMPT);
    for (int32_t i = 0; i < ANSWER; i++)
        prompt[FIRST_PROMPT + i] = first.tokens[i].id;
    prompt_rows_settle(&rows, rig.scheduler);
    if (restart) {
        close_all();
        prompt_rows_reopen(&rows);
        open_backend();
        open_scheduler();
    }
    struct said second = ask(SECOND_PROMPT);
    prompt_rows_settle(&rows, rig.scheduler);
    close_all();
    prompt_rows_fini(&rows);
    return second;
}

static void test_an_answer_from_the_disk_is_the_answer_of_a_run_that_never_stopped(void **state)
{
    struct err e = {0};
    const int32_t whole = (FIRST_PROMPT + ANSWER - 1) / 32 * 32;
    at = *state;
    if (!at->ops->probe->usable(&e))
        skip();
    model = model_open(expert_model_path(at->model), &e);
    if (!model)
        fail_msg("%s", e.text);
    fill_prompt(prompt, SECOND_PROMPT, 3);
    for (int32_t i = 0; i < SECOND_PROMPT; i++)
        prompt[i] %= model_plan(model)->n_vocab;
    struct said here = two_turns(false), back = two_turns(true);
    model_close(&model);
    assert_int_equal(here.usage.cached_tokens, whole);
    assert_int_equal(here.usage.cached_from_disk, 0);
    assert_int_equal(back.usage.cached_from_disk, whole);
    assert_int_equal(back.usage.cached_tokens, whole);
    assert_memory_equal(here.tokens, back.tokens, sizeof here.tokens);
}

int main(void)
{
    struct CMUnitTest tests[sizeof settings / sizeof settings[0]];
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        tests[i] = (struct CMUnitTest){
            .name = settings[i].model,
            .test_func = test_an_answer_from_the_disk_is_the_answer_of_a_run_that_never_stopped,
            .initial_state = (void *)&settings[i]};
    return cmocka_run_group_tests(tests, rig_load_vocab, rig_unload_vocab);
}
