/* Passwords, and codes where an account has a second factor. Checks are throttled and audited, and
 * take the same time whether the name exists or not. Thread: the request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/secret.h"
#include "sql/users/store_users.h"

struct request;

struct credentials {
    const char *name, *password;
    const char *code; /* of the second factor; NULL: none was sent */
};
/* Checks a login. ERR_AUTH: code second_factor_needed (the password was right) or invalid_login. */
bool credentials_login(struct request *r, const struct credentials *c, struct store_user *user,
                       struct err *e);
/* The second factor of who has proven the first, where there is one. ERR_AUTH: code
 * second_factor_needed or invalid_code. */
bool credentials_check_code(struct request *r, const struct store_user *user, const char *code,
                            struct err *e);
/* Checks the password of the logged-in user again, which confirms their session
 * (confirmation.h). Who has none is asked for a confirmation instead. field: the member of the
 * body, for errors. */
bool credentials_confirm(struct request *r, const char *field, const char *password,
                         struct store_user *user, struct err *e);
/* The same by a code of the user's second factor. ERR_INPUT: there is none. */
bool credentials_confirm_code(struct request *r, const char *code, struct err *e);
/* Who comes by single sign-on only has none. */
bool credentials_has_password(const struct store_user *user);
/* argon2id, behind the gate of slow work: each takes 64 MiB. field: the member of the body, for
 * errors. */
bool credentials_hash(struct request *r, const char *field, const char *password,
                      char out[SECRET_PASSWORD_HASH_SIZE], struct err *e);
/* A new session for the user: its cookie, and csrf for the page. how: for the audit log, "" for a
 * password. The sessions that the request came with, if any, end: what someone may have planted in
 * the browser is worth nothing after a login. */
bool credentials_begin_session(struct request *r, const struct store_user *user, const char *how,
                               char csrf[SECRET_TOKEN_SIZE], struct err *e);
/* The same for a password: cookie and reply. */
bool credentials_open(struct request *r, const struct store_user *user, int status, struct err *e);
/* The reply of a login: {user, csrf, preferences}; csrf "" is null. */
bool credentials_reply_session(struct request *r, int status, const char *csrf);
/* id, name, role */
void credentials_put_identity(cJSON *o, int64_t id, const char *name, bool admin);
