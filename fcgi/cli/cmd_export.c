/* sluice export: one user's conversations in any format, in bounded memory, all from one moment. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/option.h"
#include "fcgi/cli/cli_store.h"
#include "fcgi/cli/command.h"
#include "fcgi/export/export.h"
#include "sql/core/store.h"

struct settings {
    const char *state, *output, *format, *conversation;
    bool trash, help;
};

static const struct option options[] = {
    {"state", OPTION_STRING, offsetof(struct settings, state), NULL, 0, 0, NULL, "DIR",
     CLI_STATE_HELP},
    {"format", OPTION_CHOICE, offsetof(struct settings, format), "json", 0, 0,
     "json|jsonl|markdown|html|text|zip", "NAME",
     "json: all there is; jsonl: OpenAI's fine-tuning form; markdown, html, text: the branch that "
     "is shown; "
     "zip: a JSON file for each conversation"},
    {"conversation", OPTION_STRING, offsetof(struct settings, conversation), NULL, 0, 0, NULL,
     "ID,...", "only these (default: all but the trash)"},
    {"trash", OPTION_BOOL, offsetof(struct settings, trash), NULL, 0, 0, NULL, NULL,
     "also what is in the trash"},
    {"output", OPTION_STRING, offsetof(struct settings, output), NULL, 0, 0, NULL, "FILE",
     "write there (0600) instead of to standard output"},
    {"help", OPTION_BOOL, offsetof(struct settings, help), NULL, 0, 0, NULL, NULL, "show this"},
};

extern const struct command cmd_export;

static bool write_out(void *context, const void *data, size_t len, struct err *e)
{
    return fwrite(data, 1, len, context) == len || err_errno(e, "writing the export");
}

/* "12,7" -> "[12,7]" */
static bool put_ids(struct buf *out, const char *text)
{
    char *end;
    for (const char *p = text;; p = end + 1) {
        if (*p < '1' || *p > '9' || strcspn(p, ",") > 18)
            return false;
        buf_printf(out, "%c%lld", p == text ? '[' : ',', strtoll(p, &end, 10));
        if (*end != ',')
            return !*end && buf_putc(out, ']');
    }
}

static bool choose(const struct settings *o, int64_t user_id, struct store_export *which,
                   struct buf *ids, struct err *e)
{
    *which = (struct store_export){.user_id = user_id,
                                   .trashed = o->trash || o->conversation ? WHICH_ANY : WHICH_NO};
    if (!o->conversation)
        return true;
    if (!put_ids(ids, o->conversation))
        return err_field(e, ERR_INPUT, "--conversation", "must be ids with commas between them");
    which->ids = ids->data;
    return true;
}

static bool put_all(struct export_params *p, const struct settings *o, const char *user,
                    struct err *e)
{
    struct store_export_counts n;
    if (!store_export_begin(p->store, e))
        return false;
    bool ok = store_export_count(p->store, &p->which, &n, e);
    if (ok && o->conversation && !n.conversations)
        ok = err_set(e, ERR_NOTFOUND, "%s has no such conversation", user);
    ok = ok && export_run(p, e) &&
         (fflush(p->sink.context) == 0 || err_errno(e, "writing the export"));
    store_export_end(p->store);
    if (ok)
        fprintf(stderr, "%lld conversations of %s, %lld messages\n", (long long)n.conversations,
                user, (long long)n.messages);
    return ok;
}

static FILE *open_output(const char *path, struct err *e)
{
    if (!path)
        return stdout;
    FILE *f = fopen(path, "we");
    if (!f || fchmod(fileno(f), 0600)) {
        err_errno(e, "%s", path);
        if (f)
            fclose(f);
        return NULL;
    }
    return f;
}

static bool export_user(void *settings, char **words, struct arena *a, struct err *e)
{
    const struct settings *o = settings;
    struct store_user u;
    struct buf ids = {0};
    struct export_params p = {.format = export_format_find(o->format),
                              .exported_at = clock_wall_ms()};
    if (!words[0] || words[1])
        return cli_store_usage(&cmd_export, e);
    if (!o->output && !export_format_plain(p.format) && isatty(STDOUT_FILENO))
        return err_set(e, ERR_INPUT, "an archive is not for a terminal; use --output FILE");
    p.store = cli_store_open(o->state, false, e);
    FILE *out = NULL;
    bool ok = p.store && cli_store_user(p.store, a, words[0], &u, e) &&
              choose(o, u.id, &p.which, &ids, e) && (out = open_output(o->output, e));
    if (ok) {
        p.sink = (struct export_sink){write_out, out};
        ok = put_all(&p, o, u.name, e);
        if (o->output && fclose(out) && ok)
            ok = err_errno(e, "%s", o->output);
        if (!ok && o->output)
            unlink(o->output); /* half an export is none */
    }
    buf_fini(&ids);
    store_close(&p.store);
    return ok;
}

static int run(int argc, char **argv)
{
    struct settings o = {0};
    return cli_store_run(
        &cmd_export, argc, argv,
        &(struct cli_store_call){.settings = &o, .help = &o.help, .work = export_user});
}

const struct command cmd_export = {
    .name = "export",
    .usage = "USER [--format NAME] [--conversation ID,...] [--trash] [--output FILE] [--state DIR]",
    .help = "write a user's conversations: JSON, Markdown, HTML, text, JSONL or a ZIP of all",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
