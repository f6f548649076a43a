/* sluice models: the models beside the first, of this machine and of other servers (sluice
 * upstream), and who may use them. */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/json/json.h"
#include "engine/base/option.h"
#include "fcgi/cli/cli_store.h"
#include "fcgi/cli/command.h"
#include "fcgi/cli/registry/models_local.h"
#include "fcgi/inference/local/local_defaults.h"
#include "fcgi/process/shared.h"
#include "sql/core/store.h"
#include "sql/models/store_local_models.h"

struct settings {
    const char *state, *users, *aliases, *pinned, *preload, *defaults, *device;
    int64_t context, idle_s;
    bool json, help;
};

static const struct option options[] = {
    {"state", OPTION_STRING, offsetof(struct settings, state), NULL, 0, 0, NULL, "DIR",
     CLI_STATE_HELP},
    {"users", OPTION_STRING, offsetof(struct settings, users), NULL, 0, 0, NULL, "LIST",
     "add, set: who may use it beside admins, by name, separated by commas; \"*\" is everyone"},
    {"aliases", OPTION_STRING, offsetof(struct settings, aliases), NULL, 0, 0, NULL, "LIST",
     "add, set: its other names, separated by commas; \"\" for none"},
    {"context", OPTION_INT, offsetof(struct settings, context), "-1", -1, INT32_MAX, NULL, "N",
     "add, set: tokens of its context; of another server's: as /v1/models tells them; 0: as the "
     "server or the model has it"},
    {"pinned", OPTION_CHOICE, offsetof(struct settings, pinned), NULL, 0, 0, "yes|no", NULL,
     "add, set, of this machine: once it is loaded it stays"},
    {"preload", OPTION_CHOICE, offsetof(struct settings, preload), NULL, 0, 0, "yes|no", NULL,
     "add, set, of this machine: it is loaded when the server starts"},
    {"idle", OPTION_INT, offsetof(struct settings, idle_s), "-1", -1, STORE_LOCAL_IDLE_MAX_S, NULL,
     "SECONDS", "add, set, of this machine: unloaded when unused for so long; 0: only for room"},
    {"defaults", OPTION_STRING, offsetof(struct settings, defaults), NULL, 0, 0, NULL, "JSON",
     "add, set, of this machine: what requests leave open, as {\"temperature\": 0.3}; {}: as the "
     "model says"},
    {"device", OPTION_STRING, offsetof(struct settings, device), NULL, 0, 0, NULL, "NAME",
     "add, set, of this machine: what it runs on, as for `sluice up`; \"\": what that says"},
    {"json", OPTION_BOOL, offsetof(struct settings, json), NULL, 0, 0, NULL, NULL,
     "list: print JSON"},
    {"help", OPTION_BOOL, offsetof(struct settings, help), NULL, 0, 0, NULL, NULL, "show this"},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

#define MAX_USERS 256

extern const struct command cmd_models;

struct listing {
    const struct settings *o;
    struct shared *shared; /* NULL: no server runs here */
};

static void put_place(struct buf *b, const struct listing *l, const struct store_model *m)
{
    if (!m->path)
        return;
    buf_json_member(b, "path", m->path);
    buf_json_member(b, "state", models_local_state(l->shared, m->id));
    buf_printf(b, ",\"pinned\":%s,\"preload\":%s,\"idle_s\":%lld,\"defaults\":%s",
               m->pinned ? "true" : "false", m->preload ? "true" : "false", (long long)m->idle_s,
               m->defaults ? m->defaults : "{}");
    buf_json_member(b, "device", m->device ? m->device : "");
}

static bool print_model(void *context, const struct store_model *m)
{
    const struct listing *l = context;
    if (!l->o->json) {
        printf("%-40s %-9s %8lld  %-8s %-9s %s%s%s\n", m->name, m->kind, (long long)m->context,
               m->everyone ? "everyone" : "some",
               m->path ? models_local_state(l->shared, m->id) : "elsewhere", m->aliases,
               m->path ? " " : "", m->path ? m->path : "");
        return true;
    }
    struct buf b = {0};
    buf_puts(&b, "{\"name\":");
    buf_json_string(&b, m->name, strlen(m->name));
    buf_json_member(&b, "kind", m->kind);
    buf_printf(&b, ",\"context\":%lld,\"everyone\":%s,\"aliases\":%s", (long long)m->context,
               m->everyone ? "true" : "false", m->aliases);
    put_place(&b, l, m);
    buf_putc(&b, '}');
    puts(b.data ? b.data : "");
    buf_fini(&b);
    return true;
}

static bool list(struct store *s, const struct settings *o, struct err *e)
{
    struct err ignored;
    struct listing l = {.o = o, .shared = models_local_open(o->state, &ignored)};
    if (!o->json)
        printf("%-40s %-9s %8s  %-8s %-9s %s\n", "name", "kind", "context", "for", "state",
               "aliases, path");
    const bool ok = store_model_list(s, 0, print_model, &l, e);
    shared_close(&l.shared);
    return ok;
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

/* A word that OPTION_CHOICE has checked. */
static int64_t yes_or_no(const char *word)
{
    return word ? !strcmp(word, "yes") : -1;
}

static bool read_defaults(struct arena *a, const struct settings *o, struct store_model_change *c,
                          struct err *e)
{
    if (!o->defaults)
        return true;
    cJSON *v = json_parse(o->defaults, strlen(o->defaults), NULL, e);
    const bool ok =
        v && (cJSON_IsObject(v) || err_field(e, ERR_INPUT, "defaults", "must be a JSON object")) &&
        local_defaults_check(v, a, e);
    c->defaults = ok && v->child ? o->defaults : "";
    cJSON_Delete(v);
    return ok;
}

struct lists {
    const char *names[STORE_MODEL_ALIASES];
    struct store_model_names aliases;
    int64_t ids[MAX_USERS];
};

static bool read_change(struct store *s, struct arena *a, const struct settings *o,
                        struct lists *at, struct store_model_change *c, struct err *e)
{
    char *list = o->aliases ? arena_copy(a, o->aliases, strlen(o->aliases)) : NULL, *word;
    *at = (struct lists){.aliases.at = at->names};
    *c = (struct store_model_change){STORE_MODEL_UNCHANGED, .device = o->device};
    c->context = o->context;
    c->pinned = yes_or_no(o->pinned);
    c->preload = yes_or_no(o->preload);
    c->idle_s = o->idle_s;
    while ((word = next_word(&list))) {
        if (at->aliases.n == STORE_MODEL_ALIASES)
            return err_field(e, ERR_INPUT, "aliases", "at most %d are taken", STORE_MODEL_ALIASES);
        at->names[at->aliases.n++] = word;
    }
    c->aliases = o->aliases ? &at->aliases : NULL;
    return read_defaults(a, o, c, e) && read_users(s, a, o, c, at->ids, e);
}

static bool set(struct store *s, struct arena *a, const struct settings *o, const char *name,
                struct err *e)
{
    struct lists lists;
    struct store_model m;
    struct store_model_change c;
    if (!store_model_find(s, a, &(struct store_model_ask){.name = name}, &m, e) ||
        !read_change(s, a, o, &lists, &c, e) || !store_model_change(s, m.id, &c, e))
        return false;
    cli_store_audit(s, "model.change", "model", m.id);
    return true;
}

static bool add(struct store *s, struct arena *a, const struct settings *o, char *const *words,
                struct err *e)
{
    char path[PATH_MAX];
    struct lists lists;
    struct store_model_change c;
    int64_t id;
    if (!realpath(words[1], path))
        return err_errno(e, "%s", words[1]);
    if (!read_change(s, a, o, &lists, &c, e))
        return false;
    const struct store_model m = {.name = words[0],
                                  .path = path,
                                  .tools = true,
                                  .everyone = c.everyone != 0,
                                  .context = o->context > 0 ? o->context : 0,
                                  .pinned = c.pinned > 0,
                                  .preload = c.preload > 0,
                                  .idle_s = o->idle_s >= 0 ? o->idle_s : STORE_LOCAL_IDLE_S,
                                  .defaults = c.defaults,
                                  .device = c.device};
    if (!store_local_model_add(s, &m, &id, e))
        return false;
    cli_store_audit(s, "model.add", "model", id);
    if ((!c.aliases && !c.users) || store_model_change(s, id, &c, e))
        return true;
    store_model_remove(s, id, NULL); /* all of it or nothing */
    return false;
}

/* What the running server does; others have nothing to load. */
static bool ask_server(struct store *s, struct arena *a, const struct settings *o, const char *name,
                       bool load, struct err *e)
{
    struct store_model m;
    if (!store_model_find(s, a, &(struct store_model_ask){.name = name}, &m, e))
        return false;
    if (!m.path)
        return err_set(e, ERR_INPUT, "'%.100s' is answered by other servers", name);
    struct shared *shared = models_local_open(o->state, e);
    if (!shared)
        return false;
    const bool ok = load ? models_local_load(shared, m.id, o->state, e)
                         : models_local_unload(shared, m.id, o->state, e);
    shared_close(&shared);
    if (ok)
        cli_store_audit(s, load ? "model.load" : "model.unload", "model", m.id);
    return ok;
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

static bool run_named(struct store *s, struct arena *a, const struct settings *o, char **words,
                      struct err *e)
{
    const char *verb = words[0];
    if (!strcmp(verb, "add"))
        return add(s, a, o, words + 1, e);
    if (!strcmp(verb, "set"))
        return set(s, a, o, words[1], e);
    if (!strcmp(verb, "remove"))
        return remove_model(s, a, words[1], e);
    if (!strcmp(verb, "load") || !strcmp(verb, "unload"))
        return ask_server(s, a, o, words[1], verb[0] == 'l', e);
    return err_set(e, ERR_INPUT, "no verb '%.40s'; usage: sluice models %s", verb,
                   cmd_models.usage);
}

static bool run_verb(void *settings, char **words, struct arena *a, struct err *e)
{
    const struct settings *o = settings;
    const char *verb = words[0] ? words[0] : "list";
    const bool listing = !strcmp(verb, "list");
    int n = 0, most = listing ? 1 : !strcmp(verb, "add") ? 3 : 2;
    while (words[n])
        n++;
    if (n > most || (!listing && n < most))
        return cli_store_usage(&cmd_models, e);
    struct store *s = cli_store_open(o->state, false, e);
    const bool ok = s && (listing ? list(s, o, e) : run_named(s, a, o, words, e));
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
    .usage = "[list] | add NAME PATH [--pinned yes] [--preload yes] [--idle SECONDS] | set NAME "
             "[--users LIST] [--aliases LIST] [--context N] | load NAME | unload NAME | remove "
             "NAME  [--state DIR] [--json]",
    .help = "the models beside the first: of this machine and of other servers, and who may use "
            "them",
    .options = options,
    .n_options = N_OPTIONS,
    .run = run,
};
