/* Models of this machine beside the first: each has an engine of its own, which `sluice up` starts
 * when it is wanted and ends when its room is (fcgi/cli/up/local_engines.h). Which there are stands
 * in one file, which the masters of the pools read before they fork; what state each is in stands
 * in shared memory, by which it is wanted too.
 *
 * For each of them the process has a second struct worker that differs in what belongs to a model:
 * text, socket, status page, name. A request for it has that one as r->worker, and everything that
 * serves requests then serves this model. Constant after the fork. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "fcgi/process/worker.h"

#define LOCAL_MODEL_KEY 'm' /* a detached job's key begins with it, the row and a colon */

/* Reads the file again, and opens the text side of what is new in it. Only a lack of memory is an
 * error: a model that can't be opened has a worker without `text`. */
bool local_models_open(struct worker *w, struct err *e);
void local_models_close(struct worker *w);
/* The process's worker for the model of this row; NULL: it is not known here (yet). */
const struct worker *local_model_of(const struct worker *w, int64_t id);

/* Names in the folder of the engines' sockets. */
void local_model_socket(char out[WORKER_SOCKET_BYTES], const char *engine_run, int64_t id);
void local_model_status(char out[WORKER_SOCKET_BYTES], const char *engine_run, int64_t id);
/* Which row's engine has the job; 0: none of these. */
int64_t local_model_of_job(const char *key);

/* Its row in shared memory; NULL: `sluice up` has not seen it yet. */
struct shared_local *local_model_state(struct shared *s, int64_t id);
/* Its enum local_state, read once, since another process sets it; LOCAL_COLD for one not seen yet.
 */
int local_model_state_now(struct shared *s, int64_t id);
/* Requests of all users that wait until a model is loaded; each holds a process of the pool. */
int local_models_waiting(const struct shared *s);
const char *local_state_name(int state); /* "unloaded", "loading", "ready", "unloading", "failed" */
