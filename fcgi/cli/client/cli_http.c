/* A request to a server, and what went wrong with it in words that name the next step. */
#include "fcgi/cli/client/cli_http.h"

#include <curl/curl.h>
#include <string.h>

#include "config.h"
#include "engine/base/json/json.h"

enum { MAX_ANSWER = 64 << 20, MAX_ERROR = 1 << 16 };

struct exchange {
    const struct cli_http_call *call;
    struct buf *out;
    CURL *curl;
    bool cancelled;
};

static size_t take(char *data, size_t one, size_t n, void *context)
{
    struct exchange *x = context;
    long status = 0;
    n *= one;
    curl_easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &status);
    if (x->call->on_data && status < 400) {
        x->cancelled = !x->call->on_data(x->call->context, data, n);
        return x->cancelled ? 0 : n;
    }
    return x->out->len + n <= MAX_ANSWER && buf_append(x->out, data, n) ? n : 0;
}

/* The server's own words: OpenAI's form, or a plain text where something else answers. */
static bool refused(const struct cli_http *h, const struct buf *out, long status, struct err *e)
{
    cJSON *o = out->len && out->len < MAX_ERROR
                   ? json_parse(out->data, out->len, &(struct json_limits){0}, NULL)
                   : NULL;
    const cJSON *error = o ? json_member(o, "error") : NULL;
    const char *said = json_text(error, "message"), *param = json_text(error, "param");
    enum err_code code = status == 401   ? ERR_AUTH
                         : status == 403 ? ERR_FORBIDDEN
                         : status == 404 ? ERR_NOTFOUND
                         : status < 500  ? ERR_INPUT
                                         : ERR_UNAVAILABLE;
    if (status == 401)
        err_set(e, code,
                "%s wants another API key; give one by --key-file (made on the page under "
                "Account, or by `sluice key add USER`)",
                h->url);
    else if (said)
        err_field(e, code, param ? param : "", "%.250s", said);
    else
        err_set(e, code, "%s answered with status %ld: is it a Sluice server?", h->url, status);
    cJSON_Delete(o);
    return false;
}

static bool set_up(struct exchange *x, const struct cli_http *h, struct curl_slist **headers,
                   struct err *e)
{
    struct buf url = {0}, auth = {0}, type = {0};
    CURL *c = x->curl;
    bool ok =
        buf_printf(&url, "%s%s", h->url, x->call->path) &&
        buf_printf(&auth, "Authorization: Bearer %s", h->key ? h->key : "") &&
        buf_printf(&type, "Content-Type: %s", x->call->type ? x->call->type : "application/json") &&
        curl_easy_setopt(c, CURLOPT_URL, url.data) == CURLE_OK;
    if (ok && h->key)
        *headers = curl_slist_append(*headers, auth.data);
    if (ok && x->call->body)
        *headers = curl_slist_append(*headers, type.data);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, *headers);
    curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, x->call->method);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "sluice/" PACKAGE_VERSION);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, 10000L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
    if (x->call->body) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, x->call->body);
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->call->body_len);
    }
    buf_fini(&url);
    buf_fini(&auth);
    buf_fini(&type);
    return ok || err_set(e, ERR_NOMEM, "out of memory");
}

bool cli_http_do(const struct cli_http *h, const struct cli_http_call *call, struct buf *out,
                 long *status, struct err *e)
{
    struct exchange x = {.call = call, .out = out, .curl = curl_easy_init()};
    struct curl_slist *headers = NULL;
    long got = 0;
    bool ok = x.curl ? set_up(&x, h, &headers, e) : err_set(e, ERR_NOMEM, "out of memory");
    if (ok) {
        CURLcode code = curl_easy_perform(x.curl);
        curl_easy_getinfo(x.curl, CURLINFO_RESPONSE_CODE, &got);
        if (x.cancelled)
            ok = err_set(e, ERR_CANCELLED, "stopped");
        else if (code == CURLE_COULDNT_CONNECT)
            ok = err_set(e, ERR_UNAVAILABLE,
                         "nobody answers at %s; start a server there with `sluice up`, or give "
                         "another address by --url",
                         h->url);
        else if (code != CURLE_OK)
            ok = err_set(e, ERR_UNAVAILABLE, "%s: %s", h->url, curl_easy_strerror(code));
        else if (got >= 400)
            ok = refused(h, out, got, e);
    }
    if (status)
        *status = got;
    curl_slist_free_all(headers);
    curl_easy_cleanup(x.curl);
    return ok;
}

bool cli_http_url(const char *text, char *out, size_t size, struct err *e)
{
    size_t n = strlen(text);
    while (n && text[n - 1] == '/')
        n--;
    if ((strncmp(text, "http://", 7) && strncmp(text, "https://", 8)) || n < 8 ||
        text[strcspn(text, " \t\r\n\"'\\")])
        return err_field(e, ERR_INPUT, "url", "must be an address such as http://127.0.0.1:8080");
    if (n >= 3 && !strncmp(text + n - 3, "/v1", 3))
        n -= 3; /* what clients are told is as good */
    if (n >= size)
        return err_field(e, ERR_LIMIT, "url", "is too long");
    memcpy(out, text, n);
    out[n] = '\0';
    return true;
}
