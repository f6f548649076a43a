/* `sluice pull` as a child of `sluice up`, for the admin's page: one at a time, into the folder of
 * models. What was loaded before a cut stays, and the next pull of the same repository resumes from
 * it. One thread: the supervisor's. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "fcgi/cli/pull/own_child.h"

enum { MODEL_PULL_NAME = 512 };
enum pull_phase { MODEL_PULL_NONE, MODEL_PULL_RUNNING, MODEL_PULL_DONE, MODEL_PULL_FAILED };

struct model_pull {
    /* set by the caller */
    const char *folder, *hub, *progress_path;
    /* its own */
    enum pull_phase phase;
    char repo[MODEL_PULL_NAME], error[320];
    struct own_child child;
};

/* repo: OWNER/NAME[@REVISION], or a name as in hub_name.h. include: a glob of file names, or NULL.
 * ERR_CONFLICT: one runs, and goes on. Whatever else keeps it from beginning is told as a failure
 * of this repository as well, since whoever asked has gone by then. */
bool model_pull_start(struct model_pull *p, const char *repo, const char *include, struct err *e);
void model_pull_stop(struct model_pull *p); /* it ends soon, as failed */
/* True: the phase changed. */
bool model_pull_tick(struct model_pull *p);
void model_pull_tell(const struct model_pull *p, struct buf *b); /* ,"pull":{...} or ,"pull":null */
