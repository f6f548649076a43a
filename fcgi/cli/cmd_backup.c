/* sluice backup: a consistent, checked copy of the database while the server runs; into a folder
 * also the attachments, with as many backups kept as are wanted. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/option.h"
#include "engine/base/size_text.h"
#include "fcgi/cli/backup_files.h"
#include "fcgi/cli/cli_store.h"
#include "fcgi/cli/command.h"
#include "sql/backup/store_copy.h"
#include "sql/core/store.h"

#define TRIES 3 /* for attachments that come and go while they are copied */

struct settings {
    const char *state;
    int64_t keep;
    bool json, help;
};

static const struct option options[] = {
    {"state", OPTION_STRING, offsetof(struct settings, state), NULL, 0, 0, NULL, "DIR",
     CLI_STATE_HELP},
    {"keep", OPTION_INT, offsetof(struct settings, keep), NULL, 1, 10000, NULL, "N",
     "into a folder, which is made: keep the N newest backups and remove older ones"},
    {"json", OPTION_BOOL, offsetof(struct settings, json), NULL, 0, 0, NULL, NULL,
     "print one JSON object"},
    {"help", OPTION_BOOL, offsetof(struct settings, help), NULL, 0, 0, NULL, NULL, "show this"},
};

extern const struct command cmd_backup;

/* What was made; removed < 0: it is a file, whose attachments are not in it. */
static void say(const struct settings *o, const char *path, double ms,
                const struct backup_files *files, int removed)
{
    struct stat st;
    struct buf b = {0};
    char size[SIZE_TEXT], fresh[SIZE_TEXT];
    if (stat(path, &st) != 0)
        return;
    if (o->json) {
        buf_puts(&b, "{\"path\":");
        buf_json_string(&b, path, strlen(path));
        buf_printf(&b,
                   ",\"bytes\":%lld,\"ms\":%.0f,\"attachments\":%lld,\"attachments_copied\":%lld,"
                   "\"attachment_bytes\":%lld,\"attachments_missing\":%lld,\"removed\":%d}",
                   (long long)st.st_size, ms, (long long)files->named, (long long)files->copied,
                   (long long)files->bytes, (long long)files->missing, removed < 0 ? 0 : removed);
        if (!b.failed)
            puts(b.data);
        buf_fini(&b);
        return;
    }
    size_text((double)st.st_size, size);
    if (removed < 0)
        printf("%s: %s in %.0f ms, checked\n", path, size, ms);
    else
        printf("%s: %s and %lld attachments (%lld new, %s) in %.0f ms, checked; %d older removed\n",
               path, size, (long long)files->named, (long long)files->copied,
               size_text((double)files->bytes, fresh), ms, removed);
    if (removed < 0 && files->missing)
        printf("%lld attachments are not in it: back up into a folder to have them\n",
               (long long)files->missing);
}

static bool note_file(void *context, const char *sha256, int64_t bytes)
{
    ((struct backup_files *)context)->missing++;
    return true;
}

static bool back_up_file(struct store *s, const struct settings *o, const char *path, struct err *e)
{
    struct backup_files files = {0};
    double began = clock_ms();
    if (!store_backup(s, path, e))
        return false;
    double ms = clock_ms() - began;
    if (!store_copy_files(path, note_file, &files, e))
        return false;
    say(o, path, ms, &files, -1);
    return true;
}

/* One at a time in a folder. */
static int lock_folder(const char *folder, struct err *e)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    if (fd >= 0 && errno == EWOULDBLOCK)
        err_set(e, ERR_CONFLICT, "another backup into %s is at work", folder);
    else
        err_errno(e, "%s", folder);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Most of the attachments go before the copy is made, so that few can go away between it and their
 * turn. One that still does is named by the copy and nowhere to be found: then another copy is
 * made. */
static bool copy_all(struct store *s, const char *database, const char *path,
                     struct backup_files *files, struct err *e)
{
    struct backup_files early;
    for (int i = 0; i < TRIES; i++) {
        if (!backup_files_copy(database, database, path, &early, e) || !store_backup(s, path, e) ||
            !backup_files_copy(path, database, path, files, e))
            return false;
        files->copied += early.copied;
        files->bytes += early.bytes;
        if (!files->missing)
            return true;
    }
    fprintf(stderr, "sluice backup: %lld attachments are not there; `sluice doctor` says more\n",
            (long long)files->missing);
    return true;
}

static bool back_up_folder(struct store *s, const struct settings *o, const char *database,
                           const char *folder, struct err *e)
{
    char name[BACKUP_NAME_SIZE], path[PATH_MAX];
    struct backup_files files = {0};
    int removed = 0;
    double began = clock_ms();
    backup_name(clock_wall_ms(), name);
    if (!file_mkdirs(folder, 0700, e) || !file_join(path, sizeof path, folder, name, e))
        return false;
    int lock = lock_folder(folder, e);
    if (lock < 0)
        return false;
    bool ok = copy_all(s, database, path, &files, e) &&
              (!o->keep || backup_rotate(folder, o->keep, &removed, e));
    close(lock);
    if (ok)
        say(o, path, clock_ms() - began, &files, removed);
    return ok;
}

static bool back_up(void *settings, char **words, struct arena *a, struct err *e)
{
    const struct settings *o = settings;
    char database[PATH_MAX];
    if (!words[0] || words[1])
        return cli_store_usage(&cmd_backup, e);
    struct store *s = cli_store_open(o->state, false, e);
    if (!s)
        return false;
    bool ok = cli_store_path(o->state, database, e);
    if (ok && (o->keep || file_is_dir(words[0])))
        ok = back_up_folder(s, o, database, words[0], e);
    else if (ok)
        ok = back_up_file(s, o, words[0], e);
    store_close(&s);
    return ok;
}

static int run(int argc, char **argv)
{
    struct settings o = {0};
    return cli_store_run(
        &cmd_backup, argc, argv,
        &(struct cli_store_call){.settings = &o, .help = &o.help, .work = back_up});
}

const struct command cmd_backup = {
    .name = "backup",
    .usage = "FOLDER [--keep N] [--state DIR] [--json] | FILE [--state DIR] [--json]",
    .help = "write a consistent, checked copy of the database, into a folder with all attachments; "
            "the server may go on",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
