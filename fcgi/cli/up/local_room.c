/* local_engines.h: room for a model among the others, in RAM and on the GPUs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "fcgi/cli/up/local_engines.h"
#include "fcgi/cli/up/local_plan.h"
#include "fcgi/cli/up/supervisor.h"
#include "fcgi/cli/up/up.h"
#include "fcgi/process/local_model.h"

#define STAY_MS 3000    /* what is loaded answers at least so long before others get its room */
#define START_MS 600000 /* others wait so long for one that starts on a GPU */

/* A model that may be ended so that another gets its memory, now or in a moment. */
static bool may_go(const struct local_engine *m)
{
    return m->id && local_engine_has_memory(m) && (m->gone || !m->pinned);
}

static void add_gpu(struct local_plan_ask *ask, const struct local_engine *m)
{
    int i = 0;
    while (i < ask->n_gpus && strcmp(ask->gpus[i].id, m->gpu) != 0)
        i++;
    if (!m->gpu[0] || !m->device || i == LOCAL_PLAN_GPUS)
        return;
    memcpy(ask->gpus[i].id, m->gpu, sizeof m->gpu);
    ask->gpus[i].bytes += m->device;
    if (m->used_ms > ask->gpus[i].used_ms)
        ask->gpus[i].used_ms = m->used_ms;
    if (i == ask->n_gpus)
        ask->n_gpus++;
}

static int by_use(const void *a, const void *b)
{
    const struct local_gpu *x = a, *y = b;
    return (x->used_ms > y->used_ms) - (x->used_ms < y->used_ms);
}

struct local_plan_ask local_room_for(const struct local_engines *l, const struct local_engine *m)
{
    struct local_plan_ask ask = {.path = m->path, .device = m->asked_device, .ctx = m->ctx};
    uint64_t taken = l->up->beside + l->first_bytes; /* and those for embeddings, scores */
    const uint64_t all = local_engines_budget(l->up);
    for (int i = 0; i < LOCAL_ENGINES; i++) {
        const struct local_engine *other = &l->at[i];
        if (other == m || !other->id || !local_engine_has_memory(other))
            continue;
        taken += other->needed;
        if (!may_go(other))
            continue;
        ask.returnable += other->needed;
        add_gpu(&ask, other);
    }
    qsort(ask.gpus, (size_t)ask.n_gpus, sizeof ask.gpus[0], by_use);
    ask.room = all > taken ? all - taken : 0;
    return ask;
}

static bool may_use_gpu(const struct local_engines *l, const struct local_engine *m)
{
    return strcmp(m->asked_device, "cpu") != 0 &&
           strcmp(local_plan_backend(l->up, m->asked_device), "cpu") != 0;
}

bool local_room_is_moving(const struct local_engines *l, const struct local_engine *m)
{
    bool starts = false;
    for (int i = 0; i < LOCAL_ENGINES; i++)
        starts |= l->at[i].id && l->at[i].slot->state == LOCAL_LOADING &&
                  l->at[i].step == STEP_STARTING && may_use_gpu(l, &l->at[i]) &&
                  clock_wall_ms() - l->at[i].slot->since_ms < START_MS;
    return starts && may_use_gpu(l, m);
}

/* A model whose end gives `m` what it lacks. */
static bool may_help(const struct local_engine *other, const struct local_engine *m)
{
    return other != m && may_go(other) && (!m->lacks_gpu_only || !strcmp(other->gpu, m->gpu));
}

/* Whose memory another gets: the one that was used longest ago, and has answered for a while. */
static struct local_engine *find_oldest(struct local_engines *l, const struct local_engine *m)
{
    struct local_engine *oldest = NULL;
    for (int i = 0; i < LOCAL_ENGINES; i++) {
        struct local_engine *other = &l->at[i];
        if (may_help(other, m) && other->slot->state == LOCAL_READY &&
            clock_wall_ms() - other->slot->since_ms >= STAY_MS &&
            (!oldest || other->used_ms < oldest->used_ms))
            oldest = other;
    }
    return oldest;
}

/* Not one that must end answers first, and does so for another's room. */
static bool ends_soon(const struct local_engine *m)
{
    return m->told_ms > 0 || clock_ms() - m->leaving_ms < STAY_MS;
}

void local_room_make(struct local_engines *l, struct local_engine *m)
{
    bool later = false;
    for (int i = 0; i < LOCAL_ENGINES; i++) {
        const struct local_engine *other = &l->at[i];
        if (other->id && other->slot->state == LOCAL_LEAVING &&
            (other->leaves_for == m || ends_soon(other))) {
            m->made_room = true;
            return;
        }
        later |= may_help(other, m);
    }
    struct local_engine *oldest = m->made_room ? NULL : find_oldest(l, m);
    if (oldest) {
        m->made_room = true;
        local_engine_leave(oldest, m);
    } else if (m->made_room || !later) {
        local_engine_check(l, m);
    }
}
