/* sluice backup: a consistent, checked copy of the database while the server runs. */
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

#include "engine/base/clock.h"
#include "engine/base/option.h"
#include "fcgi/cli/cli_store.h"
#include "fcgi/cli/command.h"
#include "sql/store.h"

struct settings {
    const char *state;
    bool help;
};

static const struct option options[] = {
    {"state", OPTION_STRING, offsetof(struct settings, state), NULL, 0, 0, NULL, "DIR", CLI_STATE_HELP},
    {"help", OPTION_BOOL, offsetof(struct settings, help), NULL, 0, 0, NULL, NULL, "show this"},
};
enum { N_OPTIONS = sizeof options / sizeof options[0], MAX_WORDS = 8 };

extern const struct command cmd_backup;

static bool back_up(const struct settings *o, const char *path, struct err *e)
{
    struct stat st;
    double began = clock_ms();
    struct store *s = cli_store_open(o->state, false, e);
    bool ok = s && store_backup(s, path, e);
    if (ok && stat(path, &st) == 0)
        printf("%s: %.1f MB in %.0f ms, checked\n", path, (double)st.st_size / 1e6, clock_ms() - began);
    store_close(&s);
    return ok;
}

static int run(int argc, char **argv)
{
    struct settings o = {0};
    struct err e = {0};
    char *rest[MAX_WORDS + 1] = {0};
    if (argc > MAX_WORDS || !option_parse(options, N_OPTIONS, argc, argv, &o, rest, &e)) {
        if (argc > MAX_WORDS)
            err_set(&e, ERR_INPUT, "too many words");
        command_fail("backup", &e);
        return 2;
    }
    if (o.help || !rest[0] || rest[1]) {
        printf("usage: sluice backup %s\n\n%s\n\n", cmd_backup.usage, cmd_backup.help);
        option_help(options, N_OPTIONS);
        return o.help ? 0 : 2;
    }
    return back_up(&o, rest[0], &e) ? 0 : command_fail("backup", &e);
}

const struct command cmd_backup = {
    .name = "backup",
    .usage = "FILE [--state DIR]",
    .help = "write a consistent, checked copy of the database to FILE; the server may go on",
    .run = run,
};
