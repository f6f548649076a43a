/* Names, addresses and the list of a hub's files. */
#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/buf.h"
#include "engine/base/json/json.h"
#include "fcgi/cli/pull/pull.h"

static bool word_ok(const char *s, size_t n)
{
    if (!n || n > 96 || s[0] == '.' || s[0] == '-')
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("._-", s[i]))
            return false;
    return true;
}

bool pull_repo_split(const char *text, struct pull_repo *out, struct err *e)
{
    char *repo = out->repo, *revision = out->revision;
    const char *at = strchr(text, '@');
    size_t n = at ? (size_t)(at - text) : strlen(text);
    if (n >= sizeof out->repo || snprintf(revision, sizeof out->revision, "%s",
                                          at ? at + 1 : "main") >= (int)sizeof out->revision)
        return err_set(e, ERR_INPUT, "the repository's name is too long");
    memcpy(repo, text, n);
    repo[n] = 0;
    const char *slash = strchr(repo, '/');
    bool ok = slash ? word_ok(repo, (size_t)(slash - repo)) && word_ok(slash + 1, strlen(slash + 1))
                    : word_ok(repo, n);
    if (!ok)
        return err_set(e, ERR_INPUT,
                       "'%.100s' is no repository; it is written OWNER/NAME[@REVISION]", text);
    for (const char *c = revision; *c; c++) /* branches may have slashes */
        if (!isalnum((unsigned char)*c) && !strchr("._-/", *c))
            return err_set(e, ERR_INPUT, "'%.100s' is no revision", revision);
    if (!revision[0] || strstr(revision, ".."))
        return err_set(e, ERR_INPUT, "'%.100s' is no revision", revision);
    out->name = slash ? slash + 1 : repo;
    return true;
}

bool pull_name_ok(const char *name)
{
    size_t n = strlen(name);
    if (!n || n > PULL_NAME_MAX || !strcmp(name, PULL_MANIFEST))
        return false;
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < 32 || *c == 127 || *c == '\\')
            return false;
    for (const char *part = name; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL) {
        size_t len = strcspn(part, "/");
        if (!len || len > 250 || (len == 1 && part[0] == '.') ||
            (len == 2 && part[0] == '.' && part[1] == '.') ||
            (len > 5 && !strncmp(part + len - 5, ".part", 5))) /* is ours */
            return false;
    }
    return true;
}

bool pull_sha256_text(const char *text, char out[DIGEST_TEXT_SIZE])
{
    if (strlen(text) != 64 || strspn(text, "0123456789abcdefABCDEF") != 64)
        return false;
    for (int i = 0; i <= 64; i++)
        out[i] = (char)tolower((unsigned char)text[i]);
    return true;
}

/* Globs stand in a list with commas. */
static bool included(const struct pull *p, const char *name)
{
    char glob[512];
    if (!p->include)
        return strncmp(name, ".git", 4) != 0;
    for (const char *at = p->include; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        snprintf(glob, sizeof glob, "%.*s", (int)strcspn(at, ","), at);
        if (!fnmatch(glob, name, 0))
            return true;
    }
    return false;
}

static bool add_file(struct pull *p, const cJSON *entry, struct err *e)
{
    const char *name = NULL, *sum = NULL;
    const cJSON *lfs = NULL;
    int64_t size = -1;
    if (!cJSON_IsObject(entry) || !json_get_string(entry, "rfilename", &name, e) || !name)
        return err_set(e, ERR_FORMAT, "the hub's list of files has an entry without a name");
    if (!pull_name_ok(name))
        return err_set(
            e, ERR_FORMAT,
            "the hub lists a file whose name is refused here (it would leave the folder, or "
            "is too long)");
    if (!included(p, name))
        return true;
    if (!json_get_int(entry, "size", 0, PULL_SIZE_MAX, &size, e) ||
        !json_get_object(entry, "lfs", &lfs, e) ||
        (lfs && (!json_get_int(lfs, "size", 0, PULL_SIZE_MAX, &size, e) ||
                 !json_get_string(lfs, "sha256", &sum, e))))
        return err_prefix(e, "%.200s", name);
    struct pull_file *f = &p->files[p->n_files];
    *f = (struct pull_file){.name = strdup(name), .size = size, .fd = -1};
    if (!f->name)
        return err_set(e, ERR_NOMEM, "no memory for the list of files");
    if (sum)
        pull_sha256_text(sum, f->sha256);
    p->n_files++;
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct pull_file *)a)->name, ((const struct pull_file *)b)->name);
}

static bool read_files(struct pull *p, const cJSON *root, struct err *e)
{
    const cJSON *list = NULL;
    const char *commit = NULL;
    if (!cJSON_IsObject(root) || !json_get_array(root, "siblings", &list, e) ||
        !json_get_string(root, "sha", &commit, e) || !list)
        return err_set(e, ERR_FORMAT, "the hub's answer is no list of files");
    int n = cJSON_GetArraySize(list);
    if (n > PULL_FILES_MAX)
        return err_set(e, ERR_LIMIT, "the repository has %d files, at most %d are pulled", n,
                       PULL_FILES_MAX);
    /* a branch may move while its files are loaded; a commit can't */
    bool plain = commit && strlen(commit) < sizeof p->commit && word_ok(commit, strlen(commit));
    snprintf(p->commit, sizeof p->commit, "%s", plain ? commit : p->revision);
    if (!(p->files = calloc((size_t)n + 1, sizeof *p->files)))
        return err_set(e, ERR_NOMEM, "no memory for the list of files");
    for (const cJSON *c = list->child; c; c = c->next)
        if (!add_file(p, c, e))
            return false;
    qsort(p->files, p->n_files, sizeof *p->files, by_name);
    for (size_t i = 1; i < p->n_files; i++)
        if (!strcmp(p->files[i - 1].name, p->files[i].name))
            return err_set(e, ERR_FORMAT, "the hub lists %.200s twice", p->files[i].name);
    if (!p->n_files)
        return err_set(e, ERR_NOTFOUND,
                       p->include ? "no file matches --include" : "the repository is empty");
    return true;
}

bool pull_list_read(struct pull *p, const char *json, size_t len, struct err *e)
{
    const struct json_limits limits = {.max_bytes = PULL_LIST_MAX, .allow_duplicates = true};
    cJSON *root = json_parse(json, len, &limits, e);
    bool ok = root ? read_files(p, root, e) : err_prefix(e, "the hub's list of files");
    cJSON_Delete(root);
    return ok;
}

/* Slashes stay; all that is not plain is escaped. */
static void put_escaped(struct buf *b, const char *s)
{
    for (; *s; s++)
        if (isalnum((unsigned char)*s) || strchr("-._~/", *s))
            buf_putc(b, *s);
        else
            buf_printf(b, "%%%02X", (unsigned char)*s);
}

/* A revision is one part of the path: its slashes are escaped. */
static void put_revision(struct buf *b, const char *s)
{
    for (; *s; s++)
        *s == '/' ? buf_puts(b, "%2F") : buf_putc(b, *s);
}

void pull_url_begin(const struct pull *p, struct buf *b)
{
    size_t n = strlen(p->endpoint);
    while (n && p->endpoint[n - 1] == '/')
        n--;
    buf_append(b, p->endpoint, n);
}

char *pull_url(const struct pull *p, const char *name)
{
    struct buf b = {0};
    pull_url_begin(p, &b);
    buf_printf(&b, name ? "/%s/resolve/" : "/api/models/%s/revision/", p->repo);
    put_revision(&b, name ? p->commit : p->revision);
    if (name) {
        buf_putc(&b, '/');
        put_escaped(&b, name);
    } else {
        buf_puts(&b, "?blobs=true"); /* with sizes and hashes, where the hub knows how */
    }
    if (b.failed)
        buf_fini(&b);
    return b.data;
}
