/* sluice-engine: one model behind one unix socket. This thread becomes the I/O thread; loop and
 * monitor are its own. */
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#define LOG_MODULE "engine"
#include "engine/backend/backend.h"
#include "engine/base/file.h"
#include "engine/base/log_ring.h"
#include "engine/base/option.h"
#include "engine/confine/engine_walls.h"
#include "engine/draft/draft_load.h"
#include "engine/memory/memory_options.h"
#include "engine/sched/loop.h"
#include "engine/sched/watch/notify.h"

#define BESIDE_ANSWERS 5 /* niceness of other tasks: answers that run beside them go first */
#define STOP_MS 5000     /* for the running step at the end */

struct options {
    const char *model, *socket, *status, *backend, *cache_dir, *group, *peer, *log_level, *log_ring;
    int64_t ctx, slots, max_queue, threads, prefill_chunk, kv_memory, grace;
    struct memory_options memory;
    const char *prompt_cache_dir, *prompt_cache_disk, *prompt_cache_ram;
    int64_t prompt_cache_bytes; /* of prompt_cache_disk */
    int64_t ram_bytes;          /* of prompt_cache_ram */
    const char *speculate, *draft_model, *task_name;
    int64_t beside;
    enum engine_task task;
    enum engine_speculate speculates;
    bool exact, prefix_cache, without_landlock, without_seccomp, help, version;
};

#define FIELD(name) offsetof(struct options, name)
static const struct option table[] = {
    {.name = "model",
     .type = OPTION_STRING,
     .offset = FIELD(model),
     .value = "PATH",
     .help = "Model folder (config.json and safetensors) or GGUF file."},
    {.name = "socket",
     .type = OPTION_STRING,
     .offset = FIELD(socket),
     .value = "PATH",
     .help = "Unix socket to listen on (mode 0660)."},
    {.name = "status",
     .type = OPTION_STRING,
     .offset = FIELD(status),
     .value = "FILE",
     .help = "Status page: a small file that readers map."},
    {.name = "task",
     .type = OPTION_CHOICE,
     .offset = FIELD(task_name),
     .fallback = "text",
     .choices = "text|embed|score",
     .help = "What the model is for: answers, embeddings, or scores of documents (rerank); the "
             "latter two run on the processor."},
    {.name = "backend",
     .type = OPTION_CHOICE,
     .offset = FIELD(backend),
     .fallback = "auto",
     .choices = "auto|vulkan|cpu",
     .help = "What computes; auto takes a real GPU if there is one."},
    {.name = "ctx",
     .type = OPTION_INT,
     .offset = FIELD(ctx),
     .max = 16777216,
     .value = "TOKENS",
     .help = "Longest prompt and answer together; 0: the model's own, at most 32768."},
    {.name = "slots",
     .type = OPTION_INT,
     .offset = FIELD(slots),
     .fallback = "16",
     .min = 1,
     .max = 1024,
     .help = "Jobs that run at once."},
    {.name = "max-queue",
     .type = OPTION_INT,
     .offset = FIELD(max_queue),
     .fallback = "256",
     .min = 1,
     .max = 100000,
     .help = "Jobs that may wait; more are refused."},
    {.name = "threads",
     .type = OPTION_INT,
     .offset = FIELD(threads),
     .max = 1024,
     .help = "Threads of the cpu backend; 0: one per core."},
    {.name = "cache-dir",
     .type = OPTION_STRING,
     .offset = FIELD(cache_dir),
     .value = "DIR",
     .help = "Folder for the compiled vocabulary and pipelines."},
    {.name = "kv-memory",
     .type = OPTION_BYTES,
     .offset = FIELD(kv_memory),
     .max = 1e15,
     .value = "BYTES",
     .help = "Memory for KV blocks; 0: half of what all slots could fill, at most a quarter of "
             "free memory."},
    MEMORY_OPTION_ROWS(struct options, memory),
    {.name = "prefill-chunk",
     .type = OPTION_INT,
     .offset = FIELD(prefill_chunk),
     .max = 65536,
     .value = "TOKENS",
     .help = "Prompt tokens of a step at most, 32 or more; 0: 512, or 2048 where experts are "
             "streamed and memory allows."},
    {.name = "prefix-cache",
     .type = OPTION_BOOL,
     .offset = FIELD(prefix_cache),
     .fallback = "true",
     .help = "Reuse KV blocks of equal beginnings within a scope."},
    {.name = "prompt-cache-disk",
     .type = OPTION_STRING,
     .offset = FIELD(prompt_cache_disk),
     .fallback = "auto",
     .value = "BYTES|auto|off",
     .help = "KV blocks kept on the disk, across restarts; auto: a tenth of what is free there."},
    {.name = "prompt-cache-ram",
     .type = OPTION_STRING,
     .offset = FIELD(prompt_cache_ram),
     .fallback = "auto",
     .value = "BYTES|auto|off",
     .help = "Copies of them in RAM, with a GPU; auto: a quarter of what the plan leaves there."},
    {.name = "prompt-cache-dir",
     .type = OPTION_STRING,
     .offset = FIELD(prompt_cache_dir),
     .value = "DIR",
     .help = "Folder for them; default: prompt-cache in the cache folder."},
    {.name = "speculate",
     .type = OPTION_STRING,
     .offset = FIELD(speculate),
     .fallback = "auto",
     .value = "auto|off|ngram|draft|mtp|dflash",
     .help = "Where drafts of the next tokens come from, which steps verify as far as it pays; no "
             "answer changes."},
    {.name = "draft-model",
     .type = OPTION_STRING,
     .offset = FIELD(draft_model),
     .fallback = "off",
     .value = "PATH|auto|off",
     .help =
         "A smaller model with the same vocabulary that makes drafts; auto: the folder draft in "
         "the model's, if it has one."},
    {.name = "beside",
     .type = OPTION_BYTES,
     .offset = FIELD(beside),
     .max = 1e15,
     .value = "BYTES",
     .help = "Memory to leave to engines that run beside this one."},
    {.name = "exact",
     .type = OPTION_BOOL,
     .offset = FIELD(exact),
     .help = "32-bit activations everywhere, however slow."},
    {.name = "group",
     .type = OPTION_STRING,
     .offset = FIELD(group),
     .value = "NAME",
     .help = "Members of this group may connect beside our own user and root."},
    {.name = "peer",
     .type = OPTION_STRING,
     .offset = FIELD(peer),
     .value = "USER",
     .help = "This user, by name or number, may connect beside our own and root."},
    {.name = "grace",
     .type = OPTION_INT,
     .offset = FIELD(grace),
     .fallback = "5",
     .max = 3600,
     .value = "SECONDS",
     .help = "At SIGTERM running jobs get this long to finish."},
    {.name = "log-level",
     .type = OPTION_CHOICE,
     .offset = FIELD(log_level),
     .fallback = "info",
     .choices = "error|warn|info|debug",
     .help = "What is logged on standard error."},
    {.name = "log-ring",
     .type = OPTION_STRING,
     .offset = FIELD(log_ring),
     .value = "FILE",
     .help = "Also keep the newest log lines in this file, with those of the workers."},
    {.name = "without-landlock",
     .type = OPTION_BOOL,
     .offset = FIELD(without_landlock),
     .help = "Hide no files from this process: for drivers that need what is hidden."},
    {.name = "without-seccomp",
     .type = OPTION_BOOL,
     .offset = FIELD(without_seccomp),
     .help = "Filter no system calls of this process: for kernels that take no filter."},
    {.name = "help", .type = OPTION_BOOL, .offset = FIELD(help), .help = "Show this text."},
    {.name = "version", .type = OPTION_BOOL, .offset = FIELD(version), .help = "Show the version."},
};
#undef FIELD
#define N_OPTIONS (sizeof table / sizeof table[0])

static int fail(const struct err *e, int exit_status)
{
    fprintf(stderr, "sluice-engine: %s%s%s\n", e->field, e->field[0] ? ": " : "", e->text);
    return exit_status;
}

/* -1: none is named. */
static bool find_peer(const char *text, uid_t *peer, struct err *e)
{
    char *end;
    *peer = (uid_t)-1;
    if (!text)
        return true;
    const struct passwd *pw = getpwnam(text);
    const unsigned long number = strtoul(text, &end, 10);
    if (!pw && (*end || end == text || number >= UINT32_MAX))
        return err_field(e, ERR_INPUT, "peer", "no user '%s' on this system", text);
    *peer = pw ? pw->pw_uid : (uid_t)number;
    return true;
}

static bool check_prompt_cache(struct options *o, struct err *e)
{
    if (!disk_tier_size("prompt-cache-disk", o->prompt_cache_disk, &o->prompt_cache_bytes, e) ||
        !disk_tier_size("prompt-cache-ram", o->prompt_cache_ram, &o->ram_bytes, e))
        return false;
    if (o->ram_bytes > 0 && (o->prompt_cache_bytes == DISK_TIER_OFF || !o->prefix_cache))
        return err_field(e, ERR_INPUT, "prompt-cache-ram",
                         "the prompt cache on disk that it would hold copies of is switched off");
    if (o->prompt_cache_dir && (o->prompt_cache_bytes == DISK_TIER_OFF || !o->prefix_cache))
        return err_field(e, ERR_INPUT, "prompt-cache-dir",
                         "the prompt cache that would lie there is switched off");
    if (o->prompt_cache_bytes > 0 && !o->prefix_cache)
        return err_field(e, ERR_INPUT, "prompt-cache-disk",
                         "nothing is stored without the prefix cache");
    return o->prompt_cache_bytes <= 0 || o->prompt_cache_dir || o->cache_dir ||
           err_field(e, ERR_INPUT, "prompt-cache-disk",
                     "--prompt-cache-dir says where, or "
                     "--cache-dir");
}

static bool check_drafts(struct options *o, struct err *e)
{
    if (!engine_speculate_parse(o->speculate, &o->speculates, e))
        return false;
    if (strcmp(o->draft_model, "off") != 0 &&
        (o->speculates == ENGINE_SPECULATE_OFF || o->speculates == ENGINE_SPECULATE_NGRAM ||
         o->speculates == ENGINE_SPECULATE_MTP))
        return err_field(e, ERR_INPUT, "draft-model", "with --speculate %s nothing would use it",
                         o->speculate);
    const bool needed =
        o->speculates == ENGINE_SPECULATE_DRAFT || o->speculates == ENGINE_SPECULATE_DFLASH;
    return !needed || strcmp(o->draft_model, "off") != 0 ||
           err_field(e, ERR_INPUT, "draft-model",
                     "--speculate %s needs one: auto, or where it lies", o->speculate);
}

/* What belongs to answers alone is switched off for the other tasks, or refused if it was asked
 * for.
 */
static bool check_task(struct options *o, struct err *e)
{
    for (o->task = ENGINE_TASK_TEXT; strcmp(engine_task_name(o->task), o->task_name); o->task++)
        ;
    if (o->task == ENGINE_TASK_TEXT)
        return true;
    if (!strcmp(o->backend, "vulkan"))
        return err_field(e, ERR_UNSUPPORTED, "backend",
                         "embeddings and scores run on the processor only");
    if (strcmp(o->draft_model, "off") != 0)
        return err_field(e, ERR_INPUT, "draft-model", "only answers have drafts");
    if (o->prompt_cache_bytes > 0 || o->ram_bytes > 0)
        return err_field(e, ERR_INPUT, "prompt-cache-disk", "only prompts of answers are kept");
    o->backend = "cpu";
    o->speculates = ENGINE_SPECULATE_OFF;
    o->prefix_cache = false;
    return true;
}

static bool check(struct options *o, gid_t *group, uid_t *peer, struct err *e)
{
    if (!o->model || !o->socket || !o->status)
        return err_set(e, ERR_INPUT, "--model, --socket and --status are needed; see --help");
    if (o->prefill_chunk && o->prefill_chunk < 32)
        return err_field(e, ERR_INPUT, "prefill-chunk", "%d is less than 32",
                         (int)o->prefill_chunk);
    if (!check_prompt_cache(o, e) || !check_drafts(o, e) || !check_task(o, e))
        return false;
    *group = (gid_t)-1;
    if (!find_peer(o->peer, peer, e))
        return false;
    if (!o->group)
        return true;
    const struct group *g = getgrnam(o->group);
    if (!g)
        return err_field(e, ERR_INPUT, "group", "no group '%s' on this system", o->group);
    *group = g->gr_gid;
    return true;
}

static void describe(struct status_writer *status, const struct options *o)
{
    struct status_page *page = status_begin(status);
    snprintf(page->model_path, sizeof page->model_path, "%s", o->model);
    snprintf(page->error, sizeof page->error, "the engine is loading the model");
    status_end(status);
}

/* What is opened by its name later on is a model, a cache or a device: the rest is closed off here,
 * before anything of the model is read. The GPU's driver is asked first, because it may have to run
 * a program. */
static bool close_off(const struct options *o, struct err *e)
{
    struct err ignored;
    char found[PATH_MAX];
    if (strcmp(o->backend, "cpu"))
        vulkan_backend.probe->usable(&ignored);
    if (o->cache_dir)
        file_mkdirs(o->cache_dir, 0755, &ignored);
    if (o->prompt_cache_dir)
        file_mkdirs(o->prompt_cache_dir, 0700, &ignored);
    return engine_walls_enter(
        &(struct engine_walls){.model = o->model,
                               .draft_model = draft_load_path(o->draft_model, o->model, found),
                               .cache_dir = o->cache_dir,
                               .prompt_cache_dir = o->prompt_cache_dir,
                               .without_landlock = o->without_landlock,
                               .without_seccomp = o->without_seccomp},
        e);
}

static void wake_server(void *server)
{
    server_wake(server);
}

/* The options, and what was made so far. */
static struct loop *start_loop(const struct options *o, const struct loop_params *made,
                               struct err *e)
{
    struct loop_params p = *made;
    p.model = o->model;
    p.backend = o->backend;
    p.cache_dir = o->cache_dir;
    p.ctx = o->ctx;
    p.slots = o->slots;
    p.max_queue = o->max_queue;
    p.threads = o->threads;
    p.prefill_chunk = o->prefill_chunk;
    p.kv_bytes = o->kv_memory;
    memory_options_request(&o->memory, &p.memory);
    p.exact = o->exact;
    p.speculate = o->speculates;
    p.draft_model = o->draft_model;
    p.task = o->task;
    p.memory.beside_host = (uint64_t)o->beside;
    p.experts_per_token = o->memory.experts_per_token;
    p.prefix_cache = o->prefix_cache;
    p.without_seccomp = o->without_seccomp;
    p.prompt_cache_dir = o->prompt_cache_dir;
    p.prompt_cache_bytes = o->prompt_cache_bytes;
    p.prompt_cache_ram = o->ram_bytes;
    return loop_start(&p, e);
}

static int serve(const struct options *o, gid_t group, uid_t peer, struct err *e)
{
    struct inbox inbox;
    struct server *server = NULL;
    struct monitor *monitor = NULL;
    struct loop *loop = NULL;
    struct record_feed *feed = NULL;
    int exit_status = 1;
    if (o->task != ENGINE_TASK_TEXT && nice(BESIDE_ANSWERS) == -1)
        log_warn("runs at the same priority as answers");
    struct status_writer *status = status_create(o->status, e);
    if (!status)
        return fail(e, exit_status);
    describe(status, o);
    inbox_init(&inbox);
    feed = record_feed_create(e);
    server = !feed ? NULL
                   : server_open(&(struct server_params){.socket_path = o->socket,
                                                         .group = group,
                                                         .peer = peer,
                                                         .grace_ms = (int)o->grace * 1000,
                                                         .inbox = &inbox,
                                                         .status = status,
                                                         .feed = feed},
                                 e);
    if (server)
        record_feed_on_events(feed, wake_server, server);
    monitor = server && close_off(o, e) ? monitor_create(status, "", e) : NULL;
    if (monitor)
        loop = start_loop(o,
                          &(struct loop_params){.inbox = &inbox,
                                                .server = server,
                                                .status = status,
                                                .feed = feed,
                                                .monitor = monitor},
                          e);
    if (loop)
        exit_status = server_run(server);
    else
        fail(e, exit_status);
    notify_manager("STOPPING=1");
    if (!loop_stop(&loop, STOP_MS)) {
        log_warn("the loop is stuck in a step or a load: leaving without cleaning up");
        unlink(o->socket);
        _exit(exit_status);
    }
    server_close(&server);
    record_feed_destroy(&feed);
    inbox_fini(&inbox);
    monitor_destroy(&monitor);
    status_close(&status);
    return exit_status;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    struct err e = {0};
    gid_t group = (gid_t)-1;
    uid_t peer = (uid_t)-1;
    if (!option_parse(table, N_OPTIONS, &(struct option_args){.argc = argc, .argv = argv}, &o, &e))
        return fail(&e, 2);
    if (o.help) {
        puts("usage: sluice-engine --model PATH --socket PATH --status FILE [options]\n");
        option_help(table, N_OPTIONS);
        return 0;
    }
    if (o.version) {
        puts("sluice-engine " PACKAGE_VERSION);
        return 0;
    }
    if (!check(&o, &group, &peer, &e))
        return fail(&e, 2);
    log_set_level((enum log_level)log_level_from_name(o.log_level));
    signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is an error of write, like a full disk */
    if (o.log_ring && !log_ring_attach(o.log_ring, "engine", &e))
        return fail(&e, 2);
    return serve(&o, group, peer, &e);
}
