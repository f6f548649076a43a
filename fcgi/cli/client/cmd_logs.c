/* sluice logs: the newest lines of all programs of a server, as the admin's page shows them. */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/log_ring.h"
#include "fcgi/cli/cli_options.h"
#include "fcgi/cli/cli_store.h"
#include "fcgi/process/state.h"

extern const struct command cmd_logs;

struct show {
    const char *state, *level, *program;
    int64_t lines;
    bool follow, json;
};

#define FIELD(name) offsetof(struct show, name)
static const struct option options[] = {
    {"state", OPTION_STRING, FIELD(state), NULL, 0, 0, NULL, "DIR", CLI_STATE_HELP},
    {"lines", OPTION_INT, FIELD(lines), "100", 1, LOG_RING_LINES, NULL, "N", "the newest N"},
    {"level", OPTION_CHOICE, FIELD(level), "debug", 0, 0, "error|warn|info|debug", NULL,
     "only lines of this level or a graver one"},
    {"program", OPTION_CHOICE, FIELD(program), "all", 0, 0, "all|up|engine|worker", NULL,
     "only of this program"},
    {"follow", OPTION_BOOL, FIELD(follow), "false", 0, 0, NULL, NULL, "go on with what comes"},
    {"json", OPTION_BOOL, FIELD(json), "false", 0, 0, NULL, NULL, "a JSON object for each line"},
};

static const char *level_name(const struct log_ring_line *l)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    return names[l->level >= 0 && l->level <= LOG_DEBUG ? l->level : LOG_DEBUG];
}

static void print_line(const struct show *s, const struct log_ring_line *l)
{
    char when[32];
    struct tm tm;
    time_t t = (time_t)(l->at_ms / 1000);
    if (s->json) {
        struct buf b = {0};
        buf_printf(&b, "{\"sequence\":%llu,\"at\":%lld,\"pid\":%d", (unsigned long long)l->sequence,
                   (long long)l->at_ms, (int)l->pid);
        buf_json_member(&b, "level", level_name(l));
        buf_json_member(&b, "program", l->program);
        buf_json_member(&b, "module", l->module);
        buf_json_member(&b, "text", l->text);
        buf_puts(&b, "}");
        puts(b.failed ? "{}" : b.data);
        buf_fini(&b);
        return;
    }
    if (!localtime_r(&t, &tm) || !strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm))
        when[0] = '\0';
    printf("%s %-5s %s[%d] %s: %s\n", when, level_name(l), l->program, (int)l->pid, l->module,
           l->text);
}

static void show(const struct show *s, const char *path, struct log_ring_line *lines)
{
    struct log_ring_query q = {.path = path,
                               .level = (enum log_level)log_level_from_name(s->level),
                               .max = LOG_RING_LINES};
    for (int64_t most = s->lines;; most = LOG_RING_LINES) {
        int n = log_ring_read(&q, lines, &q.after), wanted = 0, from = n;
        for (; from > 0 && wanted < most; from--)
            wanted += !strcmp(s->program, "all") || !strcmp(s->program, lines[from - 1].program);
        for (int i = from; i < n; i++)
            if (!strcmp(s->program, "all") || !strcmp(s->program, lines[i].program))
                print_line(s, &lines[i]);
        if (fflush(stdout) != 0 || !s->follow)
            return;
        nanosleep(&(struct timespec){0, 250000000}, NULL);
    }
}

static int run(int argc, char **argv)
{
    struct show s = {0};
    struct err e = {0};
    char folder[PATH_MAX], path[PATH_MAX];
    int status = cli_options(&cmd_logs, argc, argv, &s, NULL);
    if (status >= 0)
        return status;
    struct log_ring_line *lines = malloc(LOG_RING_LINES * sizeof *lines);
    bool ok = (lines || err_set(&e, ERR_NOMEM, "no memory for the log")) &&
              cli_store_folder(s.state, folder, &e) &&
              file_join(path, sizeof path, folder, STATE_LOG, &e);
    if (ok && access(path, R_OK) != 0)
        ok = err_errno(&e, "%s; a server of `sluice up --state DIR` writes its log there", path);
    if (ok)
        show(&s, path, lines);
    free(lines);
    return ok ? 0 : command_fail("logs", &e);
}

const struct command cmd_logs = {
    .name = "logs",
    .usage = "[--state DIR] [--lines N] [--level error|warn|info|debug] [--follow] [--json]",
    .help = "show the newest log lines of all programs of a server",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
