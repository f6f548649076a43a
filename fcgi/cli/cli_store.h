/* What the commands on the state folder's database share: finding it, finding users, passwords from
 * outside. */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "sql/core/secret.h"
#include "sql/users/store_users.h"

struct arena;
struct command;
struct option;
struct store;

#define CLI_STATE_HELP                                                                             \
    "the server's state folder (default ~/.local/state/sluice, else that of an installed service)"

/* state, or the default folder when it is NULL. */
bool cli_store_folder(const char *state, char folder[PATH_MAX], struct err *e);
/* sluice.db in there. */
bool cli_store_path(const char *state, char path[PATH_MAX], struct err *e);
/* Opens STATE/sluice.db (state NULL: the default folder), and libsodium. create: a new one is made
 * where there is none; else that fails, because a mistyped folder must not become a server's. */
struct store *cli_store_open(const char *state, bool create, struct err *e);
bool cli_store_user(struct store *s, struct arena *a, const char *name, struct store_user *out,
                    struct err *e);
/* The first line of a file, "-" for standard input. */
bool cli_store_password(const char *file, char out[SECRET_PASSWORD_MAX + 1], struct err *e);
/* A line in the audit log, as "operator". */
void cli_store_audit(struct store *s, const char *action, const char *kind, int64_t id);
/* "2026-11-21 09:30"; "never" for 0. */
const char *cli_store_time(int64_t ms, char out[32]);

/* What these commands do alike: options into `settings`, --help (which sets *help), then `work`
 * with the words that are no options, up to a NULL. Returns the exit status: 2 when it was used
 * wrongly (ERR_INPUT), 1 when it failed. */
struct cli_store_call {
    void *settings;
    const bool *help; /* a member of settings */
    bool (*work)(void *settings, char **words, struct arena *a, struct err *e);
};
int cli_store_run(const struct command *c, int argc, char **argv,
                  const struct cli_store_call *call);
/* ERR_INPUT with the command's usage. */
bool cli_store_usage(const struct command *c, struct err *e);
