/* Lists of a user's keys and sessions: the user asks for their own, an admin for anyone's. Thread:
 * the request's. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct request;

#define ACCOUNT_BODY_BYTES ((size_t)16 << 10) /* of the small requests about accounts */

/* Each replies {items: [...]}. */
bool account_reply_keys(struct request *r, int64_t user_id, struct err *e);
bool account_reply_sessions(struct request *r, int64_t user_id, struct err *e);
