/* scheduler_rig.h: a scheduler over the fake backend, and readers for what its jobs say. */
#include "tests/unit/support/scheduler_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/wire/message.h"
#include "tests/unit/support/fake_backend.h"

#define MAX_ANSWER 256

static struct vocab *vocab;
static struct disk_cache *disk;
static uint64_t disk_identity;
static enum engine_speculate speculate;
static int32_t forced_drafts;
static struct draft_model *draft_model;

int rig_load_vocab(void **state)
{
    char path[512];
    struct err e = {0};
    const char *source = getenv("srcdir");
    snprintf(path, sizeof path, "%s/engine/demo-model", source ? source : ".");
    vocab = vocab_load(path, NULL, &e);
    if (!vocab)
        fprintf(stderr, "%s\n", e.text);
    log_set_level(LOG_ERROR);
    return vocab ? 0 : -1;
}

int rig_unload_vocab(void **state)
{
    vocab_close(&vocab);
    return 0;
}

const struct vocab *rig_vocab(void)
{
    return vocab;
}

void rig_init_recurrent(struct rig *r, int32_t slots, int32_t n_blocks, int32_t chunk,
                        int32_t n_checkpoints)
{
    static const int32_t eos[] = {FAKE_EOS};
    struct err e = {0};
    int32_t max_rows = slots + chunk;
    bool recurrent = n_checkpoints >= 0;
    *r = (struct rig){
        .backend = fake_open(n_blocks, recurrent ? slots + n_checkpoints : 0, max_rows, slots)};
    r->scheduler =
        scheduler_create(&(struct scheduler_params){.ops = &fake_backend,
                                                    .backend = r->backend,
                                                    .vocab = vocab,
                                                    .eos = eos,
                                                    .n_eos = 1,
                                                    .n_vocab = FAKE_VOCAB,
                                                    .n_ctx = N_CTX,
                                                    .n_slots = slots,
                                                    .n_blocks = n_blocks,
                                                    .max_rows = max_rows,
                                                    .prefill_chunk = chunk,
                                                    .experts_per_token = RIG_EXPERTS,
                                                    .trained_top_k = RIG_EXPERTS,
                                                    .n_recurrent = recurrent,
                                                    .speculate = speculate,
                                                    .provisional_rows = 34,
                                                    .forced_drafts = forced_drafts,
                                                    .draft_model = draft_model,
                                                    .disk = disk,
                                                    .cache_identity = disk_identity,
                                                    .n_checkpoints = recurrent ? n_checkpoints : 0},
                         &e);
    assert_non_null(r->scheduler);
}

void rig_use_disk(struct disk_cache *cache, uint64_t identity)
{
    disk = cache;
    disk_identity = identity;
}

void rig_use_drafts(enum engine_speculate as, int32_t forced)
{
    speculate = as;
    forced_drafts = forced;
}

void rig_use_draft_model(struct draft_model *m)
{
    draft_model = m;
}

void rig_init(struct rig *r, int32_t slots, int32_t n_blocks, int32_t chunk)
{
    rig_init_recurrent(r, slots, n_blocks, chunk, -1);
}

void rig_fini(struct rig *r)
{
    scheduler_destroy(&r->scheduler);
    fake_backend.close(&r->backend);
}

/* Nothing is held any more: the leak test of every path. */
void assert_all_returned(const struct rig *r, int32_t slots)
{
    struct scheduler_counts c = scheduler_counts(r->scheduler);
    assert_int_equal(c.running, 0);
    assert_int_equal(c.waiting, 0);
    assert_int_equal(c.blocks.used, 0);
    assert_int_equal(c.blocks.idle + c.blocks.free, c.blocks.total);
    assert_int_equal(c.free_slots, slots);
}

struct engine_job_params params_of(const int32_t *prompt, int32_t n, int32_t max_tokens)
{
    return (struct engine_job_params){.prompt = prompt,
                                      .n_prompt = n,
                                      .max_tokens = max_tokens,
                                      .top_logprobs = -1,
                                      .sampling = {.top_p = 1, .repetition_penalty = 1}};
}

/* Gives the job to the scheduler and returns a reference of our own. */
struct job *add(struct rig *r, const struct engine_job_params *p)
{
    struct err e = {0};
    struct arena *arena = arena_create(0);
    struct engine_job_params own = *p;
    int32_t *prompt = arena_alloc(arena, (size_t)p->n_prompt * sizeof *prompt);
    memcpy(prompt, p->prompt, (size_t)p->n_prompt * sizeof *prompt);
    own.prompt = prompt;
    int32_t *prediction = arena_alloc(arena, (size_t)p->n_prediction * sizeof *prediction + 1);
    if (p->n_prediction)
        memcpy(prediction, p->prediction, (size_t)p->n_prediction * sizeof *prediction);
    own.prediction = prediction;
    struct job *j = job_create(++r->last_id, arena, &own, &e);
    assert_non_null(j);
    job_ref(j);
    scheduler_add(r->scheduler, j);
    return j;
}

void run(struct rig *r)
{
    struct err e = {0};
    for (int i = 0, waits = 0; !scheduler_idle(r->scheduler); i++) {
        assert_true(i < 100000 && waits < 100000);
        if (scheduler_waits_for_disk(r->scheduler)) {
            clock_sleep_us(100);
            waits++;
            i--;
        }
        if (!scheduler_step(r->scheduler, &e))
            fail_msg("%s", e.text);
    }
}

static void read_event(const struct engine_event *ev, struct outcome *o)
{
    switch (ev->type) {
    case ENGINE_TOKENS:
        for (int32_t i = 0; i < ev->n_tokens; i++)
            o->ids[o->n++] = ev->tokens[i].id;
        buf_append(&o->text, ev->text, ev->text_len);
        break;
    case ENGINE_PROGRESS:
        o->n_progress++;
        break;
    case ENGINE_DONE:
        o->done = true;
        o->finish = ev->finish;
        o->usage = ev->usage;
        if (ev->stop_string)
            snprintf(o->stop, sizeof o->stop, "%s", ev->stop_string);
        break;
    case ENGINE_FAILED:
        o->failed = true;
        o->error = ev->error;
        break;
    case ENGINE_VECTORS: /* of embedders */
        break;
    case ENGINE_PROMPT_SCORES:
    case ENGINE_ACCEPTED:
        break;
    }
}

/* All events so far, from the first. */
void read_log(struct job *j, struct outcome *o)
{
    struct event_box box = {0};
    struct buf all = {0};
    char piece[1000];
    bool end = false;
    *o = (struct outcome){0};
    for (size_t n; (n = event_log_read(&j->log, all.len, piece, sizeof piece, &end)) > 0;)
        buf_append(&all, piece, n);
    size_t at = 0, used;
    struct frame f;
    struct engine_event ev;
    struct err e = {0};
    while (frame_parse(all.data + at, all.len - at, &f, &used, &e) == 1) {
        assert_false(o->done || o->failed); /* nothing comes after the last */
        assert_true(message_get_event(&f, &ev, &box, &e));
        read_event(&ev, o);
        at += used;
    }
    assert_int_equal(at, all.len);
    assert_int_equal(end, o->done || o->failed);
    event_box_fini(&box);
    buf_fini(&all);
}

void fill_prompt(int32_t *prompt, int32_t n, unsigned seed)
{
    for (int32_t i = 0; i < n; i++) {
        seed = seed * 1103515245u + 12345;
        prompt[i] = (int32_t)(seed >> 16) % FAKE_VOCAB;
    }
}

/* The answer by plain recursion, without a scheduler. Returns its length; *eos: it ended by itself.
 */
static int32_t expect_greedy(const int32_t *prompt, int32_t n, int32_t max_tokens, int32_t *out,
                             bool *eos)
{
    int32_t history[N_CTX];
    memcpy(history, prompt, (size_t)n * sizeof *history);
    *eos = false;
    for (int32_t k = 0; k < max_tokens; k++) {
        int32_t id = fake_greedy(history, n + k);
        *eos = id == FAKE_EOS;
        if (*eos)
            return k;
        out[k] = history[n + k] = id;
    }
    return max_tokens;
}

void assert_greedy(struct job *j)
{
    int32_t expected[MAX_ANSWER];
    bool eos;
    struct outcome o;
    read_log(j, &o);
    if (o.failed)
        fail_msg("%s", o.error.text);
    assert_true(o.done);
    int32_t n =
        expect_greedy(j->params.prompt, j->params.n_prompt, j->params.max_tokens, expected, &eos);
    assert_int_equal(o.n, n);
    assert_memory_equal(o.ids, expected, (size_t)n * sizeof *expected);
    assert_int_equal(o.finish, eos ? ENGINE_STOP_EOS : ENGINE_LENGTH);
    assert_int_equal(o.usage.completion_tokens, n + eos);
    buf_fini(&o.text);
}
