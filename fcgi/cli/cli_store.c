/* The state folder's database for the commands that use it: opening it, its users, and the frame of
 * such a command. */
#include "fcgi/cli/cli_store.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/option.h"
#include "fcgi/cli/command.h"
#include "fcgi/process/state.h"
#include "sql/core/store.h"

bool cli_store_folder(const char *state, char folder[PATH_MAX], struct err *e)
{
    const struct passwd *pw = state ? NULL : getpwuid(getuid());
    if (!state && !pw)
        return err_set(e, ERR_INPUT, "no home folder; use --state");
    int n = snprintf(folder, PATH_MAX, state ? "%s" : "%s/.local/state/sluice",
                     state ? state : pw->pw_dir);
    if (!state && access(folder, F_OK) != 0 && access(STATE_OF_SERVICE, X_OK) == 0)
        n = snprintf(folder, PATH_MAX, "%s", STATE_OF_SERVICE);
    return n < PATH_MAX || err_set(e, ERR_LIMIT, "the path of the state folder is too long");
}

bool cli_store_path(const char *state, char path[PATH_MAX], struct err *e)
{
    char folder[PATH_MAX];
    return cli_store_folder(state, folder, e) &&
           file_join(path, PATH_MAX, folder, STATE_DATABASE, e);
}

struct store *cli_store_open(const char *state, bool create, struct err *e)
{
    char path[PATH_MAX], folder[PATH_MAX];
    if (!cli_store_folder(state, folder, e) || !cli_store_path(state, path, e) || !secret_init(e) ||
        (create && !file_mkdirs(folder, 0700, e)))
        return NULL;
    if (!create && access(path, F_OK) != 0 && errno == ENOENT) {
        err_set(e, ERR_NOTFOUND,
                "there is no database yet in %s; if --state is right, the server's first start or "
                "`sluice user add --create` makes one",
                folder);
        return NULL;
    }
    return store_open(&(struct store_params){.path = path, .create = create}, e);
}

bool cli_store_user(struct store *s, struct arena *a, const char *name, struct store_user *out,
                    struct err *e)
{
    if (store_user_by_name(s, a, name, out, e))
        return true;
    return e->code == ERR_NOTFOUND ? err_set(e, ERR_NOTFOUND, "there is no user '%.100s'", name)
                                   : false;
}

bool cli_store_password(const char *file, char out[SECRET_PASSWORD_MAX + 1], struct err *e)
{
    struct buf b = {0};
    bool ok = strcmp(file, "-") ? file_read(file, 2 * SECRET_PASSWORD_MAX, &b, e)
                                : file_read_fd(STDIN_FILENO, 2 * SECRET_PASSWORD_MAX, &b, e);
    size_t n = ok && b.data ? strcspn(b.data, "\r\n") : 0;
    if (ok && n > SECRET_PASSWORD_MAX)
        ok = err_field(e, ERR_INPUT, "password", "is longer than %d bytes", SECRET_PASSWORD_MAX);
    if (ok)
        snprintf(out, SECRET_PASSWORD_MAX + 1, "%.*s", (int)n, b.data ? b.data : "");
    if (b.data)
        secret_wipe(b.data, b.len);
    buf_fini(&b);
    return ok;
}

void cli_store_audit(struct store *s, const char *action, const char *kind, int64_t id)
{
    char target[48];
    struct err e = {0};
    snprintf(target, sizeof target, "%s:%lld", kind, (long long)id);
    if (!store_audit_add(
            s, &(struct store_audit){.user = "operator", .action = action, .target = target}, &e))
        fprintf(stderr, "sluice: the audit log could not be written: %s\n", e.text);
}

const char *cli_store_time(int64_t ms, char out[32])
{
    time_t t = (time_t)(ms / 1000);
    struct tm tm;
    if (!ms || !localtime_r(&t, &tm) || !strftime(out, 32, "%Y-%m-%d %H:%M", &tm))
        return "never";
    return out;
}

int cli_store_run(const struct command *c, int argc, char **argv, const struct cli_store_call *call)
{
    struct err e = {0};
    struct arena *a = arena_create(1 << 20);
    char **words = a ? arena_alloc(a, sizeof *words * ((size_t)argc + 1)) : NULL;
    int status = 0;
    const struct option_args args = {.argc = argc, .argv = argv, .rest = words};
    if (!words || !option_parse(c->options, c->n_options, &args, call->settings, &e)) {
        command_fail(c->name, &e);
        status = 2;
    } else if (*call->help) {
        printf("usage: sluice %s %s\n\n%s\n\n", c->name, c->usage, c->help);
        option_help(c->options, c->n_options);
    } else if (!call->work(call->settings, words, a, &e)) {
        command_fail(c->name, &e);
        status = e.code == ERR_INPUT ? 2 : 1;
    }
    arena_destroy(&a);
    return status;
}

bool cli_store_usage(const struct command *c, struct err *e)
{
    return err_set(e, ERR_INPUT, "usage: sluice %s %s", c->name, c->usage);
}
