/* diagnostics.h: each function looks at one thing and reports what it found, with the way to mend
 * it. */
#include "fcgi/admin/diagnostics.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/size_text.h"
#include "engine/wire/status.h"
#include "sql/core/store.h"
#include "sql/users/store_factor.h"

#define WAL_WARN_BYTES ((int64_t)256 << 20)
#define HEARTBEAT_WARN_S 5.0

const char *diagnostics_verdict_name(enum diagnostics_verdict v)
{
    static const char *const words[DIAGNOSTICS__N] = {"ok", "warning", "failed"};
    return words[v];
}

static void report(const struct diagnostics *c, enum diagnostics_verdict v, const char *what,
                   const char *found, const char *fix)
{
    c->report(c->context, v, what, found, v == DIAGNOSTICS_OK ? NULL : fix);
}

void diagnostics_system(const struct diagnostics *c)
{
    struct utsname u;
    char text[512], size[SIZE_TEXT];
    uname(&u);
    snprintf(text, sizeof text, "%s %.64s, %.32s", u.sysname, u.release, u.machine);
    report(c, DIAGNOSTICS_OK, "system", text, NULL);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    snprintf(text, sizeof text, "%s of memory, %ld processors",
             size_text((double)pages * (double)page, size), sysconf(_SC_NPROCESSORS_ONLN));
    report(c, DIAGNOSTICS_OK, "machine", text, NULL);
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        snprintf(text, sizeof text, "%llu open files at most", (unsigned long long)r.rlim_cur);
        report(c, r.rlim_cur < 1024 ? DIAGNOSTICS_WARNING : DIAGNOSTICS_OK, "file limit", text,
               "ulimit -n 4096, or LimitNOFILE= in the unit");
    }
}

/* Lists the instruction sets that the cpu backend can pick from. */
void diagnostics_instructions(const struct diagnostics *c)
{
    static const char *const wanted[] = {"avx2",     "fma",         "f16c",
                                         "avx512bw", "avx512_vnni", "avx512_bf16"};
    struct buf info = {0};
    char text[256] = "";
    if (!file_read("/proc/cpuinfo", (size_t)64 << 20, &info, NULL)) {
        report(c, DIAGNOSTICS_WARNING, "instructions", "/proc/cpuinfo cannot be read",
               "mount /proc");
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
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", text[0] ? " " : "",
                     wanted[i]);
    }
    bool fast = strstr(text, "avx2") && strstr(text, "fma");
    report(c, fast ? DIAGNOSTICS_OK : DIAGNOSTICS_WARNING, "instructions",
           text[0] ? text : "none of avx2, avx512",
           "the cpu backend runs in plain C here, slowly; a GPU or a processor of 2013 or later "
           "helps");
    buf_fini(&info);
}

void diagnostics_sqlite(const struct diagnostics *c)
{
    char text[512];
    const char *warning = store_sqlite_warning();
    snprintf(text, sizeof text, "%s%s%s", store_sqlite_version(), warning ? ": " : "",
             warning ? warning : "");
    report(c, warning ? DIAGNOSTICS_WARNING : DIAGNOSTICS_OK, "SQLite", text,
           "nothing has to be done; a newer libsqlite3 removes the warning");
}

static void check_disk(const struct diagnostics *c, const char *state_dir)
{
    struct statvfs v;
    char text[256], size[SIZE_TEXT];
    if (statvfs(state_dir, &v) != 0)
        return;
    const double there = (double)v.f_bavail * (double)v.f_frsize;
    snprintf(text, sizeof text, "%s free", size_text(there, size));
    report(c,
           there < 1e9   ? DIAGNOSTICS_FAILURE
           : there < 5e9 ? DIAGNOSTICS_WARNING
                         : DIAGNOSTICS_OK,
           "disk", text, "make room: history and caches are kept there");
}

bool diagnostics_state_folder(const struct diagnostics *c, const char *state_dir)
{
    struct stat st;
    if (!file_is_dir(state_dir)) {
        report(c, DIAGNOSTICS_FAILURE, "state folder", "there is none",
               "`sluice up --state DIR` makes it");
        return false;
    }
    bool mine = access(state_dir, R_OK | W_OK | X_OK) == 0;
    report(c, mine ? DIAGNOSTICS_OK : DIAGNOSTICS_FAILURE, "state folder", state_dir,
           "give it to the user that runs sluice (chown)");
    if (stat(state_dir, &st) == 0 && (st.st_mode & 0007))
        report(c, DIAGNOSTICS_WARNING, "permissions", "the state folder is open to everyone",
               "chmod 750 on it");
    check_disk(c, state_dir);
    return mine;
}

/* Reads every log file, so it serves a single request, not the poll of a page. */
static void check_factors(const struct diagnostics *c, struct store *s)
{
    struct err e = {0};
    int lost = 0;
    char text[128];
    if (!store_factor_lost(s, &lost, &e)) {
        report(c, DIAGNOSTICS_FAILURE, "second factors", e.text,
               "see that STATE/factor.key belongs to the user that runs sluice");
    } else if (lost) {
        snprintf(text, sizeof text, "%d can't be read: factor.key is missing or another one", lost);
        report(c, DIAGNOSTICS_WARNING, "second factors", text,
               "put the old STATE/factor.key back; or users log in by recovery codes, and `sluice "
               "user reset-factor NAME`");
    }
}

void diagnostics_database(const struct diagnostics *c, const char *path)
{
    struct err e = {0};
    struct store *s = store_open(&(struct store_params){.path = path}, &e);
    bool whole = s && store_quick_check(s, &e);
    report(c, whole ? DIAGNOSTICS_OK : DIAGNOSTICS_FAILURE, "database",
           whole ? "whole (quick_check)" : e.text, "stop sluice and restore the newest backup");
    if (whole)
        check_factors(c, s);
    store_close(&s);
}

void diagnostics_engine(const struct diagnostics *c, const struct status_page *page)
{
    char text[512];
    if (!page) {
        report(c, DIAGNOSTICS_OK, "engine", "has not been started here", NULL);
        return;
    }
    snprintf(text, sizeof text, "%s%s%.200s", engine_state_name(page->state),
             page->error[0] ? ": " : "", page->error);
    report(c, page->state == ENGINE_READY ? DIAGNOSTICS_OK : DIAGNOSTICS_WARNING, "engine", text,
           "look at the log of `sluice up`");
    if (page->state != ENGINE_READY)
        return;
    double age = (double)clock_wall_ms() / 1e3 - page->heartbeat;
    snprintf(text, sizeof text, "%.1f s ago", age > 0 ? age : 0);
    report(c, age < HEARTBEAT_WARN_S ? DIAGNOSTICS_OK : DIAGNOSTICS_WARNING, "heartbeat", text,
           "a step takes long or the machine is overloaded; watch the load, use a smaller "
           "--prefill-chunk");
    if (page->backend_note[0])
        report(c, DIAGNOSTICS_WARNING, "strategy", page->backend_note,
               "see docs/operations/memory.md");
    if (page->memory_pressure_shrinks) {
        snprintf(text, sizeof text, "the expert cache gave way to other programs %llu times",
                 (unsigned long long)page->memory_pressure_shrinks);
        report(c, DIAGNOSTICS_WARNING, "memory", text,
               "give the machine more memory, or other programs less; --ram-budget sets the limit");
    }
}

void diagnostics_wal(const struct diagnostics *c, struct store *store)
{
    struct store_facts f;
    struct err e = {0};
    char text[128], size[SIZE_TEXT];
    if (!store_facts(store, &f, &e)) {
        report(c, DIAGNOSTICS_FAILURE, "write-ahead log", e.text,
               "look at the log of the recorder");
        return;
    }
    snprintf(text, sizeof text, "%s waiting to be moved into the database",
             size_text((double)f.wal_bytes, size));
    report(c, f.wal_bytes < WAL_WARN_BYTES ? DIAGNOSTICS_OK : DIAGNOSTICS_WARNING,
           "write-ahead log", text,
           "the recorder moves it; see that the recorder runs, and that no reader stays open for "
           "hours");
}
