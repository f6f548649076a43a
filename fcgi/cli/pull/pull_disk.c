/* A pull on the disk: the stage with its manifest, NAME.part files, and the rename that makes them
 * a model. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/base/size_text.h"
#include "fcgi/cli/pull/pull.h"

enum { MANIFEST_BYTES_MAX = 64 << 20 };

bool pull_disk_path(const char *folder, const char *name, const char *tail,
                    char out[PULL_PATH_SIZE], struct err *e)
{
    if (snprintf(out, PULL_PATH_SIZE, "%s/%s%s", folder, name, tail) >= PULL_PATH_SIZE)
        return err_set(e, ERR_LIMIT, "%.200s: path too long", name);
    return true;
}

static int64_t size_on_disk(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1;
}

static void sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

/* ---- manifest */

static void put_file(struct buf *b, const struct pull_file *f)
{
    buf_puts(b, "{\"name\":");
    buf_json_string(b, f->name, strlen(f->name));
    buf_printf(b, ",\"size\":%lld,\"etag\":", (long long)f->size);
    buf_json_string(b, f->etag, strlen(f->etag));
    buf_printf(b, ",\"sha256\":\"%s\",\"state\":\"%s\",\"have\":[", f->sha256,
               f->state >= PULL_READY ? "whole" : "part");
    int64_t from = 0, to = 0;
    bool any = false;
    for (size_t i = 0; f->state < PULL_READY && i < f->n_segments; i++) {
        const struct pull_segment *s = &f->segments[i];
        if (to == from)
            from = to = s->start;
        to += s->got;
        if (s->got < s->len && to > from) {
            buf_printf(b, "%s[%lld,%lld]", any ? "," : "", (long long)from, (long long)to);
            any = true;
            from = to = 0;
        }
    }
    if (to > from)
        buf_printf(b, "%s[%lld,%lld]", any ? "," : "", (long long)from, (long long)to);
    buf_puts(b, "]}");
}

bool pull_disk_save(struct pull *p, struct err *e)
{
    char path[PULL_PATH_SIZE];
    struct buf b = {0};
    if (p->lock < 0)
        return true;
    for (size_t i = 0; i < p->n_files;
         i++) /* the manifest may not claim what a power cut takes away */
        if (p->files[i].fd >= 0 && fdatasync(p->files[i].fd) != 0)
            return err_errno(e, "%.200s", p->files[i].name);
    buf_puts(&b, "{\"version\":1,\"repo\":");
    buf_json_string(&b, p->repo, strlen(p->repo));
    buf_puts(&b, ",\"commit\":");
    buf_json_string(&b, p->commit, strlen(p->commit));
    buf_puts(&b, ",\"files\":[\n");
    for (size_t i = 0; i < p->n_files; i++) {
        if (i)
            buf_puts(&b, ",\n");
        put_file(&b, &p->files[i]);
    }
    buf_puts(&b, "]}\n");
    bool ok = b.failed ? err_set(e, ERR_NOMEM, "no memory for the manifest")
                       : pull_disk_path(p->stage, PULL_MANIFEST, "", path, e) &&
                             file_write_atomic(path, b.data, b.len, 0644, e);
    buf_fini(&b);
    return ok;
}

/* NULL: there is none that can be used. A damaged one costs a download, not a failure. */
static cJSON *read_manifest(const char *folder)
{
    char path[PULL_PATH_SIZE];
    if (!pull_disk_path(folder, PULL_MANIFEST, "", path, NULL) || !file_exists(path))
        return NULL;
    cJSON *root = json_parse_file(path, MANIFEST_BYTES_MAX, NULL);
    const cJSON *list = NULL;
    if (root && (!json_get_array(root, "files", &list, NULL) || !list)) {
        cJSON_Delete(root);
        root = NULL;
    }
    return root;
}

/* The manifest's row of the same content: size and hash (or ETag, where there is none) are those of
 * the hub now. */
static const cJSON *same_content(const cJSON *manifest, const struct pull_file *f)
{
    const cJSON *list = manifest ? json_member(manifest, "files") : NULL;
    for (const cJSON *c = list ? list->child : NULL; c; c = c->next) {
        const char *name = NULL, *etag = NULL, *sum = NULL;
        int64_t size = -1;
        if (!cJSON_IsObject(c) || !json_get_string(c, "name", &name, NULL) || !name ||
            strcmp(name, f->name))
            continue;
        bool ok = json_get_int(c, "size", 0, PULL_SIZE_MAX, &size, NULL) &&
                  json_get_string(c, "etag", &etag, NULL) &&
                  json_get_string(c, "sha256", &sum, NULL) && size == f->size && etag && sum;
        if (ok && f->sha256[0])
            return strcmp(sum, f->sha256) ? NULL : c;
        return ok && f->etag[0] && !strcmp(etag, f->etag) ? c : NULL;
    }
    return NULL;
}

static bool is_whole(const cJSON *row)
{
    const char *state = NULL;
    return row && json_get_string(row, "state", &state, NULL) && state && !strcmp(state, "whole");
}

/* ---- what is there */

static bool make_segments(struct pull *p, struct pull_file *f, struct err *e)
{
    /* a hub may claim any size: what we keep of it stays small */
    int64_t least = f->size / PULL_SEGMENTS_MAX + 1;
    int64_t step = f->whole ? f->size : p->segment_bytes > least ? p->segment_bytes : least;
    size_t n = f->size ? (size_t)((f->size + step - 1) / step) : 0;
    free(f->segments);
    f->n_segments = 0;
    if (!(f->segments = calloc(n + 1, sizeof *f->segments)))
        return err_set(e, ERR_NOMEM, "no memory for the parts of %.200s", f->name);
    f->n_segments = n;
    for (size_t i = 0; i < n; i++) {
        f->segments[i].start = (int64_t)i * step;
        f->segments[i].len =
            f->size - f->segments[i].start < step ? f->size - f->segments[i].start : step;
    }
    return true;
}

/* What the manifest says was written, as far as it lies at segments' beginnings. */
static void take_ranges(struct pull_file *f, const cJSON *row, int64_t on_disk)
{
    const cJSON *have = row ? json_member(row, "have") : NULL;
    for (const cJSON *r = cJSON_IsArray(have) ? have->child : NULL; r; r = r->next) {
        const cJSON *a = cJSON_GetArrayItem(r, 0), *b = cJSON_GetArrayItem(r, 1);
        if (!cJSON_IsNumber(a) || !cJSON_IsNumber(b) || !(a->valuedouble >= 0) ||
            !(b->valuedouble <= (double)on_disk) || !(a->valuedouble < b->valuedouble))
            continue;
        int64_t from = (int64_t)a->valuedouble, to = (int64_t)b->valuedouble;
        for (size_t i = 0; i < f->n_segments; i++) {
            struct pull_segment *s = &f->segments[i];
            if (from > s->start || to <= s->start)
                continue;
            int64_t got = to - s->start < s->len ? to - s->start : s->len;
            s->got = got > s->got ? got : s->got;
        }
    }
}

/* In OUT from an earlier pull, or put there by hand with the hash that the hub gives. */
static bool is_kept(struct pull *p, const struct pull_file *f, const cJSON *manifest, struct err *e)
{
    char path[PULL_PATH_SIZE], sum[DIGEST_TEXT_SIZE];
    struct err why = {0};
    if (!pull_disk_path(p->out, f->name, "", path, &why) || size_on_disk(path) != f->size)
        return false;
    if (is_whole(same_content(manifest, f)))
        return true;
    return f->sha256[0] && pull_sha256_file(path, p->stop, sum, &why) && !strcmp(sum, f->sha256);
}

static bool open_stage(struct pull *p, struct err *e)
{
    if (!file_mkdirs(p->stage, 0755, e))
        return false;
    p->lock = open(p->stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->lock < 0)
        return err_errno(e, "%s", p->stage);
    if (flock(p->lock, LOCK_EX | LOCK_NB) != 0) {
        close(p->lock);
        p->lock = -1;
        return err_set(e, ERR_BUSY, "%s: another pull is at it", p->stage);
    }
    return true;
}

static int64_t count_missing(const struct pull_file *f)
{
    int64_t n = 0;
    for (size_t i = 0; i < f->n_segments; i++)
        n += f->segments[i].len - f->segments[i].got;
    return n;
}

static bool plan_staged(struct pull *p, struct pull_file *f, const cJSON *manifest,
                        int64_t *missing, struct err *e)
{
    char path[PULL_PATH_SIZE];
    const cJSON *row = same_content(manifest, f);
    if (!pull_disk_path(p->stage, f->name, "", path, e))
        return false;
    if (is_whole(row) && size_on_disk(path) == f->size) {
        f->state = PULL_READY;
        return true;
    }
    if (!pull_disk_path(p->stage, f->name, ".part", path, e) || !make_segments(p, f, e))
        return false;
    take_ranges(f, row, size_on_disk(path));
    *missing += count_missing(f);
    return true;
}

static bool is_of(const cJSON *manifest, const char *out, const char *repo, struct err *e)
{
    const char *of = NULL;
    json_get_string(manifest, "repo", &of, NULL);
    return !of || !strcasecmp(of, repo) ||
           err_set(e, ERR_CONFLICT, "%.150s holds %.100s; move that folder away, or choose another",
                   out, of);
}

bool pull_disk_is_of(const char *out, const char *repo, struct err *e)
{
    cJSON *manifest = read_manifest(out);
    const bool ok = is_of(manifest, out, repo, e);
    cJSON_Delete(manifest);
    return ok;
}

bool pull_disk_plan(struct pull *p, int64_t *missing, struct err *e)
{
    cJSON *there = read_manifest(p->out), *staged = NULL;
    bool ok = true, all = true;
    if (!is_of(there, p->out, p->repo, e)) {
        cJSON_Delete(there);
        return false;
    }
    int64_t total = 0; /* at most PULL_FILES_MAX * PULL_SIZE_MAX, below 2^58 */
    *missing = 0;
    for (size_t i = 0; i < p->n_files; i++)
        total += p->files[i].size;
    if (p->segment_bytes < total / PULL_SEGMENTS_MAX)
        p->segment_bytes = total / PULL_SEGMENTS_MAX;
    for (size_t i = 0; i < p->n_files; i++)
        if (is_kept(p, &p->files[i], there, e))
            p->files[i].state = PULL_KEPT;
        else
            all = false;
    cJSON_Delete(there);
    if (all && !file_is_dir(p->stage))
        return true;
    ok = open_stage(p, e);
    staged = ok ? read_manifest(p->stage) : NULL;
    for (size_t i = 0; ok && i < p->n_files; i++)
        if (p->files[i].state != PULL_KEPT)
            ok = plan_staged(p, &p->files[i], staged, missing, e);
    cJSON_Delete(staged);
    p->planned = true;
    return ok;
}

bool pull_disk_space(const struct pull *p, int64_t missing, struct err *e)
{
    struct statvfs v;
    if (p->lock < 0)
        return true;
    if (statvfs(p->stage, &v) != 0)
        return err_errno(e, "%s", p->stage);
    double there = (double)v.f_bavail * (double)v.f_frsize;
    if ((double)missing <= there)
        return true;
    char want[SIZE_TEXT], have[SIZE_TEXT];
    return err_set(e, ERR_LIMIT, "%s are missing, but %s has only %s free",
                   size_text((double)missing, want), p->stage, size_text(there, have));
}

/* ---- a file on its way */

static bool make_parents(const char *path, struct err *e)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    return file_mkdirs(folder, 0755, e);
}

bool pull_disk_prepare(struct pull *p, struct pull_file *f, struct err *e)
{
    char path[PULL_PATH_SIZE];
    if (!f->segments && !make_segments(p, f, e))
        return false;
    if (f->fd >= 0)
        return true;
    if (!pull_disk_path(p->stage, f->name, ".part", path, e) || !make_parents(path, e))
        return false;
    f->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    return f->fd >= 0 || err_errno(e, "%s", path);
}

bool pull_disk_write(struct pull_file *f, int64_t at, const void *data, size_t len, struct err *e)
{
    for (const char *from = data; len;) {
        ssize_t n = pwrite(f->fd, from, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(e, "writing %.200s", f->name);
        from += n;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

void pull_disk_forget(struct pull_file *f)
{
    free(f->segments);
    f->segments = NULL;
    f->n_segments = 0;
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}

bool pull_disk_staged(struct pull *p, struct pull_file *f, struct err *e)
{
    char from[PULL_PATH_SIZE], to[PULL_PATH_SIZE];
    if (!pull_disk_path(p->stage, f->name, ".part", from, e) ||
        !pull_disk_path(p->stage, f->name, "", to, e))
        return false;
    bool ok =
        (ftruncate(f->fd, (off_t)f->size) == 0 && fsync(f->fd) == 0 && rename(from, to) == 0) ||
        err_errno(e, "%s", to);
    if (ok) {
        pull_disk_forget(f);
        f->state = PULL_READY;
    }
    return ok;
}

/* ---- the end */

static bool is_entry(const char *name)
{
    return !strcmp(name, "config.json") || strstr(name, ".index.json");
}

static bool move_file(struct pull *p, const char *name, struct err *e)
{
    char from[PULL_PATH_SIZE], to[PULL_PATH_SIZE];
    if (!pull_disk_path(p->stage, name, "", from, e) || !pull_disk_path(p->out, name, "", to, e) ||
        !make_parents(to, e))
        return false;
    return rename(from, to) == 0 || err_errno(e, "%s", to);
}

/* Into a folder that is there: weights first and what names them last, then the manifest. */
static bool merge(struct pull *p, struct err *e)
{
    for (int entries = 0; entries < 2; entries++)
        for (size_t i = 0; i < p->n_files; i++)
            if (p->files[i].state == PULL_READY && !!is_entry(p->files[i].name) == entries &&
                !move_file(p, p->files[i].name, e))
                return false;
    sync_folder(p->out);
    if (!move_file(p, PULL_MANIFEST, e))
        return false;
    sync_folder(p->out);
    for (size_t i = 0; i < p->n_files;
         i++) { /* folders of ours that are empty now; rmdir spares others */
        char path[PULL_PATH_SIZE];
        if (!pull_disk_path(p->stage, p->files[i].name, "", path, e))
            return false;
        for (char *slash;
             (slash = strrchr(path, '/')) && (size_t)(slash - path) > strlen(p->stage);) {
            *slash = 0;
            if (rmdir(path) != 0)
                break;
        }
    }
    rmdir(p->stage);
    return true;
}

bool pull_disk_install(struct pull *p, struct err *e)
{
    char parent[4096];
    if (p->lock < 0)
        return true;
    if (!pull_disk_save(p, e))
        return false;
    if (file_exists(p->out))
        return merge(p, e);
    sync_folder(p->stage);
    if (rename(p->stage, p->out) != 0)
        return err_errno(e, "%s", p->out);
    const char *slash = strrchr(p->out, '/');
    snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - p->out + 1) : 1,
             slash ? p->out : ".");
    sync_folder(parent);
    return true;
}

void pull_disk_close(struct pull *p)
{
    for (size_t i = 0; i < p->n_files; i++) {
        pull_disk_forget(&p->files[i]);
        free(p->files[i].name);
    }
    free(p->files);
    p->files = NULL;
    p->n_files = 0;
    if (p->lock >= 0)
        close(p->lock);
    p->lock = -1;
}
