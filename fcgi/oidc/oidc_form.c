/* oidc_form.h: every byte but the unreserved ones of RFC 3986 is escaped. */
#include "fcgi/oidc/oidc_form.h"

#include <string.h>

bool oidc_form_text(struct buf *b, const char *text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    buf_puts(b, "");
    for (const char *c = text; *c; c++)
        buf_printf(b, strchr(plain, *c) ? "%c" : "%%%02X", (unsigned char)*c);
    return !b->failed;
}

bool oidc_form_add(struct buf *b, const char *name, const char *value)
{
    buf_printf(b, "%s%s=", b->len && !buf_ends_with(b, '?') ? "&" : "", name);
    return oidc_form_text(b, value);
}
