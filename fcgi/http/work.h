/* Slow work of a request passes the process's gate (process/work_gate.h): it waits a while for its
 * turn, no longer than its client does, and is refused where too much of its kind waits already.
 * Thread: the request's. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"
#include "fcgi/process/work_gate.h"

struct request;

/* Until work_end, or the request's end. Again for the same kind: true. False: 429 for who has their
 * own share at work, 503 for others, with Retry-After; ERR_CANCELLED when the client has left. */
bool work_begin(struct request *r, enum work_kind kind, struct err *e);
void work_end(struct request *r, enum work_kind kind); /* harmless without */
void work_end_all(struct request *r);
/* For WORK_TEXT: a body of a few pages is quicker than any gate is worth. */
bool work_begin_text(struct request *r, struct err *e);
