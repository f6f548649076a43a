/* The status page as the API tells it. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/wire/status.h"

struct request;

/* Reads the page; a missing one gives a zeroed page with state ENGINE_DOWN and the reason in `error`. True: ready. */
bool facts_read(const struct request *r, struct status_page *page);
/* "parts": bytes by part of the model and by format. */
void facts_parts(cJSON *o, const struct status_page *page);
/* The model object of /v1/models, with its `sluice` facts. Caller owns it. */
cJSON *facts_model(const struct request *r, const struct status_page *page);
