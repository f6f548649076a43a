/* request.h: FastCGI's parameters and body as one HTTP request. */
#include "fcgi/http/request.h"

#include <errno.h>
#include <fcgiapp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "engine/base/clock.h"
#include "engine/base/json/json.h"
#include "engine/engine.h"
#include "fcgi/http/work.h"
#include "fcgi/process/worker.h"

#define MAX_PATH_BYTES 4096

bool request_init(struct request *r, struct FCGX_Request *fcgx, const struct worker *w)
{
    *r = (struct request){.fcgx = fcgx, .worker = w, .arena = arena_create(REQUEST_ARENA_BYTES)};
    return r->arena != NULL;
}

void request_fini(struct request *r)
{
    engine_kept_close(&r->relay_kept);
    buf_fini(&r->headers);
    arena_destroy(&r->arena);
}

static const char *cgi_param(const struct request *r, const char *name)
{
    return FCGX_GetParam(name, r->fcgx->envp);
}

static void make_id(struct request *r)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char random[12] = {0};
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        memcpy(random, &r->begin_ns, sizeof r->begin_ns);
    char *to = r->id;
    for (const char *c = "req_"; *c; c++)
        *to++ = *c;
    for (size_t i = 0; i < sizeof random; i++) {
        *to++ = digits[random[i] >> 4];
        *to++ = digits[random[i] & 15];
    }
    *to = '\0';
}

static bool split_uri(struct request *r, struct err *e)
{
    const char *uri = cgi_param(r, "REQUEST_URI");
    r->path = r->query = "";
    if (!uri || uri[0] != '/')
        return err_set(e, ERR_INPUT, "the request's path must begin with '/'");
    size_t len = strcspn(uri, "?#");
    if (len > MAX_PATH_BYTES)
        return err_set(e, ERR_INPUT, "the request's path has %zu bytes, at most %d are taken", len,
                       MAX_PATH_BYTES);
    char *path = arena_copy(r->arena, uri, len);
    char *query = arena_strdup(r->arena, uri[len] == '?' ? uri + len + 1 : "");
    if (!path || !query)
        return err_set(e, ERR_NOMEM, "no memory for the request's path");
    r->path = path;
    r->query = query;
    return true;
}

bool request_begin(struct request *r, struct store *store, struct err *e)
{
    struct request fresh = {.arena = r->arena,
                            .worker = r->worker->first ? r->worker->first : r->worker,
                            .fcgx = r->fcgx,
                            .slot = r->slot,
                            .child = r->child,
                            .relay_kept = r->relay_kept,
                            .headers = r->headers,
                            .store = store,
                            .begin_ns = clock_ns(),
                            .route_index = -1};
    *r = fresh;
    buf_clear(&r->headers);
    make_id(r);
    const char *method = cgi_param(r, "REQUEST_METHOD");
    r->method = http_method_from_name(method ? method : "");
    r->authorise_only = cgi_param(r, "SLUICE_AUTHORISE_ONLY") != NULL;
    return split_uri(r, e);
}

void request_end(struct request *r)
{
    work_end_all(r);
    cJSON_Delete(r->json);
    r->json = NULL;
    FCGX_Finish_r(r->fcgx);
    arena_reset(r->arena);
}

/* Content-Length as sent; -1: absent; -2: not a number. */
static int64_t content_length(const struct request *r)
{
    const char *text = cgi_param(r, "CONTENT_LENGTH");
    if (!text || !*text)
        return -1;
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    return *end || errno || n < 0 ? -2 : n;
}

/* How much is to come; 0: no body. */
static bool announced_length(struct request *r, size_t limit, size_t *len, struct err *e)
{
    int64_t n = content_length(r);
    if (n == -2) {
        return err_set(e, ERR_INPUT, "Content-Length is not a number");
    } else if (n == -1 && cgi_param(r, "HTTP_TRANSFER_ENCODING")) {
        r->error_override.status = 411;
        r->error_override.code = "length_required";
        return err_set(e, ERR_INPUT, "a body needs a Content-Length");
    }
    if (n > 0 && (uint64_t)n > limit) {
        r->error_override.status = 413;
        r->error_override.code = "request_too_large";
        return err_set(e, ERR_LIMIT, "the body has %lld bytes, at most %zu are taken here",
                       (long long)n, limit);
    }
    *len = n > 0 ? (size_t)n : 0;
    return true;
}

bool request_read_body(struct request *r, struct err *e)
{
    size_t len = 0;
    if (!announced_length(r, r->route->body_limit, &len, e))
        return false;
    if (!len)
        return true;
    char *body = arena_alloc(r->arena, len + 1);
    if (!body)
        return err_set(e, ERR_NOMEM, "no memory for a body of %zu bytes", len);
    int got = FCGX_GetStr(body, (int)len, r->fcgx->in);
    if (got < (int)len)
        return err_set(e, ERR_INPUT, "the body ended after %d of %zu bytes", got, len);
    r->body = body;
    r->body_len = len;
    return true;
}

bool request_body_begin(struct request *r, size_t limit, size_t *len, struct err *e)
{
    return announced_length(r, limit, len, e) &&
           (*len || err_set(e, ERR_INPUT, "the request has no body"));
}

size_t request_body_read(struct request *r, void *to, size_t size)
{
    int got = FCGX_GetStr(to, size > (1 << 20) ? 1 << 20 : (int)size, r->fcgx->in);
    if (got > 0)
        r->body_len += (size_t)got;
    return got > 0 ? (size_t)got : 0;
}

static bool is_json_type(const char *type)
{
    size_t n = strcspn(type, "; \t");
    return (n == 16 && !strncasecmp(type, "application/json", n)) ||
           (n > 5 && !strncasecmp(type + n - 5, "+json", 5) &&
            !strncasecmp(type, "application/", 12));
}

cJSON *request_json(struct request *r, struct err *e)
{
    if (r->json)
        return r->json;
    const char *type = cgi_param(r, "CONTENT_TYPE");
    if (!r->body) {
        err_set(e, ERR_INPUT, "the request has no body; a JSON object is expected");
        return NULL;
    }
    const bool any_type = r->route && r->route->doc.any_type;
    if (!any_type && (!type || !is_json_type(type))) {
        r->error_override.status = 415;
        r->error_override.code = "unsupported_media_type";
        err_set(e, ERR_INPUT, "Content-Type must be application/json");
        return NULL;
    }
    if (json_count_values(r->body, r->body_len) > REQUEST_MAX_JSON_VALUES) {
        r->error_override.status = 413;
        r->error_override.code = "request_too_large";
        err_set(e, ERR_LIMIT, "the JSON body holds more than %zu values", REQUEST_MAX_JSON_VALUES);
        return NULL;
    }
    cJSON *v = json_parse(r->body, r->body_len, &(struct json_limits){.max_depth = 128}, e);
    if (v && !cJSON_IsObject(v)) {
        err_set(e, ERR_INPUT, "the body must be a JSON object");
        cJSON_Delete(v);
        return NULL;
    }
    if (!v && !r->error_override.code)
        r->error_override.code = "invalid_json";
    r->json = v;
    return v;
}

const char *request_param(const struct request *r, const char *name)
{
    for (int i = 0; i < r->n_params; i++)
        if (!strcmp(r->params[i].name, name))
            return r->params[i].value;
    return NULL;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

char *request_decode(struct request *r, const char *text, size_t len, bool plus_is_space)
{
    char *out = arena_alloc(r->arena, len + 1), *to = out;
    if (!out)
        return NULL;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '%') {
            int high = len - i > 2 ? hex_digit(text[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
            if (low < 0 || (high == 0 && low == 0))
                return NULL;
            *to++ = (char)(high << 4 | low);
            i += 2;
        } else {
            *to++ = text[i] == '+' && plus_is_space ? ' ' : text[i];
        }
    }
    *to = '\0';
    return out;
}

int request_query_all(struct request *r, const char *name, const char **out, int max)
{
    const size_t want = strlen(name);
    int n = 0;
    for (const char *p = r->query; *p;) {
        size_t len = strcspn(p, "&");
        const char *equals = memchr(p, '=', len);
        size_t name_len = equals ? (size_t)(equals - p) : len;
        if (name_len == want && !memcmp(p, name, want) && n++ < max)
            out[n - 1] =
                request_decode(r, equals ? equals + 1 : "", equals ? len - want - 1 : 0, true);
        p += len + (p[len] == '&');
    }
    return n;
}

const char *request_query(struct request *r, const char *name)
{
    const char *first = NULL;
    request_query_all(r, name, &first, 1);
    return first;
}

bool request_query_int(struct request *r, const char *name, int64_t min, int64_t max, int64_t *out,
                       struct err *e)
{
    const char *text = request_query(r, name);
    if (!text)
        return true;
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (!*text || *end || errno || v < min || v > max)
        return err_field(e, ERR_INPUT, name, "must be a whole number from %lld to %lld",
                         (long long)min, (long long)max);
    *out = v;
    return true;
}

const char *request_header(const struct request *r, const char *name)
{
    char key[72] = "HTTP_";
    size_t n = 5;
    for (const char *c = name; *c && n < sizeof key - 1; c++)
        key[n++] = *c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 32) : *c;
    key[n] = '\0';
    const char *value = cgi_param(r, key);
    return value ? value
                 : cgi_param(r, key + 5); /* CONTENT_TYPE and CONTENT_LENGTH have no prefix */
}

int request_cookie_all(struct request *r, const char *name, const char **out, int max)
{
    const char *all = cgi_param(r, "HTTP_COOKIE");
    size_t want = strlen(name);
    int n = 0;
    while (all && *all) {
        all += strspn(all, "; ");
        size_t len = strcspn(all, ";");
        if (len > want && !memcmp(all, name, want) && all[want] == '=' && n++ < max)
            out[n - 1] = arena_copy(r->arena, all + want + 1, len - want - 1);
        all += len;
    }
    return n;
}

const char *request_cookie(struct request *r, const char *name)
{
    const char *first = NULL;
    request_cookie_all(r, name, &first, 1);
    return first;
}

const char *request_server(const struct request *r)
{
    return cgi_param(r, "SERVER_SOFTWARE");
}

const char *request_remote(const struct request *r)
{
    const char *a = cgi_param(r, "REMOTE_ADDR");
    return a ? a : "";
}

bool request_secure(const struct request *r)
{
    const char *scheme = cgi_param(r, "REQUEST_SCHEME");
    return scheme && !strcmp(scheme, "https");
}

int request_client_fd(const struct request *r)
{
    return r->fcgx->ipcFd;
}

bool request_client_gone(struct request *r)
{
    struct pollfd p = {.fd = r->fcgx->ipcFd, .events = POLLRDHUP};
    if (!r->client_gone && poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR))
        r->client_gone = true;
    return r->client_gone;
}
