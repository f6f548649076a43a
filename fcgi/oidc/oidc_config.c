/* oidc_config.h: the address that the provider sends browsers back to is the public one, or else
 * the one that this very browser has used: a wrong one is nothing that the provider knows. */
#include "fcgi/oidc/oidc_config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/arena.h"
#include "fcgi/http/request.h"
#include "sql/core/secret.h"

#define CALLBACK "/api/oidc/callback"

bool oidc_refuse(struct request *r, const char *code, struct err *e, const char *fmt, ...)
{
    char text[sizeof e->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    r->error_override.code = code;
    return err_set(e, ERR_FORBIDDEN, "%s", text);
}

bool oidc_on(const struct request *r)
{
    return strcmp(server_setting_text(r, SETTING_OIDC_POLICY), "off") != 0 &&
           *server_setting_text(r, SETTING_OIDC_ISSUER) &&
           *server_setting_text(r, SETTING_OIDC_CLIENT_ID);
}

const char *oidc_name(const struct request *r)
{
    const char *name = server_setting_text(r, SETTING_OIDC_NAME);
    const char *issuer = server_setting_text(r, SETTING_OIDC_ISSUER), *host = strstr(issuer, "://");
    if (*name || !host)
        return name;
    name = arena_copy(r->arena, host + 3, strcspn(host + 3, "/"));
    return name ? name : "";
}

const char *oidc_config_address(struct request *r)
{
    const char *given = server_setting_text(r, SETTING_OIDC_PUBLIC_URL);
    const char *host = request_header(r, "Host");
    size_t n = strlen(given);
    while (n && given[n - 1] == '/')
        n--;
    if (n)
        return arena_copy(r->arena, given, n);
    if (!host || !*host ||
        host[strspn(host, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:[]")])
        return NULL;
    return arena_printf(r->arena, "%s://%s", request_secure(r) ? "https" : "http", host);
}

bool oidc_config_read(struct request *r, struct oidc_config *c, struct err *e)
{
    const char *address = oidc_config_address(r);
    struct err why = {0};
    *c = (struct oidc_config){
        .creates = !strcmp(server_setting_text(r, SETTING_OIDC_POLICY), "create"),
        .issuer = server_setting_text(r, SETTING_OIDC_ISSUER),
        .client_id = server_setting_text(r, SETTING_OIDC_CLIENT_ID),
        .scopes = server_setting_text(r, SETTING_OIDC_SCOPES),
        .domains = server_setting_text(r, SETTING_OIDC_EMAIL_DOMAINS),
        .groups_claim = server_setting_text(r, SETTING_OIDC_GROUPS_CLAIM),
        .name = oidc_name(r),
        .redirect_uri = address ? arena_printf(r->arena, "%s" CALLBACK, address) : NULL};
    if (!oidc_on(r))
        return oidc_refuse(r, "oidc_off", e, "there is no sign-in by a provider here");
    if (!c->redirect_uri)
        return oidc_refuse(r, "oidc_config", e, "the browser does not say where it came to");
    return server_setting_secret(r, SETTING_OIDC_CLIENT_SECRET, c->secret, &why) ||
           oidc_refuse(r, "oidc_config", e, "%s", why.text);
}

void oidc_config_wipe(struct oidc_config *c)
{
    secret_wipe(c->secret, sizeof c->secret);
}
