/* Reads, checks and writes the file of compiled pipelines. */
#include "engine/vulkan/device/pipeline_file.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define LOG_MODULE "vulkan"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"

struct header { /* of this machine's byte order: the file never leaves it */
    char magic[8];
    uint32_t vendor, device, driver, unused;
    uint8_t cache[VK_UUID_SIZE]; /* the driver's name for a form of its pipelines */
    uint64_t bytes, hash;        /* of what follows */
};

static struct header header_of(const VkPhysicalDeviceProperties *p, const void *data, size_t len)
{
    struct header h = {.magic = "pipes 1",
                       .vendor = p->vendorID,
                       .device = p->deviceID,
                       .driver = p->driverVersion,
                       .bytes = len,
                       .hash = hash64(data, len, 0)};
    memcpy(h.cache, p->pipelineCacheUUID, sizeof h.cache);
    return h;
}

static bool has_header(const struct buf *b, const VkPhysicalDeviceProperties *p)
{
    if (b->len < sizeof(struct header))
        return false;
    const struct header h = header_of(p, b->data + sizeof h, b->len - sizeof h);
    return memcmp(b->data, &h, sizeof h) == 0;
}

void pipeline_file_read(const char *path, const VkPhysicalDeviceProperties *p, struct buf *data)
{
    struct err e = {0};
    if (!file_exists(path))
        return;
    const bool read = file_read(path, sizeof(struct header) + PIPELINE_FILE_MAX_BYTES, data, &e);
    if (read && has_header(data, p)) {
        buf_consume(data, sizeof(struct header));
        return;
    }
    buf_clear(data);
    if (!read && e.code != ERR_LIMIT) {
        log_warn("pipelines are compiled anew: %s", e.text);
        return;
    }
    log_info("pipelines are compiled anew: the kept ones are damaged or of another driver");
    unlink(path);
}

bool pipeline_file_write(const char *path, const VkPhysicalDeviceProperties *p,
                         const struct buf *data, struct err *e)
{
    struct buf whole = {0};
    const struct header h = header_of(p, data->data, data->len);
    if (data->len > PIPELINE_FILE_MAX_BYTES)
        return err_set(e, ERR_LIMIT, "%zu bytes of pipelines", data->len);
    buf_append(&whole, &h, sizeof h);
    buf_append(&whole, data->data, data->len);
    const bool ok = whole.failed ? err_set(e, ERR_NOMEM, "no memory for %zu bytes", data->len)
                                 : file_write_atomic(path, whole.data, whole.len, 0600, e);
    buf_fini(&whole);
    return ok;
}
