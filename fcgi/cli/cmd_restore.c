/* sluice restore: a backup in place of the database, which is kept aside. */
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/option.h"
#include "fcgi/cli/backup_files.h"
#include "fcgi/cli/cli_store.h"
#include "fcgi/cli/command.h"
#include "fcgi/process/state.h"
#include "sql/backup/store_copy.h"
#include "sql/core/store.h"

struct settings {
    const char *state;
    bool json, help;
};

static const struct option options[] = {
    {"state", OPTION_STRING, offsetof(struct settings, state), NULL, 0, 0, NULL, "DIR",
     CLI_STATE_HELP},
    {"json", OPTION_BOOL, offsetof(struct settings, json), NULL, 0, 0, NULL, NULL,
     "print one JSON object"},
    {"help", OPTION_BOOL, offsetof(struct settings, help), NULL, 0, 0, NULL, NULL, "show this"},
};

extern const struct command cmd_restore;

/* The server's own locks: `sluice up` has the one, the recorder the other. Held until this process
 * ends. */
static bool hold(const char *folder, const char *name, struct err *e)
{
    char path[PATH_MAX];
    if (!file_join(path, sizeof path, folder, name, e))
        return false;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(e, "%s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    close(fd);
    return err_set(e, ERR_CONFLICT, "a server is running on %s: stop it first", folder);
}

/* aside: the database of before; NULL: there was none. */
static void say(const struct settings *o, const char *database, const char *backup,
                const struct backup_files *files, const char *aside)
{
    struct buf b = {0};
    if (!o->json) {
        printf("%s is restored from %s, with %lld attachments (%lld copied)\n", database, backup,
               (long long)files->named, (long long)files->copied);
        if (aside)
            printf("the database of before is %s\n", aside);
        return;
    }
    buf_puts(&b, "{\"database\":");
    buf_json_string(&b, database, strlen(database));
    buf_json_member(&b, "backup", backup);
    buf_printf(&b, ",\"attachments\":%lld,\"attachments_copied\":%lld,\"aside\":",
               (long long)files->named, (long long)files->copied);
    if (aside)
        buf_json_string(&b, aside, strlen(aside));
    else
        buf_puts(&b, "null");
    buf_putc(&b, '}');
    if (!b.failed)
        puts(b.data);
    buf_fini(&b);
}

static bool restore_into(const struct settings *o, const char *backup, const char *folder,
                         const char *database, struct err *e)
{
    char aside[PATH_MAX];
    struct backup_files files;
    struct tm tm = {0};
    const time_t now = (time_t)clock_wall_s();
    char stamp[24];
    gmtime_r(&now, &tm);
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &tm);
    if (snprintf(aside, sizeof aside, "%s.before-%s", database, stamp) >= (int)sizeof aside)
        return err_set(e, ERR_LIMIT, "the path is too long");
    const bool old = file_exists(database);
    if (!file_mkdirs(folder, 0700, e) || !hold(folder, STATE_UP_LOCK, e) ||
        !hold(folder, STATE_RECORD_LOCK, e) || !store_copy_check(backup, e) ||
        !backup_files_copy(backup, backup, database, &files, e))
        return false;
    if (files.missing)
        return err_set(e, ERR_NOTFOUND,
                       "%lld attachments of this backup are not beside it; nothing was changed",
                       (long long)files.missing);
    if (!store_copy_restore(backup, database, aside, e))
        return false;
    say(o, database, backup, &files, old ? aside : NULL);
    return true;
}

static bool restore(void *settings, char **words, struct arena *a, struct err *e)
{
    const struct settings *o = settings;
    char folder[PATH_MAX], database[PATH_MAX], newest[PATH_MAX];
    if (!words[0] || words[1])
        return cli_store_usage(&cmd_restore, e);
    const char *backup = words[0];
    if (file_is_dir(backup)) {
        if (!backup_newest(backup, newest, sizeof newest, e))
            return false;
        backup = newest;
    }
    if (!cli_store_folder(o->state, folder, e) || !cli_store_path(o->state, database, e) ||
        !restore_into(o, backup, folder, database, e))
        return false;
    /* An older one is brought up to this program's version now, not when the server starts. */
    struct store *s = cli_store_open(o->state, false, e);
    if (s)
        cli_store_audit(s, "database.restore", "backup", 0);
    bool ok = s != NULL;
    store_close(&s);
    return ok;
}

static int run(int argc, char **argv)
{
    struct settings o = {0};
    return cli_store_run(
        &cmd_restore, argc, argv,
        &(struct cli_store_call){.settings = &o, .help = &o.help, .work = restore});
}

const struct command cmd_restore = {
    .name = "restore",
    .usage = "FILE|FOLDER [--state DIR] [--json]",
    .help = "put a backup (of a folder the newest) in place of the database, which is kept aside; "
            "the server must be stopped",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
