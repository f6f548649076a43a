/* Fetches the hub's list of a repository's files. */
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

static bool wait_a_while(const struct pull *p, double s)
{
    for (uint64_t until = clock_ns() + (uint64_t)(s * 1e9); clock_ns() < until && !*p->stop;)
        nanosleep(&(struct timespec){0, 50000000}, NULL);
    return !*p->stop;
}

static bool get_list(struct pull *p, struct list *list, CURL *c, const char *url, struct err *e)
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
            return err_set(e, ERR_LIMIT, "the hub's list of files is over %d MiB",
                           PULL_LIST_MAX >> 20);
        if (*p->stop)
            return err_set(e, ERR_CANCELLED, "stopped");
        if (!pull_may_pass(code, status) || tries + 1 >= PULL_TRIES) {
            if (code == CURLE_OK)
                return pull_refused(e, p, NULL, status);
            return err_set(e, ERR_IO, "%.150s: %s", p->endpoint, curl_easy_strerror(code));
        }
        int after = list->request.answer.retry_after;
        if (!wait_a_while(p, after >= 0 ? after : 0.25 * (1 << tries)))
            return err_set(e, ERR_CANCELLED, "stopped");
    }
}

bool pull_http_list(struct pull *p, struct err *e)
{
    struct list list = {.body = {.limit = PULL_LIST_MAX}};
    char *url = pull_url(p, NULL);
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
    ok = ok && get_list(p, &list, c, url, e) &&
         pull_list_read(p, list.body.data ? list.body.data : "", list.body.len, e);
    curl_easy_cleanup(c);
    free(url);
    buf_fini(&list.body);
    return ok;
}
