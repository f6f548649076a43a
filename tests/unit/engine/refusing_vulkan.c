/* A Vulkan backend that answers and then refuses every model, for tests of what "auto" does then.
 * Takes the place of engine/vulkan at link time. REFUSE_WITH=unsupported|nomem|device|format says
 * with which code; late: nomem, but only when it is opened, after a plan was made for it. */
#include <stdlib.h>
#include <string.h>

#include "engine/backend/backend.h"

static const char *refuse_with(void)
{
    const char *with = getenv("REFUSE_WITH");
    return with ? with : "unsupported";
}

static bool refuse(struct err *e)
{
    const char *with = refuse_with();
    enum err_code code = !strcmp(with, "unsupported")                      ? ERR_UNSUPPORTED
                         : !strcmp(with, "nomem") || !strcmp(with, "late") ? ERR_NOMEM
                         : !strcmp(with, "device")                         ? ERR_DEVICE
                                                                           : ERR_FORMAT;
    return err_set(e, code, "layer 3: no kernel for this");
}

static struct backend *refusing_open(const struct model_plan *plan, const struct backend_params *p,
                                     struct err *e)
{
    refuse(e);
    return NULL;
}

static uint64_t expert_bytes(const struct model_plan *plan)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < plan->n_layer; i++) {
        const struct moe_plan *m = &plan->layers[i].moe;
        if (plan->layers[i].ffn == FFN_MOE)
            sum += (uint64_t)m->n_expert *
                   (weight_matrix_bytes(&m->gate) + weight_matrix_bytes(&m->up) +
                    weight_matrix_bytes(&m->down));
    }
    return sum;
}

/* As the cpu takes it, on a device that has room for all. */
static bool refusing_estimate(const struct model_plan *plan, const struct backend_params *p,
                              struct backend_memory *m, struct err *e)
{
    if (strcmp(refuse_with(), "late"))
        return refuse(e);
    if (!cpu_backend.probe->estimate(plan, p, m, e))
        return false;
    if (p->device_experts)
        m->weights += p->device_experts + p->host_experts - expert_bytes(plan);
    m->host = p->host_experts;
    m->device = m->weights + m->kv + m->state + m->work - m->host;
    return true;
}

static bool refusing_device(const char *which, struct backend_device *d, struct err *e)
{
    *d = (struct backend_device){
        .name = "a GPU", .total = UINT64_C(1) << 40, .available = UINT64_C(1) << 40};
    return true;
}

static bool refusing_usable(struct err *e)
{
    return true;
}

bool vulkan_is_software(void)
{
    return false;
}

static const struct backend_probe probe = {
    .usable = refusing_usable, .device = refusing_device, .estimate = refusing_estimate};
const struct backend_ops vulkan_backend = {
    .name = "vulkan", .streams = true, .splits = true, .probe = &probe, .open = refusing_open};
