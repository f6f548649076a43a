/* oidc_http.h: an easy handle per request. A connection is not worth keeping for a sign-in now and
 * then. */
#include "fcgi/oidc/oidc_http.h"

#include <curl/curl.h>
#include <pthread.h>
#include <string.h>

#include "engine/base/clock.h"
#include "fcgi/config/setting_checks.h"

#define CONNECT_MS 5000L
#define REQUEST_MS 10000L

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static size_t take(char *data, size_t size, size_t n, void *context)
{
    return buf_append(context, data, size * n) ? size * n : 0;
}

static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *a)
{
    const struct oidc_http *h = context;
    (void)purpose;
    return h->may_connect(&a->addr) ? socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol)
                                    : CURL_SOCKET_BAD;
}

static struct curl_slist *headers_of(const struct oidc_http *h, bool *ok)
{
    struct curl_slist *list = curl_slist_append(NULL, "Accept: application/json"), *more = list;
    if (h->bearer && list) {
        struct buf line = {0};
        more =
            buf_printf(&line, "Authorization: Bearer %s", h->bearer) && !strpbrk(h->bearer, "\r\n")
                ? curl_slist_append(list, line.data)
                : NULL;
        buf_fini(&line);
    }
    if (h->json && more)
        more = curl_slist_append(list, "Content-Type: application/json");
    *ok = more != NULL;
    return list;
}

static bool set_up(CURL *c, const struct oidc_http *h, struct curl_slist *headers, struct buf *out)
{
    const double left = h->until - clock_ms();
    const long ms = left < 1 ? 1 : left > REQUEST_MS ? REQUEST_MS : (long)left;
    bool ok = !curl_easy_setopt(c, CURLOPT_URL, h->url) &&
              !curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https,http") &&
              !curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) &&
              !curl_easy_setopt(c, CURLOPT_PROXY, "") && /* or a variable would decide */
              !curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) &&
              !curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) &&
              !curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, ms) &&
              !curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 1L) &&
              !curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 2L) &&
              !curl_easy_setopt(c, CURLOPT_USERAGENT, "sluice") &&
              !curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers) &&
              !curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take) &&
              !curl_easy_setopt(c, CURLOPT_WRITEDATA, out);
    if (ok && (h->form || h->json))
        ok = !curl_easy_setopt(c, CURLOPT_POSTFIELDS, h->form ? h->form : h->json);
    if (ok && h->may_connect)
        ok = !curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket) &&
             !curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, h);
    if (ok && h->user)
        ok = !curl_easy_setopt(c, CURLOPT_HTTPAUTH, CURLAUTH_BASIC) &&
             !curl_easy_setopt(c, CURLOPT_USERNAME, h->user) &&
             !curl_easy_setopt(c, CURLOPT_PASSWORD, h->secret);
    return ok;
}

bool oidc_http_ask(const struct oidc_http *h, struct buf *out, long *status, struct err *e)
{
    bool ok = false;
    *out = (struct buf){.limit = OIDC_HTTP_BYTES};
    if (!setting_is_url(h->url, true))
        return err_set(e, ERR_UNAVAILABLE, "%.200s is no address that is asked", h->url);
    pthread_once(&once, init);
    CURL *c = curl_easy_init();
    struct curl_slist *headers = headers_of(h, &ok);
    if (!c || !ok || !set_up(c, h, headers, out)) {
        err_set(e, ERR_NOMEM, "no memory to ask the provider");
        ok = false;
    } else {
        const CURLcode rc = curl_easy_perform(c);
        ok = rc == CURLE_OK && curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, status) == CURLE_OK &&
             buf_append(out, "", 0);
        if (!ok)
            err_set(e, ERR_UNAVAILABLE, "%.200s: %s", h->url,
                    out->failed ? "the answer is too large" : curl_easy_strerror(rc));
    }
    curl_slist_free_all(headers);
    curl_easy_cleanup(c);
    if (!ok)
        buf_fini(out);
    return ok;
}
