/* Changes the model of a running `sluice up`. The API asks for it in a file
 * (fcgi/admin/local_models.h); the supervisor's tick does it in steps and reports each in
 * models.json:
 *
 *   checking   a separate process opens the new model's tokenizer, template and headers, so that
 * most faults are found before anything is stopped draining   new jobs get 503 with Retry-After;
 * running ones may finish, for grace_s at most stopping   the engine exits, which cancels what
 * still runs and frees its memory loading    the engine starts with the new model; when it is
 * ready, the workers switch to its tokenizer and template returning  the new model could not be
 * loaded: the last model that ran is loaded again
 *
 * then `ready`, `failed` (the old model runs; `error` says why the new one does not) or `unloaded`.
 * One thread: the supervisor's. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/err.h"
#include "fcgi/cli/pull/model_pull.h"

struct shared;
struct supervisor;

#define MODEL_SWITCH_FOLDERS 4

enum switch_phase {
    SWITCH_READY,
    SWITCH_CHECKING,
    SWITCH_DRAINING,
    SWITCH_STOPPING,
    SWITCH_LOADING,
    SWITCH_RETURNING,
    SWITCH_UNLOADED,
    SWITCH_FAILED,
    SWITCH__N
};

struct model_switch {
    /* set by the caller */
    struct supervisor *supervisor;
    const char *state_dir, *status_path, *cache_dir;
    const char *draft_model, *speculate; /* as `up` was started */
    const char
        *folders[MODEL_SWITCH_FOLDERS]; /* where models are looked for; NULL after the last */
    struct model_pull pull;             /* its folder, hub and progress_path */
    /* its own */
    struct shared *shared;
    enum switch_phase phase;
    char first[4096], current[4096], wanted[4096], error[320];
    int64_t since_ms;
    bool was_unloaded;  /* when it was asked for */
    double drain_until; /* clock_ms */
    pid_t loading_pid;  /* of the engine that loads: when it is gone the load has failed */
    int restarts, check_fd;
};

/* Opens the gate for a server that begins with `model`, and writes the first models.json. */
bool model_switch_begin(struct model_switch *m, const char *model, struct err *e);
void model_switch_tick(struct model_switch *m);
void model_switch_end(struct model_switch *m); /* the last entry of models.json */
