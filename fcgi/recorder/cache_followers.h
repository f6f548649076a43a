/* The feeds of all engines that keep prompts on the disk: the first model's, and of further models
 * those that are loaded. Each engine has a folder of its own, and each row the model's whose folder
 * it means. The budget is one: rows of all models compete for it, and what is removed of a model
 * that is not loaded is forgotten by another engine that is followed, the first model's if it is.
 *
 * Thread: the recorder's. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "fcgi/process/shared.h"
#include "fcgi/recorder/cache_follower.h"

struct pollfd;

#define CACHE_FOLLOWERS (1 + SHARED_LOCALS)

struct cache_followers {
    struct store *store;
    struct shared *shared; /* NULL: the first model's alone */
    const char *engine_run;
    struct cache_follower first;
    struct cache_beside *beside[SHARED_LOCALS]; /* by place in shared memory; NULL: not followed */
    double next_removals;                       /* of models that are not loaded */
};

struct cache_followers_params { /* strings, store and shared outlive it */
    struct store *store;
    struct shared *shared;
    const char *engine_socket, *status_path, *engine_run;
};

void cache_followers_init(struct cache_followers *c, const struct cache_followers_params *p);
void cache_followers_run(struct cache_followers *c, double now);
double cache_followers_next(const struct cache_followers *c);
/* Fills fds[CACHE_FOLLOWERS]. */
void cache_followers_poll(const struct cache_followers *c, struct pollfd *fds);
/* Something may have been removed: the next run tells the engines at once. */
void cache_followers_request(struct cache_followers *c);
void cache_followers_fini(struct cache_followers *c);
