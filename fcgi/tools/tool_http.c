/* tool_http.h: an easy handle per request. */
#include "fcgi/tools/tool_http.h"

#include <curl/curl.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "engine/base/clock.h"
#include "fcgi/config/setting_checks.h"
#include "fcgi/tools/tool_address.h"

#define CONNECT_MS 5000L

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

struct exchange {
    const struct tool_http *ask;
    struct tool_http_answer *answer;
    CURL *curl;
    size_t bytes;
    bool enough, too_large, stopped, bad_address;
};

static size_t take(char *data, size_t size, size_t n, void *context)
{
    struct exchange *x = context;
    const char *type = NULL;
    const size_t len = size * n;
    if (x->answer->status == 0)
        curl_easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &x->answer->status);
    x->bytes += len;
    x->too_large = x->bytes > TOOL_HTTP_BYTES;
    if (x->too_large)
        return 0;
    if (x->answer->status != 200 || !x->ask->take)
        return len; /* words about an error are nobody's here */
    curl_easy_getinfo(x->curl, CURLINFO_CONTENT_TYPE, &type);
    x->enough = !x->ask->take(x->ask->context, type ? type : "", data, len);
    return x->enough ? 0 : len;
}

/* The value of a line of the head, if it has this name (with its colon). NULL: it has another. */
static const char *value_of(const char *line, size_t len, const char *name, size_t *n)
{
    size_t at = strlen(name);
    if (len <= at || strncasecmp(line, name, at) != 0)
        return NULL;
    while (at < len && (line[at] == ' ' || line[at] == '\t'))
        at++;
    while (len > at && (unsigned char)line[len - 1] <= ' ')
        len--;
    *n = len - at;
    return line + at;
}

/* What does not fit whole is left out. */
static void add_challenge(struct tool_http_answer *answer, const char *value, size_t n)
{
    const size_t had = strlen(answer->challenge), comma = had ? 2 : 0;
    if (had + comma + n >= sizeof answer->challenge || memchr(value, '\0', n))
        return;
    memcpy(answer->challenge + had, ", ", comma);
    memcpy(answer->challenge + had + comma, value, n);
    answer->challenge[had + comma + n] = '\0';
}

static size_t take_header(char *line, size_t size, size_t n, void *context)
{
    struct exchange *x = context;
    size_t len = 0;
    const char *value = value_of(line, size * n, "mcp-session-id:", &len);
    if (value && len < TOOL_HTTP_SESSION) {
        memcpy(x->answer->session, value, len);
        x->answer->session[len] = '\0';
    }
    value = value_of(line, size * n, "www-authenticate:", &len);
    if (value)
        add_challenge(x->answer, value, len);
    return size * n;
}

static int look(void *context, curl_off_t dt, curl_off_t dn, curl_off_t ut, curl_off_t un)
{
    struct exchange *x = context;
    (void)dt, (void)dn, (void)ut, (void)un;
    x->stopped = x->stopped || (x->ask->stopped && x->ask->stopped(x->ask->context));
    return x->stopped;
}

static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *a)
{
    struct exchange *x = context;
    (void)purpose;
    x->answer->near = !tool_address_is_public(&a->addr);
    if (!x->ask->anywhere && x->answer->near) {
        x->bad_address = true;
        return CURL_SOCKET_BAD;
    }
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static struct curl_slist *head_of(const struct tool_http *h, bool *ok)
{
    struct curl_slist *list =
        curl_slist_append(NULL, "Accept: application/json, text/event-stream");
    *ok = list != NULL;
    if (*ok && h->body)
        *ok = curl_slist_append(list, "Content-Type: application/json") != NULL;
    for (int i = 0; *ok && i < TOOL_HTTP_LINES; i++)
        if (h->lines[i])
            *ok = !strpbrk(h->lines[i], "\r\n") && curl_slist_append(list, h->lines[i]) != NULL;
    return list;
}

static bool set_up(struct exchange *x, struct curl_slist *head)
{
    const struct tool_http *h = x->ask;
    CURL *c = x->curl;
    const double left = h->until - clock_ms();
    return !curl_easy_setopt(c, CURLOPT_URL, h->url) &&
           !curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, h->method) &&
           !(h->body && curl_easy_setopt(c, CURLOPT_POSTFIELDS, h->body)) &&
           !curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https,http") &&
           !curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) &&
           !curl_easy_setopt(c, CURLOPT_PROXY, "") && /* or a variable would decide */
           !curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) &&
           !curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) &&
           !curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, left < 1 ? 1L : (long)left) &&
           !curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 1L) &&
           !curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 2L) &&
           !curl_easy_setopt(c, CURLOPT_USERAGENT, "sluice") &&
           !curl_easy_setopt(c, CURLOPT_HTTPHEADER, head) &&
           !curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket) &&
           !curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, x) &&
           !curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L) &&
           !curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, look) &&
           !curl_easy_setopt(c, CURLOPT_XFERINFODATA, x) &&
           !curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take_header) &&
           !curl_easy_setopt(c, CURLOPT_HEADERDATA, x) &&
           !curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take) &&
           !curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
}

/* What went wrong, for people; addresses and names of hosts are the caller's to show. */
static bool explain(const struct exchange *x, CURLcode rc, struct err *e)
{
    if (x->stopped)
        return err_set(e, ERR_CANCELLED, "the call was stopped");
    if (x->too_large)
        return err_set(e, ERR_LIMIT, "the tool server's answer is larger than %zu bytes",
                       TOOL_HTTP_BYTES) ||
               err_reason(e, "tool_too_large");
    if (x->bad_address)
        return err_set(e, ERR_FORBIDDEN,
                       "the tool server lies in a private network, where users may add none") ||
               err_reason(e, "tool_address");
    if (rc == CURLE_OPERATION_TIMEDOUT)
        return err_set(e, ERR_UNAVAILABLE, "the tool server did not answer in time") ||
               err_reason(e, "tool_timeout");
    return err_set(e, ERR_UNAVAILABLE, "the tool server can't be reached: %s",
                   curl_easy_strerror(rc)) ||
           err_reason(e, "tool_unreachable");
}

bool tool_http_ask(const struct tool_http *h, struct tool_http_answer *out, struct err *e)
{
    bool ok = false;
    *out = (struct tool_http_answer){0};
    if (!setting_is_url(h->url, true))
        return err_set(e, ERR_UNAVAILABLE, "the tool server's address can't be asked") ||
               err_reason(e, "tool_unreachable");
    pthread_once(&once, init);
    struct exchange x = {.ask = h, .answer = out, .curl = curl_easy_init()};
    struct curl_slist *head = head_of(h, &ok);
    if (!x.curl || !ok || !set_up(&x, head)) {
        ok = err_set(e, ERR_NOMEM, "no memory to ask the tool server");
    } else {
        const CURLcode rc = curl_easy_perform(x.curl);
        ok = rc == CURLE_OK || x.enough;
        if (ok)
            curl_easy_getinfo(x.curl, CURLINFO_RESPONSE_CODE, &out->status);
        else
            explain(&x, rc, e);
    }
    curl_slist_free_all(head);
    curl_easy_cleanup(x.curl);
    return ok;
}
