/* sluice launch: starts a client that others wrote with this server in its settings, or takes the
 * settings back. */
#include <errno.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/arena.h"
#include "engine/base/json/json.h"
#include "engine/base/option.h"
#include "fcgi/cli/client/cli_http.h"
#include "fcgi/cli/cli_options.h"
#include "fcgi/cli/launch/launch.h"
#include "fcgi/cli/launch/launch_key.h"
#include "sql/users/store_users.h"

extern const struct command cmd_launch;

#define ENOUGH_TOKENS 32768

struct launch {
    const char *url_text, *key_file, *state, *user, *home;
    bool config, restore, yes, json;
    char url[512];
    struct arena *arena;
    const struct launch_client *client;
    struct launch_record record;
    struct launch_key key;
    struct launch_server server;
    struct launch_change changes[LAUNCH_FILES];
    int n_changes;
    cJSON *told; /* files, for --json */
};

#define FIELD(name) offsetof(struct launch, name)
static const struct option options[] = {
    {"config", OPTION_BOOL, FIELD(config), "false", 0, 0, NULL, NULL,
     "only write the client's settings"},
    {"restore", OPTION_BOOL, FIELD(restore), "false", 0, 0, NULL, NULL,
     "put the client's files back, byte for byte, and remove the key"},
    {"yes", OPTION_BOOL, FIELD(yes), "false", 0, 0, NULL, NULL, "write without asking"},
    {"url", OPTION_STRING, FIELD(url_text), "http://127.0.0.1:8080", 0, 0, NULL, "URL",
     "the server"},
    {"key-file", OPTION_STRING, FIELD(key_file), NULL, 0, 0, NULL, "FILE",
     "take the API key from the first line of FILE (- is standard input); else one is made in the "
     "state folder"},
    {"state", OPTION_STRING, FIELD(state), NULL, 0, 0, NULL, "DIR",
     "the server's state folder, to make a key there (default ~/.local/state/sluice)"},
    {"user", OPTION_STRING, FIELD(user), NULL, 0, 0, NULL, "NAME",
     "whose key it is (default: the only user, else the first admin)"},
    {"home", OPTION_STRING, FIELD(home), NULL, 0, 0, NULL, "DIR",
     "the home folder that holds the client's files (default: yours)"},
    {"json", OPTION_BOOL, FIELD(json), "false", 0, 0, NULL, NULL,
     "with --config or --restore: as JSON"},
};

/* launch_told_fn */
static void tell(void *context, const char *path, const char *what)
{
    struct launch *l = context;
    cJSON *f = cJSON_CreateObject();
    cJSON_AddStringToObject(f, "path", path);
    cJSON_AddStringToObject(f, "what", what);
    cJSON_AddItemToArray(l->told, f);
    if (!l->json)
        printf("  %s: %s\n", path, what);
}

static void print_told(struct launch *l, const char *done)
{
    struct buf b = {0};
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "client", l->client->name);
    cJSON_AddStringToObject(o, "done", done);
    cJSON_AddItemToObject(o, "files", l->told);
    l->told = NULL;
    if (json_write(&b, o))
        puts(b.data);
    buf_fini(&b);
    cJSON_Delete(o);
}

/* Which model answers there, and how much it takes. */
static bool ask_server(struct launch *l, struct err *e)
{
    const struct cli_http h = {.url = l->url, .key = l->key.text};
    const struct cli_http_call call = {.method = "GET", .path = "/v1/models"};
    struct buf body = {0};
    cJSON *o = NULL;
    bool ok = cli_http_do(&h, &call, &body, NULL, e) &&
              (o = json_parse(body.data ? body.data : "", body.len, NULL, e)) != NULL;
    const cJSON *first = cJSON_GetArrayItem(json_member(o, "data"), 0);
    const char *id = json_text(first, "id");
    int64_t context = 0;
    ok = ok && json_get_int(first, "max_model_len", 1, INT32_MAX, &context, e);
    if (ok && (!id || !context || id[strcspn(id, "\"\\\r\n\t")]))
        ok = err_set(e, ERR_FORMAT, "%s names no model that a client could be told", l->url);
    if (ok)
        l->server = (struct launch_server){.url = l->url,
                                           .key = l->key.text,
                                           .model = arena_strdup(l->arena, id),
                                           .context = context};
    cJSON_Delete(o);
    buf_fini(&body);
    return ok;
}

static bool work_out(struct launch *l, struct err *e)
{
    l->key.state = l->state;
    l->key.user = l->user;
    if (!(l->key_file ? launch_key_read(&l->key, l->key_file, e)
                      : launch_key_make(&l->key, l->arena, l->client->name, STORE_INFERENCE, e)) ||
        !ask_server(l, e))
        return false;
    for (; l->n_changes < LAUNCH_FILES && l->client->edits[l->n_changes].name; l->n_changes++)
        if (!launch_change_make(&l->record, &l->client->edits[l->n_changes], &l->server,
                                &l->changes[l->n_changes], e))
            return false;
    return true;
}

static bool may_write(const struct launch *l, struct err *e)
{
    if (!l->json) {
        printf("%s will use %s (%lld tokens) at %s:\n", l->client->name, l->server.model,
               (long long)l->server.context, l->url);
        for (int i = 0; i < l->n_changes; i++) {
            const struct launch_change *c = &l->changes[i];
            printf("  %s%s\n", c->path, c->existed ? " (a backup is kept)" : " (new)");
            launch_text_show(c->old.data, c->text.data, l->key.text);
        }
        if (l->server.context < ENOUGH_TOKENS)
            printf(
                "A context of %lld tokens is little for a coding client, whose own instructions "
                "take 10,000 and more; `sluice up --ctx 65536` gives more where the model can.\n",
                (long long)l->server.context);
        fflush(stdout);
    }
    if (l->yes)
        return true;
    if (l->json || !isatty(STDIN_FILENO))
        return err_field(e, ERR_INPUT, "yes", "is needed where nobody can be asked");
    printf("Write this? [y/N] ");
    fflush(stdout);
    char answer[16] = "";
    bool yes = fgets(answer, sizeof answer, stdin) && (*answer == 'y' || *answer == 'Y');
    return yes || err_set(e, ERR_CANCELLED, "nothing was written");
}

static bool configure(struct launch *l, struct err *e)
{
    const struct launch_key before = {
        .id = l->record.key_id, .state = l->record.state, .user = l->record.user};
    struct err why = {0};
    bool ok = work_out(l, e) && may_write(l, e);
    if (ok) {
        l->record.url = l->url;
        l->record.state = l->key.state;
        l->record.user = l->key.user;
        l->record.key_id = l->key.id;
        ok = launch_record_apply(&l->record, l->changes, l->n_changes, e);
    }
    if (!ok) {
        launch_key_remove(&l->key, l->arena, &why);
        return false;
    }
    if (!launch_key_remove(&before, l->arena, &why) && why.code != ERR_NOTFOUND)
        fprintf(stderr, "sluice launch: the key of the launch before is still valid: %s\n",
                why.text);
    for (int i = 0; i < l->n_changes; i++)
        tell(l, l->changes[i].path, "written");
    if (!l->json)
        printf("To undo: sluice launch %s --restore\n", l->client->name);
    return true;
}

static bool restore(struct launch *l, struct err *e)
{
    const struct launch_key key = {
        .id = l->record.key_id, .state = l->record.state, .user = l->record.user};
    struct err why = {0};
    if (!l->record.there)
        return err_set(e, ERR_NOTFOUND,
                       "there is nothing to take back: %s was not launched from %s",
                       l->client->name, l->record.home);
    if (!launch_record_restore(&l->record, tell, l, e))
        return false;
    if (!launch_key_remove(&key, l->arena, &why) && why.code != ERR_NOTFOUND)
        fprintf(stderr,
                "sluice launch: the files are as before, but the key 'launch %s' is still valid "
                "(%s); remove it on the page under Account\n",
                l->client->name, why.text);
    return true;
}

/* Is replaced by the client. */
static bool start(struct launch *l, char **words, struct err *e)
{
    char **argv = words - 1; /* the place of the client's name, which is not needed any more */
    argv[0] = arena_strdup(l->arena, l->client->program);
    fflush(stdout);
    if (l->home)
        setenv("HOME", l->home, 1);
    execvp(argv[0], argv);
    if (errno == ENOENT)
        return err_set(e, ERR_NOTFOUND, "%s is not installed; its settings are written, so: %s",
                       argv[0], l->client->install);
    return err_errno(e, "%s", argv[0]);
}

static bool launch(struct launch *l, char **rest, struct err *e)
{
    const struct passwd *pw = l->home ? NULL : getpwuid(getuid());
    l->record.arena = l->arena;
    l->record.home = l->home ? l->home : pw ? arena_strdup(l->arena, pw->pw_dir) : NULL;
    if (!l->record.home)
        return err_set(e, ERR_INPUT, "no home folder; use --home");
    if (l->config && l->restore)
        return err_field(e, ERR_INPUT, "restore", "does not go with --config");
    if (l->json && !l->config && !l->restore)
        return err_field(e, ERR_INPUT, "json", "goes with --config or --restore");
    if (!cli_http_url(l->url_text, l->url, sizeof l->url, e) ||
        !launch_record_open(&l->record, l->client->name, e))
        return false;
    if (l->restore || l->config) {
        if (rest[0])
            return err_set(e, ERR_INPUT, "'%.40s': only a launch passes words on", rest[0]);
        if (!(l->restore ? restore(l, e) : configure(l, e)))
            return false;
        if (l->json)
            print_told(l, l->restore ? "restored" : "configured");
        return true;
    }
    if ((!l->record.there || strcmp(l->record.url, l->url)) && !configure(l, e))
        return false;
    return start(l, rest, e);
}

static int run(int argc, char **argv)
{
    struct launch l = {.told = cJSON_CreateArray(), .arena = arena_create(1 << 20)};
    struct err e = {0};
    char **rest = l.arena ? arena_alloc(l.arena, sizeof *rest * ((size_t)argc + 1)) : NULL;
    int status = rest ? cli_options(&cmd_launch, argc, argv, &l, rest) : 1;
    if (status < 0) {
        if (!rest[0] || !(l.client = launch_client_find(rest[0])))
            err_field(&e, ERR_INPUT, "client", "must be one of %s", launch_client_names());
        else
            launch(&l, rest + 1, &e);
        status = !e.code ? 0 : e.code == ERR_INPUT ? 2 : 1;
        if (e.code)
            command_fail("launch", &e);
    }
    for (int i = 0; i < l.n_changes; i++)
        launch_change_fini(&l.changes[i]);
    secret_wipe(&l.key, sizeof l.key);
    cJSON_Delete(l.told);
    arena_destroy(&l.arena);
    return status;
}

const struct command cmd_launch = {
    .name = "launch",
    .usage = "codex|claude|opencode|aider [--config|--restore] [--url URL] [--yes] [-- words for "
             "the client]",
    .help = "start a coding client with this server in its settings, or take the settings back",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
