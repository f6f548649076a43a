/* What the endpoints for logins, keys and users share. Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/secret.h"
#include "sql/store_users.h"

struct request;

/* argon2id with at most one running in each process. hash NULL: no such user, same time, false. */
bool users_verify_password(const char *password, const char *hash);
bool users_hash_password(const char *password, char out[SECRET_PASSWORD_HASH_SIZE], struct err *e);
/* id, name, role */
void users_put(cJSON *o, int64_t id, const char *name, bool admin);
/* A line in the audit table; a failure is logged. target: "user:3", or "". */
void users_audit(struct request *r, int64_t user_id, const char *user, const char *action, const char *target);
/* The {id} of the path as a positive number; else ERR_NOTFOUND. */
bool users_path_id(const struct request *r, int64_t *id, struct err *e);
