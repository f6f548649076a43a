/* Content of KV blocks and recurrent states of the cpu backend, as bytes. Owner thread only. */
#pragma once
#include "engine/backend/backend.h"

extern const struct backend_content cpu_content;
