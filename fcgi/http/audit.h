/* The audit: who did what to what, from which address. A line that can't be written is logged and
 * does not fail the request. Thread: the request's. */
#pragma once
#include <stdint.h>

struct request;

/* target: "user:3", or "". user_id 0: nobody that is known. */
void audit_record(struct request *r, int64_t user_id, const char *user, const char *action,
                  const char *target);
/* The caller did something to a thing with an id: action "key.add", kind "key". */
void audit_record_id(struct request *r, const char *action, const char *kind, int64_t id);
