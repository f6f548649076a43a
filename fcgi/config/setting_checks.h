/* What a setting's text must be beyond its type: addresses, scopes, and secrets, which are kept
 * sealed. Thread-safe. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"
#include "fcgi/config/server_settings.h"

/* An address that this server may ask or send people to: https, or plain http on this machine;
 * without a user, a fragment or blanks, and with a query only where one is allowed. */
bool setting_is_url(const char *url, bool with_query);
/* The same, http on this machine included, or empty. ERR_INPUT. */
bool setting_check_url(const struct setting_row *row, const char *text, struct err *e);
/* Words separated by blanks, of which one is openid. ERR_INPUT. */
bool setting_check_scopes(const struct setting_row *row, const char *text, struct err *e);
/* The JSON that is stored for the secret, in the request's arena; NULL: *e. */
const char *setting_seal(struct request *r, const struct setting_row *row, const char *secret,
                         struct err *e);
