/* up.h: the command lines of what `sluice up` supervises. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "fcgi/cli/up/local_engines.h"
#include "fcgi/cli/up/nginx_conf.h"
#include "fcgi/cli/up/up.h"
#include "fcgi/process/state.h"

char *up_in_dir(struct up *u, const char *dir, const char *name)
{
    return arena_printf(u->arena, "%s/%s", dir, name);
}

char *up_number(struct up *u, int64_t v)
{
    return arena_printf(u->arena, "%lld", (long long)v);
}

struct child *up_add_child(struct supervisor *s, const char *name, char *const *argv,
                           int stop_signal)
{
    struct child *c = &s->children[s->n_children++];
    c->name = name;
    c->stop_signal = stop_signal;
    size_t n = 0;
    for (; argv[n] && n < SUPERVISOR_MAX_ARGS - 1; n++)
        c->argv[n] = argv[n];
    c->argv[n] = NULL;
    return c;
}

/* Puts words, up to their NULL, behind those in argv, which has room for them. */
static void append(char **argv, char *const *words)
{
    while (*argv)
        argv++;
    while ((*argv++ = *words++))
        ;
}

/* What a plan depends on: the engine's own, and that of a search, which plans as the engine would.
 */
static void append_plan(struct up *u, char **argv)
{
    char *const words[] = {"--backend",
                           (char *)u->backend,
                           "--device",
                           (char *)u->memory.device,
                           "--ctx",
                           up_number(u, u->ctx),
                           "--slots",
                           up_number(u, u->slots),
                           "--threads",
                           up_number(u, u->threads),
                           "--strategy",
                           (char *)u->memory.strategy,
                           "--ram-budget",
                           up_number(u, u->memory.ram_budget),
                           "--gpu-budget",
                           up_number(u, u->memory.gpu_budget),
                           "--expert-cache",
                           up_number(u, u->memory.expert_cache),
                           "--experts-per-token",
                           up_number(u, u->memory.experts_per_token),
                           "--hybrid-experts",
                           (char *)u->memory.hybrid_experts,
                           "--kv-type",
                           (char *)u->memory.kv_type,
                           "--activations",
                           (char *)u->memory.activations,
                           "--kv-memory",
                           up_number(u, u->kv_memory),
                           "--prefill-chunk",
                           up_number(u, u->prefill_chunk),
                           "--speculate",
                           (char *)u->speculate,
                           u->exact ? "--exact" : "--no-exact",
                           NULL};
    append(argv, words);
}

void up_engine_words(struct up *u, char **argv)
{
    char *const words[] = {up_in_dir(u, u->bin_dir, "sluice-engine"),
                           "--model",
                           (char *)u->model,
                           "--socket",
                           u->engine_socket,
                           "--status",
                           u->status,
                           "--cache-dir",
                           u->engine_cache,
                           "--max-queue",
                           up_number(u, u->max_queue),
                           "--log-level",
                           (char *)u->log_level,
                           "--log-ring",
                           u->log_ring,
                           "--prompt-cache-disk",
                           (char *)u->prompt_cache_disk,
                           "--prompt-cache-ram",
                           (char *)u->prompt_cache_ram,
                           "--draft-model",
                           (char *)u->draft_model,
                           u->without_landlock ? "--without-landlock" : "--no-without-landlock",
                           u->without_seccomp ? "--without-seccomp" : "--no-without-seccomp",
                           "--beside", /* renewed by local_first.c */
                           up_number(u, (int64_t)(u->beside + u->kept)),
                           NULL};
    char *const dir[] = {"--prompt-cache-dir", u->prompt_cache_dir, NULL};
    char *const peer[] = {"--peer", up_number(u, (int64_t)u->user.uid), NULL};
    argv[0] = NULL;
    append(argv, words);
    append_plan(u, argv);
    if (u->prompt_cache_dir)
        append(argv, dir);
    if (u->engine_user.given)
        append(argv, peer);
}

static void add_engine(struct up *u, struct supervisor *s)
{
    char *argv[SUPERVISOR_MAX_ARGS];
    up_engine_words(u, argv);
    up_add_child(s, "engine", argv, SIGTERM)->as = u->engine_user.given ? &u->engine_user : NULL;
}

static void add_pool(struct up *u, struct supervisor *s, char *pool, const char *name, char *socket)
{
    char *argv[SUPERVISOR_MAX_ARGS] = {
        up_in_dir(u, u->bin_dir, "sluice-worker"),
        "--pool",
        pool,
        "--state",
        (char *)u->state,
        "--model",
        (char *)u->model,
        "--log-level",
        (char *)u->log_level,
        "--cors-origins",
        (char *)(u->cors ? u->cors : ""),
        "--engine-run",
        u->engine_run ? u->engine_run : (char *)u->state,
        u->without_landlock ? "--without-landlock" : "--no-without-landlock",
        u->without_seccomp ? "--without-seccomp" : "--no-without-seccomp",
        "--audit-log",
        (char *)(u->audit_log ? u->audit_log : ""),
        socket ? "--socket" : NULL,
        socket,
        NULL};
    char *const embedding[] = {"--embedding-model", (char *)u->embedding_model, NULL};
    char *const rerank[] = {"--rerank-model", (char *)u->rerank_model, NULL};
    if (u->embedding_model)
        append(argv, embedding);
    if (u->rerank_model)
        append(argv, rerank);
    up_add_child(s, name, argv, SIGTERM);
}

/* Programs that are tool servers; without a file of them there is nobody to run any. */
static void add_toolhost(struct up *u, struct supervisor *s)
{
    char *argv[] = {up_in_dir(u, u->bin_dir, "sluice-toolhost"),
                    "--programs",
                    (char *)u->tool_programs,
                    "--socket",
                    up_in_dir(u, u->state, STATE_TOOLS_SOCKET),
                    "--log-level",
                    (char *)u->log_level,
                    "--log-ring",
                    u->log_ring,
                    u->without_landlock ? "--without-landlock" : "--no-without-landlock",
                    u->without_seccomp ? "--without-seccomp" : "--no-without-seccomp",
                    NULL};
    if (u->tool_programs)
        up_add_child(s, "toolhost", argv, SIGTERM);
}

/* --name, and what --host and the machine are called. */
static char *known_names(struct up *u)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
    char own[256] = "";
    const bool usable = gethostname(own, sizeof own - 1) == 0 && strchr(own, '.') &&
                        !own[strspn(own, letters)] && own[0] != '.' && own[strlen(own) - 1] != '.';
    const bool named = u->host[strspn(u->host, "0123456789.")] && !strchr(u->host, ':');
    return arena_printf(u->arena, "%s %s %s", u->names ? u->names : "", named ? u->host : "",
                        usable ? own : "");
}

static bool add_nginx(struct up *u, struct supervisor *s, struct err *e)
{
    const char *program = nginx_program();
    if (!program)
        return err_set(e, ERR_NOTFOUND,
                       "nginx is not installed; on Debian: apt install nginx-light");
    struct nginx_conf conf = {
        .templates = up_in_dir(u, u->share_dir, "nginx"),
        .run = u->nginx_run,
        .listen = arena_printf(u->arena, strchr(u->host, ':') ? "[%s]:%lld" : "%s:%lld", u->host,
                               (long long)u->port),
        .web = u->web,
        .stream_socket = u->stream_socket,
        .short_socket = u->short_socket,
        .status_socket = up_in_dir(u, u->state, STATE_STATUS_SOCKET),
        .names = known_names(u),
    };
    if (!nginx_conf_write(&conf, e))
        return false;
    char *argv[] = {
        (char *)program, "-p", u->nginx_run, "-c", up_in_dir(u, u->nginx_run, "nginx.conf"), "-e",
        "stderr",        NULL};
    up_add_child(s, "nginx", argv, SIGQUIT);
    return true;
}

bool up_add_children(struct up *u, struct supervisor *s, struct err *e)
{
    add_engine(u, s);
    up_add_side_engines(u, s);
    local_engines_add_children(s);
    add_pool(u, s, "record", "recorder", NULL);
    add_pool(u, s, "relay", "relay", NULL);
    add_toolhost(u, s);
    add_pool(u, s, "short", "workers-short", u->short_socket);
    add_pool(u, s, "stream", "workers-stream", u->stream_socket);
    return add_nginx(u, s, e);
}

void up_set_search(struct up *u)
{
    char *argv[MODEL_SEARCH_ARGS] = {"sluice",      "search",
                                     "--endpoint",  (char *)u->hub,
                                     "--known",     up_in_dir(u, u->share_dir, "known-models.json"),
                                     "--folder",    (char *)u->models,
                                     "--progress",  up_in_dir(u, u->state, STATE_SEARCH),
                                     "--status",    u->status,
                                     "--cache-dir", u->cache,
                                     NULL};
    append_plan(u, argv);
    u->model_search.state_dir = u->state;
    memcpy(u->model_search.argv, argv, sizeof argv);
}
