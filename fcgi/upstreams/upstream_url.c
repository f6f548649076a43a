/* upstream_url.h: the address is checked as a text; libcurl refuses what is left. */
#include "fcgi/upstreams/upstream_url.h"

#include <string.h>

bool upstream_url_read(const char *url, char out[UPSTREAM_URL_BYTES + 1], struct err *e)
{
    size_t len = url ? strlen(url) : 0;
    const char *host = !len                           ? NULL
                       : !strncmp(url, "https://", 8) ? url + 8
                       : !strncmp(url, "http://", 7)  ? url + 7
                                                      : NULL;
    if (!host || len > UPSTREAM_URL_BYTES)
        return err_field(e, ERR_INPUT, "url",
                         "must be an address that begins with https:// or "
                         "http://");
    while (len && url[len - 1] == '/')
        len--;
    if (host >= url + len || strchr("/:?#@", *host))
        return err_field(e, ERR_INPUT, "url", "names no host");
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)url[i] <= ' ' || (unsigned char)url[i] >= 0x7f ||
            strchr("?#@\\\"<>", url[i]))
            return err_field(e, ERR_INPUT, "url",
                             "must have no user, query, fragment, blanks or special characters");
    memcpy(out, url, len);
    out[len] = 0;
    return true;
}
