/* auth.h: secrets go to the store as hashes only. */
#include "fcgi/auth/auth.h"

#include <string.h>
#include <strings.h>

#include "engine/base/clock.h"
#include "fcgi/auth/loopback.h"
#include "fcgi/auth/session_cookie.h"
#include "fcgi/http/request.h"
#include "sql/users/store_users.h"

static bool take_user(struct request *r, const struct store_user *u, enum auth_by by)
{
    r->who.by = by;
    r->who.user_id = u->id;
    r->who.name = u->name;
    r->who.admin = u->admin;
    return true;
}

/* The key of "Authorization: Bearer KEY" or of X-API-Key; NULL: none was sent. */
static const char *sent_key(const struct request *r)
{
    const char *value = request_header(r, "Authorization");
    if (!value || !*value)
        return request_header(r, "X-API-Key");
    if (strncasecmp(value, "Bearer ", 7))
        return "";
    return value + 7 + strspn(value + 7, " ");
}

/* Where keys are optional, clients that insist on one send a placeholder. */
static bool is_placeholder(struct request *r, const char *key)
{
    struct err unused = {0};
    if (loopback_is_key(key) || !loopback_on(r))
        return false;
    bool taken = loopback_identify(r, &unused);
    r->error_override.code = NULL;
    return taken;
}

static bool identify_by_key(struct request *r, const char *key, struct err *e)
{
    unsigned char hash[SECRET_HASH_BYTES];
    struct store_key_found found;
    struct err why = {0};
    if (!*key || strlen(key) > 256)
        return err_set(e, ERR_AUTH, "the Authorization header must be 'Bearer' and an API key");
    secret_hash(key, hash);
    if (store_key_find(r->store, r->arena, hash, &found, &why)) {
        r->who.key_id = found.key.id;
        r->who.terms = found.key.terms;
        return take_user(r, &found.user, AUTH_KEY);
    }
    *e = why;
    return false;
}

static bool changes_something(enum http_method m)
{
    return m != HTTP_GET && m != HTTP_HEAD && m != HTTP_OPTIONS;
}

/* The browser keeps the cookie as long as the session lives. nginx drops the headers of its own
 * questions. */
static void renew_cookie(struct request *r, const struct session_cookie *c,
                         const struct store_session_found *found)
{
    if ((found->renewed || c->outdated) && !r->authorise_only)
        session_cookie_send(r, c->token, (found->expires_at - clock_wall_ms()) / 1000);
}

static bool identify_by_session(struct request *r, const struct session_cookie *c, struct err *e)
{
    struct store_session_found found;
    struct err why = {0};
    secret_hash(c->token, r->who.token_hash);
    if (!store_session_use(r->store, r->arena, r->who.token_hash, &found, &why)) {
        r->error_override.code = why.code == ERR_AUTH ? "invalid_session" : NULL;
        if (why.code == ERR_AUTH)
            return err_set(e, ERR_AUTH, "the session has ended; log in again");
        *e = why;
        return false;
    }
    secret_csrf(r->who.token_hash, r->who.csrf);
    const char *csrf = request_header(r, "X-CSRF-Token");
    if (changes_something(r->method) && !(csrf && secret_equal(csrf, r->who.csrf))) {
        r->error_override.code = "csrf_token_missing";
        return err_set(e, ERR_FORBIDDEN,
                       "a request with the session cookie needs its X-CSRF-Token");
    }
    renew_cookie(r, c, &found);
    return take_user(r, &found.user, AUTH_SESSION);
}

const char *auth_secret(struct request *r)
{
    const char *key = sent_key(r), *tokens[SESSION_COOKIES_MAX];
    return key ? key : session_cookie_all(r, tokens) == 1 ? tokens[0] : NULL;
}

bool auth_identify(struct request *r, struct err *e)
{
    const char *key = sent_key(r);
    if (!r->store)
        return err_set(e, ERR_UNAVAILABLE, "the database is not open");
    if (key)
        return is_placeholder(r, key) || identify_by_key(r, key, e);
    struct session_cookie cookie;
    if (!session_cookie_read(r, &cookie, e))
        return false;
    if (cookie.token)
        return identify_by_session(r, &cookie, e);
    if (loopback_on(r))
        return loopback_identify(r, e);
    r->error_override.code = "missing_api_key";
    return err_set(e, ERR_AUTH, "log in, or send an API key as 'Authorization: Bearer sk-...'");
}
