/* Content of KV blocks and recurrent states on the device, as bytes on the host. Owner thread only.
 */
#pragma once
#include "engine/backend/backend.h"

extern const struct backend_content vulkan_content;
