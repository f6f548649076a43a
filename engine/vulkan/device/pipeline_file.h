/* Compiled pipelines between two runs: what the driver gives for its cache, behind a header that
 * says whose it is and what its checksum is. Drivers check their own header, but not all of them
 * what follows it, so a damaged file would crash every start. Called by pipeline.c. */
#pragma once
#include <vulkan/vulkan.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

#define PIPELINE_FILE_MAX_BYTES (256u << 20)

/* Fills data with what was kept; leaves it empty where there is no file, or none that can be read
 * now. One that is too large, damaged, or of another driver or device, is removed: it would never
 * be of use again. */
void pipeline_file_read(const char *path, const VkPhysicalDeviceProperties *p, struct buf *data);
/* Whole or not at all, for the owner alone. ERR_LIMIT: data is larger than will be read. */
bool pipeline_file_write(const char *path, const VkPhysicalDeviceProperties *p,
                         const struct buf *data, struct err *e);
