/* sluice upstream: other servers that answer for this one. It writes the database, which the
 * running relay reads again at once; `list` shows how they are, `test` asks one of them. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/json/json.h"
#include "engine/base/option.h"
#include "fcgi/cli/cli_store.h"
#include "fcgi/cli/command.h"
#include "fcgi/process/state.h"
#include "fcgi/upstreams/upstream_status.h"
#include "fcgi/upstreams/upstream_test.h"
#include "fcgi/upstreams/upstream_url.h"
#include "sql/core/store.h"
#include "sql/models/store_models.h"
#include "sql/models/store_upstreams.h"

struct settings {
    const char *state, *run, *dialect, *key_file, *models;
    int64_t max_streams, priority, weight, first_byte_ms, idle_ms;
    bool json, help;
};

static const struct option options[] = {
    {"state", OPTION_STRING, offsetof(struct settings, state), NULL, 0, 0, NULL, "DIR",
     CLI_STATE_HELP},
    {"run", OPTION_STRING, offsetof(struct settings, run), NULL, 0, 0, NULL, "DIR",
     "list, test: folder of the sockets (default: the state folder; under systemd /run/sluice)"},
    {"dialect", OPTION_CHOICE, offsetof(struct settings, dialect), "openai", 0, 0,
     "openai|anthropic|ollama", NULL, "add: how it is spoken to"},
    {"key-file", OPTION_STRING, offsetof(struct settings, key_file), NULL, 0, 0, NULL, "FILE",
     "add, key: take the upstream's key from the first line of FILE (- is standard input)"},
    {"models", OPTION_STRING, offsetof(struct settings, models), NULL, 0, 0, NULL, "LIST",
     "add: the models that it answers, separated by commas; NAME=REMOTE where it calls one "
     "otherwise"},
    {"priority", OPTION_INT, offsetof(struct settings, priority), "0", 0, 100, NULL, "N",
     "add: the lowest that is well answers"},
    {"weight", OPTION_INT, offsetof(struct settings, weight), "1", 1, 1000, NULL, "N",
     "add: the share among upstreams of one priority"},
    {"max-streams", OPTION_INT, offsetof(struct settings, max_streams), "0", 0, 100000, NULL, "N",
     "add: answers at once (0: no limit); more wait"},
    {"first-byte-ms", OPTION_INT, offsetof(struct settings, first_byte_ms), "300000", 100, 3600000,
     NULL, "MS", "add: how long the first piece of an answer may take"},
    {"idle-ms", OPTION_INT, offsetof(struct settings, idle_ms), "120000", 100, 3600000, NULL, "MS",
     "add: how long it may be silent in the middle of one"},
    {"json", OPTION_BOOL, offsetof(struct settings, json), NULL, 0, 0, NULL, NULL,
     "list, test: print JSON"},
    {"help", OPTION_BOOL, offsetof(struct settings, help), NULL, 0, 0, NULL, NULL, "show this"},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

#define MAX_ROUTES 64 /* models in one list */

extern const struct command cmd_upstream;

/* ---- finding */

struct finding {
    const char *name;
    int64_t id, model;
    char first[STORE_MODEL_NAME_BYTES + 1];
};

static bool see(void *context, const struct store_upstream *u)
{
    struct finding *f = context;
    if (!strcmp(u->name, f->name))
        f->id = u->id;
    return !f->id;
}

static bool see_route(void *context, const struct store_model_route *r)
{
    struct finding *f = context;
    if (r->upstream_id != f->id)
        return true;
    f->model = r->model_id;
    snprintf(f->first, sizeof f->first, "%s", r->model);
    return false;
}

static bool find(struct store *s, struct finding *f, struct err *e)
{
    return store_upstream_list(s, see, f, e) &&
           (f->id || err_set(e, ERR_NOTFOUND, "there is no upstream '%.64s'", f->name));
}

/* ---- changing */

/* The words of --models: NAME, or NAME=REMOTE. */
static bool read_models(struct arena *a, const struct settings *o,
                        struct store_route_wish out[MAX_ROUTES], int *n, struct err *e)
{
    char *list = o->models ? arena_copy(a, o->models, strlen(o->models)) : NULL, *save = NULL;
    *n = 0;
    for (char *word = list ? strtok_r(list, ",", &save) : NULL; word;
         word = strtok_r(NULL, ",", &save)) {
        char *remote = strchr(word, '=');
        if (*n == MAX_ROUTES)
            return err_field(e, ERR_LIMIT, "models", "has more than %d entries", MAX_ROUTES);
        if (remote)
            *remote++ = 0;
        if (!*word || (remote && !*remote))
            return err_field(e, ERR_INPUT, "models", "has an entry without a name");
        out[(*n)++] = (struct store_route_wish){.model = word,
                                                .remote = remote ? remote : word,
                                                .priority = o->priority,
                                                .weight = o->weight};
    }
    return true;
}

/* More models of an upstream that is there. */
static bool serve(struct store *s, struct arena *a, const struct settings *o, int64_t id,
                  struct err *e)
{
    struct store_route_wish wishes[MAX_ROUTES];
    int n;
    if (!o->models)
        return err_field(e, ERR_INPUT, "models", "is needed");
    return read_models(a, o, wishes, &n, e) &&
           store_upstream_serve(s, id, &(struct store_route_wishes){.at = wishes, .n = n}, e);
}

static bool add(struct store *s, struct arena *a, const struct settings *o, char **words,
                struct err *e)
{
    char url[UPSTREAM_URL_BYTES + 1], key[SECRET_PASSWORD_MAX + 1] = "";
    int64_t id;
    struct store_route_wish routes[MAX_ROUTES];
    struct store_route_wishes wishes = {.at = routes};
    const struct store_upstream u = {.name = words[0],
                                     .models = &wishes,
                                     .dialect = o->dialect,
                                     .url = url,
                                     .max_streams = o->max_streams,
                                     .first_byte_ms = o->first_byte_ms,
                                     .idle_ms = o->idle_ms};
    if (!words[0] || !words[1] || words[2])
        return cli_store_usage(&cmd_upstream, e);
    bool ok = upstream_url_read(words[1], url, e) && read_models(a, o, routes, &wishes.n, e) &&
              (!o->key_file || cli_store_password(o->key_file, key, e)) &&
              store_upstream_add(s, &u, key, &id, e);
    secret_wipe(key, sizeof key);
    if (ok) {
        cli_store_audit(s, "upstream.add", "upstream", id);
        printf("added %s; %s\n", words[0],
               o->models ? "its models are in /v1/models now"
                         : "it answers for no model yet: name some with --models");
    }
    return ok;
}

static bool change(struct store *s, const struct settings *o, const char *verb, int64_t id,
                   struct err *e)
{
    char key[SECRET_PASSWORD_MAX + 1] = "";
    struct store_upstream_change c = {
        .drained = -1, .max_streams = -1, .first_byte_ms = -1, .idle_ms = -1};
    if (!strcmp(verb, "key")) {
        if (!o->key_file)
            return err_field(e, ERR_INPUT, "key-file", "is needed");
        if (!cli_store_password(o->key_file, key, e))
            return false;
        c.key = key;
    } else {
        c.drained = !strcmp(verb, "drain");
    }
    bool ok = store_upstream_change(s, id, &c, e);
    secret_wipe(key, sizeof key);
    if (ok)
        cli_store_audit(s,
                        c.key       ? "upstream.change"
                        : c.drained ? "upstream.drain"
                                    : "upstream.resume",
                        "upstream", id);
    return ok;
}

/* ---- showing */

static bool run_folder(const struct settings *o, char folder[PATH_MAX], struct err *e)
{
    if (o->run) {
        snprintf(folder, PATH_MAX, "%s", o->run);
        return true;
    }
    return cli_store_folder(o->state, folder, e);
}

struct listing {
    const struct settings *o;
    cJSON *status;
    struct buf models;
    int64_t id;
    struct store *s;
};

static bool add_route(void *context, const struct store_model_route *r)
{
    struct listing *l = context;
    if (r->upstream_id == l->id)
        buf_printf(&l->models, "%s%s", l->models.len ? "," : "", r->model);
    return true;
}

struct shown { /* copied: the list's statement must have ended before routes are read */
    int64_t id, max_streams;
    char name[65], url[UPSTREAM_URL_BYTES + 1], dialect[16];
    bool has_key;
};
struct shown_list {
    struct shown at[STORE_UPSTREAMS_MAX];
    int n;
};

static bool copy_row(void *context, const struct store_upstream *u)
{
    struct shown_list *l = context;
    if (l->n == STORE_UPSTREAMS_MAX)
        return false;
    struct shown *s = &l->at[l->n++];
    *s = (struct shown){.id = u->id, .max_streams = u->max_streams, .has_key = u->has_key};
    snprintf(s->name, sizeof s->name, "%s", u->name);
    snprintf(s->url, sizeof s->url, "%s", u->url);
    snprintf(s->dialect, sizeof s->dialect, "%s", u->dialect);
    return true;
}

static void print_row(const struct listing *l, const struct shown *u)
{
    const cJSON *st = upstream_status_of(l->status, u->id);
    const char *state = json_text(st, "state");
    const double flying = st ? json_member(st, "in_flight")->valuedouble : 0;
    const char *models = l->models.data ? l->models.data : "";
    if (!l->o->json) {
        printf("%-16s %-8s %3.0f  %-9s %-40s %s\n", u->name, state ? state : "unknown", flying,
               u->dialect, u->url, models);
        return;
    }
    struct buf b = {0};
    buf_puts(&b, "{\"name\":");
    buf_json_string(&b, u->name, strlen(u->name));
    buf_json_member(&b, "url", u->url);
    buf_json_member(&b, "dialect", u->dialect);
    buf_json_member(&b, "models", models);
    buf_printf(&b, ",\"has_key\":%s,\"status\":", u->has_key ? "true" : "false");
    if (!st || !json_write(&b, st))
        buf_puts(&b, "null");
    buf_putc(&b, '}');
    puts(b.data ? b.data : "");
    buf_fini(&b);
}

static bool list(struct store *s, struct arena *a, const struct settings *o, struct err *e)
{
    char folder[PATH_MAX];
    struct shown_list *all = arena_alloc(a, sizeof *all);
    struct listing l = {.o = o, .s = s};
    if (!all)
        return err_set(e, ERR_NOMEM, "no memory for the list");
    all->n = 0;
    if (!run_folder(o, folder, e) || !store_upstream_list(s, copy_row, all, e))
        return false;
    l.status = upstream_status_read(folder);
    if (!o->json)
        printf("%-16s %-8s %s  %-9s %-40s %s\n", "name", "state", "now", "dialect", "url",
               "models");
    bool ok = true;
    for (int i = 0; ok && i < all->n; i++) {
        buf_clear(&l.models);
        l.id = all->at[i].id;
        ok = store_model_route_list(s, add_route, &l, e);
        if (!l.models.len)
            buf_append(&l.models, "", 0);
        print_row(&l, &all->at[i]);
    }
    cJSON_Delete(l.status);
    buf_fini(&l.models);
    return ok;
}

static bool test(struct store *s, const struct settings *o, struct finding *f, struct err *e)
{
    char folder[PATH_MAX], socket[PATH_MAX];
    struct upstream_tested t;
    if (!store_model_route_list(s, see_route, f, e))
        return false;
    if (!f->model)
        return err_set(e, ERR_NOTFOUND, "%.64s answers for no model", f->name);
    if (!run_folder(o, folder, e) ||
        !file_join(socket, sizeof socket, folder, STATE_RELAY_SOCKET, e) ||
        !upstream_test_run(
            &(struct upstream_test){.model = f->model, .upstream = f->id, .relay_socket = socket},
            &t, e))
        return false;
    if (o->json)
        printf("{\"model\":\"%s\",\"first_ms\":%.1f,\"total_ms\":%.1f,\"prompt_tokens\":%d,"
               "\"completion_tokens\":%d}\n",
               f->first, t.first_ms, t.total_ms, (int)t.prompt_tokens, (int)t.completion_tokens);
    else
        printf("%s answers as %s: the first piece after %.0f ms, %d tokens in %.0f ms\n", f->name,
               f->first, t.first_ms, (int)t.completion_tokens, t.total_ms);
    return true;
}

/* ---- the command */

static bool remove_row(struct store *s, int64_t id, struct err *e)
{
    if (!store_upstream_remove(s, id, e))
        return false;
    cli_store_audit(s, "upstream.remove", "upstream", id);
    return true;
}

static bool with_name(struct store *s, struct arena *a, const struct settings *o, char **words,
                      struct err *e)
{
    struct finding f = {.name = words[1]};
    const char *verb = words[0];
    if (!words[1] || words[2])
        return cli_store_usage(&cmd_upstream, e);
    if (!find(s, &f, e))
        return false;
    if (!strcmp(verb, "test"))
        return test(s, o, &f, e);
    if (!strcmp(verb, "remove"))
        return remove_row(s, f.id, e);
    if (!strcmp(verb, "serve"))
        return serve(s, a, o, f.id, e);
    if (!strcmp(verb, "drain") || !strcmp(verb, "resume") || !strcmp(verb, "key"))
        return change(s, o, verb, f.id, e);
    return err_set(e, ERR_INPUT, "no verb '%.40s'; usage: sluice upstream %s", verb,
                   cmd_upstream.usage);
}

static bool run_verb(void *settings, char **words, struct arena *a, struct err *e)
{
    const struct settings *o = settings;
    if (!words[0] || (!strcmp(words[0], "list") && words[1]))
        return cli_store_usage(&cmd_upstream, e);
    struct store *s = cli_store_open(o->state, false, e);
    bool ok = false;
    if (s && !strcmp(words[0], "list"))
        ok = list(s, a, o, e);
    else if (s && !strcmp(words[0], "add"))
        ok = add(s, a, o, words + 1, e);
    else if (s)
        ok = with_name(s, a, o, words, e);
    store_close(&s);
    return ok;
}

static int run(int argc, char **argv)
{
    struct settings o = {0};
    return cli_store_run(
        &cmd_upstream, argc, argv,
        &(struct cli_store_call){.settings = &o, .help = &o.help, .work = run_verb});
}

const struct command cmd_upstream = {
    .name = "upstream",
    .usage = "add NAME URL [--models LIST] [--dialect D] [--key-file FILE] | serve NAME --models "
             "LIST | list | test NAME | drain NAME | resume NAME | key NAME --key-file FILE | "
             "remove NAME  [--state DIR] [--run DIR] [--json]",
    .help = "other servers that answer for this one: add, list, test, drain and remove them",
    .options = options,
    .n_options = N_OPTIONS,
    .run = run,
};
