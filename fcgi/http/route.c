/* route.h: the map of the API, and the way of one request through it. */
#define LOG_MODULE "http"
#include "fcgi/http/route.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "fcgi/http/cors.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"

#define STATUS_CLIENT_GONE 499 /* nginx's number for it; only in the log and the counters */

/* All rows in the tables' order. A row's place is its index for the counters. */
static const struct route *rows[SHARED_ROUTES];
static int n_rows;

static void list_rows(void)
{
    for (const struct route *const *t = route_tables; *t; t++)
        for (const struct route *row = *t; row->path; row++) {
            assert(n_rows <
                   SHARED_ROUTES - 1); /* the counters' last row is for requests without a route */
            rows[n_rows++] = row;
        }
}

int route_count(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, list_rows);
    return n_rows;
}

const struct route *route_at(int index)
{
    return index >= 0 && index < route_count() ? rows[index] : NULL;
}

/* Compares segment by segment, so that an escaped slash stays inside its segment. */
static bool path_matches(const char *pattern, const char *path)
{
    while (*pattern == '/' && *path == '/') {
        pattern++;
        path++;
        if (*pattern == '{') {
            const size_t len = strcspn(path, "/");
            if (!len)
                return false;
            pattern += strcspn(pattern, "/");
            path += len;
            continue;
        }
        while (*pattern && *pattern != '/' && *pattern == *path) {
            pattern++;
            path++;
        }
        if ((*pattern && *pattern != '/') || (*path && *path != '/'))
            return false;
    }
    return !*pattern && !*path;
}

/* Decodes the segments that a matching pattern names. False: one is not valid text, so the path is
 * none of this row's. */
static bool take_params(struct request *r, const char *pattern, const char *path)
{
    r->n_params = 0;
    while (*pattern == '/') {
        pattern++;
        path++;
        size_t want = strcspn(pattern, "/"), len = strcspn(path, "/");
        if (*pattern == '{') {
            char *value =
                r->n_params < REQUEST_MAX_PARAMS ? request_decode(r, path, len, false) : NULL;
            char *name = value ? arena_copy(r->arena, pattern + 1, want - 2) : NULL;
            if (!name)
                return false;
            r->params[r->n_params++] = (struct request_pair){name, value};
        }
        pattern += want;
        path += len;
    }
    return true;
}

static int count_names(const char *pattern)
{
    int n = 0;
    for (; (pattern = strchr(pattern, '{')); pattern++)
        n++;
    return n;
}

struct route_match route_find(struct request *r, enum http_method method, const char *path)
{
    struct route_match m = {.index = -1};
    enum http_method want = method == HTTP_HEAD ? HTTP_GET : method;
    const struct route *found = NULL; /* any row of the pattern with the fewest names */
    const int n = route_count();
    for (int i = 0; i < n; i++) {
        const struct route *row = rows[i];
        if (!path_matches(row->path, path) ||
            (found && count_names(row->path) > count_names(found->path)))
            continue;
        if (!found ||
            count_names(row->path) <
                count_names(found->path)) /* /responses/input_tokens is no id of /responses/{id} */
            m = (struct route_match){.index = -1};
        found = row;
        m.allowed |= 1u << row->method;
        if (row->method == HTTP_GET)
            m.allowed |= 1u << HTTP_HEAD;
        if (row->method == want) {
            m.route = row;
            m.index = i;
        }
    }
    if (found && !take_params(r, found->path, path)) /* a segment is not valid text */
        m = (struct route_match){.index = -1};
    if (!m.route)
        r->n_params = 0;
    return m;
}

static bool refuse_method(struct request *r, unsigned allowed, struct err *e)
{
    struct buf list = {0};
    for (int i = 0; i < HTTP_OTHER; i++)
        if (allowed & 1u << i)
            buf_printf(&list, "%s%s", list.len ? ", " : "", http_method_name((enum http_method)i));
    if (list.data)
        reply_header(r, "Allow", list.data);
    err_set(e, ERR_INPUT, "this path takes %s", list.data ? list.data : "nothing");
    if (r->method == HTTP_OPTIONS)
        cors_preflight(r, list.data ? list.data : "");
    buf_fini(&list);
    if (r->method == HTTP_OPTIONS)
        return reply_empty(r, 204);
    r->error_override.status = 405;
    r->error_override.code = "method_not_allowed";
    return false;
}

static bool authorise(struct request *r, struct err *e)
{
    const struct http_hooks *hooks = r->worker->hooks;
    if (hooks && hooks->authorise)
        return hooks->authorise(r, e);
    return r->route->auth == ROUTE_OPEN ||
           err_set(e, ERR_UNAVAILABLE, "nobody can be authorised here");
}

static bool refuse_path(struct request *r, struct err *e)
{
    const char *meant = route_hint(r);
    if (meant)
        return err_set(e, ERR_NOTFOUND,
                       "there is nothing at this path; the API is under /v1: did you mean %s?",
                       meant);
    return err_set(
        e, ERR_NOTFOUND,
        "there is nothing at this path; the API is under /v1, and /openapi.json lists its paths");
}

static bool dispatch(struct request *r, struct err *e)
{
    struct route_match m = route_find(r, r->method, r->path);
    cors_headers(r);
    if (!m.allowed)
        return refuse_path(r, e);
    if (!m.route)
        return refuse_method(r, m.allowed, e);
    const bool misled = m.route->pool == POOL_STREAM && r->worker->pool == POOL_SHORT &&
                        !r->authorise_only; /* any pool can tell who may do what */
    /* nginx read an encoded slash or dots as part of the path, which no id has */
    if (misled && strchr(r->path, '%'))
        return err_set(e, ERR_NOTFOUND, "there is nothing at this path");
    r->route = m.route;
    r->route_index = m.index;
    if (misled) {
        log_error("path=%s arrived at the short pool: nginx must send it to the stream pool",
                  m.route->path);
        return err_set(e, ERR_UNAVAILABLE, "the server's nginx sends this path to the wrong pool");
    }
    if (r->authorise_only)
        return authorise(r, e) && reply_empty(r, 204);
    const bool whole = m.route->body_limit && !m.route->doc.upload;
    return authorise(r, e) && (!whole || request_read_body(r, e)) && m.route->handler(r, e);
}

void route_counts(struct request *r)
{
    struct shared *s = r->worker->shared;
    uint64_t total = clock_ns() - r->begin_ns;
    uint64_t overhead = total > r->engine_ns ? total - r->engine_ns : 0;
    bool stream = r->route && r->route->pool == POOL_STREAM;
    if (r->counted)
        return;
    r->counted = true;
    shared_count_request(s, r->route_index, r->status);
    if (r->status >= 500 && !(r->status == 503 && r->route && r->route->probe))
        atomic_fetch_add_explicit(&s->http_errors, 1, memory_order_relaxed);
    shared_observe(&s->overhead, overhead);
    shared_observe(stream ? &s->duration_stream : &s->duration_short, total);
    if (r->first_byte_ns > r->begin_ns)
        shared_observe(&s->first_byte, r->first_byte_ns - r->begin_ns);
    atomic_fetch_add_explicit(&s->bytes_out, r->bytes_out, memory_order_relaxed);
}

static void write_log(const struct request *r)
{
    uint64_t total = clock_ns() - r->begin_ns;
    uint64_t overhead = total > r->engine_ns ? total - r->engine_ns : 0;
    const bool poll = r->route && r->route->polled && r->status < 400;
    log_write(poll ? LOG_DEBUG : LOG_INFO, LOG_MODULE,
              "id=%s method=%s route=%s status=%d ms=%.1f overhead_ms=%.2f in=%zu out=%llu "
              "user=%lld key=%lld job=%llu "
              "prompt=%d completion=%d%s",
              r->id, http_method_name(r->method), r->route ? r->route->path : "-", r->status,
              (double)total / 1e6, (double)overhead / 1e6, r->body_len,
              (unsigned long long)r->bytes_out, (long long)r->who.user_id, (long long)r->who.key_id,
              (unsigned long long)r->job, (int)r->prompt_tokens, (int)r->completion_tokens,
              r->client_gone ? " gone=1" : "");
}

static void count_and_log(struct request *r)
{
    route_counts(r);
    if (r->client_gone)
        atomic_fetch_add_explicit(&r->worker->shared->client_gone, 1, memory_order_relaxed);
    write_log(r);
}

void route_serve(struct request *r, const struct err *refused)
{
    struct err e = {0};
    bool ok = !refused && dispatch(r, &e);
    if (refused)
        e = *refused;
    if (!ok && e.code == ERR_CANCELLED)
        request_client_gone(r);
    if (!ok && r->client_gone && !r->replied) {
        r->status = STATUS_CLIENT_GONE; /* nobody is there to read a reply */
    } else if (!ok) {
        const int status = reply_error_status(r, &e);
        if (status >= 500)
            log_warn("id=%s status=%d code=%s: %s", r->id, status, err_code_name(e.code), e.text);
        if (!r->replied && r->authorise_only)
            reply_refusal(r, &e);
        else if (!r->replied)
            reply_error(r, &e);
    } else if (!r->replied) {
        reply_error(r, &(struct err){.code = ERR_INTERNAL, .text = "the handler sent no reply"});
    }
    if (!r->authorise_only || r->status >= 400) /* what was let through is counted when it comes */
        count_and_log(r);
}
