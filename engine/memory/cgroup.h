/* Reads the memory controller's files of our control group. Private to engine/memory. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct cgroup {
    bool v2;         /* else the memory controller of version 1 */
    char mount[512]; /* root included: the folder of the topmost group that we see */
    char path[512];  /* ours below it: "" or "/a/b" */
};

/* False: no memory controller is mounted, or the kernel has none. */
bool cgroup_find(const char *root, struct cgroup *g);
/* Reads a file of the group at `path` that holds one number ("max" and numbers too large for memory
 * give UINT64_MAX). False: there is no such file. */
bool cgroup_number(const struct cgroup *g, const char *path, const char *file, uint64_t *value);
/* The value after `key` in a file of lines "key value"; 0 if there is none. */
uint64_t cgroup_field(const struct cgroup *g, const char *path, const char *file, const char *key);
/* Cuts the last component; false at the top. */
bool cgroup_parent(char *path);
