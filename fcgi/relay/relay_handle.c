/* relay_handle.h: a list for each upstream; what its address or key was changed after goes. */
#include "fcgi/relay/relay_handle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "fcgi/relay/relay.h"
#include "fcgi/relay/upstreams.h"

static bool add_header(struct curl_slist **list, const char *name, const char *value)
{
    struct buf line = {0};
    const bool sound = !strpbrk(value, "\r\n") && buf_printf(&line, "%s%s", name, value);
    struct curl_slist *more = sound ? curl_slist_append(*list, line.data) : NULL;
    buf_fini(&line);
    if (more)
        *list = more;
    return more != NULL;
}

static bool set_all(struct relay_handle *h, const struct upstream *to)
{
    const struct relay_dialect *d = to->dialect;
    struct buf url = {0};
    CURL *c = h->easy;
    buf_printf(&url, "%s%s", to->url, h->path);
    const bool ok = !url.failed && (!h->via[0] || add_header(&h->headers, "Via: ", h->via)) &&
                    add_header(&h->headers, "Content-Type: ", "application/json") &&
                    add_header(&h->headers, "Expect:", "") &&
                    (!to->key || add_header(&h->headers, d->key_header, to->key)) &&
                    (!d->header || add_header(&h->headers, d->header, "")) &&
                    !curl_easy_setopt(c, CURLOPT_URL, url.data) &&
                    !curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https,http") &&
                    !curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) &&
                    !curl_easy_setopt(c, CURLOPT_PROXY, "") && /* or a variable would decide */
                    !curl_easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED) &&
                    !curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) &&
                    !curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
                    !curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, RELAY_CONNECT_MS) &&
                    !curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 1L) &&
                    !curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 2L) &&
                    !curl_easy_setopt(c, CURLOPT_USERAGENT, "sluice") &&
                    !curl_easy_setopt(c, CURLOPT_HTTPHEADER, h->headers);
    buf_fini(&url);
    return ok;
}

static void destroy(struct relay_handle *h)
{
    curl_easy_cleanup(h->easy); /* accepts NULL; first, since it holds the headers */
    curl_slist_free_all(h->headers);
    free(h);
}

static struct relay_handle *make(const struct upstream *to, const char *path, const char *via)
{
    struct relay_handle *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->path = path;
    h->made = to->turn;
    snprintf(h->via, sizeof h->via, "%s", via ? via : "");
    h->easy = curl_easy_init();
    if (h->easy && set_all(h, to))
        return h;
    destroy(h);
    return NULL;
}

struct relay_handle *relay_handle_take(struct upstream *to, const char *path, const char *via)
{
    for (struct relay_handle **at = &to->handles; *at;) {
        struct relay_handle *h = *at;
        const bool current = h->made == to->turn;
        if (current && (h->path != path || strcmp(h->via, via ? via : "") != 0)) {
            at = &h->next;
            continue;
        }
        *at = h->next;
        to->n_handles--;
        if (current)
            return h;
        destroy(h);
    }
    return make(to, path, via);
}

void relay_handle_give(struct upstream *to, struct relay_handle **at, bool keep)
{
    struct relay_handle *h = *at;
    *at = NULL;
    if (!h)
        return;
    if (!keep || to->n_handles >= RELAY_HANDLES_KEPT) {
        destroy(h);
        return;
    }
    curl_easy_setopt(h->easy, CURLOPT_ERRORBUFFER, NULL); /* it goes with its request */
    h->next = to->handles;
    to->handles = h;
    to->n_handles++;
}

void relay_handles_close(struct upstream *to)
{
    while (to->handles) {
        struct relay_handle *h = to->handles;
        to->handles = h->next;
        destroy(h);
    }
    to->n_handles = 0;
}
