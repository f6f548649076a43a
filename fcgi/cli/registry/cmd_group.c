/* sluice group: groups of users, who is in them, and what they carry. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/option.h"
#include "fcgi/cli/cli_store.h"
#include "fcgi/cli/command.h"
#include "sql/core/store.h"
#include "sql/models/store_models.h"
#include "sql/users/store_groups.h"

#define MAX_NAMES 256

struct settings {
    const char *state, *description, *claim, *models;
    struct store_user_limits limits;
    bool json, help;
};

#define UNCHANGED "-2" /* of a limit: -1 says nothing, 0 is none */

static const struct option options[] = {
    {"state", OPTION_STRING, offsetof(struct settings, state), NULL, 0, 0, NULL, "DIR",
     CLI_STATE_HELP},
    {"description", OPTION_STRING, offsetof(struct settings, description), NULL, 0, 0, NULL, "TEXT",
     "add, set: what the group is for; its members read it"},
    {"claim", OPTION_STRING, offsetof(struct settings, claim), NULL, 0, 0, NULL, "NAME",
     "add, set: what the sign-in provider calls it; \"\": by its name"},
    {"models", OPTION_STRING, offsetof(struct settings, models), NULL, 0, 0, NULL, "LIST",
     "add, set: models that its members may use, by name, separated by commas; \"\" for none"},
    {"requests-per-minute", OPTION_INT, offsetof(struct settings, limits.requests_per_minute),
     UNCHANGED, -2, STORE_LIMIT_MAX, NULL, "N", "add, set: limit; 0: none, -1: nothing is said"},
    {"tokens-per-minute", OPTION_INT, offsetof(struct settings, limits.tokens_per_minute),
     UNCHANGED, -2, STORE_LIMIT_MAX, NULL, "N", "likewise"},
    {"max-jobs", OPTION_INT, offsetof(struct settings, limits.max_jobs), UNCHANGED, -2,
     STORE_LIMIT_MAX, NULL, "N", "likewise: answers at one time"},
    {"tokens-per-day", OPTION_INT, offsetof(struct settings, limits.tokens_per_day), UNCHANGED, -2,
     STORE_USER_LIMIT_MAX, NULL, "N", "likewise"},
    {"storage-bytes", OPTION_INT, offsetof(struct settings, limits.storage_bytes), UNCHANGED, -2,
     STORE_USER_LIMIT_MAX, NULL, "N", "likewise"},
    {"json", OPTION_BOOL, offsetof(struct settings, json), NULL, 0, 0, NULL, NULL,
     "list, show: print JSON"},
    {"help", OPTION_BOOL, offsetof(struct settings, help), NULL, 0, 0, NULL, NULL, "show this"},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

extern const struct command cmd_group;

struct call {
    struct store *s;
    struct arena *a;
    const struct settings *o;
};

static bool find(const struct call *c, const char *name, int64_t *id, struct err *e)
{
    struct err why = {0};
    if (store_group_by_name(c->s, name, id, &why))
        return true;
    return why.code == ERR_NOTFOUND ? err_set(e, ERR_NOTFOUND, "there is no group '%.64s'", name)
                                    : err_set(e, why.code, "%s", why.text);
}

static void put_json(struct buf *b, const struct store_group *g)
{
    struct store_user_limits l = g->limits;
    buf_printf(b, "{\"id\":%lld", (long long)g->id);
    buf_json_member(b, "name", g->name);
    buf_json_member(b, "description", g->description);
    buf_json_member(b, "claim", g->claim);
    buf_printf(b, ",\"members\":%lld,\"models\":%s,\"tool_servers\":%s,\"limits\":{",
               (long long)g->n_members, g->models, g->tool_servers);
    for (int i = 0; i < STORE_LIMITS; i++) {
        const int64_t n = *store_limit_at(&l, i);
        buf_printf(b, "%s\"%s\":", i ? "," : "", store_limit_names[i]);
        buf_printf(b, n == STORE_LIMIT_UNSAID ? "null" : "%lld", (long long)n);
    }
    buf_puts(b, "}}");
}

static bool print_group(void *context, const struct store_group *g)
{
    const struct settings *o = context;
    if (!o->json) {
        printf("%-6lld %-24s %7lld  %s\n", (long long)g->id, g->name, (long long)g->n_members,
               g->description);
        return true;
    }
    struct buf b = {0};
    put_json(&b, g);
    if (!b.failed)
        puts(b.data);
    buf_fini(&b);
    return true;
}

static bool list(const struct call *c, struct err *e)
{
    if (!c->o->json)
        printf("%-6s %-24s %7s  %s\n", "id", "name", "members", "description");
    return store_group_list(c->s, print_group, (void *)c->o, e);
}

static bool print_member(void *context, const struct store_group_member *m)
{
    (void)context;
    printf("%-6lld %-24s %s\n", (long long)m->user_id, m->name,
           m->provider ? "by the sign-in provider" : "");
    return true;
}

/* What it carries, then who is in it. */
static bool show(const struct call *c, const char *name, struct err *e)
{
    int64_t id;
    struct store_group g;
    if (!find(c, name, &id, e) || !store_group_get(c->s, c->a, id, &g, e))
        return false;
    print_group((void *)c->o, &g);
    const struct store_group_page page = {.group_id = id, .limit = INT32_MAX};
    if (c->o->json)
        return true;
    for (int i = 0; i < STORE_LIMITS; i++)
        if (*store_limit_at(&g.limits, i) != STORE_LIMIT_UNSAID)
            printf("%s %lld\n", store_limit_names[i], (long long)*store_limit_at(&g.limits, i));
    return store_group_members(c->s, &page, print_member, NULL, e);
}

/* Ids of the models that a list names. */
static bool read_models(const struct call *c, int64_t ids[MAX_NAMES], struct store_ids *out,
                        struct err *e)
{
    struct store_model m;
    char *names = arena_strdup(c->a, c->o->models), *rest = NULL;
    if (!names)
        return err_set(e, ERR_NOMEM, "memory ran out");
    *out = (struct store_ids){.at = ids};
    for (char *n = strtok_r(names, ",", &rest); n; n = strtok_r(NULL, ",", &rest)) {
        if (out->n == MAX_NAMES)
            return err_field(e, ERR_INPUT, "models", "names more than %d", MAX_NAMES);
        if (!store_model_find(c->s, c->a, &(struct store_model_ask){.name = n}, &m, e))
            return err_field(e, ERR_INPUT, "models", "there is no model '%.128s'", n);
        ids[out->n++] = m.id;
    }
    return true;
}

/* add and set: what the options say. id 0: a new one. */
static bool change(const struct call *c, int64_t id, const char *name, struct err *e)
{
    int64_t models[MAX_NAMES];
    struct store_ids ids;
    struct store_group g = {0};
    struct store_group_change x = {
        .name = id ? NULL : name, .description = c->o->description, .claim = c->o->claim};
    struct store_user_limits given = c->o->limits;
    bool limits = false;
    if (id && !store_group_get(c->s, c->a, id, &g, e))
        return false;
    for (int i = 0; i < STORE_LIMITS; i++) {
        const int64_t n = *store_limit_at(&given, i);
        limits |= n >= STORE_LIMIT_UNSAID;
        if (n >= STORE_LIMIT_UNSAID)
            *store_limit_at(&g.limits, i) = n;
        else if (!id)
            *store_limit_at(&g.limits, i) = STORE_LIMIT_UNSAID;
    }
    x.limits = limits ? &g.limits : NULL;
    if (c->o->models && !read_models(c, models, &ids, e))
        return false;
    x.models = c->o->models ? &ids : NULL;
    const bool made = !id;
    if (made ? !store_group_add(c->s, &x, &id, e) : !store_group_change(c->s, id, &x, e))
        return false;
    cli_store_audit(c->s, made ? "group.add" : "group.change", "group", id);
    printf("%s %s\n", made ? "added" : "changed", name);
    return true;
}

static bool set(const struct call *c, const char *name, struct err *e)
{
    int64_t id;
    return find(c, name, &id, e) && change(c, id, name, e);
}

static bool remove_group(const struct call *c, const char *name, struct err *e)
{
    int64_t id;
    if (!find(c, name, &id, e) || !store_group_remove(c->s, id, e))
        return false;
    cli_store_audit(c->s, "group.remove", "group", id);
    printf("removed %s; its members have lost what it carried\n", name);
    return true;
}

/* The group's users, by name: in or out. */
static bool move(const struct call *c, bool in, char **words, struct err *e)
{
    int64_t users[MAX_NAMES];
    struct store_ids ids = {.at = users};
    struct store_group_moves m = {0};
    struct store_user u;
    if (!find(c, words[0], &m.group_id, e))
        return false;
    for (char **w = words + 1; *w; w++) {
        if (ids.n == MAX_NAMES)
            return err_set(e, ERR_INPUT, "at most %d users at one time", MAX_NAMES);
        if (!cli_store_user(c->s, c->a, *w, &u, e))
            return false;
        users[ids.n++] = u.id;
    }
    *(in ? &m.add : &m.remove) = ids;
    if (!store_group_move(c->s, &m, e))
        return false;
    for (int i = 0; i < ids.n; i++)
        cli_store_audit(c->s, in ? "group.member.add" : "group.member.remove", "user", users[i]);
    printf("%d %s %s\n", ids.n, in ? "in" : "out of", words[0]);
    return true;
}

static bool run_verb(void *settings, char **rest, struct arena *a, struct err *e)
{
    const struct settings *o = settings;
    struct call c = {.a = a, .o = o};
    const char *verb = rest[0], *name = verb ? rest[1] : NULL;
    const bool listing = verb && !strcmp(verb, "list");
    const bool moving = verb && (!strcmp(verb, "join") || !strcmp(verb, "leave"));
    if (!verb || listing == (name != NULL) || (moving && !rest[2]) || (name && !moving && rest[2]))
        return cli_store_usage(&cmd_group, e);
    bool ok = false;
    if (!(c.s = cli_store_open(o->state, false, e)))
        return false;
    if (listing)
        ok = list(&c, e);
    else if (moving)
        ok = move(&c, !strcmp(verb, "join"), rest + 1, e);
    else if (!strcmp(verb, "show"))
        ok = show(&c, name, e);
    else if (!strcmp(verb, "add"))
        ok = change(&c, 0, name, e);
    else if (!strcmp(verb, "set"))
        ok = set(&c, name, e);
    else if (!strcmp(verb, "remove"))
        ok = remove_group(&c, name, e);
    else
        err_set(e, ERR_INPUT, "no verb '%.40s'; usage: sluice group %s", verb, cmd_group.usage);
    store_close(&c.s);
    return ok;
}

static int run(int argc, char **argv)
{
    struct settings o = {0};
    return cli_store_run(
        &cmd_group, argc, argv,
        &(struct cli_store_call){.settings = &o, .help = &o.help, .work = run_verb});
}

const struct command cmd_group = {
    .name = "group",
    .usage = "list | show NAME | add NAME [--description TEXT] [--claim NAME] [--models LIST] "
             "[--tokens-per-day N] | set NAME ... | join NAME USER... | leave NAME USER... | "
             "remove NAME  [--state DIR] [--json]",
    .help = "groups of users: who is in them, which models they may use, and their limits",
    .options = options,
    .n_options = N_OPTIONS,
    .run = run,
};
