/* Judges how a request ended, and decides what that means for its file. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "fcgi/cli/pull/pull_http.h"

bool pull_may_pass(CURLcode code, long status)
{
    if (code == CURLE_OK)
        return status == 408 || status == 429 || status >= 500;
    return code != CURLE_UNSUPPORTED_PROTOCOL && code != CURLE_URL_MALFORMAT &&
           code != CURLE_PEER_FAILED_VERIFICATION && code != CURLE_TOO_MANY_REDIRECTS &&
           code != CURLE_OUT_OF_MEMORY && code != CURLE_SSL_CACERT_BADFILE;
}

bool pull_refused(struct err *e, const struct pull *p, const char *name, long status)
{
    const char *what = name ? name : p->repo;
    if (status == 401 || status == 403)
        return err_set(e, ERR_AUTH, "%.200s: the hub refuses it (HTTP %ld); %s", what, status,
                       p->token[0] ? "the token doesn't allow it"
                                   : "it may need `sluice pull` with --token-file");
    if (status == 404)
        return err_set(e, ERR_NOTFOUND, "%.200s: the hub has no such %s (HTTP 404)", what,
                       name ? "file" : "repository or revision");
    return err_set(e, ERR_IO, "%.200s: HTTP status %ld", what, status);
}

/* Later again, or the end of the pull. */
static void put_off(struct pull_loop *l, struct pull_request *r, CURLcode code, long status)
{
    struct pull_segment *s = r->segment;
    double wait = 0.25 * (double)(1 << (s->fails < 7 ? s->fails : 7));
    s->fails++;
    if (s->fails >= PULL_TRIES) {
        if (r->why.code)
            err_set(&l->fatal, r->why.code, "%.150s: %.150s (%d times)", r->file->name, r->why.text,
                    s->fails);
        else if (code != CURLE_OK)
            err_set(&l->fatal, ERR_IO, "%.150s: %s (%d times)", r->file->name,
                    curl_easy_strerror(code), s->fails);
        else
            pull_refused(&l->fatal, l->p, r->file->name, status);
        return;
    }
    if (r->answer.retry_after >= 0)
        wait = r->answer.retry_after;
    s->not_before = clock_ns() + (uint64_t)(wait * 1e9);
    if (status == 429) /* it means all of us */
        l->pause = s->not_before;
}

void pull_start_over(struct pull_loop *l, struct pull_file *f, const char *why)
{
    f->restart = true;
    if (++f->restarts > PULL_RESTARTS)
        err_set(&l->fatal, ERR_FORMAT, "%.150s: %s", f->name, why);
}

static bool same_host(const char *a, const char *b)
{
    size_t n = strcspn(a, ":") + 3;
    n += strlen(a) > n ? strcspn(a + n, "/") : 0;
    return !strncmp(a, b, n) && (b[n] == '/' || !b[n]);
}

static void take_head(struct pull_loop *l, struct pull_request *r, long status)
{
    struct pull_file *f = r->file;
    const struct pull_answer *a = &r->answer;
    curl_off_t length = -1;
    char *to = NULL;
    bool linked = a->linked_size >= 0;
    curl_easy_getinfo(r->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    curl_easy_getinfo(r->easy, CURLINFO_REDIRECT_URL, &to);
    if (status >= 300 && status < 400 && !linked && to && same_host(r->url, to) &&
        ++f->ask.fails <= PULL_REDIRECTS &&
        strlen(to) < sizeof f->url) { /* a repository with a new name */
        snprintf(f->url, sizeof f->url, "%s", to);
        f->renamed_url = true;
        return;
    }
    int64_t size = linked                        ? a->linked_size
                   : status < 300 && length >= 0 ? (int64_t)length
                                                 : f->size;
    const char *etag = a->linked_etag[0] ? a->linked_etag : status < 300 ? a->etag : "";
    char sum[DIGEST_TEXT_SIZE] = "";
    if (size < 0 || size > PULL_SIZE_MAX) {
        err_set(&l->fatal, ERR_FORMAT, "%.200s: the hub doesn't say its size", f->name);
        return;
    }
    if (pull_sha256_text(etag, sum))
        memcpy(f->sha256, sum, sizeof sum);
    f->size = size;
    snprintf(f->etag, sizeof f->etag, "%s", etag);
    f->ask.fails = 0;
    f->state = PULL_ASKED;
}

static void finish_head(struct pull_loop *l, struct pull_request *r, CURLcode code)
{
    long status = 0;
    curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK && status < 400)
        take_head(l, r, status);
    else if (pull_may_pass(code, status))
        put_off(l, r, code, status);
    else if (code == CURLE_OK)
        pull_refused(&l->fatal, l->p, r->file->name, status);
    else
        err_set(&l->fatal, ERR_IO, "%.150s: %s", r->file->name, curl_easy_strerror(code));
}

static void finish_range(struct pull_loop *l, struct pull_request *r, CURLcode code)
{
    struct pull_segment *s = r->segment;
    long status = 0;
    curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    if (r->ours) {
        l->fatal = r->why;
    } else if (r->file->restart) { /* by another of its requests, or since there are no ranges */
        return;
    } else if (r->changed || (code == CURLE_OK && status == 416)) {
        pull_start_over(l, r->file,
                        r->changed ? "its size on the hub is another than the hub says"
                                   : "the hub refuses the range (HTTP 416)");
    } else if (s->got == s->len && status < 300) {
        s->fails = 0;
    } else if (pull_may_pass(code, status) || r->why.code || status < 300) {
        put_off(l, r, code, status);
    } else if (code == CURLE_OK) {
        pull_refused(&l->fatal, l->p, r->file->name, status);
    } else {
        err_set(&l->fatal, ERR_IO, "%.150s: %s", r->file->name, curl_easy_strerror(code));
    }
}

void pull_request_finish(struct pull_loop *l, struct pull_request *r, CURLcode code)
{
    if (r->segment == &r->file->ask)
        finish_head(l, r, code);
    else
        finish_range(l, r, code);
}
