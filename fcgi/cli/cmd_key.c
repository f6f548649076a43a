/* sluice key: API keys of users. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/option.h"
#include "fcgi/cli/cli_store.h"
#include "fcgi/cli/command.h"
#include "sql/store.h"

struct settings {
    const char *state, *name;
    bool help;
};

static const struct option options[] = {
    {"state", OPTION_STRING, offsetof(struct settings, state), NULL, 0, 0, NULL, "DIR", CLI_STATE_HELP},
    {"name", OPTION_STRING, offsetof(struct settings, name), "command line", 0, 0, NULL, "NAME",
     "add: what the key is for"},
    {"help", OPTION_BOOL, offsetof(struct settings, help), NULL, 0, 0, NULL, NULL, "show this"},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

extern const struct command cmd_key;

static bool add(struct store *s, const struct settings *o, const struct store_user *u, struct err *e)
{
    char key[SECRET_KEY_SIZE], prefix[SECRET_PREFIX_SIZE];
    unsigned char hash[SECRET_HASH_BYTES];
    int64_t id;
    secret_api_key(key, prefix);
    secret_hash(key, hash);
    bool ok = store_key_add(s, &(struct store_key){.user_id = u->id, .name = o->name, .prefix = prefix}, hash, &id, e);
    if (ok) {
        cli_store_audit(s, "key.add", "key", id);
        printf("%s\n", key);
        fprintf(stderr, "key %lld of %s; it is shown this once\n", (long long)id, u->name);
    }
    secret_wipe(key, sizeof key);
    return ok;
}

static bool print_key(void *context, const struct store_key *k)
{
    char made[32], used[32];
    printf("%-6lld %-20s %-24s %-17s %s\n", (long long)k->id, k->prefix, k->name, cli_store_time(k->created_at, made),
           cli_store_time(k->last_used_at, used));
    return true;
}

static bool list(struct store *s, const struct store_user *u, struct err *e)
{
    printf("%-6s %-20s %-24s %-17s %s\n", "id", "begins", "name", "made", "last used");
    return store_key_list(s, u->id, print_key, NULL, e);
}

static bool remove_key(struct store *s, const struct store_user *u, const char *text, struct err *e)
{
    char *end;
    long long id = strtoll(text, &end, 10);
    if (*end || id <= 0)
        return err_set(e, ERR_INPUT, "'%.40s' is not a key's id; see `sluice key list`", text);
    if (!store_key_remove(s, u->id, id, e))
        return false;
    cli_store_audit(s, "key.remove", "key", id);
    printf("removed key %lld of %s\n", id, u->name);
    return true;
}

static bool run_verb(const struct settings *o, char **rest, struct arena *a, struct err *e)
{
    const char *verb = rest[0], *name = verb ? rest[1] : NULL, *id = name ? rest[2] : NULL;
    bool removing = verb && !strcmp(verb, "remove");
    struct store_user u;
    if (!name || removing != (id != NULL) || (id && rest[3]))
        return err_set(e, ERR_INPUT, "usage: sluice key %s", cmd_key.usage);
    struct store *s = cli_store_open(o->state, false, e);
    bool ok = s && cli_store_user(s, a, name, &u, e);
    if (!ok)
        ;
    else if (!strcmp(verb, "add"))
        ok = add(s, o, &u, e);
    else if (!strcmp(verb, "list"))
        ok = list(s, &u, e);
    else if (removing)
        ok = remove_key(s, &u, id, e);
    else
        ok = err_set(e, ERR_INPUT, "no verb '%.40s'; usage: sluice key %s", verb, cmd_key.usage);
    store_close(&s);
    return ok;
}

static int run(int argc, char **argv)
{
    struct settings o = {0};
    struct err e = {0};
    struct arena *a = arena_create(1 << 20);
    char **rest = a ? arena_alloc(a, sizeof *rest * ((size_t)argc + 1)) : NULL;
    int status = 0;
    if (!rest || !option_parse(options, N_OPTIONS, argc, argv, &o, rest, &e)) {
        command_fail("key", &e);
        status = 2;
    } else if (o.help) {
        printf("usage: sluice key %s\n\n%s\n\n", cmd_key.usage, cmd_key.help);
        option_help(options, N_OPTIONS);
    } else if (!run_verb(&o, rest, a, &e)) {
        command_fail("key", &e);
        status = e.code == ERR_INPUT ? 2 : 1;
    }
    arena_destroy(&a);
    return status;
}

const struct command cmd_key = {
    .name = "key",
    .usage = "add USER [--name NAME] | list USER | remove USER ID  [--state DIR]",
    .help = "add, list and remove a user's API keys",
    .run = run,
};
