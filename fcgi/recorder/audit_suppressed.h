/* Rows of the audit log that a user's bound kept out (shared_audit_take) are told of by one row,
 * "audit.suppressed", a minute after the first of them. Thread: the recorder's. */
#pragma once
#include <stdint.h>

struct shared;
struct store;

void audit_suppressed_tell(struct store *s, struct shared *shared, int64_t now_ms);
