/* sluice import: conversations from a file into a user's history; the server may run meanwhile. */
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/option.h"
#include "engine/text/text_model.h"
#include "fcgi/attachments/attachment.h"
#include "fcgi/cli/cli_store.h"
#include "fcgi/cli/command.h"
#include "fcgi/import/import.h"
#include "fcgi/process/state.h"
#include "sql/chats/store_import.h"
#include "sql/core/store.h"
#include "sql/files/store_attachments.h"

#define PROGRESS_MS 200

struct settings {
    const char *state, *user, *model;
    bool dry_run, json, without_landlock, help;
};

static const struct option options[] = {
    {"user", OPTION_STRING, offsetof(struct settings, user), NULL, 0, 0, NULL, "NAME",
     "whose history it comes into"},
    {"dry-run", OPTION_BOOL, offsetof(struct settings, dry_run), NULL, 0, 0, NULL, NULL,
     "write nothing, say what would be"},
    {"json", OPTION_BOOL, offsetof(struct settings, json), NULL, 0, 0, NULL, NULL,
     "the report as JSON"},
    {"model", OPTION_STRING, offsetof(struct settings, model), NULL, 0, 0, NULL, "PATH",
     "counts the tokens of attached files (default: the model of `sluice up --state DIR`; else "
     "they stay uncounted)"},
    {"without-landlock", OPTION_BOOL, offsetof(struct settings, without_landlock), "false", 0, 0,
     NULL, NULL, "read attached files also where the kernel has no Landlock"},
    {"state", OPTION_STRING, offsetof(struct settings, state), NULL, 0, 0, NULL, "DIR",
     CLI_STATE_HELP},
    {"help", OPTION_BOOL, offsetof(struct settings, help), NULL, 0, 0, NULL, NULL, "show this"},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

extern const struct command cmd_import;

struct importing {
    struct store *store;
    int64_t user_id;
    struct text_model text;
    bool counts; /* text is open */
    bool without_landlock;
    double shown_ms;
};

/* On a terminal, one line that is written over. */
static bool show_progress(void *context, const struct import_progress *p)
{
    struct importing *i = context;
    if (clock_ms() - i->shown_ms < PROGRESS_MS)
        return true;
    i->shown_ms = clock_ms();
    fprintf(stderr, "\r%lld conversations, %.0f%%", (long long)p->report->conversations,
            p->total_bytes ? 100.0 * (double)p->bytes / (double)p->total_bytes : 100.0);
    return true;
}

/* A file out of an own archive: read by sluice-reader, as an upload is. */
static bool take_file(void *context, struct store_upload *file, struct err *e)
{
    const struct importing *i = context;
    int64_t id;
    const struct attachment_source from = {.store = i->store,
                                           .user_id = i->user_id,
                                           .without_landlock = i->without_landlock,
                                           .name = STORE_IMPORTED_FILE,
                                           .text = i->counts ? &i->text : NULL,
                                           .model_id = i->counts ? i->text.name : NULL,
                                           .client = -1};
    return attachment_take(NULL, &from, file, &id, e);
}

/* The model that was asked for, or the one that the server runs: without that the files come in
 * uncounted. */
static bool open_model(const struct settings *o, struct importing *i, struct err *e)
{
    char folder[PATH_MAX], cache[PATH_MAX], name[PATH_MAX];
    struct buf running = {0};
    if (!cli_store_folder(o->state, folder, e) ||
        !file_join(cache, sizeof cache, folder, STATE_CACHE, e) ||
        !file_join(name, sizeof name, folder, STATE_MODEL, e))
        return false;
    if (o->model) {
        i->counts = text_model_open(&i->text, o->model, cache, e);
        return i->counts;
    }
    if (file_exists(name) && file_read(name, PATH_MAX, &running, NULL) && running.len)
        i->counts = text_model_open(&i->text, running.data, cache, NULL);
    buf_fini(&running);
    return true;
}

static void print_report(const struct import_report *r, bool dry_run)
{
    const int64_t named = r->n_problems < IMPORT_PROBLEMS ? r->n_problems : IMPORT_PROBLEMS;
    for (int64_t i = 0; i < named; i++) {
        const struct import_problem *p = &r->problems[i];
        fprintf(stderr, "%s%s%s: %s\n", p->item, *p->path ? " " : "", p->path, p->reason);
    }
    if (r->n_problems > named)
        fprintf(stderr, "and %lld more\n", (long long)(r->n_problems - named));
    printf("%s: %lld conversations, %lld %s (%lld messages), %lld there already, %lld failed\n",
           r->format ? r->format : "unknown", (long long)r->conversations, (long long)r->imported,
           dry_run ? "would be imported" : "imported", (long long)r->messages,
           (long long)r->duplicates, (long long)r->failed);
    if (r->attachments)
        printf("%lld attached files\n", (long long)r->attachments);
    if (r->without_project)
        printf("%lld of them are in no project: the user has as many projects as one may have\n",
               (long long)r->without_project);
    if (r->attachments_missing)
        printf("%lld attached files are not imported\n", (long long)r->attachments_missing);
    if (r->replaced)
        printf("%lld characters that no text can hold were replaced\n", (long long)r->replaced);
}

static bool print_json(const struct import_report *r, bool dry_run, const struct err *e)
{
    struct buf out = {0};
    import_report_json(&out, r, dry_run, e);
    bool ok = !out.failed && puts(out.data) >= 0;
    buf_fini(&out);
    return ok;
}

static bool import_into(const struct settings *o, struct importing *i, int fd, struct err *e)
{
    i->shown_ms = clock_ms();
    struct import_report *report = calloc(1, sizeof *report);
    if (!report)
        return err_set(e, ERR_NOMEM, "memory ran out");
    const bool shown = isatty(2);
    bool ok = import_run(&(struct import_params){.store = i->store,
                                                 .user_id = i->user_id,
                                                 .fd = fd,
                                                 .dry_run = o->dry_run,
                                                 .take_file = take_file,
                                                 .max_file_bytes = INT64_MAX,
                                                 .progress = shown ? show_progress : NULL,
                                                 .context = i},
                         report, e);
    if (shown)
        fputs("\r", stderr);
    if (o->json)
        print_json(report, o->dry_run, ok ? NULL : e);
    else if (ok || report->conversations)
        print_report(report, o->dry_run);
    if (ok && report->failed)
        ok = err_set(e, ERR_FORMAT, "%lld conversations could not be imported",
                     (long long)report->failed);
    free(report);
    return ok;
}

static bool import_file(void *settings, char **words, struct arena *a, struct err *e)
{
    const struct settings *o = settings;
    struct store_user u;
    if (!words[0] || words[1] || !o->user)
        return cli_store_usage(&cmd_import, e);
    int fd = open(words[0], O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, "%s", words[0]);
    struct importing i = {.store = cli_store_open(o->state, false, e)};
    bool ok = i.store && cli_store_user(i.store, a, o->user, &u, e) && open_model(o, &i, e);
    if (ok) {
        i.user_id = u.id;
        i.without_landlock = o->without_landlock;
        ok = import_into(o, &i, fd, e);
    }
    if (ok && !o->dry_run)
        cli_store_audit(i.store, "history.import", "user", u.id);
    if (i.counts)
        text_model_close(&i.text);
    store_close(&i.store);
    close(fd);
    return ok;
}

static int run(int argc, char **argv)
{
    struct settings o = {0};
    return cli_store_run(
        &cmd_import, argc, argv,
        &(struct cli_store_call){.settings = &o, .help = &o.help, .work = import_file});
}

const struct command cmd_import = {
    .name = "import",
    .usage = "FILE --user NAME [--dry-run] [--json] [--model PATH] [--state DIR]",
    .help = "read conversations of Sluice, ChatGPT, Claude, Open WebUI, LibreChat or llama.cpp "
            "into a user's "
            "history",
    .options = options,
    .n_options = N_OPTIONS,
    .run = run,
};
