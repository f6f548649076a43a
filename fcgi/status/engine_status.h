/* The engine's status page as workers read it: at once, and even when the engine is down. Any
 * thread. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/wire/status.h"

struct request;

/* Reads the page; a missing one gives a zeroed page with state ENGINE_DOWN and the reason in
 * `error`. True: ready. */
bool engine_status_read(const struct request *r, struct status_page *page);
/* "parts": bytes by part of the model and by format. */
void engine_status_put_parts(cJSON *o, const struct status_page *page);
