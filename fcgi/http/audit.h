/* The audit: who did what to what, from which address. A line that can't be written is logged and
 * does not fail the request. A user who is no admin adds SHARED_AUDIT_ROWS a minute, and the
 * recorder one that says how many more there were (recorder/audit_suppressed.h). Thread: the
 * request's. */
#pragma once
#include <stdint.h>

struct request;

/* target: "user:3", or "". user_id 0: nobody that is known. */
void audit_record(struct request *r, int64_t user_id, const char *user, const char *action,
                  const char *target);
/* The caller did something to a thing with an id: action "key.add", kind "key". */
void audit_record_id(struct request *r, const char *action, const char *kind, int64_t id);
