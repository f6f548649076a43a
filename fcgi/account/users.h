/* What the endpoints for accounts and for admins share of users. Thread: the request's. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct request;

#define USERS_BODY ((size_t)16 << 10) /* bytes of the small requests of these endpoints */

/* {items: [...]} of a user's keys, of a user's sessions. */
bool keys_reply_list(struct request *r, int64_t user_id, struct err *e);
bool sessions_reply_list(struct request *r, int64_t user_id, struct err *e);
