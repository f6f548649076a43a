/* Runs the steps from a plan to an open backend: choose the targets, plan, measure, open, and
 * compare the memory taken with the memory planned. */
#include "engine/memory/memory_load.h"

#include <stdio.h>
#include <string.h>

#define LOG_MODULE "memory"
#include "engine/base/log.h"
#include "engine/experts/policy/miss_policy.h"
#include "engine/experts/streaming.h"

static bool estimate_of(void *context, const struct backend_params *p, struct backend_memory *m,
                        struct err *e)
{
    const struct memory_backend *b = context;
    struct backend_params with = *p;
    with.expert_rows = &cpu_expert_rows;
    return b->ops->probe->estimate(model_plan(b->model), &with, m, e);
}

/* w: NULL: there is one only. */
static bool find_device(const struct memory_request *w, struct memory_backend *b, struct err *e)
{
    struct err ignored = {0};
    const struct backend_probe *probe = b->ops->probe;
    if (w && w->prefers && probe->device(w->prefers, &b->device, &ignored))
        return true;
    return probe->device(w ? w->device : NULL, &b->device, e);
}

static bool add_target(struct memory_load *l, const struct backend_ops *ops, struct err *e)
{
    struct memory_backend *b = &l->targets[l->input.n_targets];
    *b = (struct memory_backend){.ops = ops, .model = l->model};
    bool gpu = ops != &cpu_backend;
    if (ops->probe->device && !find_device(gpu ? &l->input.request : NULL, b, e))
        return false;
    if (gpu && !b->device.total) /* unknown: opening will tell */
        b->device.available = UINT64_MAX;
    l->input.targets[l->input.n_targets++] =
        (struct memory_target){.backend = ops->name,
                               .device = gpu ? b->device.name : NULL,
                               .device_id = gpu ? b->device.id : NULL,
                               .gpu = gpu,
                               .in_ram = b->device.in_ram,
                               .streams = ops->streams,
                               .splits = ops->splits,
                               .verifies = backend_verifies(ops, model_plan(l->model)->n_recurrent),
                               .total = b->device.total,
                               .available = b->device.available,
                               .estimate = estimate_of,
                               .context = b};
    return true;
}

/* A device that is named decides who computes. Its name is the request's no more where it is the
 * processor's. */
static bool choose_by_device(struct memory_load *l, struct err *e)
{
    const char **device = &l->input.request.device;
    const bool cpu = *device && !strcmp(*device, "cpu"),
               chosen = l->backend && strcmp(l->backend, "auto") != 0;
    if (!*device)
        return true;
    if (!**device)
        return err_field(e, ERR_INPUT, "device", "must be a name, or auto");
    if (chosen && cpu != !strcmp(l->backend, "cpu"))
        return err_field(e, ERR_INPUT, "device", "'%.60s' is not for the %s backend", *device,
                         l->backend);
    l->backend = cpu ? "cpu" : "vulkan";
    if (cpu)
        *device = NULL;
    return true;
}

bool memory_load_plan(struct memory_load *l, const struct model *m, const char *backend,
                      const struct memory_request *w, struct err *e)
{
    *l = (struct memory_load){.model = m, .backend = backend};
    l->input.request = *w;
    if (!choose_by_device(l, e))
        return false;
    const struct backend_ops *first = backend_select(l->backend, e);
    if (!first || !machine_read("", &l->input.machine, e) || !add_target(l, first, e))
        return false;
    if (first != &cpu_backend && (!l->backend || !strcmp(l->backend, "auto")) &&
        !add_target(l, &cpu_backend, e))
        return false;
    memory_input_take_returned(&l->input);
    memory_model_of(m, &l->input.model);
    if (!memory_plan_make(&l->input, &l->plan, e))
        return false;
    l->ops = l->targets[l->plan.target].ops;
    if (w->one_byte && l->ops != &cpu_backend)
        return err_set(e, ERR_INPUT,
                       "--activations 8 is for the cpu: add --backend cpu, or leave "
                       "it out for %s",
                       l->ops->name);
    return true;
}

/* The one that was planned, also where meanwhile another has more free memory. */
static const char *device_of(const struct memory_load *l)
{
    return l->plan.gpu_id[0] ? l->plan.gpu_id : NULL;
}

/* Describes, from the rates of an earlier load, who will compute experts that are not on the
 * device. */
static void describe_missing(struct memory_load *l, const char *cache_dir)
{
    struct memory_plan *p = &l->plan;
    const struct model_plan *plan = model_plan(l->model);
    struct miss_rates rates;
    int32_t first = 0, last = 0;
    if (p->strategy != STRATEGY_HYBRID || p->expert_way != EXPERTS_AUTO ||
        !miss_rates_load(cache_dir, l->targets[p->target].device.name,
                         miss_policy_key(plan, l->input.request.n_threads, l->input.request.exact),
                         &rates))
        return;
    struct miss_shape shape =
        miss_shape_of(plan, p->experts ? (double)p->device_experts / (double)p->experts : 1);
    shape.expert_bytes =
        l->input.model.n_moe && shape.n_expert
            ? p->experts / (uint64_t)l->input.model.n_moe / (uint64_t)shape.n_expert
            : 0;
    const bool any = miss_policy_range(&rates, &shape, &first, &last);
    miss_policy_text(any, first, last, p->expert_text);
}

void memory_load_measure(struct memory_load *l, const char *cache_dir)
{
    struct err ignored = {0};
    struct backend_params p = memory_plan_params(&l->plan, &l->input.request);
    p.cache_dir = cache_dir;
    p.device = device_of(l);
    p.kept = l->opened ? NULL : &l->kept;
    l->rates = (struct memory_rates){0};
    if (l->ops->probe->speed &&
        !l->ops->probe->speed(model_plan(l->model), &p, &l->rates.speed, &ignored))
        log_warn("the decode rate is not estimated: %s", ignored.text);
    if (l->plan.strategy == STRATEGY_SSD_STREAMING)
        l->rates.disk = memory_disk_speed(l->model, cache_dir, l->probe_folder);
    l->estimate = memory_estimate_make(&l->input.model, &l->plan, &l->rates, 0, -1);
    describe_missing(l, cache_dir);
}

static void drop_kept(struct memory_load *l)
{
    if (l->kept)
        l->ops->probe->drop(&l->kept);
}

static struct backend *try_open(struct memory_load *l, const struct backend_params *more,
                                struct err *e)
{
    struct backend_params p = memory_plan_params(&l->plan, &l->input.request);
    p.expert_rows = &cpu_expert_rows;
    p.device = device_of(l);
    p.kept = &l->kept;
    if (more) {
        p.cache_dir = more->cache_dir;
        p.team = more->team;
        memcpy(p.taps, more->taps, sizeof p.taps);
        p.n_taps = more->n_taps;
        p.dump = more->dump;
        p.dump_context = more->dump_context;
        p.route = more->route;
        p.predict = more->predict;
        p.route_context = more->route_context;
    }
    if (l->plan.strategy == STRATEGY_SSD_STREAMING && !l->streaming) {
        const struct memory_plan *at = &l->plan;
        const bool device = at->host_experts > 0;
        l->streaming = streaming_open(
            l->model,
            &(struct streaming_params){.cache_bytes = device ? at->host_experts + at->staging
                                                             : at->expert_cache,
                                       .device_share = at->host_experts,
                                       .depth = l->rates.disk.depth,
                                       .state_dir = p.cache_dir},
            e);
        if (!l->streaming)
            return NULL;
    }
    if (l->streaming)
        p.experts = streaming_cache(l->streaming);
    if (l->plan.strategy == STRATEGY_CPU_ONLY && l->ops->interleaving && !l->interleaved)
        l->interleaved = l->ops->interleaving->open(l->model, &p);
    return l->ops->open(memory_load_running(l), &p, e);
}

/* Opens the plan. Sizes that were chosen shrink if the device has less memory than it reported;
 * requested sizes are never changed silently. */
static bool open_planned(struct memory_load *l, const struct backend_params *more, struct err *e)
{
    for (;;) {
        struct err ignored;
        l->opened = try_open(l, more, e);
        if (l->opened)
            return true;
        if ((e->code != ERR_NOMEM && e->code != ERR_LIMIT) ||
            !memory_plan_shrink(&l->input, &l->plan, &ignored))
            return false;
        log_info("KV pool is made smaller blocks=%d: %s", l->plan.size.n_blocks, e->text);
    }
}

/* With "auto", falls back to the next backend if the first one fails only when it is opened. */
static bool open_instead(struct memory_load *l, const struct backend_params *more, struct err *e)
{
    const struct backend_ops *instead = backend_fallback(l->backend, l->ops, e);
    struct memory_input rest = l->input;
    char reason[sizeof l->plan.reason];
    int next = l->plan.target + 1;
    if (!instead || next >= l->input.n_targets)
        return false;
    snprintf(reason, sizeof reason, "%s: %.170s", l->ops->name, e->text);
    rest.targets[0] = l->input.targets[next];
    rest.n_targets = 1;
    *e = (struct err){0};
    drop_kept(l);
    streaming_close(&l->streaming); /* it was opened for the other plan */
    if (!memory_plan_make(&rest, &l->plan, e))
        return false;
    l->plan.target = next;
    l->ops = instead;
    l->rates = (struct memory_rates){0};
    l->estimate = (struct memory_estimate){0};
    snprintf(l->plan.reason, sizeof l->plan.reason, "%s", reason);
    return open_planned(l, more, e);
}

bool memory_load_open(struct memory_load *l, const struct backend_params *more, struct err *e)
{
    struct backend_memory applied = {0};
    struct err differs = {0};
    if (!open_planned(l, more, e) && !open_instead(l, more, e))
        return false;
    l->ops->memory(l->opened, &applied);
    if (!memory_plan_check(&l->plan, &applied, &differs))
        log_error("the plan was not met: %s", differs.text);
    if (l->plan.strategy == STRATEGY_CPU_ONLY)
        weight_lock_init(&l->lock, memory_load_running(l));
    return true;
}

struct expert_cache *memory_load_experts(const struct memory_load *l)
{
    return l->streaming ? streaming_cache(l->streaming) : NULL;
}

const struct model_plan *memory_load_running(const struct memory_load *l)
{
    return l->streaming     ? streaming_plan(l->streaming)
           : l->interleaved ? l->ops->interleaving->plan(l->interleaved)
                            : model_plan(l->model);
}

uint64_t memory_load_locked(const struct memory_load *l)
{
    return l->lock.locked + (l->streaming ? streaming_locked(l->streaming) : 0);
}

void memory_load_close(struct memory_load *l)
{
    if (l->opened)
        l->ops->close(&l->opened);
    drop_kept(l);
    streaming_close(&l->streaming);
    weight_lock_fini(&l->lock);
    if (l->interleaved)
        l->ops->interleaving->close(&l->interleaved);
    *l = (struct memory_load){0};
}
