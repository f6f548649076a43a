/* sluice doctor: each thing that the server needs, whether it is there, and what mends it. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/option.h"
#include "engine/model/backend.h"
#include "engine/wire/status.h"
#include "fcgi/cli/command.h"
#include "fcgi/cli/nginx_conf.h"
#include "fcgi/state.h"
#include "sql/store.h"

extern const struct command cmd_doctor;

enum verdict { FINE, WARNING, FAILURE };

struct doctor {
    const char *state, *share_dir;
    bool json;
    struct buf out;
    int n, warnings, failures;
};

static const struct option options[] = {
    {"state", OPTION_STRING, offsetof(struct doctor, state), NULL, 0, 0, NULL, "DIR", "also look at this state folder"},
    {"share-dir", OPTION_STRING, offsetof(struct doctor, share_dir), SLUICE_DATADIR, 0, 0, NULL, "DIR",
     "where the page and nginx's templates are"},
    {"json", OPTION_BOOL, offsetof(struct doctor, json), "false", 0, 0, NULL, NULL, "as JSON"},
};

/* One line: what was looked at, what was found, what to do about it (NULL: nothing). */
static void report(struct doctor *d, enum verdict v, const char *what, const char *found, const char *fix)
{
    static const char *const words[] = {"ok", "warning", "failed"};
    d->warnings += v == WARNING;
    d->failures += v == FAILURE;
    if (!d->json) {
        printf("%-8s %-18s %s\n", words[v], what, found);
        if (fix && v != FINE)
            printf("%-8s %-18s   fix: %s\n", "", "", fix);
        return;
    }
    buf_printf(&d->out, "%s{\"check\":", d->n++ ? "," : "");
    buf_json_string(&d->out, what, strlen(what));
    buf_printf(&d->out, ",\"verdict\":\"%s\",\"found\":", words[v]);
    buf_json_string(&d->out, found, strlen(found));
    if (fix && v != FINE) {
        buf_puts(&d->out, ",\"fix\":");
        buf_json_string(&d->out, fix, strlen(fix));
    }
    buf_puts(&d->out, "}");
}

static void check_system(struct doctor *d)
{
    struct utsname u;
    char text[512];
    uname(&u);
    snprintf(text, sizeof text, "%s %.64s, %.32s", u.sysname, u.release, u.machine);
    report(d, FINE, "system", text, NULL);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    snprintf(text, sizeof text, "%.1f GiB of memory, %ld processors", (double)pages * (double)page / (1 << 30),
             sysconf(_SC_NPROCESSORS_ONLN));
    report(d, FINE, "machine", text, NULL);
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        snprintf(text, sizeof text, "%llu open files at most", (unsigned long long)r.rlim_cur);
        report(d, r.rlim_cur < 1024 ? WARNING : FINE, "file limit", text, "ulimit -n 4096, or LimitNOFILE= in the unit");
    }
}

/* Which instruction sets the cpu backend can pick from. */
static void check_cpu(struct doctor *d)
{
    static const char *const wanted[] = {"avx2", "fma", "f16c", "avx512bw", "avx512_vnni", "avx512_bf16"};
    struct buf info = {0};
    char text[256] = "";
    if (!file_read("/proc/cpuinfo", (size_t)64 << 20, &info, NULL)) {
        report(d, WARNING, "instructions", "/proc/cpuinfo cannot be read", "mount /proc");
        return;
    }
    char *flags = strstr(info.data, "\nflags");
    char *end = flags ? strchr(flags + 1, '\n') : NULL;
    if (end)
        *end = '\0';
    for (size_t i = 0; flags && i < sizeof wanted / sizeof wanted[0]; i++) {
        char word[32];
        snprintf(word, sizeof word, " %s", wanted[i]);
        const char *at = strstr(flags, word);
        if (at && (at[strlen(word)] == ' ' || !at[strlen(word)]))
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", text[0] ? " " : "", wanted[i]);
    }
    bool fast = strstr(text, "avx2") && strstr(text, "fma");
    report(d, fast ? FINE : WARNING, "instructions", text[0] ? text : "none of avx2, avx512",
           "the cpu backend runs in plain C here, slowly; a GPU or a processor of 2013 or later helps");
    buf_fini(&info);
}

static void check_vulkan(struct doctor *d)
{
    struct err e = {0};
    if (!vulkan_backend.probe(&e))
        report(d, WARNING, "GPU (Vulkan)", e.text,
               "models run on the CPU; for a GPU install its Vulkan driver (mesa-vulkan-drivers, or the vendor's)");
    else if (vulkan_is_software())
        report(d, WARNING, "GPU (Vulkan)", "only a software rasteriser answers",
               "models run on the CPU; for a GPU install its Vulkan driver");
    else
        report(d, FINE, "GPU (Vulkan)", "a device answers; --backend auto takes it", NULL);
}

static void check_programs(struct doctor *d)
{
    const char *nginx = nginx_program();
    report(d, nginx ? FINE : FAILURE, "nginx", nginx ? nginx : "not found", "apt install nginx-light");
    char path[4096];
    const char *const shares[] = {"web/index.html", "web/vendor/markdown-it.min.js", "nginx/up.conf.in"};
    bool all = true;
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++)
        all = file_join(path, sizeof path, d->share_dir, shares[i], NULL) && file_exists(path) && all;
    report(d, all ? FINE : FAILURE, "page", d->share_dir, "make install (it needs npm once, for three libraries)");
    const char *warning = store_sqlite_warning();
    snprintf(path, sizeof path, "%s%s%s", store_sqlite_version(), warning ? ": " : "", warning ? warning : "");
    report(d, warning ? WARNING : FINE, "SQLite", path, "nothing has to be done; a newer libsqlite3 removes the warning");
}

static void check_disk(struct doctor *d)
{
    struct statvfs v;
    char text[256];
    if (statvfs(d->state, &v) != 0)
        return;
    double gib = (double)v.f_bavail * (double)v.f_frsize / (1 << 30);
    snprintf(text, sizeof text, "%.1f GiB free", gib);
    report(d, gib < 1 ? FAILURE : gib < 5 ? WARNING : FINE, "disk", text, "make room: history and caches are kept there");
}

static void check_state(struct doctor *d)
{
    char path[4096];
    struct err e = {0};
    struct stat st;
    if (!d->state)
        return;
    if (!file_is_dir(d->state)) {
        report(d, FAILURE, "state folder", "there is none", "`sluice up --state DIR` makes it");
        return;
    }
    bool mine = access(d->state, R_OK | W_OK | X_OK) == 0;
    report(d, mine ? FINE : FAILURE, "state folder", d->state, "give it to the user that runs sluice (chown)");
    if (stat(d->state, &st) == 0 && (st.st_mode & 0007))
        report(d, WARNING, "permissions", "the state folder is open to everyone", "chmod 750 on it");
    check_disk(d);
    struct store *s = NULL;
    if (mine && file_join(path, sizeof path, d->state, STATE_DATABASE, &e) && file_exists(path)) {
        s = store_open(&(struct store_params){.path = path}, &e);
        bool whole = s && store_quick_check(s, &e);
        report(d, whole ? FINE : FAILURE, "database", whole ? "whole (quick_check)" : e.text,
               "stop sluice and restore the newest backup");
        store_close(&s);
    }
    static struct status_page page;
    if (file_join(path, sizeof path, d->state, STATE_STATUS, &e) && status_read(path, &page, &e)) {
        char text[512];
        snprintf(text, sizeof text, "%s%s%.200s", engine_state_name(page.state), page.error[0] ? ": " : "", page.error);
        report(d, page.state == ENGINE_READY ? FINE : WARNING, "engine", text, "look at the log of `sluice up`");
    } else {
        report(d, FINE, "engine", "has not been started here", NULL);
    }
}

static int run_doctor(int argc, char **argv)
{
    struct doctor d = {0};
    struct err e = {0};
    size_t n = sizeof options / sizeof options[0];
    if (argc > 1 && !strcmp(argv[1], "--help")) {
        printf("usage: sluice doctor %s\n\n%s\n\n", cmd_doctor.usage, cmd_doctor.help);
        option_help(options, n);
        return 0;
    }
    if (!option_parse(options, n, argc, argv, &d, NULL, &e)) {
        command_fail("doctor", &e);
        return 2;
    }
    check_system(&d);
    check_cpu(&d);
    check_vulkan(&d);
    check_programs(&d);
    check_state(&d);
    if (d.json)
        printf("{\"checks\":[%s],\"warnings\":%d,\"failures\":%d}\n", d.out.data, d.warnings, d.failures);
    else
        printf("\n%d failures, %d warnings\n", d.failures, d.warnings);
    buf_fini(&d.out);
    return d.failures ? 1 : 0;
}

const struct command cmd_doctor = {
    .name = "doctor",
    .usage = "[--state DIR] [--json]",
    .help = "look at each thing the server needs, and say what mends it",
    .run = run_doctor,
};
