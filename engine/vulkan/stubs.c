/* A build without Vulkan: says so when asked. */
#include "engine/backend/backend.h"

static bool absent(struct err *e)
{
    return err_set(e, ERR_UNSUPPORTED, "this build has no Vulkan (configured --without-vulkan)");
}

static struct backend *stub_open(const struct model_plan *plan, const struct backend_params *p,
                                 struct err *e)
{
    absent(e);
    return NULL;
}

static void stub_close(struct backend **b)
{
    *b = NULL;
}

static bool stub_estimate(const struct model_plan *plan, const struct backend_params *p,
                          struct backend_memory *m, struct err *e)
{
    return absent(e);
}

bool vulkan_is_software(void)
{
    return false;
}

/* Nothing else can be called: there is no struct backend to call it with. */
static const struct backend_probe no_probe = {.usable = absent, .estimate = stub_estimate};
const struct backend_ops vulkan_backend = {
    .name = "vulkan", .probe = &no_probe, .open = stub_open, .close = stub_close};
