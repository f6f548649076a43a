/* Finds the memory controller's folder of our control group, in version 2 or version 1, and
 * reads single numbers from its files. */
#include "engine/memory/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINE 2048
#define NO_LIMIT_FROM                                                                              \
    ((uint64_t)1 << 60) /* version 1 writes its "none" as the largest multiple of a page */

static FILE *open_at(const char *a, const char *b, const char *c)
{
    char path[1536];
    int n = snprintf(path, sizeof path, "%s%s%s", a, b, c);
    return n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
}

/* "0::/a/b" or "4:memory:/a/b" */
static bool own_path(const char *root, bool v2, char out[512])
{
    char line[MAX_LINE];
    bool found = false;
    FILE *f = open_at(root, "/proc/self/cgroup", "");
    while (f && !found && fgets(line, sizeof line, f)) {
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        found = v2 ? !names[1] : !strcmp(names + 1, "memory");
        if (found)
            snprintf(out, 512, "%.511s", strcmp(path, "/") ? path : "");
    }
    if (f)
        fclose(f);
    return found;
}

/* A line of mountinfo: "36 25 0:30 ROOT POINT options - type source superoptions". */
static bool find_mount(const char *root, bool v2, char group_root[512], char point[512])
{
    char line[MAX_LINE], type[64], options[512];
    bool found = false;
    FILE *f = open_at(root, "/proc/self/mountinfo", "");
    while (f && !found && fgets(line, sizeof line, f)) {
        const char *end = strstr(line, " - ");
        if (!end || sscanf(line, "%*s %*s %*s %511s %511s", group_root, point) != 2 ||
            sscanf(end + 3, "%63s %*s %511s", type, options) != 2)
            continue;
        found =
            v2 ? !strcmp(type, "cgroup2") : !strcmp(type, "cgroup") && strstr(options, "memory");
    }
    if (f)
        fclose(f);
    return found;
}

static bool find_version(const char *root, bool v2, struct cgroup *g)
{
    char group_root[512], point[512], path[512];
    if (!own_path(root, v2, path) || !find_mount(root, v2, group_root, point))
        return false;
    size_t n = strcmp(group_root, "/") ? strlen(group_root) : 0;
    if (n && (strncmp(path, group_root, n) || (path[n] && path[n] != '/')))
        path[n = 0] = '\0'; /* the mount shows another part of the tree: its top is what we see of
                               ourselves */
    if (strstr(path, "/.."))
        path[n] = '\0'; /* outside our namespace */
    g->v2 = v2;
    snprintf(g->path, sizeof g->path, "%s", path + n);
    return snprintf(g->mount, sizeof g->mount, "%s%s", root, point) < (int)sizeof g->mount;
}

bool cgroup_find(const char *root, struct cgroup *g)
{
    uint64_t ignored;
    /* where both are mounted, the memory controller is in one of them only */
    if (find_version(root, true, g)) {
        FILE *f = open_at(g->mount, g->path, "/memory.current");
        if (f) {
            fclose(f);
            return true;
        }
        struct cgroup v1;
        if (find_version(root, false, &v1)) {
            *g = v1;
            return cgroup_number(g, g->path, "memory.usage_in_bytes", &ignored);
        }
        return true; /* we are at the top, which has no memory.current */
    }
    return find_version(root, false, g) &&
           cgroup_number(g, g->path, "memory.usage_in_bytes", &ignored);
}

bool cgroup_number(const struct cgroup *g, const char *path, const char *file, uint64_t *value)
{
    char name[600], text[64] = "";
    snprintf(name, sizeof name, "%s/%s", path, file);
    FILE *f = open_at(g->mount, name, "");
    if (!f)
        return false;
    bool ok = fgets(text, sizeof text, f) != NULL;
    fclose(f);
    if (!ok)
        return false;
    if (!strncmp(text, "max", 3)) {
        *value = UINT64_MAX;
        return true;
    }
    char *end;
    *value = strtoull(text, &end, 10);
    if (*value >= NO_LIMIT_FROM)
        *value = UINT64_MAX;
    return end != text;
}

uint64_t cgroup_field(const struct cgroup *g, const char *path, const char *file, const char *key)
{
    char name[600], line[256];
    uint64_t value = 0;
    size_t n = strlen(key);
    snprintf(name, sizeof name, "%s/%s", path, file);
    FILE *f = open_at(g->mount, name, "");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, n) && line[n] == ' ') {
            value = strtoull(line + n + 1, NULL, 10);
            break;
        }
    if (f)
        fclose(f);
    return value;
}

bool cgroup_parent(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return true;
}
