/* What stands before a job for a model of this machine beside the first: its engine may have to be
 * started, and others ended for its room. The request waits, and by waiting asks for it
 * (fcgi/process/local_model.h). Thread: the request's. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"

struct request;

/* Until the request's model is loaded; at once for one that is, and for the first model. stays: the
 * job is wanted though its client has gone. False: ERR_UNAVAILABLE with a reason (it takes too
 * long, does not fit or can't be loaded; r->error_override has the time to wait), ERR_BUSY (too
 * many wait already), ERR_CANCELLED. */
bool local_gate_wait(struct request *r, bool stays, struct err *e);
/* The same without a job to follow; the wait counts as an answer of the user's. */
bool local_gate_load(struct request *r, struct err *e);
