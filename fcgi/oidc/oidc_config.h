/* What the settings say about the provider of sign-ins, for one request. Thread: the request's. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"
#include "fcgi/config/server_settings.h"

struct request;

struct oidc_config {
    bool creates; /* oidc_policy: accounts are made on the first sign-in */
    const char *issuer, *client_id, *scopes, *domains;
    const char *groups_claim;              /* "": none is asked for */
    const char *name;                      /* as people read it */
    const char *redirect_uri;              /* where the provider sends browsers back to */
    char secret[SETTING_SECRET_BYTES + 1]; /* "": a public client */
};
/* Is there a provider by whom one signs in? */
bool oidc_on(const struct request *r);
/* Where browsers reach this server, without a / at its end, in the request's arena: the setting, or
 * what this very browser used. NULL: it does not say. */
const char *oidc_config_address(struct request *r);
/* What the button calls it. */
const char *oidc_name(const struct request *r);
/* False: *e, and a code of its own in r->error_override: oidc_off, oidc_config. The caller wipes
 * the secret by oidc_config_wipe. */
bool oidc_config_read(struct request *r, struct oidc_config *c, struct err *e);
void oidc_config_wipe(struct oidc_config *c);
/* Sets r->error_override.code and *e; false. */
bool oidc_refuse(struct request *r, const char *code, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
