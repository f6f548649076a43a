/* session_cookie.h: two names, and never two sessions. */
#include "fcgi/auth/session_cookie.h"

#include <stdio.h>
#include <string.h>

#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"

#define TOKEN_MAX 255

static int take_name(struct request *r, const char *name, const char **tokens, int n)
{
    const char *values[SESSION_COOKIES_MAX];
    int count = request_cookie_all(r, name, values, SESSION_COOKIES_MAX);
    for (int i = 0; i < count && i < SESSION_COOKIES_MAX && n < SESSION_COOKIES_MAX; i++) {
        bool new = values[i] && *values[i] && strlen(values[i]) <= TOKEN_MAX;
        for (int k = 0; new &&k < n; k++)
            new = strcmp(tokens[k], values[i]) != 0;
        if (new)
            tokens[n++] = values[i];
    }
    return n;
}

int session_cookie_all(struct request *r, const char *tokens[SESSION_COOKIES_MAX])
{
    return take_name(r, SESSION_COOKIE, tokens, take_name(r, SESSION_COOKIE_SECURE, tokens, 0));
}

static void send_one(struct request *r, const char *name, const char *token, int64_t max_age_s)
{
    char cookie[TOKEN_MAX + 128];
    snprintf(cookie, sizeof cookie, "%s=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%lld%s",
             name, token, (long long)max_age_s, request_secure(r) ? "; Secure" : "");
    reply_header(r, "Set-Cookie", cookie);
}

bool session_cookie_read(struct request *r, struct session_cookie *out, struct err *e)
{
    const char *tokens[SESSION_COOKIES_MAX];
    const int n = session_cookie_all(r, tokens);
    *out = (struct session_cookie){.token = n ? tokens[0] : NULL};
    if (n > 1) {
        send_one(r, SESSION_COOKIE, "", 0);
        r->error_override.code = "ambiguous_session";
        return err_set(e, ERR_AUTH,
                       "the request carries cookies of different sessions, one of which another "
                       "program may have set; log in again");
    }
    out->outdated = n && request_secure(r) && !request_cookie(r, SESSION_COOKIE_SECURE);
    return true;
}

void session_cookie_send(struct request *r, const char *token, int64_t max_age_s)
{
    if (!request_secure(r)) {
        send_one(r, SESSION_COOKIE, token, max_age_s);
        return;
    }
    send_one(r, SESSION_COOKIE_SECURE, token, max_age_s);
    if (request_cookie(r, SESSION_COOKIE)) /* of an earlier version, or planted */
        send_one(r, SESSION_COOKIE, "", 0);
}
