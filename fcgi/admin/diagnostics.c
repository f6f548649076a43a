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

void diagnostics_say(const struct diagnostics *c, struct diagnostics_finding f)
{
    if (f.verdict == DIAGNOSTICS_OK)
        f.fix = NULL;
    c->report(c->context, &f);
}

void diagnostics_system(const struct diagnostics *c)
{
    struct utsname u;
    char text[512], size[SIZE_TEXT], processors[24];
    uname(&u);
    snprintf(text, sizeof text, "%s %.64s, %.32s", u.sysname, u.release, u.machine);
    diagnostics_say(c, (struct diagnostics_finding){
                           .what = "system", .code = "system", .found = text, .text = text});
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    snprintf(processors, sizeof processors, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    snprintf(text, sizeof text, "%s of memory, %s processors", size_text(memory, size), processors);
    diagnostics_say(
        c,
        (struct diagnostics_finding){
            .what = "machine", .code = "machine", .found = text, .text = processors, .n = memory});
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        snprintf(text, sizeof text, "%llu open files at most", (unsigned long long)r.rlim_cur);
        diagnostics_say(c, (struct diagnostics_finding){
                               .verdict = r.rlim_cur < 1024 ? DIAGNOSTICS_WARNING : DIAGNOSTICS_OK,
                               .what = "file limit",
                               .code = "file_limit",
                               .found = text,
                               .fix = "ulimit -n 4096, or LimitNOFILE= in the unit",
                               .n = (double)r.rlim_cur});
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
        diagnostics_say(c, (struct diagnostics_finding){.verdict = DIAGNOSTICS_WARNING,
                                                        .what = "instructions",
                                                        .code = "instructions_unread",
                                                        .found = "/proc/cpuinfo cannot be read",
                                                        .fix = "mount /proc"});
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
    const bool fast = strstr(text, "avx2") && strstr(text, "fma");
    diagnostics_say(
        c, (struct diagnostics_finding){
               .verdict = fast ? DIAGNOSTICS_OK : DIAGNOSTICS_WARNING,
               .what = "instructions",
               .code = text[0] ? "instructions" : "instructions_none",
               .found = text[0] ? text : "none of avx2, avx512",
               .fix = "the cpu backend runs in plain C here, slowly; a GPU or a processor of "
                      "2013 or later helps",
               .text = text});
    buf_fini(&info);
}

void diagnostics_sqlite(const struct diagnostics *c)
{
    char text[512];
    const enum store_sqlite_fault fault = store_sqlite_fault();
    const char *warning = store_sqlite_warning();
    snprintf(text, sizeof text, "%s%s%s", store_sqlite_version(), warning ? ": " : "",
             warning ? warning : "");
    diagnostics_say(c, (struct diagnostics_finding){
                           .verdict = warning ? DIAGNOSTICS_WARNING : DIAGNOSTICS_OK,
                           .what = "SQLite",
                           .code = fault == STORE_SQLITE_FINE        ? "sqlite"
                                   : fault == STORE_SQLITE_WAL_RESET ? "sqlite_wal_reset"
                                                                     : "sqlite_withdrawn",
                           .found = text,
                           .fix = "nothing has to be done; a newer libsqlite3 removes the warning",
                           .text = store_sqlite_version()});
}

static void check_disk(const struct diagnostics *c, const char *state_dir)
{
    struct statvfs v;
    char text[256], size[SIZE_TEXT];
    if (statvfs(state_dir, &v) != 0)
        return;
    const double there = (double)v.f_bavail * (double)v.f_frsize;
    snprintf(text, sizeof text, "%s free", size_text(there, size));
    diagnostics_say(
        c, (struct diagnostics_finding){.verdict = there < 1e9   ? DIAGNOSTICS_FAILURE
                                                   : there < 5e9 ? DIAGNOSTICS_WARNING
                                                                 : DIAGNOSTICS_OK,
                                        .what = "disk",
                                        .code = "disk",
                                        .found = text,
                                        .fix = "make room: history and caches are kept there",
                                        .n = there});
}

bool diagnostics_state_folder(const struct diagnostics *c, const char *state_dir)
{
    struct stat st;
    if (!file_is_dir(state_dir)) {
        diagnostics_say(c, (struct diagnostics_finding){.verdict = DIAGNOSTICS_FAILURE,
                                                        .what = "state folder",
                                                        .code = "state_folder_missing",
                                                        .found = "there is none",
                                                        .fix = "`sluice up --state DIR` makes it"});
        return false;
    }
    const bool mine = access(state_dir, R_OK | W_OK | X_OK) == 0;
    diagnostics_say(
        c, (struct diagnostics_finding){.verdict = mine ? DIAGNOSTICS_OK : DIAGNOSTICS_FAILURE,
                                        .what = "state folder",
                                        .code = mine ? "state_folder" : "state_folder_denied",
                                        .found = state_dir,
                                        .fix = "give it to the user that runs sluice (chown)",
                                        .text = state_dir});
    if (stat(state_dir, &st) == 0 && (st.st_mode & 0007))
        diagnostics_say(
            c, (struct diagnostics_finding){.verdict = DIAGNOSTICS_WARNING,
                                            .what = "permissions",
                                            .code = "permissions",
                                            .found = "the state folder is open to everyone",
                                            .fix = "chmod 750 on it"});
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
        diagnostics_say(c,
                        (struct diagnostics_finding){
                            .verdict = DIAGNOSTICS_FAILURE,
                            .what = "second factors",
                            .code = "factors_unread",
                            .found = e.text,
                            .fix = "see that STATE/factor.key belongs to the user that runs sluice",
                            .text = e.text});
    } else if (lost) {
        snprintf(text, sizeof text, "%d can't be read: factor.key is missing or another one", lost);
        diagnostics_say(c,
                        (struct diagnostics_finding){
                            .verdict = DIAGNOSTICS_WARNING,
                            .what = "second factors",
                            .code = "factors_lost",
                            .found = text,
                            .fix = "put the old STATE/factor.key back; or users log in by recovery "
                                   "codes, and `sluice user reset-factor NAME`",
                            .n = lost});
    }
}

void diagnostics_database(const struct diagnostics *c, const char *path)
{
    struct err e = {0};
    struct store *s = store_open(&(struct store_params){.path = path}, &e);
    const bool whole = s && store_quick_check(s, &e);
    diagnostics_say(
        c, (struct diagnostics_finding){.verdict = whole ? DIAGNOSTICS_OK : DIAGNOSTICS_FAILURE,
                                        .what = "database",
                                        .code = whole ? "database" : "database_broken",
                                        .found = whole ? "whole (quick_check)" : e.text,
                                        .fix = "stop sluice and restore the newest backup",
                                        .text = whole ? NULL : e.text});
    if (whole)
        check_factors(c, s);
    store_close(&s);
}

/* What matters of an engine that is ready. */
static void check_ready(const struct diagnostics *c, const struct status_page *page)
{
    char text[512];
    const double since = (double)clock_wall_ms() / 1e3 - page->heartbeat;
    const double age = since > 0 ? since : 0;
    snprintf(text, sizeof text, "%.1f s ago", age);
    diagnostics_say(
        c, (struct diagnostics_finding){
               .verdict = age < HEARTBEAT_WARN_S ? DIAGNOSTICS_OK : DIAGNOSTICS_WARNING,
               .what = "heartbeat",
               .code = "heartbeat",
               .found = text,
               .fix = "a step takes long or the machine is overloaded; watch the load, use a "
                      "smaller --prefill-chunk",
               .n = age});
    if (page->backend_note[0])
        diagnostics_say(c, (struct diagnostics_finding){.verdict = DIAGNOSTICS_WARNING,
                                                        .what = "strategy",
                                                        .code = "strategy",
                                                        .found = page->backend_note,
                                                        .fix = "see docs/operations/memory.md",
                                                        .text = page->backend_note});
    if (page->memory_pressure_shrinks) {
        snprintf(text, sizeof text, "the expert cache gave way to other programs %llu times",
                 (unsigned long long)page->memory_pressure_shrinks);
        diagnostics_say(
            c, (struct diagnostics_finding){
                   .verdict = DIAGNOSTICS_WARNING,
                   .what = "memory",
                   .code = "memory",
                   .found = text,
                   .fix = "give the machine more memory, or other programs less; --ram-budget "
                          "sets the limit",
                   .n = (double)page->memory_pressure_shrinks});
    }
}

void diagnostics_engine(const struct diagnostics *c, const struct status_page *page)
{
    char text[512], code[32];
    if (!page) {
        diagnostics_say(c, (struct diagnostics_finding){.what = "engine",
                                                        .found = "has not been started here"});
        return;
    }
    snprintf(text, sizeof text, "%s%s%.200s", engine_state_name(page->state),
             page->error[0] ? ": " : "", page->error);
    snprintf(code, sizeof code, "engine_%s", engine_state_name(page->state));
    diagnostics_say(c, (struct diagnostics_finding){.verdict = page->state == ENGINE_READY
                                                                   ? DIAGNOSTICS_OK
                                                                   : DIAGNOSTICS_WARNING,
                                                    .what = "engine",
                                                    .code = code,
                                                    .found = text,
                                                    .fix = "look at the log of `sluice up`",
                                                    .text = page->error});
    if (page->state == ENGINE_READY)
        check_ready(c, page);
}

void diagnostics_wal(const struct diagnostics *c, struct store *store)
{
    struct store_facts f;
    struct err e = {0};
    char text[128], size[SIZE_TEXT];
    if (!store_facts(store, &f, &e)) {
        diagnostics_say(c, (struct diagnostics_finding){.verdict = DIAGNOSTICS_FAILURE,
                                                        .what = "write-ahead log",
                                                        .code = "wal_unread",
                                                        .found = e.text,
                                                        .fix = "look at the log of the recorder",
                                                        .text = e.text});
        return;
    }
    snprintf(text, sizeof text, "%s waiting to be moved into the database",
             size_text((double)f.wal_bytes, size));
    diagnostics_say(
        c, (struct diagnostics_finding){
               .verdict = f.wal_bytes < WAL_WARN_BYTES ? DIAGNOSTICS_OK : DIAGNOSTICS_WARNING,
               .what = "write-ahead log",
               .code = "wal",
               .found = text,
               .fix = "the recorder moves it; see that the recorder runs, and that no reader "
                      "stays open for hours",
               .n = (double)f.wal_bytes});
}
