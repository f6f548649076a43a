/* What the endpoints for logins, keys and users share. Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/users/store_users.h"

struct request;
struct store_user_limits;

#define USERS_BODY ((size_t)16 << 10) /* of the small requests of these endpoints */

/* id, name, role */
void users_put(cJSON *o, int64_t id, const char *name, bool admin);
void users_put_id(cJSON *o, const char *name, int64_t id); /* ids are strings in JSON */
void users_put_time(cJSON *o, const char *name, int64_t ms); /* 0 is null */
void users_put_limits(cJSON *o, const struct store_user_limits *l);
/* The reply of a login: {user, csrf}; csrf "" is null. */
bool users_reply_session(struct request *r, int status, const char *csrf);
/* A line in the audit table; a failure is logged. target: "user:3", or "". */
void users_audit(struct request *r, int64_t user_id, const char *user, const char *action, const char *target);
/* The caller did something to a thing with an id: action "key.add", kind "key". */
void users_audit_id(struct request *r, const char *action, const char *kind, int64_t id);
/* {items: [...]} of a user's keys, of a user's sessions. */
bool keys_reply_list(struct request *r, int64_t user_id, struct err *e);
bool sessions_reply_list(struct request *r, int64_t user_id, struct err *e);
