/* Runs one request of a pull, from its options to its last byte. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fcgi/cli/pull/pull_http.h"

enum { WAIT_MAX = 300, SKIP_MAX = 1 << 20 };

static bool is_secure(const char *url)
{
    return !strncasecmp(url, "https://", 8);
}

bool pull_curl_setup(CURL *c, const struct pull *p, const char *url)
{
    /* an endpoint with TLS is never left for one without */
    const char *protocols = is_secure(p->endpoint) ? "https" : "http,https";
    bool ok = !curl_easy_setopt(c, CURLOPT_URL, url) &&
              !curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") &&
              !curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, protocols) &&
              !curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)PULL_REDIRECTS) &&
              !curl_easy_setopt(c, CURLOPT_PROXY,
                                p->proxy ? p->proxy : "") && /* "": not the environment's either */
              !curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) &&
              !curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)p->timeout_s) &&
              !curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L) &&
              !curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)p->timeout_s) &&
              !curl_easy_setopt(c, CURLOPT_USERAGENT, "sluice") &&
              /* several connections load faster than several streams of one */
              !curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    if (ok && p->token[0]) /* curl keeps it from other hosts that it is redirected to */
        ok = !curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER) &&
             !curl_easy_setopt(c, CURLOPT_XOAUTH2_BEARER, p->token) &&
             !curl_easy_setopt(c, CURLOPT_UNRESTRICTED_AUTH, 0L);
    return ok;
}

void pull_answer_forget(struct pull_answer *a)
{
    a->etag[0] = 0;
    a->range_from = a->range_total = -1;
    a->retry_after = -1;
}

/* The text of an ETag without W/ and quotes. */
static void copy_etag(const char *value, char *out, size_t size)
{
    if (!strncmp(value, "W/", 2))
        value += 2;
    if (*value == '"')
        value++;
    snprintf(out, size, "%.*s", (int)strcspn(value, "\""), value);
}

static int64_t number(const char *s)
{
    char *end;
    long long v = isdigit((unsigned char)*s) ? strtoll(s, &end, 10) : -1;
    return v > PULL_SIZE_MAX ? -1 : v;
}

static void read_header(struct pull_answer *a, const char *name, const char *value)
{
    if (!strcasecmp(name, "etag")) {
        copy_etag(value, a->etag, sizeof a->etag);
    } else if (!strcasecmp(name, "x-linked-etag")) {
        copy_etag(value, a->linked_etag, sizeof a->linked_etag);
    } else if (!strcasecmp(name, "x-linked-size")) {
        a->linked_size = number(value);
    } else if (!strcasecmp(name, "retry-after")) {
        int64_t s = number(value); /* the form with a date is left to the ordinary waiting */
        a->retry_after = s < 0 ? -1 : s > WAIT_MAX ? WAIT_MAX : (int)s;
    } else if (!strcasecmp(name, "content-range") && !strncasecmp(value, "bytes ", 6)) {
        const char *slash = strchr(value, '/');
        a->range_from = number(value + 6);
        a->range_total = slash ? number(slash + 1) : -1;
    }
}

size_t pull_on_header(char *data, size_t one, size_t n, void *context)
{
    struct pull_request *r = context;
    char line[512], *colon;
    snprintf(line, sizeof line, "%.*s", (int)(n < sizeof line ? n : sizeof line - 1), data);
    line[strcspn(line, "\r\n")] = 0;
    if (!strncmp(line, "HTTP/", 5)) {
        pull_answer_forget(&r->answer);
    } else if ((colon = strchr(line, ':'))) {
        *colon++ = 0;
        read_header(&r->answer, line, colon + strspn(colon, " \t"));
    }
    return n;
}

/* Whether the response is the part that was asked for. */
static bool check_head(struct pull_request *r)
{
    struct pull_file *f = r->file;
    struct pull_segment *s = r->segment;
    const struct pull_answer *a = &r->answer;
    long status = 0;
    curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    r->checked = true;
    if (status == 206) {
        if (a->range_from == s->start + s->got && a->range_total == f->size)
            return true;
        r->changed = a->range_total >= 0 && a->range_total != f->size;
        return err_set(&r->why, ERR_FORMAT, "the hub sent another part than asked for");
    }
    if (status == 200 && f->n_segments == 1) { /* from the beginning, whatever was asked */
        s->got = 0;
        return true;
    }
    if (status == 200) {
        f->whole = f->restart = true;
        return err_set(&r->why, ERR_UNSUPPORTED, "the hub sends no parts of files");
    }
    return err_set(&r->why, ERR_IO, "HTTP status %ld", status);
}

static size_t on_data(char *data, size_t one, size_t n, void *context)
{
    struct pull_request *r = context;
    struct pull_segment *s = r->segment;
    long status = 0;
    curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 300 || s == &r->file->ask) /* an error's page, which need not end by itself */
        return (r->skipped += n) < SKIP_MAX ? n : 0;
    if ((!r->checked && !check_head(r)) || r->file->restart)
        return 0;
    if ((int64_t)n > s->len - s->got) {
        r->changed = true;
        err_set(&r->why, ERR_FORMAT, "the hub sends more than it said");
        return 0;
    }
    if (!pull_disk_write(r->file, s->start + s->got, data, n, &r->why)) {
        r->ours = true;
        return 0;
    }
    s->got += (int64_t)n;
    s->fails = 0;
    r->loop->progress.fresh += (int64_t)n;
    return n;
}

bool pull_request_start(struct pull_loop *l, struct pull_request *r, struct pull_file *f,
                        struct pull_segment *s)
{
    const struct pull *p = l->p;
    char range[64];
    bool head = s == &f->ask;
    *r = (struct pull_request){.loop = l, .file = f, .segment = s, .answer = {.linked_size = -1}};
    pull_answer_forget(&r->answer);
    r->url = head && f->renamed_url ? strdup(f->url) : pull_url(p, f->name);
    r->easy = r->url ? curl_easy_init() : NULL;
    bool ok = r->easy && pull_curl_setup(r->easy, p, r->url) &&
              !curl_easy_setopt(r->easy, CURLOPT_PRIVATE, r) &&
              !curl_easy_setopt(r->easy, CURLOPT_HEADERFUNCTION, pull_on_header) &&
              !curl_easy_setopt(r->easy, CURLOPT_HEADERDATA, r) &&
              !curl_easy_setopt(r->easy, CURLOPT_WRITEFUNCTION, on_data) &&
              !curl_easy_setopt(r->easy, CURLOPT_WRITEDATA, r);
    if (ok && head) {
        ok = !curl_easy_setopt(r->easy, CURLOPT_NOBODY, 1L);
    } else if (ok) {
        snprintf(range, sizeof range, "%lld-%lld", (long long)(s->start + s->got),
                 (long long)(s->start + s->len - 1));
        ok = !curl_easy_setopt(r->easy, CURLOPT_FOLLOWLOCATION, 1L) &&
             (s->got + s->start == 0 && f->n_segments == 1
                  ? true
                  : !curl_easy_setopt(r->easy, CURLOPT_RANGE, range));
    }
    ok = ok && !curl_multi_add_handle(l->multi, r->easy);
    if (!ok) {
        curl_easy_cleanup(r->easy);
        free(r->url);
        *r = (struct pull_request){0};
        return err_set(&l->fatal, ERR_NOMEM, "no memory for a request");
    }
    s->active = true;
    f->n_active++;
    return true;
}

void pull_request_end(struct pull_loop *l, struct pull_request *r)
{
    curl_multi_remove_handle(l->multi, r->easy);
    curl_easy_cleanup(r->easy);
    free(r->url);
    r->segment->active = false;
    r->file->n_active--;
    *r = (struct pull_request){0};
}
