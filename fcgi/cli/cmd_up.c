/* sluice up: nginx, workers and engine in the foreground, from one state folder. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/file.h"
#define LOG_MODULE "up"
#include "engine/base/log_ring.h"
#include "engine/cache/disk/disk_tier.h"
#include "engine/memory/memory_options.h"
#include "engine/wire/status.h"
#include "fcgi/cli/cli_options.h"
#include "fcgi/cli/up/local_engines.h"
#include "fcgi/cli/up/model_switch.h"
#include "fcgi/cli/up/nginx_conf.h"
#include "fcgi/cli/up/run_as.h"
#include "fcgi/cli/up/supervisor.h"
#include "fcgi/cli/up/up.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/state.h"
#include "sql/core/secret.h"
#include "sql/core/store.h"
#include "sql/users/store_users.h"
#include "toolhost/programs.h"

#define MAX_ENV_FILE 65536
#define STOP_MS 15000.0 /* what running answers get to end */

extern const struct command cmd_up;

#define FIELD(name) offsetof(struct up, name)
static const struct option options[] = {
    {"state", OPTION_STRING, FIELD(state), NULL, 0, 0, NULL, "DIR",
     "where everything is kept (default ~/.local/state/sluice)"},
    {"model", OPTION_STRING, FIELD(model), NULL, 0, 0, NULL, "PATH",
     "model folder, GGUF file, or name on a hub, such as hf.co/USER/REPO:Q4_K_M, which is loaded "
     "once (default: the one that ran last here, else the demo model)"},
    {"models", OPTION_STRING, FIELD(models), NULL, 0, 0, NULL, "DIR",
     "folder of further models, for the admin's page to switch to (default: models in the state "
     "folder)"},
    {"hub", OPTION_STRING, FIELD(hub), "https://huggingface.co", 0, 0, NULL, "URL",
     "where models are loaded from, by name and on the admin's page"},
    {"backend", OPTION_CHOICE, FIELD(backend), "auto", 0, 0, "auto|vulkan|cpu", NULL,
     "where the model runs"},
    {"host", OPTION_STRING, FIELD(host), "127.0.0.1", 0, 0, NULL, "ADDRESS",
     "address to listen on; another one than loopback should have TLS in front"},
    {"name", OPTION_STRING, FIELD(names), NULL, 0, 0, NULL, "LIST",
     "DNS names of this server, separated by blanks (*.example.org: all below); other names get "
     "421, but addresses, localhost, and names without a dot or under .local, .lan, .home, "
     ".home.arpa and .internal"},
    {"port", OPTION_INT, FIELD(port), "8080", 1, 65535, NULL, "N", "TCP port"},
    {"ctx", OPTION_INT, FIELD(ctx), "0", 0, 1 << 24, NULL, "N",
     "context per conversation in tokens; 0: the model's own"},
    {"slots", OPTION_INT, FIELD(slots), "16", 1, 1024, NULL, "N",
     "answers that are generated at the same time"},
    {"max-queue", OPTION_INT, FIELD(max_queue), "256", 1, 100000, NULL, "N",
     "requests that may wait; more are refused with 503"},
    {"threads", OPTION_INT, FIELD(threads), "0", 0, 1024, NULL, "N",
     "threads of the cpu backend; 0: one per core"},
    {"kv-memory", OPTION_BYTES, FIELD(kv_memory), "0", 0, 1e15, NULL, "BYTES",
     "memory for KV blocks; 0: chosen"},
    {"prompt-cache-disk", OPTION_STRING, FIELD(prompt_cache_disk), "auto", 0, 0, NULL,
     "BYTES|auto|off",
     "what prompts may take on the disk, so that chats go on at once after a restart; auto: a "
     "tenth "
     "of what is free"},
    {"prompt-cache-ram", OPTION_STRING, FIELD(prompt_cache_ram), "auto", 0, 0, NULL,
     "BYTES|auto|off",
     "with a GPU: copies of that in RAM; auto: a quarter of what the memory plan leaves there"},
    {"speculate", OPTION_STRING, FIELD(speculate), "auto", 0, 0, NULL,
     "auto|off|ngram|draft|mtp|dflash",
     "where drafts of the next tokens come from, which are verified as far as it pays; no answer "
     "changes"},
    {"draft-model", OPTION_STRING, FIELD(draft_model), "off", 0, 0, NULL, "PATH|auto|off",
     "a smaller model with the same vocabulary that makes drafts; auto: the folder draft in the "
     "model's, if it has one"},
    {"embedding-model", OPTION_STRING, FIELD(embedding_model), NULL, 0, 0, NULL, "PATH",
     "a model for /v1/embeddings, in an engine of its own on the processor; as --model is named"},
    {"rerank-model", OPTION_STRING, FIELD(rerank_model), NULL, 0, 0, NULL, "PATH",
     "a model for /v1/rerank, likewise"},
    {"embedding-threads", OPTION_INT, FIELD(embedding_threads), "0", 0, 1024, NULL, "N",
     "threads of each of these engines; 0: one per two cores"},
    {"prefill-chunk", OPTION_INT, FIELD(prefill_chunk), "0", 0, 65536, NULL, "TOKENS",
     "prompt tokens of a step at most; 0: chosen"},
    MEMORY_OPTION_ROWS(struct up, memory),
    {"user", OPTION_STRING, FIELD(user_name), NULL, 0, 0, NULL, "NAME",
     "as root: run everything as this user, or as UID:GID"},
    {"engine-user", OPTION_STRING, FIELD(engine_user_name), NULL, 0, 0, NULL, "NAME",
     "as root, with --user: run the engine as this one, which can't read the state folder"},
    {"without-landlock", OPTION_BOOL, FIELD(without_landlock), "false", 0, 0, NULL, NULL,
     "hide no files from engine and workers, and read attached files also where the kernel has no "
     "Landlock: what reads them sees other files"},
    {"without-seccomp", OPTION_BOOL, FIELD(without_seccomp), "false", 0, 0, NULL, NULL,
     "filter no system calls of engine and workers: for kernels that take no filter"},
    {"without-first-admin", OPTION_BOOL, FIELD(without_first_admin), "false", 0, 0, NULL, NULL,
     "make no admin at the first start: `sluice user invite --admin` prints a link that makes one"},
    {"exact", OPTION_BOOL, FIELD(exact), "false", 0, 0, NULL, NULL,
     "32-bit arithmetic everywhere, slower"},
    {"cors-origins", OPTION_STRING, FIELD(cors), NULL, 0, 0, NULL, "LIST",
     "origins of other pages that may call the API with a key, separated by blanks; * is any"},
    {"audit-log", OPTION_STRING, FIELD(audit_log), NULL, 0, 0, NULL, "FILE",
     "also write the audit log there, as JSON lines; - is standard output, syslog the machine's "
     "log"},
    {"tool-programs", OPTION_STRING, FIELD(tool_programs), NULL, 0, 0, NULL, "FILE",
     "programs that admins may offer as tool servers, as JSON; each runs in a sandbox"},
    {"env-file", OPTION_STRING, FIELD(env_file), NULL, 0, 0, NULL, "FILE",
     "write URL and the first admin's name, password and key there (0600)"},
    {"bin-dir", OPTION_STRING, FIELD(bin_dir), NULL, 0, 0, NULL, "DIR",
     "where sluice-engine and sluice-worker are"},
    {"share-dir", OPTION_STRING, FIELD(share_dir), SLUICE_DATADIR, 0, 0, NULL, "DIR",
     "where the page, nginx's templates and the demo model are"},
    {"log-level", OPTION_CHOICE, FIELD(log_level), "info", 0, 0, "error|warn|info|debug", NULL,
     "how much is logged"},
};

/* Beside this program when it runs from a build folder, else where it was installed. */
static bool find_programs(struct up *u, struct err *e)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (!u->bin_dir && n > 0) {
        self[n] = '\0';
        *strrchr(self, '/') = '\0';
        char *beside = up_in_dir(u, self, "sluice-engine");
        if (beside && access(beside, X_OK) == 0)
            u->bin_dir = arena_strdup(u->arena, self);
    }
    if (!u->bin_dir)
        u->bin_dir = SLUICE_LIBEXECDIR;
    const char *const names[] = {"sluice-engine", "sluice-worker", "sluice-toolhost"};
    for (int i = 0; i < (u->tool_programs ? 3 : 2); i++) {
        char *path = up_in_dir(u, u->bin_dir, names[i]);
        if (!path || access(path, X_OK) != 0)
            return err_set(e, ERR_NOTFOUND, "%s is not in %s; run `make install` or use --bin-dir",
                           names[i], u->bin_dir);
    }
    return true;
}

/* The host that runs them would end, again and again, and be known by its log only. */
static bool check_tool_programs(const struct up *u, struct err *e)
{
    struct arena *a = u->tool_programs ? arena_create(PROGRAMS_ARENA) : NULL;
    struct programs *programs = a ? arena_alloc(a, sizeof *programs) : NULL;
    const bool ok = !u->tool_programs || (programs ? programs_read(programs, a, u->tool_programs, e)
                                                   : err_set(e, ERR_NOMEM, "out of memory"));
    arena_destroy(&a);
    return ok;
}

/* What the admin chose on the page stays chosen. */
static const char *last_model(struct up *u)
{
    struct buf text = {0};
    const char *last = NULL;
    if (file_read(up_in_dir(u, u->state, STATE_MODEL), PATH_MAX, &text, NULL) && text.len &&
        access(text.data, R_OK) == 0)
        last = arena_strdup(u->arena, text.data);
    buf_fini(&text);
    return last ? last : up_in_dir(u, u->share_dir, "demo-model");
}

static bool work_out_paths(struct up *u, struct err *e)
{
    char real[4096];
    int64_t bytes;
    enum engine_speculate speculate;
    if (!disk_tier_size("prompt-cache-disk", u->prompt_cache_disk, &bytes, e) ||
        !disk_tier_size("prompt-cache-ram", u->prompt_cache_ram, &bytes, e) ||
        !engine_speculate_parse(u->speculate, &speculate, e))
        return false;
    if (!u->state) {
        struct passwd *pw = getpwuid(getuid());
        if (!pw)
            return err_set(e, ERR_INPUT, "no home folder; use --state");
        u->state = up_in_dir(u, pw->pw_dir, ".local/state/sluice");
    }
    if (!file_mkdirs(u->state, 0700, e))
        return false;
    if (!realpath(u->state, real))
        return err_errno(e, "%s", u->state);
    if (u->engine_user.given)
        u->engine_run = up_in_dir(u, real, STATE_ENGINE);
    if (strlen(real) > 80) /* sun_path holds 107 bytes with the names that follow */
        return err_field(e, ERR_LIMIT, "state",
                         "path is too long for unix sockets (80 characters)");
    u->state = arena_strdup(u->arena, real);
    const char *run = u->engine_run ? u->engine_run : u->state;
    u->engine_socket = up_in_dir(u, run, STATE_ENGINE_SOCKET);
    u->status = up_in_dir(u, run, STATE_STATUS);
    u->cache = up_in_dir(u, u->state, STATE_CACHE);
    u->engine_cache = up_in_dir(u, run, STATE_CACHE);
    u->database = up_in_dir(u, u->state, STATE_DATABASE);
    u->record_socket = up_in_dir(u, u->state, STATE_RECORD_SOCKET);
    u->stream_socket = up_in_dir(u, u->state, "stream.sock");
    u->short_socket = up_in_dir(u, u->state, "short.sock");
    u->log_ring = up_in_dir(u, u->state, STATE_LOG);
    u->nginx_run = up_in_dir(u, u->state, "nginx");
    u->web = up_in_dir(u, u->share_dir, "web");
    u->url = arena_printf(u->arena, "http://%s:%lld", u->host, (long long)u->port);
    if (!u->models)
        u->models = up_in_dir(u, u->state, "models");
    if (!up_hub_model(u, &u->model, e) || !up_side_models(u, e))
        return false;
    if (!u->model)
        u->model = last_model(u);
    if (!realpath(u->model, real))
        return err_errno(e, "model %s", u->model);
    u->model = arena_strdup(u->arena, real);
    if (strcmp(u->draft_model, "auto") != 0 && strcmp(u->draft_model, "off") != 0) {
        if (!realpath(u->draft_model, real))
            return err_errno(e, "draft model %s", u->draft_model);
        u->draft_model = arena_strdup(u->arena, real);
    }
    return file_mkdirs(u->cache, 0700, e);
}

/* Two supervisors on one state folder would fight over sockets and the database. */
static bool lock_state(struct up *u, struct err *e)
{
    int fd = open(up_in_dir(u, u->state, STATE_UP_LOCK), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(e, "%s", u->state);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return err_set(e, ERR_CONFLICT, "%s is in use by another `sluice up`", u->state);
    }
    return true; /* held until this process ends */
}

static bool write_env_file(const struct up *u, const struct store_first_admin *admin, struct err *e)
{
    struct buf out = {0}, old = {0};
    bool ok = true;
    buf_printf(&out, "SLUICE_URL=%s\n", u->url);
    if (admin) {
        buf_printf(&out, "SLUICE_API_KEY=%s\nSLUICE_ADMIN_USER=%s\nSLUICE_ADMIN_PASSWORD=%s\n",
                   admin->key, admin->name, admin->password);
    } else if (file_exists(
                   u->env_file)) { /* secrets are known only at the first start: keep those lines */
        ok = file_read(u->env_file, MAX_ENV_FILE, &old, e);
        for (char *line = ok && old.data ? strtok(old.data, "\n") : NULL; line;
             line = strtok(NULL, "\n"))
            if (strncmp(line, "SLUICE_URL=", 11) != 0)
                buf_printf(&out, "%s\n", line);
    }
    ok = ok && file_write_atomic(u->env_file, out.data, out.len, 0600, e);
    secret_wipe(out.data, out.len);
    buf_fini(&out);
    buf_fini(&old);
    return ok;
}

/* Makes the database, and on the very first start the admin, whose secrets are shown once. */
static bool prepare_store(struct up *u, struct err *e)
{
    struct store_first_admin admin = {0};
    bool made = false;
    struct store *s = NULL;
    if (!secret_init(e))
        return false;
    s = store_open(&(struct store_params){.path = u->database, .create = true}, e);
    bool ok = s && (u->without_first_admin || store_first_admin(s, "admin", &admin, &made, e));
    store_close(&s);
    if (ok && u->env_file)
        ok = write_env_file(u, made ? &admin : NULL, e);
    if (ok && made) {
        printf("\n  The first start made an admin. This is shown once:\n\n"
               "    name      %s\n    password  %s\n    API key   %s\n\n"
               "    curl %s/v1/chat/completions -H 'Authorization: Bearer %s' \\\n"
               "      -H 'Content-Type: application/json' -d "
               "'{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n\n",
               admin.name, admin.password, admin.key, u->url, admin.key);
        fflush(stdout);
    }
    secret_wipe(&admin, sizeof admin);
    return ok;
}

static void announce(struct up *u)
{
    static struct status_page page; /* some 20 KiB, read five times a second at most until ready */
    if (u->announced || !status_read(u->status, &page, NULL) || page.state != ENGINE_READY)
        return;
    u->announced = true;
    printf("\n  Sluice serves %s on %s (%s): %s\n  Ctrl-C stops it.\n\n", page.model_name,
           page.device, page.backend, u->url);
    fflush(stdout);
}

static void tick(void *context)
{
    struct up *u = context;
    announce(u);
    model_switch_tick(&u->model_switch);
    local_engines_tick(u->local_engines);
    model_search_tick(&u->model_search);
}

/* Where models are looked for: --models, beside the one that runs, and where the demo model is. */
static bool begin_model_switch(struct up *u, struct supervisor *s, struct err *e)
{
    char *beside = arena_strdup(u->arena, u->model);
    *strrchr(beside, '/') = '\0';
    u->model_switch =
        (struct model_switch){.supervisor = s,
                              .state_dir = u->state,
                              .status_path = u->status,
                              .cache_dir = u->cache,
                              .draft_model = u->draft_model,
                              .speculate = u->speculate,
                              .pull = {.folder = u->models,
                                       .hub = u->hub,
                                       .progress_path = up_in_dir(u, u->state, STATE_PULL)}};
    const char *const folders[] = {u->models, beside, u->share_dir};
    for (int i = 0, n = 0; i < 3; i++)
        if (folders[i][0] && strcmp(folders[i], "/"))
            u->model_switch.folders[n++] = folders[i];
    up_set_search(u);
    model_search_begin(&u->model_search);
    return model_switch_begin(&u->model_switch, u->model, e);
}

/* Root makes what is to belong to others, and is root no longer. The engine's folder is in the
 * group of who runs the rest; through the state folder the engine may pass, and open nothing there.
 */
static bool become_users(struct up *u, struct err *e)
{
    if (!run_as_find(u->user_name, "user", &u->user, e) ||
        !run_as_find(u->engine_user_name, "engine-user", &u->engine_user, e))
        return false;
    if (u->engine_user.given && (!u->user.given || u->engine_user.uid == u->user.uid))
        return err_field(e, ERR_INPUT, "engine-user", "must be another user than that of --user");
    if (!u->user.given)
        return true;
    if (u->engine_user.given && !u->state)
        return err_field(e, ERR_INPUT, "state", "is needed with --engine-user");
    u->engine_user.gid = u->user.gid;
    if (geteuid() == 0 && u->state && !run_as_own_folder(&u->user, u->state, e))
        return false;
    if (geteuid() == 0 && u->engine_user.given) {
        char *folder = up_in_dir(u, u->state, STATE_ENGINE),
             *cache = up_in_dir(u, folder, STATE_CACHE);
        if (!run_as_own_folder(&u->engine_user, folder, e) ||
            !run_as_own_folder(&u->engine_user, cache, e))
            return false;
        if (chmod(folder, 0750) != 0 || chmod(u->state, 0710) != 0)
            return err_errno(e, "%s", u->state);
    }
    return run_as_become(&u->user, u->engine_user.given, e);
}

/* A pool of a run that was killed may still end its streams: it serves nobody who comes now, which
 * /health would take from its number. */
static bool forget_pools(struct up *u, struct err *e)
{
    struct shared *s = shared_open(up_in_dir(u, u->state, STATE_SHARED), e);
    if (!s)
        return false;
    for (int p = 0; p < POOL__N; p++)
        s->pool[p].master_pid = 0;
    shared_close(&s);
    return true;
}

static bool up(struct up *u, struct err *e)
{
    struct supervisor s = {.stop_ms = STOP_MS, .on_tick = tick, .context = u};
    u->arena = arena_create(1 << 20);
    bool ok = u->arena || err_set(e, ERR_NOMEM, "out of memory");
    ok = ok && become_users(u, e) && find_programs(u, e) && check_tool_programs(u, e) &&
         work_out_paths(u, e) && lock_state(u, e) && log_ring_attach(u->log_ring, "up", e) &&
         prepare_store(u, e);
    if (ok) {
        if (geteuid() == 0)
            log_warn("all programs run as root, nginx's workers too: whoever breaks into one has "
                     "the machine; --user NAME runs them as a user of its own");
        if (u->engine_user.given) /* it writes there too, by its group */
            chmod(u->log_ring, 0660);
        up_forget_side_engines(u);
        unlink(u->status); /* the last run's page says nothing of this one */
        s.report_path = up_in_dir(u, u->state, "processes.json");
        ok = forget_pools(u, e) && local_engines_keep_room(u, e) && up_add_children(u, &s, e) &&
             begin_model_switch(u, &s, e) &&
             (u->local_engines = local_engines_begin(u, &s, e)) != NULL;
        if (ok) {
            ok = supervisor_run(&s, e);
            local_engines_end(&u->local_engines);
            model_switch_end(&u->model_switch);
            unlink(u->engine_socket); /* which the engine can't: engine_walls.h */
        }
    }
    arena_destroy(&u->arena);
    return ok;
}

static int run_up(int argc, char **argv)
{
    struct up u = {0};
    struct err e = {0};
    int status = cli_options(&cmd_up, argc, argv, &u, NULL);
    if (status >= 0)
        return status;
    log_set_level((enum log_level)log_level_from_name(u.log_level));
    return up(&u, &e) ? 0 : command_fail("up", &e);
}

const struct command cmd_up = {
    .name = "up",
    .usage = "[--state DIR] [--port N] [--model PATH] [--backend auto|vulkan|cpu] ...",
    .help = "run the whole server in the foreground: engine, workers, nginx",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run_up,
};
