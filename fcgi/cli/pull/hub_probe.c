/* Heads of a hub's files, as a folder. */
#include "fcgi/cli/pull/hub_probe.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/format/gguf.h"
#include "fcgi/cli/pull/pull_http.h"

enum { FIRST = 1 << 20, SMALL = 64 << 20, HEAD_MAX = 256 << 20, ALL_MAX = 1 << 30 };

struct fetch {
    const struct pull *p;
    struct buf body;
    size_t most;                 /* bytes that were asked for */
    struct pull_request request; /* for its headers */
};

static size_t on_body(char *data, size_t one, size_t n, void *context)
{
    struct fetch *f = context;
    return f->body.len + n <= f->most && buf_append(&f->body, data, n) ? n : 0;
}

static int on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    return *((const struct fetch *)context)->p->stop;
}

static bool set_up(CURL *c, struct fetch *f, const char *url, const char *range)
{
    return pull_curl_setup(c, f->p, url) && !curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L) &&
           !curl_easy_setopt(c, CURLOPT_RANGE, range) &&
           !curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body) &&
           !curl_easy_setopt(c, CURLOPT_WRITEDATA, f) &&
           !curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, pull_on_header) &&
           !curl_easy_setopt(c, CURLOPT_HEADERDATA, &f->request) &&
           !curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress) &&
           !curl_easy_setopt(c, CURLOPT_XFERINFODATA, f) &&
           !curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
}

/* The file's first n bytes are in f->body then; some of them may be there already. */
static bool fetch_to(struct fetch *f, const struct pull_file *file, size_t n, struct err *e)
{
    char range[64];
    if ((int64_t)n > file->size)
        n = (size_t)file->size;
    for (int tries = 0; f->body.len < n; tries++) {
        char *url = pull_url(f->p, file->name);
        CURL *c = url ? curl_easy_init() : NULL;
        long status = 0;
        size_t had = f->body.len;
        f->most = n;
        pull_answer_forget(&f->request.answer);
        snprintf(range, sizeof range, "%zu-%zu", had, n - 1);
        bool ok = c && set_up(c, f, url, range);
        CURLcode code = ok ? curl_easy_perform(c) : CURLE_OUT_OF_MEMORY;
        curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
        curl_easy_cleanup(c);
        free(url);
        if (!ok || f->body.failed)
            return err_set(e, ERR_NOMEM, "no memory for a request");
        if (*f->p->stop)
            return err_set(e, ERR_CANCELLED, "stopped");
        int64_t total = f->request.answer.range_total;
        if (status == 206 && total >= 0 && total != file->size)
            return err_set(e, ERR_FORMAT, "%.150s has %lld bytes now, %lld by the hub's list",
                           file->name, (long long)total, (long long)file->size);
        if (status != 206 && !(status == 200 && had == 0 && (int64_t)n == file->size)) {
            f->body.len = had; /* an error's page, or another part of the file */
            if (code == CURLE_OK && status == 200)
                return err_set(e, ERR_UNSUPPORTED, "the hub sends no parts of files");
            if (!pull_may_pass(code, status) || tries + 1 >= PULL_TRIES)
                return code == CURLE_OK
                           ? pull_refused(e, f->p, file->name, status)
                           : err_set(e, ERR_IO, "%.150s: %s", file->name, curl_easy_strerror(code));
        } else if (f->body.len > had) {
            tries = -1; /* it goes on: only tries without a byte between them count */
            continue;
        } else if (tries + 1 >= PULL_TRIES) {
            return err_set(e, ERR_IO, "%.150s: %s", file->name, curl_easy_strerror(code));
        }
        int after = f->request.answer.retry_after;
        if (!pull_wait(f->p, after >= 0 ? after : 0.25 * (1 << tries)))
            return err_set(e, ERR_CANCELLED, "stopped");
    }
    return true;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

/* Until it can be read: how long the head of a GGUF file is stands nowhere. */
static bool fetch_gguf(struct fetch *f, const struct pull_file *file, struct err *e)
{
    for (size_t n = FIRST;; n *= 4) {
        struct gguf g;
        if (!fetch_to(f, file, n, e))
            return false;
        bool whole = gguf_read(&g, f->body.data, f->body.len, e);
        gguf_fini(&g);
        if (whole)
            return true;
        if ((int64_t)n >= file->size || n >= HEAD_MAX)
            return err_prefix(e, "%.150s", file->name);
        *e = (struct err){0};
    }
}

static bool fetch_safetensors(struct fetch *f, const struct pull_file *file, struct err *e)
{
    uint64_t head = 0;
    if (!fetch_to(f, file, FIRST, e))
        return false;
    if (f->body.len < sizeof head)
        return err_set(e, ERR_FORMAT, "%.150s is too short", file->name);
    memcpy(&head, f->body.data, sizeof head);
    if (head > HEAD_MAX)
        return err_set(e, ERR_FORMAT, "%.150s has a head of %llu bytes", file->name,
                       (unsigned long long)head);
    return fetch_to(f, file, sizeof head + head, e);
}

static bool write_hole(const struct fetch *f, const struct pull_file *file, const char *path,
                       struct err *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(e, "%s", path);
    bool ok = !f->body.len || write(fd, f->body.data, f->body.len) == (ssize_t)f->body.len;
    ok = ok && ftruncate(fd, file->size) == 0;
    if (!ok)
        err_errno(e, "%s", path);
    close(fd);
    return ok;
}

static bool probe_file(const struct pull *p, const struct pull_file *file, const char *folder,
                       int64_t *fetched, struct err *e)
{
    char path[PULL_PATH_SIZE];
    struct fetch f = {.p = p};
    bool weights = ends_with(file->name, ".safetensors"), gguf = ends_with(file->name, ".gguf");
    if (!weights && !gguf && (!ends_with(file->name, ".json") || file->size > SMALL))
        return true; /* a plan needs no more than the configuration */
    bool ok = pull_disk_path(folder, file->name, "", path, e);
    if (ok && strchr(file->name, '/')) {
        char parent[PULL_PATH_SIZE];
        snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(path, '/') - path), path);
        ok = file_mkdirs(parent, 0700, e);
    }
    ok = ok &&
         (gguf      ? fetch_gguf(&f, file, e)
          : weights ? fetch_safetensors(&f, file, e)
                    : fetch_to(&f, file, (size_t)file->size, e)) &&
         write_hole(&f, file, path, e);
    *fetched += (int64_t)f.body.len;
    buf_fini(&f.body);
    return ok;
}

bool hub_probe_make(const struct pull *p, const char *folder, int64_t *fetched, struct err *e)
{
    *fetched = 0;
    if (!file_mkdirs(folder, 0700, e))
        return false;
    for (size_t i = 0; i < p->n_files; i++) {
        if (*fetched > ALL_MAX)
            return err_set(e, ERR_LIMIT, "its heads take more than %d MiB", ALL_MAX >> 20);
        if (!probe_file(p, &p->files[i], folder, fetched, e))
            return false;
    }
    return true;
}

void hub_probe_remove(const struct pull *p, const char *folder)
{
    char path[PULL_PATH_SIZE];
    for (size_t i = 0; i < p->n_files; i++) {
        if (!pull_disk_path(folder, p->files[i].name, "", path, NULL))
            continue;
        unlink(path);
        for (char *slash; (slash = strrchr(path, '/')) && strlen(path) > strlen(folder);) {
            *slash = 0;
            if (strlen(path) <= strlen(folder) || rmdir(path) != 0)
                break;
        }
    }
    rmdir(folder);
}
