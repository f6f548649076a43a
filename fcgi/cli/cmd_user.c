/* sluice user: people who may log in. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/option.h"
#include "fcgi/cli/cli_store.h"
#include "fcgi/cli/command.h"
#include "sql/core/store.h"
#include "sql/users/store_factor.h"
#include "sql/users/store_invites.h"

struct settings {
    const char *state, *password_file, *url;
    int64_t days;
    bool admin, create, keep_keys, json, help;
};

static const struct option options[] = {
    {"state", OPTION_STRING, offsetof(struct settings, state), NULL, 0, 0, NULL, "DIR",
     CLI_STATE_HELP},
    {"admin", OPTION_BOOL, offsetof(struct settings, admin), NULL, 0, 0, NULL, NULL,
     "add, invite: the user is an admin"},
    {"create", OPTION_BOOL, offsetof(struct settings, create), NULL, 0, 0, NULL, NULL,
     "add, invite: make the state folder and its database where there is none yet"},
    {"url", OPTION_STRING, offsetof(struct settings, url), "http://127.0.0.1:8080", 0, 0, NULL,
     "URL", "invite: this server's address, for the link"},
    {"days", OPTION_INT, offsetof(struct settings, days), "7", 1, 365, NULL, "N",
     "invite: the link is good for so long"},
    {"password-file", OPTION_STRING, offsetof(struct settings, password_file), NULL, 0, 0, NULL,
     "FILE",
     "add, password: take the first line of FILE (- is standard input); else one is made up and "
     "printed"},
    {"keep-keys", OPTION_BOOL, offsetof(struct settings, keep_keys), NULL, 0, 0, NULL, NULL,
     "password: the user's API keys and passkeys stay valid; without it they are revoked with the "
     "old "
     "password"},
    {"json", OPTION_BOOL, offsetof(struct settings, json), NULL, 0, 0, NULL, NULL,
     "add, password, invite, list: print JSON"},
    {"help", OPTION_BOOL, offsetof(struct settings, help), NULL, 0, 0, NULL, NULL, "show this"},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

extern const struct command cmd_user;

/* The password to set, and its hash; *made: it was made up here. */
static bool take_password(const struct settings *o, char password[SECRET_PASSWORD_MAX + 1],
                          char hash[SECRET_PASSWORD_HASH_SIZE], bool *made, struct err *e)
{
    *made = !o->password_file;
    if (*made)
        secret_password(password);
    else if (!cli_store_password(o->password_file, password, e))
        return false;
    return secret_password_hash(password, hash, e);
}

static void print_buf(struct buf *b)
{
    if (!b->failed)
        puts(b->data);
    if (b->data)
        secret_wipe(b->data, b->len);
    buf_fini(b);
}

static void show(const struct settings *o, const char *name, const char *password, bool made)
{
    if (o->json) {
        struct buf b = {0};
        buf_puts(&b, "{\"name\":");
        buf_json_string(&b, name, strlen(name));
        buf_json_member(&b, "password", made ? password : NULL);
        buf_puts(&b, "}");
        print_buf(&b);
        return;
    }
    printf("name      %s\n", name);
    if (made)
        printf("password  %s\n", password);
}

static bool add(struct store *s, const struct settings *o, const char *name, struct err *e)
{
    char password[SECRET_PASSWORD_MAX + 1], hash[SECRET_PASSWORD_HASH_SIZE];
    bool made;
    int64_t id;
    bool ok = take_password(o, password, hash, &made, e) &&
              store_user_add(
                  s, &(struct store_user){.name = name, .password_hash = hash, .admin = o->admin},
                  &id, e);
    if (ok) {
        cli_store_audit(s, "user.add", "user", id);
        show(o, name, password, made);
    }
    secret_wipe(password, sizeof password);
    return ok;
}

static bool set_password(struct store *s, struct arena *a, const struct settings *o,
                         const char *name, struct err *e)
{
    char password[SECRET_PASSWORD_MAX + 1], hash[SECRET_PASSWORD_HASH_SIZE];
    bool made;
    struct store_user u;
    bool ok = cli_store_user(s, a, name, &u, e) && take_password(o, password, hash, &made, e) &&
              store_user_set_password(
                  s, u.id,
                  &(struct store_new_password){
                      .hash = hash, .revoke_keys = !o->keep_keys, .revoke_passkeys = !o->keep_keys},
                  e);
    if (ok) {
        cli_store_audit(s, "user.password", "user", u.id);
        show(o, u.name, password, made);
    }
    secret_wipe(password, sizeof password);
    return ok;
}

static bool remove_user(struct store *s, struct arena *a, const char *name, struct err *e)
{
    struct store_user u;
    if (!cli_store_user(s, a, name, &u, e) || !store_user_remove(s, u.id, e))
        return false;
    cli_store_audit(s, "user.remove", "user", u.id);
    printf("removed %s; the server clears the conversations away within seconds, or at its next "
           "start\n",
           u.name);
    return true;
}

/* A link for one person, whatever the setting sign_up says: nobody's password is in a log or a
 * message. */
static bool invite(struct store *s, const struct settings *o, struct err *e)
{
    char token[SECRET_TOKEN_SIZE];
    unsigned char hash[SECRET_HASH_BYTES];
    int64_t id;
    size_t url = strlen(o->url);
    const struct store_invite n = {.admin = o->admin,
                                   .note = "command line",
                                   .expires_at = clock_wall_ms() + o->days * 24 * 3600 * 1000};
    while (url && o->url[url - 1] == '/')
        url--;
    secret_token(token);
    secret_hash(token, hash);
    bool ok = store_invite_add(s, &n, hash, &id, e);
    if (ok) {
        cli_store_audit(s, "invite.add", "invite", id);
        struct buf b = {0};
        if (o->json) {
            struct buf link = {0};
            buf_printf(&link, "%.*s/#/invite/%s", (int)url, o->url, token);
            buf_printf(&b, "{\"id\":%lld,\"role\":\"%s\",\"expires_at\":%lld", (long long)id,
                       o->admin ? "admin" : "user", (long long)n.expires_at);
            buf_json_member(&b, "link", link.data);
            buf_puts(&b, "}");
            buf_fini(&link);
        } else {
            buf_printf(&b, "%.*s/#/invite/%s", (int)url, o->url, token);
        }
        print_buf(&b);
        fprintf(stderr, "makes one %s, within %lld days; it is shown this once\n",
                o->admin ? "admin" : "user", (long long)o->days);
    }
    secret_wipe(token, sizeof token);
    return ok;
}

/* Disabled: no login, no session, no key, from the next request on. */
static bool set_disabled(struct store *s, struct arena *a, const char *name, bool disabled,
                         struct err *e)
{
    struct store_user u;
    if (!cli_store_user(s, a, name, &u, e) || !store_user_set_disabled(s, u.id, disabled, e))
        return false;
    cli_store_audit(s, disabled ? "user.disable" : "user.enable", "user", u.id);
    printf("%s %s\n", disabled ? "disabled" : "enabled", u.name);
    return true;
}

/* For a user who lost both the app and the recovery codes where no admin can reset them on the
 * page. */
static bool reset_factor(struct store *s, struct arena *a, const char *name, struct err *e)
{
    struct store_user u;
    if (!cli_store_user(s, a, name, &u, e) || !store_factor_remove(s, u.id, e))
        return false;
    cli_store_audit(s, "second_factor.reset", "user", u.id);
    printf("%s logs in by name and password alone\n", u.name);
    return true;
}

static bool print_user(void *context, const struct store_user *u)
{
    char made[32];
    const struct settings *o = context;
    if (o->json) {
        struct buf b = {0};
        buf_printf(&b, "{\"id\":%lld", (long long)u->id);
        buf_json_member(&b, "name", u->name);
        buf_printf(&b, ",\"role\":\"%s\",\"disabled\":%s,\"created_at\":%lld}",
                   u->admin ? "admin" : "user", u->disabled ? "true" : "false",
                   (long long)u->created_at);
        print_buf(&b);
        return true;
    }
    printf("%-6lld %-24s %-6s %-9s %s\n", (long long)u->id, u->name, u->admin ? "admin" : "user",
           u->disabled ? "disabled" : "active", cli_store_time(u->created_at, made));
    return true;
}

/* As JSON a line for each, as `sluice logs` does. */
static bool list(struct store *s, const struct settings *o, struct err *e)
{
    if (!o->json)
        printf("%-6s %-24s %-6s %-9s %s\n", "id", "name", "role", "state", "made");
    return store_user_list(s, print_user, (void *)o, e);
}

static bool run_verb(void *settings, char **rest, struct arena *a, struct err *e)
{
    const struct settings *o = settings;
    const char *verb = rest[0], *name = verb ? rest[1] : NULL;
    bool listing = verb && !strcmp(verb, "list"), inviting = verb && !strcmp(verb, "invite");
    bool nameless = listing || inviting;
    if (!verb || (!nameless && !name) || (name && rest[2]) || (nameless && name))
        return cli_store_usage(&cmd_user, e);
    if (o->create && !inviting && strcmp(verb, "add") != 0)
        return err_field(e, ERR_INPUT, "create", "only add and invite take it");
    struct store *s = cli_store_open(o->state, o->create, e);
    bool ok = false;
    if (s && listing)
        ok = list(s, o, e);
    else if (s && inviting)
        ok = invite(s, o, e);
    else if (s && !strcmp(verb, "add"))
        ok = add(s, o, name, e);
    else if (s && !strcmp(verb, "password"))
        ok = set_password(s, a, o, name, e);
    else if (s && !strcmp(verb, "remove"))
        ok = remove_user(s, a, name, e);
    else if (s && (!strcmp(verb, "disable") || !strcmp(verb, "enable")))
        ok = set_disabled(s, a, name, !strcmp(verb, "disable"), e);
    else if (s && !strcmp(verb, "reset-factor"))
        ok = reset_factor(s, a, name, e);
    else if (s)
        err_set(e, ERR_INPUT, "no verb '%.40s'; usage: sluice user %s", verb, cmd_user.usage);
    store_close(&s);
    return ok;
}

static int run(int argc, char **argv)
{
    struct settings o = {0};
    return cli_store_run(
        &cmd_user, argc, argv,
        &(struct cli_store_call){.settings = &o, .help = &o.help, .work = run_verb});
}

const struct command cmd_user = {
    .name = "user",
    .usage = "add NAME [--admin] [--create] | invite [--admin] [--create] [--url URL] | list | "
             "password NAME | disable NAME | enable NAME | "
             "reset-factor NAME | remove NAME  "
             "[--state DIR] [--password-file FILE] [--keep-keys] [--json]",
    .help = "add, invite, list, disable and remove the people who may log in; take a lost second "
            "factor away",
    .options = options,
    .n_options = N_OPTIONS,
    .run = run,
};
