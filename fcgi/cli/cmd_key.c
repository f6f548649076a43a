/* sluice key: API keys of users. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/option.h"
#include "fcgi/cli/cli_store.h"
#include "fcgi/cli/command.h"
#include "sql/core/store.h"

struct settings {
    const char *state, *name, *scopes;
    int64_t days, requests_per_minute, tokens_per_minute, max_jobs;
    bool strict_parameters, json, help;
};

static const struct option options[] = {
    {"state", OPTION_STRING, offsetof(struct settings, state), NULL, 0, 0, NULL, "DIR",
     CLI_STATE_HELP},
    {"name", OPTION_STRING, offsetof(struct settings, name), "command line", 0, 0, NULL, "NAME",
     "add: what the key is for"},
    {"scopes", OPTION_STRING, offsetof(struct settings, scopes), "inference,history,admin", 0, 0,
     NULL, "LIST", "add: what the key may do"},
    {"days", OPTION_INT, offsetof(struct settings, days), "0", 0, 36500, NULL, "N",
     "add: the key expires after so many days; 0: never"},
    {"requests-per-minute", OPTION_INT, offsetof(struct settings, requests_per_minute), "0", 0,
     STORE_LIMIT_MAX, NULL, "N", "add: more get 429; 0: no limit"},
    {"tokens-per-minute", OPTION_INT, offsetof(struct settings, tokens_per_minute), "0", 0,
     STORE_LIMIT_MAX, NULL, "N", "add: of prompts and answers together; 0: no limit"},
    {"max-jobs", OPTION_INT, offsetof(struct settings, max_jobs), "0", 0, STORE_LIMIT_MAX, NULL,
     "N", "add: answers at one time; 0: no limit"},
    {"strict-parameters", OPTION_BOOL, offsetof(struct settings, strict_parameters), NULL, 0, 0,
     NULL, NULL, "add: requests with a parameter that has no effect are refused"},
    {"json", OPTION_BOOL, offsetof(struct settings, json), NULL, 0, 0, NULL, NULL,
     "add, list: print JSON"},
    {"help", OPTION_BOOL, offsetof(struct settings, help), NULL, 0, 0, NULL, NULL, "show this"},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

static const struct {
    int64_t bit;
    const char *name;
} scopes[] = {{STORE_INFERENCE, "inference"},
              {STORE_HISTORY, "history"},
              {STORE_ADMIN, "admin"},
              {STORE_METRICS, "metrics"}};
enum { N_SCOPES = sizeof scopes / sizeof scopes[0] };
#define DAY_MS ((int64_t)24 * 3600 * 1000)

extern const struct command cmd_key;

/* "inference,history" */
static bool read_scopes(const char *text, int64_t *out, struct err *e)
{
    *out = 0;
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, ","), i = 0;
        while (i < N_SCOPES && (strlen(scopes[i].name) != len || memcmp(scopes[i].name, p, len)))
            i++;
        if (i == N_SCOPES)
            return err_field(
                e, ERR_INPUT, "scopes",
                "a list of inference, history, admin and metrics, separated by commas");
        *out |= scopes[i].bit;
        p += len + (p[len] == ',');
    }
    return *out || err_field(e, ERR_INPUT, "scopes", "must hold one at least");
}

static bool read_terms(const struct settings *o, struct store_key_terms *t, struct err *e)
{
    *t = (struct store_key_terms){.requests_per_minute = o->requests_per_minute,
                                  .tokens_per_minute = o->tokens_per_minute,
                                  .max_jobs = o->max_jobs,
                                  .strict_parameters = o->strict_parameters,
                                  .expires_at = o->days ? clock_wall_ms() + o->days * DAY_MS : 0};
    return read_scopes(o->scopes, &t->scopes, e);
}

/* key: only when it is made. */
static void print_json(const struct store_key *k, const char *key)
{
    struct buf b = {0};
    buf_printf(&b, "{\"id\":%lld", (long long)k->id);
    buf_json_member(&b, "name", k->name);
    buf_json_member(&b, "prefix", k->prefix);
    if (key)
        buf_json_member(&b, "key", key);
    buf_puts(&b, ",\"scopes\":[");
    for (int i = 0, n = 0; i < N_SCOPES; i++)
        if (k->terms.scopes & scopes[i].bit)
            buf_printf(&b, "%s\"%s\"", n++ ? "," : "", scopes[i].name);
    buf_printf(&b,
               "],\"created_at\":%lld,\"last_used_at\":%lld,\"expires_at\":%lld,\"limits\":{"
               "\"requests_per_minute\":%lld,\"tokens_per_minute\":%lld,\"max_jobs\":%lld}}",
               (long long)k->created_at, (long long)k->last_used_at, (long long)k->terms.expires_at,
               (long long)k->terms.requests_per_minute, (long long)k->terms.tokens_per_minute,
               (long long)k->terms.max_jobs);
    if (!b.failed)
        puts(b.data);
    if (b.data)
        secret_wipe(b.data, b.len);
    buf_fini(&b);
}

static bool add(struct store *s, const struct settings *o, const struct store_user *u,
                struct err *e)
{
    char key[SECRET_KEY_SIZE], prefix[SECRET_PREFIX_SIZE];
    unsigned char hash[SECRET_HASH_BYTES];
    int64_t id;
    struct store_key k = {.user_id = u->id, .name = o->name, .prefix = prefix};
    if (!read_terms(o, &k.terms, e))
        return false;
    if (k.terms.scopes & STORE_METRICS && !u->admin)
        return err_field(e, ERR_INPUT, "scopes", "can hold metrics in an admin's key alone");
    secret_api_key(key, prefix);
    secret_hash(key, hash);
    bool ok = store_key_add(s, &k, hash, &id, e);
    if (ok) {
        cli_store_audit(s, "key.add", "key", id);
        k.id = id;
        k.created_at = clock_wall_ms();
        if (o->json)
            print_json(&k, key);
        else
            printf("%s\n", key);
        fprintf(stderr, "key %lld of %s; it is shown this once\n", (long long)id, u->name);
    }
    secret_wipe(key, sizeof key);
    return ok;
}

static bool print_key(void *context, const struct store_key *k)
{
    char made[32], used[32], expires[32], may[64] = "";
    if (((const struct settings *)context)->json) {
        print_json(k, NULL);
        return true;
    }
    for (int i = 0; i < N_SCOPES; i++)
        if (k->terms.scopes & scopes[i].bit)
            snprintf(may + strlen(may), sizeof may - strlen(may), "%s%s", *may ? "," : "",
                     scopes[i].name);
    printf("%-6lld %-20s %-24s %-17s %-17s %-17s %-23s", (long long)k->id, k->prefix, k->name,
           cli_store_time(k->created_at, made), cli_store_time(k->last_used_at, used),
           cli_store_time(k->terms.expires_at, expires), may);
    printf(" %lld/%lld/%lld\n", (long long)k->terms.requests_per_minute,
           (long long)k->terms.tokens_per_minute, (long long)k->terms.max_jobs);
    return true;
}

/* As JSON a line for each. */
static bool list(struct store *s, const struct settings *o, const struct store_user *u,
                 struct err *e)
{
    if (!o->json)
        printf("%-6s %-20s %-24s %-17s %-17s %-17s %-23s %s\n", "id", "begins", "name", "made",
               "last used", "expires", "scopes", "requests/tokens/jobs");
    return store_key_list(s, u->id, print_key, (void *)o, e);
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

static bool run_verb(void *settings, char **rest, struct arena *a, struct err *e)
{
    const struct settings *o = settings;
    const char *verb = rest[0], *name = verb ? rest[1] : NULL, *id = name ? rest[2] : NULL;
    bool removing = verb && !strcmp(verb, "remove");
    struct store_user u;
    if (!name || removing != (id != NULL) || (id && rest[3]))
        return cli_store_usage(&cmd_key, e);
    struct store *s = cli_store_open(o->state, false, e);
    bool ok = s && cli_store_user(s, a, name, &u, e);
    if (!ok)
        ;
    else if (!strcmp(verb, "add"))
        ok = add(s, o, &u, e);
    else if (!strcmp(verb, "list"))
        ok = list(s, o, &u, e);
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
    return cli_store_run(
        &cmd_key, argc, argv,
        &(struct cli_store_call){.settings = &o, .help = &o.help, .work = run_verb});
}

const struct command cmd_key = {
    .name = "key",
    .usage = "add USER [--name NAME] [limits] | list USER | remove USER ID  [--state DIR] [--json]",
    .help = "add, list and remove a user's API keys",
    .options = options,
    .n_options = N_OPTIONS,
    .run = run,
};
