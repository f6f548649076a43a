/* worker_walls.h: the files, programs and calls of each pool, listed. */
#include "fcgi/process/worker_walls.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/confine/confine.h"
#include "engine/confine/landlock.h"
#include "fcgi/process/reader_program.h"
#include "fcgi/process/state.h"
#include "reader/reader.h"

#define MAX_MODELS ((size_t)1 << 20) /* of the file; a larger one lists nothing */

static const char *const reader_files[] = {READER_FILES, NULL}; /* and confine_system_files */
/* By which the C library and libcurl find a host and trust its certificate. */
static const char *const network_files[] = {"/etc/resolv.conf",
                                            "/etc/hosts",
                                            "/etc/host.conf",
                                            "/etc/nsswitch.conf",
                                            "/etc/gai.conf",
                                            "/etc/services",
                                            "/etc/protocols",
                                            "/etc/ssl",
                                            "/etc/pki",
                                            "/etc/crypto-policies",
                                            "/etc/ca-certificates",
                                            "/run/systemd/resolve",
                                            "/run/nscd",
                                            NULL};

/* The loader of this program, which is the reader's too: the kernel runs it first. */
static int find_loader(struct dl_phdr_info *info, size_t size, void *path)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_INTERP)
            *(const char **)path = (const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return 1; /* the first is the program itself */
}

static void allow_reader(int rules)
{
    char reader[4096];
    const char *loader = NULL;
    reader_program_find(reader);
    dl_iterate_phdr(find_loader, &loader);
    const char *const programs[] = {reader, PDFTOTEXT, loader, NULL};
    landlock_allow_all(rules, programs, LANDLOCK_RUN);
    landlock_allow_all(rules, reader_files, LANDLOCK_READ);
}

/* The admin's page lists what lies in the folders of models that `sluice up` names; under systemd
 * there is no such file. */
static void allow_model_folders(int rules, const struct worker *w)
{
    char path[4096];
    struct err ignored;
    cJSON *v = file_join(path, sizeof path, w->state_dir, STATE_MODELS, &ignored)
                   ? json_parse_file(path, MAX_MODELS, &ignored)
                   : NULL;
    const cJSON *folder;
    cJSON_ArrayForEach (folder, cJSON_GetObjectItem(v, "folders"))
        if (cJSON_IsString(folder))
            landlock_allow(rules, folder->valuestring, LANDLOCK_READ);
    cJSON_Delete(v);
}

/* Its folder, because the file may be moved aside and is then made anew. */
static void allow_audit_log(int rules, const char *file)
{
    char folder[4096];
    const char *end = file && *file == '/' ? strrchr(file, '/') : NULL;
    if (!end || end - file >= (int)sizeof folder)
        return;
    snprintf(folder, sizeof folder, "%.*s", end > file ? (int)(end - file) : 1, file);
    landlock_allow(rules, folder, LANDLOCK_WRITE);
}

bool worker_walls_master(const struct worker *w, struct err *e)
{
    const unsigned leave = CALL_FILTER_FORK | CALL_FILTER_SIGNAL | CALL_FILTER_UNIX |
                           (w->pool == POOL_RECORD || w->pool == POOL_RELAY ? 0 : CALL_FILTER_RUN) |
                           (w->network ? CALL_FILTER_NETWORK : 0);
    return confine_enter(&(struct confine){.who = worker_pool_name(w->pool),
                                           .leave = leave,
                                           .without_landlock = w->without_landlock,
                                           .without_seccomp = w->without_seccomp},
                         -1, e);
}

bool worker_walls_child(const struct worker *w, struct err *e)
{
    const char *const folders[] = {w->state_dir, w->run_dir, w->cache_dir, NULL};
    const int rules = w->without_landlock ? -1 : landlock_begin(w->network, true);
    if (rules >= 0) {
        landlock_allow_all(rules, confine_system_files, LANDLOCK_READ);
        landlock_allow_all(rules, confine_null_devices, LANDLOCK_DEVICE);
        landlock_allow_all(rules, folders, LANDLOCK_WRITE);
        landlock_allow(rules, w->engine_run, LANDLOCK_READ);
        landlock_allow(rules, w->log_path, LANDLOCK_READ);
        if (w->network)
            landlock_allow_all(rules, network_files, LANDLOCK_READ);
        if (w->pool == POOL_RECORD)
            allow_audit_log(rules, w->audit_log);
        else if (w->pool != POOL_RELAY)
            allow_reader(rules);
        if (w->pool == POOL_SHORT)
            allow_model_folders(rules, w);
        if (!landlock_end(rules))
            return err_errno(e, "the kernel refuses to hide files (Landlock)");
    }
    const bool narrow = w->pool == POOL_RECORD || w->pool == POOL_RELAY;
    if (narrow && !w->without_seccomp &&
        !call_filter_enter(CALL_FILTER_UNIX | (w->network ? CALL_FILTER_NETWORK : 0), false))
        return err_errno(e, "the kernel refuses a filter of system calls");
    return true;
}
