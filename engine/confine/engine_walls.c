/* engine_walls.h: the engine's files and devices, listed. */
#include "engine/confine/engine_walls.h"

#include <dirent.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/file.h"
#include "engine/confine/confine.h"
#include "engine/confine/landlock.h"

/* Where drivers of GPUs and their settings are, beside confine_system_files. */
static const char *const driver_files[] = {"/etc/vulkan",
                                           "/etc/glvnd",
                                           "/etc/drirc",
                                           "/etc/nvidia",
                                           "/etc/OpenCL",
                                           "/opt/amdgpu",
                                           "/opt/amdgpu-pro",
                                           "/run/opengl-driver",
                                           "/run/nvidia-persistenced",
                                           NULL};
static const char *const devices[] = {"/dev/dri", "/dev/nvidia*",  "/dev/nvidia-caps",
                                      "/dev/kfd", "/dev/dma_heap", "/dev/udmabuf",
                                      "/dev/shm", "/dev/mali*",    "/dev/dxg"};

/* The line for one more folder that the engine keeps files in. */
static void allow_folders(int rules, const struct engine_walls *w)
{
    const char *first = w->cache_dir ? w->cache_dir : w->prompt_cache_dir;
    const char *const writable[] = {first, w->cache_dir ? w->prompt_cache_dir : NULL, NULL};
    landlock_allow_all(rules, writable, LANDLOCK_WRITE);
}

/* NVIDIA's driver gives up when it can't name its threads, which is writing to files of theirs. */
static void allow_devices(int rules)
{
    landlock_allow(rules, "/proc/self/task", LANDLOCK_DEVICE);
    landlock_allow_all(rules, confine_null_devices, LANDLOCK_DEVICE);
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        glob_t found = {0};
        if (glob(devices[i], 0, NULL, &found) == 0)
            for (size_t k = 0; k < found.gl_pathc; k++)
                landlock_allow(rules, found.gl_pathv[k], LANDLOCK_DEVICE);
        globfree(&found);
    }
}

static bool is_of_model(const char *name)
{
    static const char *const endings[] = {".gguf", ".experts"};
    const size_t n = strlen(name);
    for (size_t i = 0; i < 2; i++)
        if (n > strlen(endings[i]) && !strcmp(name + n - strlen(endings[i]), endings[i]))
            return true;
    return false;
}

/* A file's parts and its packed experts lie beside it; what else does is not the model's. Of a
 * folder, links are followed by one step: a hub's cache keeps the files elsewhere. */
static void allow_model(int rules, const char *model)
{
    char folder[4096], path[4096];
    const bool whole = file_is_dir(model);
    const char *slash = strrchr(model, '/');
    landlock_allow(rules, model, LANDLOCK_READ);
    if (whole)
        snprintf(folder, sizeof folder, "%s", model);
    else
        snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - model) + 1 : 1,
                 slash ? model : ".");
    DIR *d = opendir(folder);
    struct stat st;
    for (struct dirent *entry; d && (entry = readdir(d));)
        if (file_join(path, sizeof path, folder, entry->d_name, NULL) &&
            (whole ? lstat(path, &st) == 0 && S_ISLNK(st.st_mode)
                   : is_of_model(entry->d_name) && stat(path, &st) == 0 && S_ISREG(st.st_mode)))
            landlock_allow(rules, path, LANDLOCK_READ);
    if (d)
        closedir(d);
}

bool engine_walls_enter(const struct engine_walls *w, struct err *e)
{
    const struct confine c = {.who = "engine",
                              /* experts are read by rings; workers connect */
                              .leave = CALL_FILTER_RINGS | CALL_FILTER_UNIX,
                              .without_landlock = w->without_landlock,
                              .without_seccomp = w->without_seccomp};
    const int rules = landlock_begin(false, true);
    if (rules >= 0) {
        landlock_allow_all(rules, confine_system_files, LANDLOCK_READ);
        landlock_allow_all(rules, driver_files, LANDLOCK_READ);
        allow_devices(rules);
        allow_model(rules, w->model);
        if (w->draft_model)
            allow_model(rules, w->draft_model);
        allow_folders(rules, w);
    }
    return confine_enter(&c, rules, e);
}

void engine_walls_loaded(bool without_seccomp)
{
    confine_further(CALL_FILTER_UNIX, without_seccomp);
}
