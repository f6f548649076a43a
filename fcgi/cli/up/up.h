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
        *prompt_cache_disk, *prompt_cache_ram, *speculate, *draft_model;
    int64_t port, ctx, slots, threads, max_queue, kv_memory, prefill_chunk;
    struct memory_options memory;
    bool exact, without_landlock, without_seccomp, without_first_admin;
    /* worked out */
    struct arena *arena;
    struct run_as user, engine_user;
    char *engine_run; /* NULL: the state folder */
    char *engine_socket, *status, *cache, *engine_cache, *database, *stream_socket, *short_socket,
        *record_socket;
    char *web, *url, *nginx_run, *log_ring;
    bool announced;
    struct model_switch model_switch;
    struct model_search model_search;
};

/* DIR/NAME in the arena; NULL: no memory. */
char *up_in_dir(struct up *u, const char *dir, const char *name);
/* A model that is named as on a hub is loaded, and u->model its folder then. u->models is set. */
bool up_hub_model(struct up *u, struct err *e);
/* The command line of searches for the admin's page, which plan as the engine would. */
void up_set_search(struct up *u);
/* Engine, pools and nginx, in this order; writes nginx's configuration. */
bool up_add_children(struct up *u, struct supervisor *s, struct err *e);
