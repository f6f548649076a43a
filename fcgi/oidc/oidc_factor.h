/* The second factor of a user whom the provider has vouched for, where the setting
 * oidc_second_factor asks for it as well: between the two the browser holds a cookie that is good
 * for one code within ten minutes. Thread: the request's. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"

struct request;
struct store_user;

/* Is a code still owed? */
bool oidc_factor_is_owed(struct request *r, const struct store_user *user, bool *owed,
                         struct err *e);
/* Gives the browser its cookie. */
bool oidc_factor_ask(struct request *r, const struct store_user *user, struct err *e);
/* Checks the code for the user whom the cookie names. ERR_AUTH: code oidc_state (nothing is owed,
 * or no more) or invalid_code, after which another may be tried. */
bool oidc_factor_check(struct request *r, const char *code, struct store_user *user, struct err *e);
