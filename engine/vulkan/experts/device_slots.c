/* The tables that shaders read, and the copies of experts into slots after a step. */
#include "engine/vulkan/experts/device_slots.h"

#include <stdlib.h>
#include <string.h>

#define MANY_ROWS                                                                                  \
    64 /* a step of more uses nearly every expert: it says nothing about which come back */
#define MOVES_LAYER 4 /* of a step at most: each delays the next step */

struct table_entry { /* as ExpertTable in shaders/include/quant.glsl */
    uint64_t plane[2][DEVICE_PLANES];
};

static uint64_t one_table_bytes(const struct device_model *m, const struct model_plan *plan)
{
    return m->n_slots ? (uint64_t)plan->n_layer * (uint64_t)device_model_most_experts(plan) *
                            sizeof(struct table_entry)
                      : 0;
}

uint64_t device_slots_table_bytes(const struct device_model *m, const struct model_plan *plan)
{
    return one_table_bytes(m, plan) * (m->offloads_misses ? 2 : 1);
}

static struct table_entry *entry_of(struct device_slots *s, int32_t layer, int32_t expert)
{
    return (struct table_entry *)s->table.map + (size_t)layer * (size_t)s->policy.n_expert +
           (size_t)expert;
}

/* slot -1: host memory. */
static void point(struct device_slots *s, const struct device_experts *x, int32_t layer,
                  int32_t expert, int32_t slot)
{
    struct table_entry entry;
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < DEVICE_PLANES; i++) {
            VkDeviceAddress base = slot < 0 ? x->host[which][i] : x->slot[which][i];
            entry.plane[which][i] = base + x->each[which][i] * (uint64_t)(slot < 0 ? expert : slot);
        }
    }
    *entry_of(s, layer, expert) = entry;
    if (s->slots_only)
        *(entry_of(s, layer, expert) + s->slots_only) = slot < 0 ? (struct table_entry){0} : entry;
}

void device_slots_point(struct device_slots *s, const struct device_experts *x, int32_t layer,
                        int32_t expert, VkDeviceAddress record)
{
    struct table_entry entry = {0};
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < DEVICE_PLANES; i++) {
            entry.plane[which][i] = record;
            record += x->each[which][i];
        }
    }
    *entry_of(s, layer, expert) = entry;
}

bool device_slots_has(const struct device_slots *s, int32_t layer, int32_t expert)
{
    return s->policy.slot_of[(size_t)layer * (size_t)s->policy.n_expert + (size_t)expert] >= 0;
}

struct plane_ref {
    int32_t layer, expert;
    int which, plane; /* which: 0 record, 1 down */
};

/* Where a plane of an expert lies in host memory. */
static bool locate(const struct device_model *m, const struct expert_pool *pool,
                   const struct plane_ref *p, VkBuffer *buffer, uint64_t *at)
{
    const struct device_experts *x = &m->layers[p->layer].split_experts;
    if (!pool) {
        bool found = heap_locate(&m->host, x->host[p->which][p->plane], buffer, at);
        *at += x->each[p->which][p->plane] * (uint64_t)p->expert;
        return found;
    }
    if (!expert_pool_locate(pool, p->layer, p->expert, buffer, at))
        return false;
    for (int w = 0; w <= p->which; w++)
        for (int i = 0; i < (w < p->which ? DEVICE_PLANES : p->plane); i++)
            *at += x->each[w][i];
    return true;
}

struct slot_copy {
    int32_t layer, expert, slot;
};

static bool copy_into_slot(VkCommandBuffer c, const struct device_model *m,
                           const struct expert_pool *pool, const struct slot_copy *copy)
{
    const struct device_experts *x = &m->layers[copy->layer].split_experts;
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < DEVICE_PLANES; i++) {
            VkBuffer from, to;
            uint64_t from_at = 0, to_at, bytes = x->each[which][i];
            if (bytes == 0)
                continue;
            const struct plane_ref at = {
                .layer = copy->layer, .expert = copy->expert, .which = which, .plane = i};
            if (!locate(m, pool, &at, &from, &from_at) ||
                !heap_locate(&m->slots, x->slot[which][i], &to, &to_at)) {
                return false;
            }
            vkCmdCopyBuffer(c, from, to, 1,
                            &(VkBufferCopy){.srcOffset = from_at,
                                            .dstOffset = to_at + bytes * (uint64_t)copy->slot,
                                            .size = bytes});
        }
    }
    return true;
}

static bool fill_slots(struct device_slots *s, struct gpu *g, struct device_model *m,
                       const struct model_plan *plan, struct err *e)
{
    VkCommandBuffer c = gpu_command_begin(g, false, e);
    bool ok = c != VK_NULL_HANDLE;
    for (int i = 0; ok && i < plan->n_layer; i++) {
        struct device_experts *x = &m->layers[i].split_experts;
        for (int32_t expert = 0;
             ok && !m->pooled && x->gate && expert < plan->layers[i].moe.n_expert; expert++) {
            bool in = expert < m->n_slots;
            point(s, x, i, expert, in ? expert : -1);
            ok = !in || copy_into_slot(c, m, NULL, &(struct slot_copy){i, expert, expert}) ||
                 err_set(e, ERR_INTERNAL, "an expert of layer %d lies nowhere", i);
        }
        const uint64_t at = s->table.address +
                            (uint64_t)i * (uint64_t)s->policy.n_expert * sizeof(struct table_entry);
        x->table = x->gate ? at : 0;
        x->table_slots =
            x->gate && s->slots_only ? at + s->slots_only * sizeof(struct table_entry) : 0;
    }
    if (ok) {
        gpu_barrier(c);
        ok = gpu_command_end(g, c, e) && gpu_run(g, c, e);
    }
    gpu_command_free(g, &c);
    return ok;
}

bool device_slots_open(struct device_slots *s, struct gpu *g, struct device_model *m,
                       const struct model_plan *plan, struct err *e)
{
    *s = (struct device_slots){.slots_only = m->offloads_misses ? one_table_bytes(m, plan) /
                                                                      sizeof(struct table_entry)
                                                                : 0};
    return m->n_slots == 0 ||
           (slot_policy_open(
                &s->policy,
                &(struct slot_policy_params){.n_layer = plan->n_layer,
                                             .n_expert = device_model_most_experts(plan),
                                             .n_slots = m->n_slots,
                                             .empty = m->pooled},
                e) &&
            gpu_buffer_create(g,
                              &(struct gpu_buffer_params){.where = GPU_STEP,
                                                          .size = device_slots_table_bytes(m, plan),
                                                          .name = "expert table"},
                              &s->table, e) &&
            fill_slots(s, g, m, plan, e));
}

void device_slots_close(struct device_slots *s, struct gpu *g)
{
    gpu_command_free(g, &s->copies);
    gpu_buffer_destroy(g, &s->table);
    slot_policy_close(&s->policy);
}

/* Those of `used` that the pool holds. */
static const uint32_t *here(const struct expert_pool *pool, int32_t layer, const uint32_t *used,
                            int stride, uint32_t *out)
{
    memset(out, 0, (size_t)stride * sizeof *out);
    for (int32_t i = 0; i < pool->n_expert; i++)
        if ((used[i / 32] >> (i % 32) & 1) && expert_pool_address(pool, layer, i))
            out[i / 32] |= 1u << (i % 32);
    return out;
}

/* An expert that has a slot no more. Where the pool does not hold it, it will be brought before it
 * is used. */
static void leave(struct device_slots *s, const struct device_experts *x,
                  const struct expert_pool *pool, int32_t layer, int32_t expert)
{
    VkDeviceAddress record = pool && expert >= 0 ? expert_pool_address(pool, layer, expert) : 0;
    if (record)
        device_slots_point(s, x, layer, expert, record);
    else if (!pool)
        point(s, x, layer, expert, -1);
}

/* The lists and the table tell already what the copies would bring: without them no later step
 * could be right. */
static bool copies_failed(struct gpu *g, VkCommandBuffer *c, struct err *e)
{
    gpu_command_free(g, c);
    g->lost = true;
    e->code = ERR_DEVICE;
    return err_prefix(e, "experts for the device's slots");
}

bool device_slots_step(struct device_slots *s, struct gpu *g, struct device_model *m,
                       const struct device_slots_use *u, struct err *e)
{
    const struct expert_pool *pool = u->pool;
    struct slot_move moves[MOVES_LAYER];
    uint32_t words[SLOT_USED_WORDS];
    VkCommandBuffer c = VK_NULL_HANDLE;
    gpu_command_free(g, &s->copies); /* the step that came after it is done */
    for (int i = 0; i < u->plan->n_layer; i++) {
        const struct device_experts *x = &m->layers[i].split_experts;
        const uint32_t *bits = u->used + i * u->stride;
        uint64_t misses = 0;
        if (!x->table)
            continue;
        slot_policy_see(&s->policy, i, bits, &s->hits, &misses);
        s->misses += misses;
        s->bus_bytes += u->on_cpu ? 0 : misses * device_experts_record(x);
        int32_t n = misses && u->n_rows <= MANY_ROWS
                        ? slot_policy_move(
                              &s->policy,
                              &(struct slot_candidates){
                                  .layer = i,
                                  .used = bits,
                                  .available = pool ? here(pool, i, bits, u->stride, words) : bits},
                              moves, MOVES_LAYER)
                        : 0;
        for (int32_t k = 0; k < n; k++) {
            if (!c && !(c = gpu_command_begin(g, false, e)))
                return copies_failed(g, &c, e);
            if (!copy_into_slot(c, m, pool,
                                &(struct slot_copy){i, moves[k].expert, moves[k].slot})) {
                err_set(e, ERR_INTERNAL, "expert %d of layer %d lies nowhere", moves[k].expert, i);
                return copies_failed(g, &c, e);
            }
            leave(s, x, pool, i, moves[k].left);
            point(s, x, i, moves[k].expert, moves[k].slot);
            s->copied_bytes += device_experts_record(x);
            s->evictions += moves[k].left >= 0;
        }
    }
    if (!c)
        return true;
    gpu_barrier(c);
    if (!gpu_command_end(g, c, e) || !gpu_submit(g, c, e))
        return copies_failed(g, &c, e);
    s->copies = c;
    return true;
}
