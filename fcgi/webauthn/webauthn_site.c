/* webauthn.h: which names can have passkeys. Browsers bind them to a host's name, never to an
 * address, and only where the page comes by TLS or from the machine itself. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fcgi/webauthn/webauthn.h"

#define HOST_MAX (WEBAUTHN_RP_ID_SIZE - 1)

/* Letters, digits, hyphens and dots, in lower case; not empty between dots. */
static bool is_name(const char *host, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)host[i];
        const bool dot = c == '.';
        if (!islower(c) && !isdigit(c) && c != '-' && !dot)
            return false;
        if (dot && (i == 0 || i + 1 == len || host[i - 1] == '.'))
            return false;
    }
    return len && len <= HOST_MAX;
}

/* The last label of a name is never all digits (RFC 3696), that of an address always is. */
static bool is_address(const char *host, size_t len)
{
    size_t at = len;
    while (at && host[at - 1] != '.')
        at--;
    return strspn(host + at, "0123456789") >= len - at;
}

static bool is_local(const char *host, size_t len)
{
    static const char local[] = "localhost";
    const size_t n = sizeof local - 1;
    return len >= n && !memcmp(host + len - n, local, n) && (len == n || host[len - n - 1] == '.');
}

static bool is_port(const char *text)
{
    const size_t n = strspn(text, "0123456789");
    return n && n <= 5 && !text[n] && text[0] != '0' && atoi(text) <= 65535;
}

bool webauthn_site_of(const char *origin, struct webauthn_site *out, struct err *e)
{
    const bool tls = !strncmp(origin, "https://", 8);
    if (!tls && strncmp(origin, "http://", 7))
        return err_set(e, ERR_INPUT, "passkeys need an origin such as https://chat.example.org");
    const char *host = origin + (tls ? 8 : 7);
    const size_t len = strcspn(host, ":/?#");
    const char *port = host[len] == ':' ? host + len + 1 : NULL;
    if (*host == '[' || (is_name(host, len) && is_address(host, len)))
        return err_set(e, ERR_INPUT, "passkeys need a host's name, not an address%s",
                       tls ? ""
                           : ": on this "
                             "machine open the page by http://localhost");
    if (!is_name(host, len) || (port ? !is_port(port) : host[len] != '\0'))
        return err_set(e, ERR_INPUT,
                       "passkeys need an origin such as https://chat.example.org, in lower case "
                       "and without a path");
    if (!tls && !is_local(host, len))
        return err_set(e, ERR_INPUT, "passkeys need HTTPS, but for localhost");
    if (port && !strcmp(port, tls ? "443" : "80"))
        port = NULL; /* browsers leave it out */
    snprintf(out->rp_id, sizeof out->rp_id, "%.*s", (int)len, host);
    snprintf(out->origin, sizeof out->origin, "%s%s%s%s", tls ? "https://" : "http://", out->rp_id,
             port ? ":" : "", port ? port : "");
    return true;
}
