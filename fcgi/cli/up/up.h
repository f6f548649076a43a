/* What `sluice up` was told and worked out, for the files of this command: fcgi/cli/cmd_up.c reads
 * the options, children.c writes the command lines. One thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/arena.h"
#include "engine/memory/memory_options.h"
#include "fcgi/cli/pull/model_search.h"
#include "fcgi/cli/up/model_switch.h"
#include "fcgi/cli/up/run_as.h"
#include "fcgi/cli/up/supervisor.h"

struct up {
    /* options */
    const char *state, *model, *models, *hub, *backend, *host, *names, *env_file, *bin_dir,
        *share_dir, *cors, *audit_log, *log_level, *user_name, *engine_user_name,
        *prompt_cache_disk, *prompt_cache_ram, *speculate, *draft_model, *embedding_model,
        *rerank_model, *tool_programs;
    int64_t embedding_threads, port, ctx, slots, threads, max_queue, kv_memory, prefill_chunk;
    struct memory_options memory;
    bool exact, without_landlock, without_seccomp, without_first_admin;
    /* worked out */
    struct arena *arena;
    struct run_as user, engine_user;
    char *engine_run; /* NULL: the state folder */
    char *engine_socket, *status, *cache, *engine_cache, *database, *stream_socket, *short_socket,
        *record_socket;
    uint64_t beside; /* memory that the engines beside the one that answers take */
    uint64_t kept;   /* that is left to further models which are loaded at the start, or stay */
    char *prompt_cache_dir; /* NULL: the engine's own, in its cache folder */
    char *web, *url, *nginx_run, *log_ring;
    bool announced;
    struct model_switch model_switch;
    struct model_search model_search;
    struct local_engines *local_engines;
};

/* DIR/NAME in the arena; NULL: no memory. */
char *up_in_dir(struct up *u, const char *dir, const char *name);
/* A model that is named as on a hub is loaded, and *model its folder then; NULL stays. u->models is
 * set. */
bool up_hub_model(struct up *u, const char **model, struct err *e);
/* Where the models beside it really lie, and u->beside. ERR_UNSUPPORTED: one that can't do what it
 * is for. */
bool up_side_models(struct up *u, struct err *e);
/* Their engines. */
void up_add_side_engines(struct up *u, struct supervisor *s);
/* The last page of a side engine says nothing of this run. */
void up_forget_side_engines(struct up *u);
/* The command line of searches for the admin's page, which plan as the engine would. */
void up_set_search(struct up *u);
/* The command line of an engine that answers, SUPERVISOR_MAX_ARGS at most. */
void up_engine_words(struct up *u, char **argv);
/* v in decimal, in the arena. */
char *up_number(struct up *u, int64_t v);
struct child *up_add_child(struct supervisor *s, const char *name, char *const *argv,
                           int stop_signal);
/* Engine, pools and nginx, in this order; writes nginx's configuration. */
bool up_add_children(struct up *u, struct supervisor *s, struct err *e);
