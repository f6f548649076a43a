/* Backends that estimate from given numbers, and plans over them. */
#include "tests/unit/memory/memory_plan_rig.h"

bool fake_estimate(void *context, const struct backend_params *p, struct backend_memory *m,
                   struct err *e)
{
    const struct fake *f = context;
    if (f->refuse)
        return err_set(e, f->refuse, "layer 3: no kernel for this");
    *m = (struct backend_memory){
        .weights = f->weights,
        .kv =
            (uint64_t)p->n_blocks * BLOCK * (f->gpu ? 2 : 1) / (kv_type_packed(p->kv_type) ? 2 : 1),
        .kv_type = kv_type_stored(p->kv_type, !p->exact),
        .state = (uint64_t)p->n_states * f->state,
        .work = 10 * MB + (uint64_t)p->max_rows * 100000 + (p->streams ? 5 * MB : 0)};
    bool apart = f->gpu && p->device_experts && p->device_experts < f->experts;
    if (apart) /* slots of 50 MB */
        m->weights += p->device_experts / (50 * MB) * 50 * MB;
    uint64_t in_ram = p->host_experts ? (p->host_experts + HOST_SLOT - 1) / HOST_SLOT * HOST_SLOT
                      : apart         ? f->experts
                                      : 0;
    if (p->host_experts)
        m->weights += in_ram - f->experts;
    uint64_t all = m->weights + m->kv + m->state + m->work;
    m->host = f->gpu ? 10 * MB + in_ram : all;
    m->device = f->gpu ? all - m->host : 0;
    return true;
}

struct fake cpu, gpu;

struct memory_input input_of(uint64_t dense, uint64_t experts, uint64_t ram_total,
                             uint64_t ram_free)
{
    cpu = (struct fake){.weights = dense + experts, .experts = experts};
    gpu = cpu;
    gpu.gpu = true;
    struct memory_input in = {.model = {.n_ctx = 32768,
                                        .n_layer = 64,
                                        .n_moe = experts ? 60 : 0,
                                        .weights = dense + experts,
                                        .dense = dense,
                                        .experts = experts,
                                        .active_dense = dense / 2,
                                        .active_experts = experts / 32,
                                        .cache_least = experts ? experts / 200 : 0,
                                        .cache_most = experts,
                                        .slots_least = experts / 100},
                              .machine = {.total = ram_total,
                                          .available = ram_free,
                                          .system_available = ram_free,
                                          .group_limit = MACHINE_NO_LIMIT,
                                          .group_available = MACHINE_NO_LIMIT},
                              .request = {.size = {.slots = 4, .ctx = 4096}}};
    in.targets[in.n_targets++] = (struct memory_target){
        .backend = "cpu", .streams = true, .estimate = fake_estimate, .context = &cpu};
    return in;
}

struct memory_plan planned(const struct memory_input *in)
{
    struct memory_plan p;
    struct err e = {0};
    if (!memory_plan_make(in, &p, &e))
        fail_msg("%s", e.text);
    return p;
}
