/* Content of KV blocks and recurrent states on the device, as bytes on the host. Owner thread only.
 */
#pragma once
#include "engine/backend/backend.h"

extern const struct backend_content vulkan_content;
/* Memory of the host that transfers take from the first one on: room for one block or state, within
 * limits. */
uint64_t device_content_staging_bytes(const struct backend *b);
