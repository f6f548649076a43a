/* What a tool gave, as the text that the model reads. Pure. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"

/* Texts one after the other; what is no text is named with its type and size, so that nobody thinks
 * the model saw it. Beyond `most` bytes it is cut, and says so. *failed: the tool says that it
 * failed. False: no memory. */
bool tool_result_text(const cJSON *result, size_t most, struct buf *out, bool *failed);
