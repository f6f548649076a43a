/* The hub's side of a pull: one curl_multi loop that asks for files and loads their ranges. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/size_text.h"
#include "fcgi/cli/pull/pull_http.h"

#define SECOND 1000000000ull
#define SAVE_SECONDS 5

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

static void stage(struct pull_loop *l, struct pull_file *f)
{
    char size[SIZE_TEXT];
    if (!pull_disk_staged(l->p, f, &l->fatal))
        return;
    size_text((double)f->size, size);
    pull_progress_say(&l->progress, "%s  %s%s", f->name, size,
                      f->sha256[0] ? "  sha256 right" : "");
}

static void verify(struct pull_loop *l, struct pull_file *f)
{
    char path[PULL_PATH_SIZE];
    if (!f->sha256[0]) {
        stage(l, f);
        return;
    }
    f->state = PULL_VERIFY;
    if (pull_disk_path(l->p->stage, f->name, ".part", path, &l->fatal) &&
        !pull_verify_put(l->verify, f, path))
        err_set(&l->fatal, ERR_NOMEM, "no memory to check %.200s", f->name);
}

static void take_verified(struct pull_loop *l)
{
    char sum[DIGEST_TEXT_SIZE];
    for (struct pull_file *f;
         !l->fatal.code && (f = pull_verify_take(l->verify, sum, &l->fatal));) {
        if (!l->fatal.code && !strcmp(sum, f->sha256)) {
            stage(l, f);
        } else if (!l->fatal.code) {
            f->state = PULL_LOAD;
            pull_progress_say(&l->progress, "%s  has the wrong sha256: loading it again", f->name);
            pull_start_over(l, f, "its sha256 is not the one that the hub gives");
        }
    }
}

/* Moves the file on when none of its requests runs. */
static void move_on(struct pull_loop *l, struct pull_file *f)
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
        if (!f->segments[i].active && f->segments[i].got < f->segments[i].len &&
            f->segments[i].not_before <= now)
            return &f->segments[i];
    return NULL;
}

static void fill(struct pull_loop *l)
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
            if (s && !pull_request_start(l, &l->requests[i], f, s))
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

static void take_messages(struct pull_loop *l)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(l->multi, &left));) {
        struct pull_request *r = NULL;
        CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&r);
        struct pull_file *f = r->file;
        if (!l->fatal.code)
            pull_request_finish(l, r, code);
        pull_request_end(l, r);
        if (!l->fatal.code)
            move_on(l, f);
    }
}

static void save_now_and_then(struct pull_loop *l)
{
    uint64_t now = clock_ns();
    if (!l->p->planned || l->fatal.code || now - l->saved < SAVE_SECONDS * SECOND)
        return;
    pull_disk_save(l->p, &l->fatal);
    l->saved = clock_ns();
}

static bool run(struct pull_loop *l, struct err *e)
{
    struct pull *p = l->p;
    int running;
    while (!l->fatal.code && !is_finished(p)) {
        fill(l);
        if (l->fatal.code || curl_multi_perform(l->multi, &running) ||
            curl_multi_poll(l->multi, NULL, 0, 100, NULL))
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
    for (size_t i = 0; i < PULL_JOBS_MAX; i++)
        if (l->requests[i].easy)
            pull_request_end(l, &l->requests[i]);
    if (l->fatal.code && e)
        *e = l->fatal;
    return !l->fatal.code;
}

bool pull_http_ask(struct pull *p, struct err *e)
{
    struct pull_loop *l = calloc(1, sizeof *l);
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
    struct pull_loop *l = calloc(1, sizeof *l);
    bool ok =
        l && (l->multi = curl_multi_init()) && (l->verify = pull_verify_create(wake, l->multi));
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
