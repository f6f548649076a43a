/* Runs the loop thread: it loads the model, announces that the engine is ready, steps while
 * there is work, and shuts down in order. */
#include "engine/sched/loop_state.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/hash.h"
#define LOG_MODULE "loop"
#include "engine/backend/backend.h"
#include "engine/base/log.h"
#include "engine/confine/engine_walls.h"
#include "engine/draft/draft_plan.h"
#include "engine/memory/memory_load.h"
#include "engine/model/model.h"
#include "engine/sched/embed/embed_load.h"
#include "engine/sched/embedder.h"
#include "engine/sched/watch/notify.h"
#include "engine/sched/scheduler.h"
#include "engine/text/text_model.h"

#define IDLE_MS 1000 /* how often idle time is counted; a job ends the wait early */

static bool open_embedder(struct loop *l, struct err *e)
{
    const struct sizing *size = &l->memory.plan.size;
    struct embedder_params p = {.ops = l->memory.ops,
                                .backend = l->memory.opened,
                                .plan = model_plan(l->model),
                                .task = l->params.task,
                                .n_blocks = size->n_blocks,
                                .max_rows = size->max_rows,
                                .max_sequences = size->n_slots,
                                .status = l->params.status};
    embed_load_words(l->text.vocab, &p.yes, &p.no);
    l->embedder = embedder_create(&p, e);
    return l->embedder != NULL;
}

static bool open_scheduler(struct loop *l, struct err *e)
{
    const struct model_plan *plan = model_plan(l->model);
    const uint64_t identity[4] = {
        plan->fingerprint, hash64(l->memory.ops->name, strlen(l->memory.ops->name), 0),
        l->params.exact + 2u * l->params.memory.one_byte, l->memory.plan.kv_stored};
    struct scheduler_params p = {
        .ops = l->memory.ops,
        .backend = l->memory.opened,
        .experts = memory_load_experts(&l->memory),
        .experts_per_token = loop_most_experts(plan),
        .trained_top_k = l->trained_top_k,
        .vocab = l->text.vocab,
        .eos = l->text.n_eos ? l->text.eos : plan->eos,
        .n_eos = l->text.n_eos ? l->text.n_eos : plan->n_eos,
        .n_vocab = plan->n_vocab,
        .n_ctx = l->memory.plan.size.n_ctx,
        .n_slots = l->memory.plan.size.n_slots,
        .n_blocks = l->memory.plan.size.n_blocks,
        .max_rows = l->memory.plan.size.max_rows,
        .n_recurrent = plan->n_recurrent,
        .n_checkpoints = l->memory.plan.size.n_checkpoints,
        .prefill_chunk = l->memory.plan.size.prefill_chunk,
        .no_prefix_cache = !l->params.prefix_cache,
        .speculate = l->speculate.applied,
        .draft_model = l->drafts.draft,
        .provisional_rows =
            memory_plan_params(&l->memory.plan, &l->memory.input.request).provisional_rows,
        .fingerprint = hash64(identity, sizeof identity, 0),
        .disk = l->disk.cache,
        .cache_identity = l->disk.identity,
        .status = l->params.status,
    };
    if (plan->n_recurrent && l->params.prefix_cache)
        log_info("recurrent layers=%d state checkpoints=%d%s", plan->n_recurrent,
                 l->memory.plan.size.n_checkpoints,
                 l->memory.plan.size.n_checkpoints
                     ? ""
                     : ": no memory for them, the prompt cache is off");
    l->scheduler = scheduler_create(&p, e);
    return l->scheduler != NULL;
}

static void wake_loop(void *inbox)
{
    inbox_wake(inbox);
}

/* What copies of the prompt cache may take in RAM: nothing where the KV cache is there already. */
static uint64_t ram_for_copies(const struct loop *l)
{
    const struct memory_plan *plan = &l->memory.plan;
    const struct memory_target *at = &l->memory.input.targets[plan->target];
    const uint64_t left = plan->ram_limit > plan->host ? plan->ram_limit - plan->host : 0;
    uint64_t bytes;
    struct err e = {0};
    if (!disk_tier_ram(l->params.prompt_cache_ram, !at->gpu || at->in_ram, left, &bytes, &e))
        log_warn("%s: %s", e.field, e.text);
    return bytes;
}

/* Without a disk that can be used, everything else works all the same. */
static void open_disk(struct loop *l)
{
    struct err e = {0};
    const struct sizing *size = &l->memory.plan.size;
    const struct model_plan *plan = model_plan(l->model);
    const uint64_t weights[2] = {plan->fingerprint, model_stats(l->model)->file_bytes};
    /* recurrent models without checkpoints reuse no prefix at all */
    bool reuse = l->params.prefix_cache && (!plan->n_recurrent || size->n_checkpoints > 0);
    const struct disk_tier_params p = {.dir = l->params.prompt_cache_dir,
                                       .cache_dir = l->params.cache_dir,
                                       .bytes =
                                           reuse ? l->params.prompt_cache_bytes : DISK_TIER_OFF,
                                       .ram_bytes = ram_for_copies(l),
                                       .weights = hash64(weights, sizeof weights, 0),
                                       .feed = l->params.feed,
                                       .wake = wake_loop,
                                       .wake_context = l->params.inbox};
    if (disk_tier_open(&l->disk, &p, l->memory.ops, l->memory.opened, &e))
        return;
    if (e.code != ERR_UNSUPPORTED)
        log_warn("no prompt cache on disk: %s", e.text);
    struct status_page *page = status_begin(l->params.status);
    snprintf(page->cache_note, sizeof page->cache_note, "%.159s", e.text);
    status_end(l->params.status);
}

/* Threads are shared, since the two models never compute at once. */
static bool open_draft_model(struct loop *l, struct err *e)
{
    const struct backend_ops *ops = l->memory.ops;
    if (l->speculate.applied == ENGINE_SPECULATE_OFF)
        draft_load_close(&l->drafts);
    if (draft_load_shares(&l->drafts))
        model_next_share(l->drafts.model, memory_load_running(&l->memory));
    if (l->drafts.model &&
        !draft_load_open(&l->drafts, ops->team ? ops->team(l->memory.opened) : NULL, e))
        return false;
    l->speculate.by = draft_load_by(&l->drafts);
    return true;
}

static bool plan_backend(struct loop *l, struct err *e)
{
    const struct loop_params *params = &l->params;
    struct memory_request request = params->memory;
    request.size = (struct sizing_request){params->ctx, params->slots, params->prefill_chunk,
                                           params->kv_bytes};
    request.n_threads = (int32_t)params->threads;
    request.exact = params->exact;
    request.speculates = params->speculate != ENGINE_SPECULATE_OFF;
    request.no_recall = !params->prefix_cache || !drafter_recalls(params->speculate);
    const char *backend = params->task == ENGINE_TASK_TEXT ? params->backend : "cpu";
    if (params->task != ENGINE_TASK_TEXT && !embed_load_request(model_plan(l->model), &request, e))
        return false;
    if (!draft_plan_make(
            &l->drafts, &l->memory,
            &(struct draft_plan_params){.model = l->model,
                                        .backend = backend,
                                        .speculate = params->speculate,
                                        .option = params->draft_model,
                                        .load = {.target = params->model,
                                                 .target_model = l->model,
                                                 .vocab = l->text.vocab,
                                                 .n_vocab = model_plan(l->model)->n_vocab,
                                                 .slots = (int32_t)params->slots,
                                                 .backend = backend,
                                                 .cache_dir = params->cache_dir,
                                                 .memory = request}},
            &request, e))
        return false;
    if (request.kv_type == KV_AUTO && kv_type_packed(l->memory.plan.kv_type))
        log_info(
            "KV cache is stored as %s: at 16 bits the context and the pool for %d slots do not "
            "fit; --kv-type f16 takes less of them",
            kv_type_name(l->memory.plan.kv_type), l->memory.plan.size.n_slots);
    return true;
}

static bool open_backend(struct loop *l, struct err *e)
{
    const struct loop_params *params = &l->params;
    if (!plan_backend(l, e))
        return false;
    memory_load_measure(&l->memory, params->cache_dir);
    struct backend_params more = {.cache_dir = params->cache_dir};
    if (l->drafts.model) {
        const struct context_plan *c = &model_plan(l->drafts.model)->context;
        memcpy(more.taps, c->taps, sizeof more.taps);
        more.n_taps = c->n_taps;
    }
    if (!memory_load_open(&l->memory, &more, e))
        return false;
    speculation_apply(params->speculate, l->memory.ops, model_plan(l->model), &l->speculate);
    if (l->speculate.why[0])
        log_info("no drafts: %s", l->speculate.why);
    if (!open_draft_model(l, e))
        return false;
    monitor_set_expert_cache(params->monitor, memory_load_experts(&l->memory),
                             l->memory.input.model.cache_least);
    return true;
}

static bool limit_experts(struct loop *l, struct err *e)
{
    int32_t n = (int32_t)l->params.experts_per_token;
    l->trained_top_k = loop_most_experts(model_plan(l->model));
    if (!n)
        return true;
    if (!model_limit_experts(l->model, n, e))
        return false;
    if (loop_most_experts(model_plan(l->model)) < l->trained_top_k)
        log_warn("every token uses %d experts a layer, the model says %d: answers are lossy", n,
                 l->trained_top_k);
    return true;
}

static bool load(struct loop *l, struct err *e)
{
    double start = clock_ms();
    const struct loop_params *params = &l->params;
    if (!text_model_open(&l->text, params->model, params->cache_dir, e))
        return false;
    l->text_open = true;
    l->model = model_open(params->model, e);
    if (!l->model || !limit_experts(l, e) ||
        !embed_load_check(params->task, model_plan(l->model), l->text.vocab, e))
        return false;
    struct status_page *page = status_begin(params->status);
    loop_describe_model(l, page);
    status_end(params->status);
    monitor_set_model(params->monitor, l->model);
    if (!open_backend(l, e))
        return false;
    if (params->task == ENGINE_TASK_TEXT)
        open_disk(l);
    if (!(params->task == ENGINE_TASK_TEXT ? open_scheduler : open_embedder)(l, e))
        return false;
    l->load_ms = clock_ms() - start;
    return true;
}

static void set_state(struct loop *l, enum engine_state state, const char *error)
{
    struct status_page *page = status_begin(l->params.status);
    page->state = state;
    snprintf(page->error, sizeof page->error, "%.255s", error);
    status_end(l->params.status);
}

/* Reports why the engine cannot go on, to the log, the status page and new clients, and ends the
 * process. */
static void fail_engine(struct loop *l, enum engine_state state, int exit_status,
                        const struct err *e)
{
    struct err why = *e;
    log_error("%s%s%s", e->field, e->field[0] ? ": " : "", e->text);
    set_state(l, state, e->text);
    why.code = ERR_UNAVAILABLE;
    inbox_close(l->params.inbox, &why);
    server_quit(l->params.server, exit_status);
}

static void announce(struct loop *l)
{
    struct status_page *page = status_begin(l->params.status);
    loop_describe_backend(l, page);
    if (page->state == ENGINE_LOADING) { /* else it is stopping already */
        page->state = ENGINE_READY;
        page->error[0] = 0;
    }
    status_end(l->params.status);
    if (l->embedder)
        embedder_publish(l->embedder);
    else
        scheduler_publish(l->scheduler);
    inbox_open(l->params.inbox,
               &(struct inbox_limits){.n_vocab = model_plan(l->model)->n_vocab,
                                      .n_ctx = l->memory.plan.size.n_ctx,
                                      .max_queue = (int32_t)l->params.max_queue,
                                      .trained_top_k = l->trained_top_k,
                                      .speculate = l->speculate,
                                      .task = l->params.task,
                                      .dimensions = model_plan(l->model)->d_model});
    loop_print_ready(l);
    notify_manager("READY=1");
    log_info("ready model=%s backend=%s device=\"%s\" ctx=%d slots=%d blocks=%d kv_type=%s "
             "load_ms=%.1f",
             l->text.name, l->memory.ops->name, l->memory.ops->device_name(l->memory.opened),
             l->memory.plan.size.n_ctx, l->memory.plan.size.n_slots, l->memory.plan.size.n_blocks,
             kv_type_name(l->memory.plan.kv_stored), l->load_ms);
}

static void run_steps(struct loop *l)
{
    bool stop = false;
    struct err e = {0};
    while (!stop) {
        bool idle = scheduler_idle(l->scheduler);
        bool waits =
            scheduler_waits_for_disk(l->scheduler) || (idle && !scheduler_stores(l->scheduler));
        double before = clock_ms();
        struct job *list = inbox_take(l->params.inbox, waits ? IDLE_MS : 0, &stop);
        if (idle)
            scheduler_note_idle(l->scheduler, (clock_ms() - before) * 1e-3);
        while (list) {
            struct job *j = list;
            list = j->next;
            scheduler_add(l->scheduler, j);
        }
        if (scheduler_idle(l->scheduler) && !scheduler_stores(l->scheduler)) {
            scheduler_rest(l->scheduler);
            continue;
        }
        monitor_step(l->params.monitor, true);
        bool ok = scheduler_step(l->scheduler, &e);
        monitor_step(l->params.monitor, false);
        inbox_report(l->params.inbox, scheduler_counts(l->scheduler).waiting,
                     scheduler_expected_wait(l->scheduler));
        server_wake(l->params.server);
        if (!ok) {
            fail_engine(l, ENGINE_LOST_DEVICE, LOOP_EXIT_DEVICE_LOST, &e);
            return;
        }
    }
}

/* The same for vectors and scores. */
static void run_texts(struct loop *l)
{
    bool stop = false;
    struct err e = {0};
    while (!stop) {
        const bool idle = embedder_idle(l->embedder);
        const double before = clock_ms();
        struct job *list = inbox_take(l->params.inbox, idle ? IDLE_MS : 0, &stop);
        if (idle)
            embedder_note_idle(l->embedder, (clock_ms() - before) * 1e-3);
        for (struct job *j; (j = list);) {
            list = j->next;
            embedder_add(l->embedder, j);
        }
        monitor_step(l->params.monitor, true);
        const bool ok = embedder_step(l->embedder, &e);
        monitor_step(l->params.monitor, false);
        inbox_report(l->params.inbox, embedder_waiting(l->embedder),
                     embedder_expected_wait(l->embedder));
        server_wake(l->params.server);
        if (!ok) {
            fail_engine(l, ENGINE_LOST_DEVICE, LOOP_EXIT_DEVICE_LOST, &e);
            return;
        }
    }
}

static void *run(void *context)
{
    struct loop *l = context;
    struct err e = {0};
    if (load(l, &e)) {
        engine_walls_loaded(l->params.without_seccomp);
        announce(l);
        (l->embedder ? run_texts : run_steps)(l);
    } else {
        fail_engine(l, ENGINE_DOWN, LOOP_EXIT_LOAD_FAILED, &e);
    }
    embedder_destroy(&l->embedder);
    scheduler_destroy(&l->scheduler); /* fails the jobs that are left and tells their readers */
    draft_load_close(&l->drafts);
    disk_tier_close(&l->disk);
    server_wake(l->params.server);
    monitor_set_model(l->params.monitor, NULL);
    monitor_set_expert_cache(l->params.monitor, NULL, 0);
    memory_load_close(&l->memory);
    model_close(&l->model);
    if (l->text_open)
        text_model_close(&l->text);
    return NULL;
}

struct loop *loop_start(const struct loop_params *p, struct err *e)
{
    struct loop *l = calloc(1, sizeof *l);
    if (!l) {
        err_set(e, ERR_NOMEM, "no memory for the loop");
        return NULL;
    }
    l->params = *p;
    if (pthread_create(&l->thread, NULL, run, l) != 0) {
        err_set(e, ERR_NOMEM, "cannot start the loop's thread");
        free(l);
        return NULL;
    }
    return l;
}

bool loop_stop(struct loop **l, int wait_ms)
{
    struct timespec until;
    if (!*l)
        return true;
    inbox_stop((*l)->params.inbox);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += wait_ms / 1000;
    if (pthread_timedjoin_np((*l)->thread, NULL, &until) != 0)
        return false;
    free(*l);
    *l = NULL;
    return true;
}
