/* Which models lie on this machine, and what `sluice up` says of the one that runs. The programs
 * talk by two files in the state folder, each replaced whole:
 *
 *   models.json    written by `sluice up`: {"pid", "folders": [...], "phase", "current", "wanted",
 * "error", "since", "pull"} models.request written by the API for it: {"action": "load", "path",
 * "grace_s"}, {"action": "unload", ...}, ... */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/base/err.h"

#define LOCAL_MODELS_MAX 256

/* Adds {name, path, bytes, format, model_type} of each model in the folder to list: folders with
 * config.json or with GGUF files, and single GGUF files. What can't be read is left out. */
void local_models_scan(const char *folder, cJSON *list);
/* The one at `path` itself; nothing when there is none. */
void local_models_add(const char *path, cJSON *list);
/* models.json as `sluice up` wrote it; NULL: it does not run here (systemd does), *e says so. */
cJSON *local_models_state(const char *state_dir, struct err *e);
struct request;
/* Does a model of the list that the admin's page shows lie there? ERR_NOTFOUND, the field `path`.
 */
bool local_models_listed(const struct request *r, const cJSON *state, const char *path,
                         struct err *e);
/* True if something was asked for that `sluice up` has not begun. */
bool local_models_pending(const char *state_dir);
bool local_models_ask(const char *state_dir, const cJSON *request, struct err *e);
