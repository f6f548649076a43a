/* local_engines.h: what engines of models that are no longer in the list have left: sockets, which
 * they may not remove themselves (engine_walls.h), and prompts on the disk. Records with a row are
 * forgotten by the recorder; here goes what has none, too. */
#define LOG_MODULE "up"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "fcgi/cli/up/local_engines.h"
#include "fcgi/cli/up/up.h"

static bool is_listed(const struct local_engines *l, int64_t id)
{
    for (int i = 0; i < LOCAL_ENGINES; i++)
        if (l->at[i].id == id && !l->at[i].gone)
            return true;
    return false;
}

static void empty_folder(int parent, const char *name)
{
    const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *f; d && (f = readdir(d));)
        if (f->d_name[0] != '.')
            unlinkat(fd, f->d_name, 0);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0)
        log_info("removed %s: its model is no longer in the list", name);
}

/* The row that follows `prefix` in a name, and what stands behind it; 0: another name. */
static int64_t id_of(const char *name, const char *prefix, const char **rest)
{
    char *end = NULL;
    const size_t n = strlen(prefix);
    const long long id = strncmp(name, prefix, n) != 0 ? 0 : strtoll(name + n, &end, 10);
    *rest = end ? end : "";
    return id;
}

static void sweep_cache(const struct local_engines *l)
{
    const char *rest;
    DIR *d = opendir(l->up->engine_cache);
    for (struct dirent *f; d && (f = readdir(d));) {
        const int64_t id = id_of(f->d_name, "prompt-cache-", &rest);
        if (id > 0 && !*rest && !is_listed(l, id))
            empty_folder(dirfd(d), f->d_name);
    }
    if (d)
        closedir(d);
}

static void sweep_run(const struct local_engines *l)
{
    const char *rest;
    DIR *d = opendir(l->up->engine_run ? l->up->engine_run : l->up->state);
    for (struct dirent *f; d && (f = readdir(d));) {
        const int64_t id = id_of(f->d_name, "model-", &rest);
        if (id > 0 && (!strcmp(rest, ".sock") || !strcmp(rest, ".status")) && !is_listed(l, id))
            unlinkat(dirfd(d), f->d_name, 0);
    }
    if (d)
        closedir(d);
}

void local_records_sweep(const struct local_engines *l)
{
    sweep_cache(l);
    sweep_run(l);
}
