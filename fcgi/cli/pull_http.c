/* The hub's side of a pull: one curl_multi loop that asks for files and loads their ranges. */
#include <ctype.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "fcgi/cli/pull.h"

#define SECOND 1000000000ull
enum { JOBS_MAX = 64, SAVE_SECONDS = 5, REDIRECTS = 5, WAIT_MAX = 300, SKIP_MAX = 1 << 20 };

struct answer { /* headers of the last response; linked_*: of any, since they stand in the redirect */
    char etag[128], linked_etag[128];
    int64_t linked_size, range_from, range_total; /* -1: not said */
    int retry_after;                              /* seconds; -1 */
};

struct request {
    struct loop *loop;
    struct pull_file *file;
    struct pull_segment *segment; /* the file's ask: a HEAD request */
    CURL *easy;
    char *url;
    struct answer answer;
    struct err why; /* why our side ended it */
    size_t skipped;               /* bytes of an error's page */
    bool ours;      /* the disk failed: trying again won't help */
    bool checked;   /* the response's head was looked at */
    bool changed;   /* the hub's file is not what it was: ask again */
};

struct loop {
    struct pull *p;
    CURLM *multi;
    struct request requests[JOBS_MAX]; /* easy == NULL: free */
    struct pull_verify *verify;
    struct pull_progress progress;
    uint64_t pause, saved; /* clock_ns: until then the hub wants peace; of the last manifest */
    struct err fatal;
};

/* ---- one handle */

static bool is_secure(const char *url)
{
    return !strncasecmp(url, "https://", 8);
}

static bool set_up(CURL *c, const struct pull *p, const char *url)
{
    /* an endpoint with TLS is never left for one without */
    const char *protocols = is_secure(p->endpoint) ? "https" : "http,https";
    bool ok = !curl_easy_setopt(c, CURLOPT_URL, url) && !curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") &&
              !curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, protocols) &&
              !curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)REDIRECTS) &&
              !curl_easy_setopt(c, CURLOPT_PROXY, p->proxy ? p->proxy : "") && /* "": not the environment's either */
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

static void forget_answer(struct answer *a)
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

static void read_header(struct answer *a, const char *name, const char *value)
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

static size_t on_header(char *data, size_t one, size_t n, void *context)
{
    struct request *r = context;
    char line[512], *colon;
    snprintf(line, sizeof line, "%.*s", (int)(n < sizeof line ? n : sizeof line - 1), data);
    line[strcspn(line, "\r\n")] = 0;
    if (!strncmp(line, "HTTP/", 5)) {
        forget_answer(&r->answer);
    } else if ((colon = strchr(line, ':'))) {
        *colon++ = 0;
        read_header(&r->answer, line, colon + strspn(colon, " \t"));
    }
    return n;
}

/* ---- bytes of a range */

/* Whether the response is the part that was asked for. */
static bool check_head(struct request *r)
{
    struct pull_file *f = r->file;
    struct pull_segment *s = r->segment;
    const struct answer *a = &r->answer;
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
    struct request *r = context;
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

static int on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const struct pull *p = context;
    return *p->stop;
}

static bool start(struct loop *l, struct request *r, struct pull_file *f, struct pull_segment *s)
{
    const struct pull *p = l->p;
    char range[64];
    bool head = s == &f->ask;
    *r = (struct request){.loop = l, .file = f, .segment = s, .answer = {.linked_size = -1}};
    forget_answer(&r->answer);
    r->url = head && f->renamed_url ? strdup(f->url) : pull_url(p, f->name);
    r->easy = r->url ? curl_easy_init() : NULL;
    bool ok = r->easy && set_up(r->easy, p, r->url) && !curl_easy_setopt(r->easy, CURLOPT_PRIVATE, r) &&
              !curl_easy_setopt(r->easy, CURLOPT_HEADERFUNCTION, on_header) &&
              !curl_easy_setopt(r->easy, CURLOPT_HEADERDATA, r) &&
              !curl_easy_setopt(r->easy, CURLOPT_WRITEFUNCTION, on_data) &&
              !curl_easy_setopt(r->easy, CURLOPT_WRITEDATA, r);
    if (ok && head) {
        ok = !curl_easy_setopt(r->easy, CURLOPT_NOBODY, 1L);
    } else if (ok) {
        snprintf(range, sizeof range, "%lld-%lld", (long long)(s->start + s->got), (long long)(s->start + s->len - 1));
        ok = !curl_easy_setopt(r->easy, CURLOPT_FOLLOWLOCATION, 1L) &&
             (s->got + s->start == 0 && f->n_segments == 1 ? true : !curl_easy_setopt(r->easy, CURLOPT_RANGE, range));
    }
    ok = ok && !curl_multi_add_handle(l->multi, r->easy);
    if (!ok) {
        curl_easy_cleanup(r->easy);
        free(r->url);
        *r = (struct request){0};
        return err_set(&l->fatal, ERR_NOMEM, "no memory for a request");
    }
    s->active = true;
    f->n_active++;
    return true;
}

static void end(struct loop *l, struct request *r)
{
    curl_multi_remove_handle(l->multi, r->easy);
    curl_easy_cleanup(r->easy);
    free(r->url);
    r->segment->active = false;
    r->file->n_active--;
    *r = (struct request){0};
}

/* ---- what came of a request */

static bool may_pass(CURLcode code, long status)
{
    if (code == CURLE_OK)
        return status == 408 || status == 429 || status >= 500;
    return code != CURLE_UNSUPPORTED_PROTOCOL && code != CURLE_URL_MALFORMAT && code != CURLE_PEER_FAILED_VERIFICATION &&
           code != CURLE_TOO_MANY_REDIRECTS && code != CURLE_OUT_OF_MEMORY && code != CURLE_SSL_CACERT_BADFILE;
}

static bool refuse(struct err *e, const struct pull *p, const char *name, long status)
{
    const char *what = name ? name : p->repo;
    if (status == 401 || status == 403)
        return err_set(e, ERR_AUTH, "%.200s: the hub refuses it (HTTP %ld); %s", what, status,
                       p->token[0] ? "the token doesn't allow it" : "it may need --token-file");
    if (status == 404)
        return err_set(e, ERR_NOTFOUND, "%.200s: the hub has no such %s (HTTP 404)", what,
                       name ? "file" : "repository or revision");
    return err_set(e, ERR_IO, "%.200s: HTTP status %ld", what, status);
}

/* Later again, or the end of the pull. */
static void put_off(struct loop *l, struct request *r, CURLcode code, long status)
{
    struct pull_segment *s = r->segment;
    double wait = 0.25 * (double)(1 << (s->fails < 7 ? s->fails : 7));
    s->fails++;
    if (s->fails >= PULL_TRIES) {
        if (r->why.code)
            err_set(&l->fatal, r->why.code, "%.150s: %.150s (%d times)", r->file->name, r->why.text, s->fails);
        else if (code != CURLE_OK)
            err_set(&l->fatal, ERR_IO, "%.150s: %s (%d times)", r->file->name, curl_easy_strerror(code), s->fails);
        else
            refuse(&l->fatal, l->p, r->file->name, status);
        return;
    }
    if (r->answer.retry_after >= 0)
        wait = r->answer.retry_after;
    s->not_before = clock_ns() + (uint64_t)(wait * 1e9);
    if (status == 429) /* it means all of us */
        l->pause = s->not_before;
}

/* The file is another one now, or what came was wrong: all of it anew, but not for ever. */
static void start_over(struct loop *l, struct pull_file *f, const char *why)
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

static void take_head(struct loop *l, struct request *r, long status)
{
    struct pull_file *f = r->file;
    const struct answer *a = &r->answer;
    curl_off_t length = -1;
    char *to = NULL;
    bool linked = a->linked_size >= 0;
    curl_easy_getinfo(r->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    curl_easy_getinfo(r->easy, CURLINFO_REDIRECT_URL, &to);
    if (status >= 300 && status < 400 && !linked && to && same_host(r->url, to) && ++f->ask.fails <= REDIRECTS &&
        strlen(to) < sizeof f->url) { /* a repository with a new name */
        snprintf(f->url, sizeof f->url, "%s", to);
        f->renamed_url = true;
        return;
    }
    int64_t size = linked ? a->linked_size : status < 300 && length >= 0 ? (int64_t)length : f->size;
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

static void finish_head(struct loop *l, struct request *r, CURLcode code)
{
    long status = 0;
    curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK && status < 400)
        take_head(l, r, status);
    else if (may_pass(code, status))
        put_off(l, r, code, status);
    else if (code == CURLE_OK)
        refuse(&l->fatal, l->p, r->file->name, status);
    else
        err_set(&l->fatal, ERR_IO, "%.150s: %s", r->file->name, curl_easy_strerror(code));
}

static void finish_range(struct loop *l, struct request *r, CURLcode code)
{
    struct pull_segment *s = r->segment;
    long status = 0;
    curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    if (r->ours) {
        l->fatal = r->why;
    } else if (r->file->restart) { /* by another of its requests, or since there are no ranges */
        return;
    } else if (r->changed || (code == CURLE_OK && status == 416)) {
        start_over(l, r->file, r->changed ? "its size on the hub is another than the hub says" :
                                            "the hub refuses the range (HTTP 416)");
    } else if (s->got == s->len && status < 300) {
        s->fails = 0;
    } else if (may_pass(code, status) || r->why.code || status < 300) {
        put_off(l, r, code, status);
    } else if (code == CURLE_OK) {
        refuse(&l->fatal, l->p, r->file->name, status);
    } else {
        err_set(&l->fatal, ERR_IO, "%.150s: %s", r->file->name, curl_easy_strerror(code));
    }
}

/* ---- a file's way */

static void wake(void *multi)
{
    curl_multi_wakeup(multi);
}

static bool is_loaded(const struct pull_file *f)
{
    for (size_t i = 0; i < f->n_segments; i++)
        if (f->segments[i].got < f->segments[i].len)
            return false;
    return f->segments != NULL;
}

static void stage(struct loop *l, struct pull_file *f)
{
    char size[32];
    if (!pull_disk_staged(l->p, f, &l->fatal))
        return;
    pull_bytes_text((double)f->size, size, sizeof size);
    pull_progress_say(&l->progress, "%s  %s%s", f->name, size, f->sha256[0] ? "  sha256 right" : "");
}

static void verify(struct loop *l, struct pull_file *f)
{
    char path[4096];
    if (!f->sha256[0]) {
        stage(l, f);
        return;
    }
    f->state = PULL_VERIFY;
    if (pull_disk_path(l->p->stage, f->name, ".part", path, sizeof path, &l->fatal) &&
        !pull_verify_put(l->verify, f, path))
        err_set(&l->fatal, ERR_NOMEM, "no memory to check %.200s", f->name);
}

static void take_verified(struct loop *l)
{
    char sum[DIGEST_TEXT_SIZE];
    for (struct pull_file *f; !l->fatal.code && (f = pull_verify_take(l->verify, sum, &l->fatal));) {
        if (!l->fatal.code && !strcmp(sum, f->sha256)) {
            stage(l, f);
        } else if (!l->fatal.code) {
            f->state = PULL_LOAD;
            pull_progress_say(&l->progress, "%s  has the wrong sha256: loading it again", f->name);
            start_over(l, f, "its sha256 is not the one that the hub gives");
        }
    }
}

/* Moves the file on when none of its requests runs. */
static void move_on(struct loop *l, struct pull_file *f)
{
    if (f->n_active || f->state >= PULL_VERIFY)
        return;
    if (f->restart) {
        pull_disk_forget(f);
        f->restart = false;
        f->state = PULL_ASK;
        f->renamed_url = false;
    }
    if (f->state == PULL_ASKED && l->p->planned && pull_disk_prepare(l->p, f, &l->fatal))
        f->state = PULL_LOAD;
    if (f->state == PULL_LOAD && is_loaded(f))
        verify(l, f);
}

static struct pull_segment *next_segment(struct pull_file *f, uint64_t now)
{
    if (f->restart)
        return NULL;
    if (f->state == PULL_ASK)
        return f->ask.active || f->ask.not_before > now ? NULL : &f->ask;
    for (size_t i = 0; f->state == PULL_LOAD && i < f->n_segments; i++)
        if (!f->segments[i].active && f->segments[i].got < f->segments[i].len && f->segments[i].not_before <= now)
            return &f->segments[i];
    return NULL;
}

static void fill(struct loop *l)
{
    uint64_t now = clock_ns();
    size_t at = 0;
    for (int64_t i = 0; i < l->p->jobs && now >= l->pause && !l->fatal.code; i++) {
        if (l->requests[i].easy)
            continue;
        for (; at < l->p->n_files; at++) {
            struct pull_file *f = &l->p->files[at];
            move_on(l, f);
            struct pull_segment *s = l->fatal.code ? NULL : next_segment(f, now);
            if (s && !start(l, &l->requests[i], f, s))
                return;
            if (s)
                break;
        }
    }
}

static bool is_finished(const struct pull *p)
{
    for (size_t i = 0; i < p->n_files; i++)
        if (p->files[i].state < (p->planned ? PULL_READY : PULL_ASKED))
            return false;
    return true;
}

static void take_messages(struct loop *l)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(l->multi, &left));) {
        struct request *r = NULL;
        CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&r);
        struct pull_file *f = r->file;
        if (!l->fatal.code && r->segment == &f->ask)
            finish_head(l, r, code);
        else if (!l->fatal.code)
            finish_range(l, r, code);
        end(l, r);
        if (!l->fatal.code)
            move_on(l, f);
    }
}

static void save_now_and_then(struct loop *l)
{
    uint64_t now = clock_ns();
    if (!l->p->planned || l->fatal.code || now - l->saved < SAVE_SECONDS * SECOND)
        return;
    pull_disk_save(l->p, &l->fatal);
    l->saved = clock_ns();
}

static bool run(struct loop *l, struct err *e)
{
    struct pull *p = l->p;
    int running;
    while (!l->fatal.code && !is_finished(p)) {
        fill(l);
        if (l->fatal.code || curl_multi_perform(l->multi, &running) || curl_multi_poll(l->multi, NULL, 0, 100, NULL))
            break;
        take_messages(l);
        if (l->verify)
            take_verified(l);
        if (p->planned)
            pull_progress_show(&l->progress, p, false);
        save_now_and_then(l);
        if (*p->stop)
            err_set(&l->fatal, ERR_CANCELLED, "stopped");
    }
    if (!l->fatal.code && !is_finished(p))
        err_set(&l->fatal, ERR_INTERNAL, "curl's loop failed");
    for (size_t i = 0; i < JOBS_MAX; i++)
        if (l->requests[i].easy)
            end(l, &l->requests[i]);
    if (l->fatal.code && e)
        *e = l->fatal;
    return !l->fatal.code;
}

bool pull_http_ask(struct pull *p, struct err *e)
{
    struct loop *l = calloc(1, sizeof *l);
    bool ok = l && (l->multi = curl_multi_init());
    if (!ok)
        err_set(e, ERR_NOMEM, "no memory for requests");
    else
        l->p = p;
    ok = ok && run(l, e);
    if (l && l->multi)
        curl_multi_cleanup(l->multi);
    free(l);
    return ok;
}

bool pull_http_load(struct pull *p, struct err *e)
{
    struct loop *l = calloc(1, sizeof *l);
    bool ok = l && (l->multi = curl_multi_init()) && (l->verify = pull_verify_create(wake, l->multi));
    struct err unsaved = {0};
    if (!ok) {
        err_set(e, ERR_NOMEM, "no memory for requests");
    } else {
        l->p = p;
        l->saved = clock_ns();
        pull_progress_begin(&l->progress, p);
        ok = pull_disk_save(p, e) && run(l, e);
        pull_progress_end(&l->progress);
        pull_disk_save(p, ok ? e : &unsaved); /* what came so far isn't lost */
    }
    if (l)
        pull_verify_destroy(&l->verify);
    if (l && l->multi)
        curl_multi_cleanup(l->multi);
    free(l);
    return ok;
}

/* ---- the list */

struct list {
    struct buf body;
    struct request request; /* for its headers */
};

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
        forget_answer(&list->request.answer);
        CURLcode code = curl_easy_perform(c);
        curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
        if (code == CURLE_OK && status == 200)
            return true;
        if (list->body.failed)
            return err_set(e, ERR_LIMIT, "the hub's list of files is over %d MiB", PULL_LIST_MAX >> 20);
        if (*p->stop)
            return err_set(e, ERR_CANCELLED, "stopped");
        if (!may_pass(code, status) || tries + 1 >= PULL_TRIES) {
            if (code == CURLE_OK)
                return refuse(e, p, NULL, status);
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
    bool ok = c && set_up(c, p, url) && !curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L) &&
              !curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_list) && !curl_easy_setopt(c, CURLOPT_WRITEDATA, &list) &&
              !curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header) &&
              !curl_easy_setopt(c, CURLOPT_HEADERDATA, &list.request) &&
              !curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress) &&
              !curl_easy_setopt(c, CURLOPT_XFERINFODATA, p) && !curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    if (!ok)
        err_set(e, ERR_NOMEM, "no memory for a request");
    ok = ok && get_list(p, &list, c, url, e) &&
         pull_list_read(p, list.body.data ? list.body.data : "", list.body.len, e);
    curl_easy_cleanup(c);
    free(url);
    buf_fini(&list.body);
    return ok;
}
