/* Downloads a model from the hub to this machine's disk for an admin: `sluice up` does it
 * (fcgi/cli/pull/model_pull.c) and reports its progress. Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/err.h"

struct request;

/* repo: OWNER/NAME[@REVISION]; include: patterns of file names, or NULL. ERR_INPUT: no such form;
 * ERR_CONFLICT: one is loaded already; ERR_UNSUPPORTED: `sluice up` does not run here. Noted in the
 * audit log. */
bool hub_pull_ask(struct request *r, const char *repo, const char *include, struct err *e);
/* Adds to models.json's "pull" what it says of itself: got, total, rate, files_done, files; null
 * where it says nothing. */
void hub_pull_progress(const struct request *r, cJSON *pull);
