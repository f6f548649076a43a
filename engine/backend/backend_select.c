/* Which backend runs: by name, or the best that this machine has. Declared in
 * engine/backend/backend.h. */
#include "engine/backend/backend.h"

#include <string.h>

#define LOG_MODULE "backend"
#include "engine/base/log.h"

static bool is_auto(const char *name)
{
    return !name || !strcmp(name, "auto");
}

const struct backend_ops *backend_select(const char *name, struct err *e)
{
    if (is_auto(name)) {
        struct err why = {0};
        if (!vulkan_backend.probe->usable(&why)) {
            log_info("no GPU in use: %s", why.text);
            return &cpu_backend;
        }
        if (vulkan_is_software()) {
            log_info("no GPU in use: Vulkan has only a software device; --backend vulkan takes it");
            return &cpu_backend;
        }
        return &vulkan_backend;
    }
    const struct backend_ops *const all[] = {&cpu_backend, &vulkan_backend};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!strcmp(all[i]->name, name))
            return all[i]->probe->usable(e) ? all[i] : NULL;
    err_field(e, ERR_INPUT, "backend", "'%s' is none of auto, vulkan, cpu", name);
    return NULL;
}

const struct backend_ops *backend_fallback(const char *name, const struct backend_ops *refused,
                                           const struct err *why)
{
    const bool model =
        why->code == ERR_UNSUPPORTED || why->code == ERR_NOMEM || why->code == ERR_LIMIT;
    if (!is_auto(name) || refused == &cpu_backend || !model)
        return NULL;
    log_warn("%s does not run this model: %s; the cpu does", refused->name, why->text);
    return &cpu_backend;
}
