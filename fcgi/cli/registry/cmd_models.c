/* sluice models: the models that other servers answer (sluice upstream), and who may use them. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/json/json.h"
#include "engine/base/option.h"
#include "fcgi/cli/cli_store.h"
#include "fcgi/cli/command.h"
#include "sql/core/store.h"
#include "sql/models/store_models.h"

struct settings {
    const char *state, *users, *aliases;
    int64_t context;
    bool json, help;
};

static const struct option options[] = {
    {"state", OPTION_STRING, offsetof(struct settings, state), NULL, 0, 0, NULL, "DIR",
     CLI_STATE_HELP},
    {"users", OPTION_STRING, offsetof(struct settings, users), NULL, 0, 0, NULL, "LIST",
     "set: who may use it beside admins, by name, separated by commas; \"*\" is everyone"},
    {"aliases", OPTION_STRING, offsetof(struct settings, aliases), NULL, 0, 0, NULL, "LIST",
     "set: its other names, separated by commas; \"\" for none"},
    {"context", OPTION_INT, offsetof(struct settings, context), "-1", -1, INT32_MAX, NULL, "N",
     "set: tokens of its context, as /v1/models tells them; 0: not known"},
    {"json", OPTION_BOOL, offsetof(struct settings, json), NULL, 0, 0, NULL, NULL,
     "list: print JSON"},
    {"help", OPTION_BOOL, offsetof(struct settings, help), NULL, 0, 0, NULL, NULL, "show this"},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

#define MAX_USERS 256

extern const struct command cmd_models;

static bool print_model(void *context, const struct store_model *m)
{
    const struct settings *o = context;
    if (!o->json) {
        printf("%-40s %-9s %8lld  %-8s %s\n", m->name, m->kind, (long long)m->context,
               m->everyone ? "everyone" : "some", m->aliases);
        return true;
    }
    struct buf b = {0};
    buf_puts(&b, "{\"name\":");
    buf_json_string(&b, m->name, strlen(m->name));
    buf_json_member(&b, "kind", m->kind);
    buf_printf(&b, ",\"context\":%lld,\"everyone\":%s,\"aliases\":%s}", (long long)m->context,
               m->everyone ? "true" : "false", m->aliases);
    puts(b.data ? b.data : "");
    buf_fini(&b);
    return true;
}

static bool list(struct store *s, const struct settings *o, struct err *e)
{
    if (!o->json)
        printf("%-40s %-9s %8s  %-8s %s\n", "name", "kind", "context", "for", "aliases");
    return store_model_list(s, 0, print_model, (void *)o, e);
}

/* The next word of a list with commas; the list is cut. */
static char *next_word(char **list)
{
    return *list && **list ? strsep(list, ",") : NULL;
}

static bool read_users(struct store *s, struct arena *a, const struct settings *o,
                       struct store_model_change *c, int64_t *ids, struct err *e)
{
    char *list = o->users ? arena_copy(a, o->users, strlen(o->users)) : NULL, *word;
    if (!list)
        return true;
    c->everyone = !strcmp(list, "*");
    c->users = ids;
    while (!c->everyone && (word = next_word(&list))) {
        struct store_user u;
        if (c->n_users == MAX_USERS)
            return err_field(e, ERR_INPUT, "users", "at most %d are taken", MAX_USERS);
        if (!cli_store_user(s, a, word, &u, e))
            return false;
        ids[c->n_users++] = u.id;
    }
    return true;
}

static bool set(struct store *s, struct arena *a, const struct settings *o, const char *name,
                struct err *e)
{
    const char *names[STORE_MODEL_ALIASES];
    int64_t ids[MAX_USERS];
    struct store_model m;
    struct store_model_names aliases = {.at = names};
    struct store_model_change c = {
        .context = o->context, .tools = -1, .vision = -1, .reasoning = -1, .everyone = -1};
    char *list = o->aliases ? arena_copy(a, o->aliases, strlen(o->aliases)) : NULL, *word;
    while ((word = next_word(&list))) {
        if (aliases.n == STORE_MODEL_ALIASES)
            return err_field(e, ERR_INPUT, "aliases", "at most %d are taken", STORE_MODEL_ALIASES);
        names[aliases.n++] = word;
    }
    c.aliases = o->aliases ? &aliases : NULL;
    if (!store_model_find(s, a, &(struct store_model_ask){.name = name}, &m, e) ||
        !read_users(s, a, o, &c, ids, e) || !store_model_change(s, m.id, &c, e))
        return false;
    cli_store_audit(s, "model.change", "model", m.id);
    return true;
}

static bool remove_model(struct store *s, struct arena *a, const char *name, struct err *e)
{
    struct store_model m;
    if (!store_model_find(s, a, &(struct store_model_ask){.name = name}, &m, e) ||
        !store_model_remove(s, m.id, e))
        return false;
    cli_store_audit(s, "model.remove", "model", m.id);
    return true;
}

static bool run_verb(void *settings, char **words, struct arena *a, struct err *e)
{
    const struct settings *o = settings;
    const char *verb = words[0] ? words[0] : "list", *name = words[0] ? words[1] : NULL;
    const bool listing = !strcmp(verb, "list");
    if (listing ? name != NULL : !name || words[2])
        return cli_store_usage(&cmd_models, e);
    struct store *s = cli_store_open(o->state, false, e);
    bool ok = false;
    if (s && listing)
        ok = list(s, o, e);
    else if (s && !strcmp(verb, "set"))
        ok = set(s, a, o, name, e);
    else if (s && !strcmp(verb, "remove"))
        ok = remove_model(s, a, name, e);
    else if (s)
        err_set(e, ERR_INPUT, "no verb '%.40s'; usage: sluice models %s", verb, cmd_models.usage);
    store_close(&s);
    return ok;
}

static int run(int argc, char **argv)
{
    struct settings o = {0};
    return cli_store_run(
        &cmd_models, argc, argv,
        &(struct cli_store_call){.settings = &o, .help = &o.help, .work = run_verb});
}

const struct command cmd_models = {
    .name = "models",
    .usage = "[list] | set NAME [--users LIST] [--aliases LIST] [--context N] | remove NAME  "
             "[--state DIR] [--json]",
    .help = "the models that other servers answer, and who may use them",
    .options = options,
    .n_options = N_OPTIONS,
    .run = run,
};
