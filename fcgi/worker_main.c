/* sluice-worker: one pool of FastCGI processes. pool_master.h says how the pool lives, route.h what
 * it serves. */
#define LOG_MODULE "worker"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/log_ring.h"
#include "engine/base/option.h"
#include "fcgi/auth/auth.h"
#include "fcgi/auth/limits.h"
#include "fcgi/config/server_settings.h"
#include "fcgi/http/cors.h"
#include "fcgi/http/dialect.h"
#include "fcgi/http/route.h"
#include "fcgi/http/serve.h"
#include "fcgi/inference/usage.h"
#include "fcgi/process/listen.h"
#include "fcgi/process/local_model.h"
#include "fcgi/process/pool_master.h"
#include "fcgi/process/shared.h"
#include "fcgi/process/state.h"
#include "fcgi/process/work_gate.h"
#include "fcgi/process/worker.h"
#include "fcgi/process/worker_walls.h"
#include "fcgi/recorder/recorder.h"
#include "fcgi/relay/relay.h"
#include "sql/core/secret.h"

#define SHORT_CHILDREN 2
#define SHORT_THREADS (WORK_THREADS + 2) /* two never do any slow work */

struct options {
    const char *pool, *state, *run, *engine_run, *log_ring, *cache_dir, *model, *model_name,
        *embedding_model, *rerank_model, *socket, *status_socket, *socket_group, *cors, *audit_log,
        *log_level;
    bool without_landlock, without_seccomp;
    int64_t min_idle, max_children, grace_s;
};

#define FIELD(name) offsetof(struct options, name)
static const struct option options[] = {
    {"pool", OPTION_CHOICE, FIELD(pool), "short", 0, 0, "stream|short|record|relay", NULL,
     "which pool this is"},
    {"state", OPTION_STRING, FIELD(state), NULL, 0, 0, NULL, "DIR", "folder of the database"},
    {"run", OPTION_STRING, FIELD(run), NULL, 0, 0, NULL, "DIR",
     "folder of the sockets and of the status page (default: --state)"},
    {"engine-run", OPTION_STRING, FIELD(engine_run), NULL, 0, 0, NULL, "DIR",
     "folder of the engine's socket and status page (default: --run)"},
    {"log-ring", OPTION_STRING, FIELD(log_ring), NULL, 0, 0, NULL, "FILE",
     "the newest log lines of all programs, the engine's --log-ring (default: --run/log)"},
    {"cache-dir", OPTION_STRING, FIELD(cache_dir), NULL, 0, 0, NULL, "DIR",
     "compiled vocabularies (default: --state/cache)"},
    {"model", OPTION_STRING, FIELD(model), NULL, 0, 0, NULL, "PATH",
     "the engine's model: folder or GGUF file"},
    {"model-name", OPTION_STRING, FIELD(model_name), NULL, 0, 0, NULL, "NAME",
     "the model's id in the API (default: the folder's name)"},
    {"embedding-model", OPTION_STRING, FIELD(embedding_model), NULL, 0, 0, NULL, "PATH",
     "the model of the engine that makes embeddings: --task embed, on --engine-run/embed.sock"},
    {"rerank-model", OPTION_STRING, FIELD(rerank_model), NULL, 0, 0, NULL, "PATH",
     "the model of the engine that scores documents: --task score, on --engine-run/score.sock"},
    {"socket", OPTION_STRING, FIELD(socket), NULL, 0, 0, NULL, "PATH",
     "where nginx connects (default: --run/POOL.sock)"},
    {"status-socket", OPTION_STRING, FIELD(status_socket), NULL, 0, 0, NULL, "PATH",
     "short pool: where nginx asks for health and figures (default: --run/status.sock)"},
    {"socket-group", OPTION_STRING, FIELD(socket_group), NULL, 0, 0, NULL, "GROUP",
     "the group that may connect: nginx's"},
    {"min-idle", OPTION_INT, FIELD(min_idle), "4", 1, 64, NULL, "N",
     "stream pool: processes kept waiting"},
    /* More than the engine's slots and queue hold, so that the engine refuses what is too much,
       with the reason. */
    {"max-streams", OPTION_INT, FIELD(max_children), "400", 1, SHARED_CHILDREN, NULL, "N",
     "stream pool: processes at most"},
    {"grace", OPTION_INT, FIELD(grace_s), "10", 0, 3600, NULL, "SECONDS",
     "SIGTERM: what running streams get to end"},
    {"cors-origins", OPTION_STRING, FIELD(cors), NULL, 0, 0, NULL, "LIST",
     "origins of other pages that may call the API with a key, separated by blanks; * is any"},
    {"audit-log", OPTION_STRING, FIELD(audit_log), NULL, 0, 0, NULL, "FILE",
     "record pool: also write the audit log there, as JSON lines; - is standard output, syslog the "
     "machine's log"},
    {"without-landlock", OPTION_BOOL, FIELD(without_landlock), "false", 0, 0, NULL, NULL,
     "hide no files from these processes, and read attached files also where the kernel has no "
     "Landlock: what reads them sees other files"},
    {"without-seccomp", OPTION_BOOL, FIELD(without_seccomp), "false", 0, 0, NULL, NULL,
     "filter no system calls of these processes: for kernels that take no filter"},
    {"log-level", OPTION_CHOICE, FIELD(log_level), "info", 0, 0, "error|warn|info|debug", NULL,
     "how much is logged"},
};
#define N_OPTIONS (sizeof options / sizeof options[0])

static int record(const struct worker *w)
{
    char history[4096];
    bool named = file_join(history, sizeof history, w->state_dir, STATE_HISTORY, NULL);
    return recorder_run(&(struct recorder_params){.db_path = w->db_path,
                                                  .engine_socket = w->engine_socket,
                                                  .relay_socket = w->relay_socket,
                                                  .engine_run = w->engine_run,
                                                  .run_dir = w->run_dir,
                                                  .status_path = w->status_path,
                                                  .history_path = named ? history : NULL,
                                                  .audit_log = w->audit_log,
                                                  .embeds = side_model_of(w, ENGINE_TASK_EMBED),
                                                  .shared = w->shared});
}

/* The model's id in the API, and its date. */
static void name_model(struct worker *w, const char *given)
{
    struct stat st;
    snprintf(w->model_id, sizeof w->model_id, "%s", given ? given : w->text->name);
    w->model_created = stat(w->model_path, &st) == 0 ? (int64_t)st.st_mtime : clock_wall_s();
}

static void close_text(const struct text_model *text)
{
    if (!text)
        return;
    text_model_close((struct text_model *)text); /* constant for everyone but its owner here */
    free((void *)text);
}

static bool open_text(struct worker *w, struct err *e)
{
    struct text_model *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return err_set(e, ERR_NOMEM, "no memory");
    if (!text_model_open(fresh, w->model_path, w->cache_dir, e)) {
        free(fresh);
        return false;
    }
    close_text(w->text);
    w->text = fresh;
    return true;
}

/* `sluice up` may have switched to another model since. Under systemd there is no such file, and
 * the unit's stays. */
static bool follow_model(struct worker *w)
{
    static char paths[2][4096]; /* one worker a process; the one in use and the next */
    char *current = paths[w->model_path == paths[0]], path[4096];
    struct buf text = {0};
    struct err e = {0};
    bool other = file_join(path, sizeof path, w->run_dir, STATE_MODEL, &e) && file_exists(path) &&
                 file_read(path, sizeof paths[0] - 1, &text, &e) && text.len &&
                 strcmp(text.data, w->model_path) != 0;
    if (other) {
        snprintf(current, sizeof paths[0], "%s", text.data);
        w->model_path = current;
    }
    buf_fini(&text);
    return other;
}

static bool reload(struct worker *w)
{
    struct err e = {0};
    const char *before = w->model_path;
    const bool other = follow_model(w);
    if (!open_text(w, &e)) {
        log_error("model: %s", e.text);
        w->model_path = before; /* keep serving the old tokenizer; model_gate refuses jobs if the
                                   engine runs another model */
        return false;
    }
    if (other)
        name_model(w, NULL);
    if (!local_models_open(w, &e))
        log_error("%s", e.text);
    return true;
}

static const struct http_hooks hooks = {.authorise = auth_authorise, .on_head = limits_headers};
static const struct child_service service = {.open = serve_open,
                                             .serve = serve_request,
                                             .close = serve_close,
                                             .starting = usage_sweep_dead,
                                             .settle = usage_sweep};

static bool prepare(struct worker *w, const struct options *o, struct arena *a, struct err *e)
{
    if (!o->state || !o->model)
        return err_field(e, ERR_INPUT, o->state ? "model" : "state", "is needed");
    if (o->status_socket && w->pool != POOL_SHORT)
        return err_field(e, ERR_INPUT, "status-socket", "goes with --pool short only");
    w->state_dir = o->state;
    w->run_dir = o->run ? o->run : o->state;
    w->cache_dir = o->cache_dir ? o->cache_dir : arena_printf(a, "%s/%s", o->state, STATE_CACHE);
    w->engine_run = o->engine_run ? o->engine_run : w->run_dir;
    w->engine_socket = arena_printf(a, "%s/%s", w->engine_run, STATE_ENGINE_SOCKET);
    w->status_path = arena_printf(a, "%s/%s", w->engine_run, STATE_STATUS);
    w->log_path = o->log_ring ? o->log_ring : arena_printf(a, "%s/%s", w->run_dir, STATE_LOG);
    w->db_path = arena_printf(a, "%s/%s", o->state, STATE_DATABASE);
    w->model_path = o->model;
    w->waits_most = (int)(o->max_children + 3) / 4; /* the others answer from what is loaded */
    w->hooks = &hooks;
    w->without_landlock = o->without_landlock;
    w->without_seccomp = o->without_seccomp;
    w->relay_socket = arena_printf(a, "%s/%s", w->run_dir, STATE_RELAY_SOCKET);
    /* asks the provider of sign-ins, where one is set; asks upstreams */
    w->network = w->pool == POOL_SHORT || w->pool == POOL_RELAY;
    w->audit_log = o->audit_log;
    w->cors_origins = o->cors && *o->cors ? o->cors : NULL;
    if (w->cors_origins && !cors_check(w->cors_origins, e))
        return false;
    char *shared = arena_printf(a, "%s/%s", w->run_dir, STATE_SHARED);
    if (!w->log_path || !w->cache_dir || !w->engine_socket || !w->relay_socket || !w->status_path ||
        !w->db_path || !shared)
        return err_set(e, ERR_NOMEM, "no memory");
    if (!(w->settings = setting_cache_create()))
        return err_set(e, ERR_NOMEM, "no memory");
    if (!secret_init(e) || !file_mkdirs(w->run_dir, 0755, e) ||
        !(w->shared = shared_open(shared, e)) || !open_text(w, e))
        return false;
    name_model(w, o->model_name);
    if ((o->embedding_model && !side_model_open(w, ENGINE_TASK_EMBED, o->embedding_model, e)) ||
        (o->rerank_model && !side_model_open(w, ENGINE_TASK_SCORE, o->rerank_model, e)) ||
        !local_models_open(w, e))
        return false;
    struct err ignored;
    if (!log_ring_attach(w->log_path, worker_pool_name(w->pool), &ignored)) /* it serves anyway */
        log_warn("the admin's page will not show this process's log");
    return true;
}

static bool run(struct worker *w, const struct options *o, struct err *e)
{
    struct pool_master_params p = {.worker = w,
                                   .listen_fd = -1,
                                   .n_threads = 1,
                                   .grace_ms = (int)o->grace_s * 1000,
                                   .lock_in = worker_walls_child,
                                   .reload = reload,
                                   .service = &service,
                                   .stream_abort = dialect_stream_abort};
    if (w->pool == POOL_RECORD) {
        p.min_idle = p.max_children = 1;
        p.child_main = record;
    } else if (w->pool == POOL_RELAY) {
        p.min_idle = 1;
        p.max_children = 2; /* while an old one ends its answers */
        p.child_main = relay_run;
    } else if (w->pool == POOL_SHORT) {
        p.min_idle = SHORT_CHILDREN;
        p.max_children = 2 * SHORT_CHILDREN; /* while old ones leave */
        p.n_threads = SHORT_THREADS;
    } else {
        p.min_idle = (int)o->min_idle;
        p.max_children = (int)o->max_children;
        p.idle_ms = 15000;
    }
    if (!p.child_main) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s.sock", w->run_dir, worker_pool_name(w->pool));
        p.listen_fd = listen_unix(o->socket ? o->socket : path, o->socket_group, e);
        if (p.listen_fd < 0)
            return false;
    }
    if (w->pool == POOL_SHORT) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", w->run_dir, STATE_STATUS_SOCKET);
        p.reserved_fd = listen_unix(o->status_socket ? o->status_socket : path, o->socket_group, e);
        if (p.reserved_fd < 0)
            return false;
    }
    log_info("pool=%s model=%s", worker_pool_name(w->pool), w->model_id);
    return worker_walls_master(w, e) && pool_master_run(&p, e);
}

/* Each stream needs some descriptors, each child of the stream pool is a process: the soft limit is
 * often 1024. */
static void raise_limits(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
        l.rlim_cur = l.rlim_max < 65536 ? l.rlim_max : 65536;
        setrlimit(RLIMIT_NOFILE, &l);
    }
}

int main(int argc, char **argv)
{
    struct options o = {0};
    struct worker w = {0};
    struct err e = {0};
    if (argc > 1 && !strcmp(argv[1], "--help")) {
        puts("usage: sluice-worker --pool POOL --state DIR --model PATH [options]\n");
        option_help(options, N_OPTIONS);
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "--version")) {
        puts("sluice-worker " PACKAGE_VERSION);
        return 0;
    }
    if (!option_parse(options, N_OPTIONS, &(struct option_args){.argc = argc, .argv = argv}, &o,
                      &e)) {
        fprintf(stderr, "sluice-worker: %s%s%s\n", e.field, e.field[0] ? ": " : "", e.text);
        return 2;
    }
    log_set_level((enum log_level)log_level_from_name(o.log_level));
    raise_limits();
    w.pool = !strcmp(o.pool, "record")   ? POOL_RECORD
             : !strcmp(o.pool, "relay")  ? POOL_RELAY
             : !strcmp(o.pool, "stream") ? POOL_STREAM
                                         : POOL_SHORT;
    struct arena *arena = arena_create(0);
    bool ok = arena && prepare(&w, &o, arena, &e) && run(&w, &o, &e);
    if (!ok)
        fprintf(stderr, "sluice-worker: %s%s%s\n", e.field, e.field[0] ? ": " : "", e.text);
    local_models_close(&w);
    close_text(w.text);
    side_models_close(&w);
    setting_cache_destroy(&w.settings);
    shared_close(&w.shared);
    arena_destroy(&arena);
    return ok ? 0 : 1;
}
