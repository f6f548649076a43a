/* Fetches what the hub answers as one JSON text: a repository's list of files, a search. */
#include <stdlib.h>
#include <time.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "fcgi/cli/pull/pull_http.h"

struct list {
    struct buf body;
    struct pull_request request; /* for its headers */
};

static int on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const struct pull *p = context;
    return *p->stop;
}

static size_t on_list(char *data, size_t one, size_t n, void *context)
{
    struct list *list = context;
    return buf_append(&list->body, data, n) ? n : 0;
}

bool pull_wait(const struct pull *p, double s)
{
    for (uint64_t until = clock_ns() + (uint64_t)(s * 1e9); clock_ns() < until && !*p->stop;)
        nanosleep(&(struct timespec){0, 50000000}, NULL);
    return !*p->stop;
}

static bool get(struct pull *p, struct list *list, CURL *c, struct err *e)
{
    for (int tries = 0;; tries++) {
        long status = 0;
        buf_clear(&list->body);
        pull_answer_forget(&list->request.answer);
        CURLcode code = curl_easy_perform(c);
        curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
        if (code == CURLE_OK && status == 200)
            return true;
        if (list->body.failed)
            return err_set(e, ERR_LIMIT, "the hub's answer is over %zu MiB",
                           list->body.limit >> 20);
        if (*p->stop)
            return err_set(e, ERR_CANCELLED, "stopped");
        if (!pull_may_pass(code, status) || tries + 1 >= PULL_TRIES) {
            if (code == CURLE_OK)
                return pull_refused(e, p, NULL, status);
            return err_set(e, ERR_IO, "%.150s: %s", p->endpoint, curl_easy_strerror(code));
        }
        int after = list->request.answer.retry_after;
        if (!pull_wait(p, after >= 0 ? after : 0.25 * (1 << tries)))
            return err_set(e, ERR_CANCELLED, "stopped");
    }
}

bool pull_http_get(struct pull *p, const char *url, struct buf *body, struct err *e)
{
    struct list list = {.body = {.limit = PULL_LIST_MAX}};
    CURL *c = url ? curl_easy_init() : NULL;
    bool ok = c && pull_curl_setup(c, p, url) && !curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L) &&
              !curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_list) &&
              !curl_easy_setopt(c, CURLOPT_WRITEDATA, &list) &&
              !curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, pull_on_header) &&
              !curl_easy_setopt(c, CURLOPT_HEADERDATA, &list.request) &&
              !curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress) &&
              !curl_easy_setopt(c, CURLOPT_XFERINFODATA, p) &&
              !curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    if (!ok)
        err_set(e, ERR_NOMEM, "no memory for a request");
    ok = ok && get(p, &list, c, e);
    curl_easy_cleanup(c);
    if (ok)
        *body = list.body;
    else
        buf_fini(&list.body);
    return ok;
}

bool pull_http_list(struct pull *p, struct err *e)
{
    struct buf body = {0};
    char *url = pull_url(p, NULL);
    bool ok = pull_http_get(p, url, &body, e) &&
              pull_list_read(p, body.data ? body.data : "", body.len, e);
    free(url);
    buf_fini(&body);
    return ok;
}
