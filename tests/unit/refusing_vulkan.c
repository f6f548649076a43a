/* A Vulkan backend that answers and then refuses every model, for tests of what "auto" does then. Takes the place of
 * engine/vulkan at link time. REFUSE_WITH=unsupported|nomem|device|format says with which code. */
#include <stdlib.h>
#include <string.h>

#include "engine/model/backend.h"

static bool refuse(struct err *e)
{
    const char *with = getenv("REFUSE_WITH");
    enum err_code code = !with || !strcmp(with, "unsupported") ? ERR_UNSUPPORTED
                         : !strcmp(with, "nomem")              ? ERR_NOMEM
                         : !strcmp(with, "device")             ? ERR_DEVICE
                                                               : ERR_FORMAT;
    return err_set(e, code, "layer 3: no kernel for this");
}

static struct backend *refusing_open(const struct model_plan *plan, const struct backend_params *p, struct err *e)
{
    refuse(e);
    return NULL;
}

static bool refusing_estimate(const struct model_plan *plan, const struct backend_params *p, struct backend_memory *m,
                              struct err *e)
{
    return refuse(e);
}

static bool refusing_probe(struct err *e)
{
    return true;
}

bool vulkan_is_software(void)
{
    return false;
}

const struct backend_ops vulkan_backend = {
    .name = "vulkan", .open = refusing_open, .estimate = refusing_estimate, .probe = refusing_probe};
