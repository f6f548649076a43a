/* Plans by trying each strategy in order of speed on each target; the first one that fits wins.
 * When none fits, it looks for the nearest settings that would. */
#include "engine/memory/memory_plan.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/size_text.h"
#include "engine/memory/memory_fit.h"
#include "engine/memory/memory_text.h"

/* Of recurrent models: enough for a few drafted answers at once; each row holds what its layers
 * would need to be gone through again. */
#define PROVISIONAL_ROWS 34

static const char *const names[STRATEGY__N] = {"auto", "full_gpu", "hybrid", "ssd_streaming",
                                               "cpu_only"};

const char *strategy_name(enum strategy s)
{
    return s >= 0 && s < STRATEGY__N ? names[s] : "unknown";
}

enum strategy strategy_from_name(const char *name)
{
    int i = 0;
    while (i < STRATEGY__N && strcmp(name, names[i]))
        i++;
    return (enum strategy)i;
}

uint64_t memory_reserve(uint64_t total)
{
    const uint64_t low = (uint64_t)64 << 20, high = (uint64_t)2 << 30;
    uint64_t share = total / 64;
    return share < low ? low : share > high ? high : share;
}

/* Faster first. Streaming from the disk comes after everything that needs no disk. */
static const enum strategy order[] = {STRATEGY_FULL_GPU, STRATEGY_HYBRID, STRATEGY_CPU_ONLY,
                                      STRATEGY_SSD_STREAMING};

bool memory_strategy_is_faster(enum strategy a, enum strategy b)
{
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        if (order[i] == a || order[i] == b)
            return order[i] == a && a != b;
    return false;
}

static bool wanted(const struct memory_request *w, enum strategy s)
{
    if (w->strategy != STRATEGY_AUTO)
        return s == w->strategy;
    return !w->expert_cache || s == STRATEGY_SSD_STREAMING;
}

/* True if the target supports the strategy, whatever the memory; otherwise says why not. */
static bool possible(const struct memory_input *in, enum strategy s, const struct memory_target *at,
                     char why[192])
{
    if ((s == STRATEGY_FULL_GPU || s == STRATEGY_HYBRID) && !at->gpu)
        snprintf(why, 192, "%s computes in RAM, not on a GPU", at->backend);
    else if (s == STRATEGY_HYBRID && !at->splits)
        snprintf(why, 192, "the %s backend cannot keep experts in RAM and the rest on the GPU yet",
                 at->backend);
    else if (s == STRATEGY_HYBRID && !in->model.experts)
        snprintf(why, 192, "the model has no routed experts");
    else if (s == STRATEGY_HYBRID && at->in_ram && in->request.strategy == STRATEGY_AUTO)
        snprintf(why, 192,
                 "the GPU's memory is RAM: nothing is gained by keeping experts beside it");
    else if (s == STRATEGY_SSD_STREAMING && at->gpu && at->in_ram &&
             in->request.strategy == STRATEGY_AUTO)
        snprintf(why, 192,
                 "the GPU's memory is RAM: nothing is gained by keeping a second cache beside it");
    else if (s == STRATEGY_CPU_ONLY && at->gpu)
        snprintf(why, 192, "the %s backend computes on the GPU", at->backend);
    else if (s == STRATEGY_SSD_STREAMING && !in->model.cache_least)
        snprintf(why, 192, "%s",
                 in->model.experts ? "experts of this layout cannot be read one by one"
                                   : "the model has no routed experts");
    else if (s == STRATEGY_SSD_STREAMING && !at->streams)
        snprintf(why, 192, "the %s backend cannot stream experts from the disk yet", at->backend);
    else
        return true;
    return false;
}

/* Another strategy is tried only for these errors, not for a lost device or a bad file. */
static bool is_about_model(const struct err *e)
{
    return e->code == ERR_UNSUPPORTED || e->code == ERR_NOMEM || e->code == ERR_LIMIT;
}

/* Tries every strategy that is wanted. *last: the failure of the least demanding one, which is the
 * most useful to report. */
static bool choose(const struct memory_input *in, struct memory_plan *out, struct memory_fit *last)
{
    char reason[192] = "";
    bool tried = false;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        for (int k = 0; k < in->n_targets; k++) {
            struct memory_fit fit = {.strategy = order[i], .target = k};
            const struct memory_target *at = &in->targets[k];
            if (!wanted(&in->request, order[i]))
                continue;
            if (!possible(in, order[i], at, fit.why)) {
                if (!tried)
                    *last = fit;
                continue;
            }
            if (memory_fit_try(in, &fit, out)) {
                snprintf(out->reason, sizeof out->reason, "%s", reason);
                return true;
            }
            tried = true;
            *last = fit;
            if (fit.refused.code && !is_about_model(&fit.refused))
                return false;
            if (!reason[0])
                snprintf(reason, sizeof reason, "%s: %.160s",
                         at->gpu ? at->backend : strategy_name(order[i]), fit.why);
        }
    return false;
}

/* Halves the context until it fits; 0: not even the smallest does. */
static int64_t smaller_context(const struct memory_input *in)
{
    struct memory_input less = *in;
    struct memory_fit ignored = {0};
    struct memory_plan plan;
    int64_t ctx = in->request.size.ctx                   ? in->request.size.ctx
                  : in->model.n_ctx < SIZING_DEFAULT_CTX ? in->model.n_ctx
                                                         : SIZING_DEFAULT_CTX;
    less.request.size.kv_bytes = 0;
    while ((ctx /= 2) >= 256) {
        less.request.size.ctx = ctx;
        if (choose(&less, &plan, &ignored))
            return ctx;
    }
    return 0;
}

/* Suggests the nearest settings that would work, after trying them. */
static void suggest(const struct memory_input *in, const struct memory_fit *fit, char *text,
                    size_t size)
{
    struct memory_input other = *in;
    struct memory_fit ignored = {0};
    struct memory_plan plan;
    char a[24];
    if (fit->no_memory && in->request.ram_budget && !fit->on_device) {
        other.request.ram_budget = (int64_t)(fit->need + MEMORY_PROCESS_BYTES);
        if (choose(&other, &plan, &ignored)) {
            snprintf(text, size, "; --ram-budget %llu would do",
                     (unsigned long long)other.request.ram_budget);
            return;
        }
    }
    other = *in;
    if (in->request.strategy != STRATEGY_AUTO || in->request.expert_cache) {
        other.request.strategy = STRATEGY_AUTO;
        other.request.expert_cache = 0;
        if (choose(&other, &plan, &ignored)) {
            int n = snprintf(text, size, "; --strategy %s would run", strategy_name(plan.strategy));
            if (plan.expert_cache && n > 0 && (size_t)n < size)
                snprintf(text + n, size - (size_t)n, " with an expert cache of %s",
                         size_text((double)plan.expert_cache, a));
            return;
        }
    }
    if (!in->request.fixed.n_blocks) {
        int64_t ctx = smaller_context(in);
        if (ctx) {
            snprintf(text, size, "; --ctx %lld would fit", (long long)ctx);
            return;
        }
    }
    snprintf(text, size, fit->no_memory ? "; no setting makes it fit here" : "");
}

bool memory_plan_make(const struct memory_input *in, struct memory_plan *out, struct err *e)
{
    struct memory_fit fit = {0};
    char more[96] = "";
    *out = (struct memory_plan){0};
    if (choose(in, out, &fit))
        return in->request.expert_way == EXPERTS_AUTO || out->strategy == STRATEGY_HYBRID ||
               err_field(e, ERR_UNSUPPORTED, "hybrid-experts",
                         "the plan is %s: only hybrid has experts without a slot in RAM",
                         strategy_name(out->strategy));
    if (fit.refused.code)
        return (*e = fit.refused, false);
    suggest(in, &fit, more, sizeof more);
    return err_field(e, fit.no_memory ? ERR_LIMIT : ERR_UNSUPPORTED,
                     fit.no_memory ? "memory" : "strategy", "%s: %s%s", strategy_name(fit.strategy),
                     fit.why, more);
}

bool memory_plan_shrink(const struct memory_input *in, struct memory_plan *p, struct err *e)
{
    struct memory_plan less = *p;
    if (in->request.size.kv_bytes || in->request.fixed.n_blocks || !sizing_shrink(&less.size) ||
        !memory_fit_parts(in, &less, e))
        return false;
    *p = less;
    return true;
}

struct backend_params memory_plan_params(const struct memory_plan *p,
                                         const struct memory_request *w)
{
    return (struct backend_params){
        .n_blocks = p->size.n_blocks,
        .n_states = p->size.n_states,
        .max_rows = p->size.max_rows,
        .max_sequences = p->size.n_slots,
        .n_threads = w->n_threads,
        .provisional_rows = w->speculates ? PROVISIONAL_ROWS : 0,
        .exact = w->exact,
        .one_byte = w->one_byte && !w->exact,
        .kv_type = p->kv_type,
        .streams = p->strategy == STRATEGY_SSD_STREAMING,
        .device_experts = p->device_experts,
        .host_experts = p->host_experts,
        .expert_way = w->expert_way,
    };
}

bool memory_plan_check(const struct memory_plan *p, const struct backend_memory *applied,
                       struct err *e)
{
    const struct {
        const char *name;
        uint64_t planned, applied;
    } parts[] = {{"weights", p->dense + p->experts + p->expert_cache, applied->weights},
                 {"KV", p->kv, applied->kv},
                 {"state", p->state, applied->state},
                 {"work", p->work, applied->work},
                 {"device memory", p->device, applied->device},
                 {"host memory", p->host - p->recall, applied->host}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i].planned != parts[i].applied)
            return err_set(e, ERR_INTERNAL, "%s: %llu bytes were planned, %llu were taken",
                           parts[i].name, (unsigned long long)parts[i].planned,
                           (unsigned long long)parts[i].applied);
    return true;
}

static uint64_t with_returned(uint64_t available, uint64_t returned, uint64_t total)
{
    if (available >= total)
        return available;
    return total - available > returned ? available + returned : total;
}

void memory_input_take_returned(struct memory_input *in)
{
    const struct memory_request *w = &in->request;
    struct machine *m = &in->machine;
    m->available = with_returned(m->available, w->ram_returned, m->total);
    m->system_available = with_returned(m->system_available, w->ram_returned, m->total);
    m->group_available = with_returned(m->group_available, w->ram_returned, m->total);
    for (int i = 0; i < in->n_targets; i++)
        if (in->targets[i].gpu && in->targets[i].total)
            in->targets[i].available =
                with_returned(in->targets[i].available, w->gpu_returned, in->targets[i].total);
}
