/* The engines of the models beside the first (sql/models/store_local_models.h): one process for
 * each that is loaded, under one plan for the machine. What is wanted stands in memory that the
 * workers share (fcgi/process/local_model.h); the supervisor's tick does the rest:
 *
 * - unloaded: until somebody wants it, or the server starts and the row says preload
 *
 * - loading: the plan is made in a process of its own (local_plan.h); for room, engines that are
 *   not pinned are ended, the one that was used longest ago first; then the engine starts
 *
 * - ready: until it is unused for the row's time, others need its room, or an admin ends it
 *
 * - unloading: it gets no new answers; when the running ones have ended it stops
 *
 * - failed: it can't be loaded or has no room; whoever wants it makes it try again
 *
 * RAM is what `--ram-budget` says or the machine has, less what the first engine and those beside
 * it take; a plan also sees what is really free, on a GPU only that. The first model is never
 * ended. One thread: the supervisor's. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/err.h"
#include "fcgi/cli/up/local_plan.h"
#include "fcgi/process/shared.h"
#include "sql/models/store_local_models.h"

struct arena;
struct child;
struct store;
struct supervisor;
struct up;

#define LOCAL_CRASHES 3 /* of a model that was ready, before nobody restarts it by himself */
#define LOCAL_ENGINES STORE_LOCAL_MODELS_MAX
_Static_assert(LOCAL_ENGINES == SHARED_LOCALS, "each model has a row in shared memory");

enum local_step {
    STEP_NONE,
    STEP_CHECKING,
    STEP_MAKING_ROOM,
    STEP_STARTING
}; /* of LOCAL_LOADING */

struct local_engine {
    int64_t id; /* of the row; 0: a free place */
    char name[STORE_MODEL_NAME_BYTES + 1], path[STORE_LOCAL_PATH_BYTES + 1];
    char asked_device[STORE_LOCAL_DEVICE_BYTES + 1]; /* of the row; "": as the server's */
    char gpu[BACKEND_DEVICE_ID_BYTES]; /* that it was planned on, and runs on; "": none */
    bool lacks_gpu_only;               /* LOCAL_FITS_LATER: memory of that GPU alone */
    bool pinned, gone;                 /* gone: the row was removed */
    bool wants_preload;
    int64_t idle_ms, ctx;
    int64_t planned_ctx;
    struct child *child; /* of the supervisor, for good */
    char child_name[32];
    struct arena *arena; /* of its command line */
    struct shared_local *slot;
    enum local_step step;
    uint64_t needed, device; /* bytes: planned, and when it is ready as it says itself */
    double used_ms;          /* clock_ms when it was last seen busy or wanted */
    double quiet_ms; /* while it is unloading: clock_ms since when it has no job; 0: it has */
    double leaving_ms, told_ms; /* clock_ms when it began to unload, and was told to end; 0: not */
    struct local_engine *leaves_for; /* while it is unloading for another's room; else NULL */
    pid_t check_pid;                 /* that made its plan the last time; 0: none */
    bool made_room;                  /* another was ended for it */
    int restarts;                    /* of its child when it was started, or last ready */
    pid_t pid;                       /* of the process that was ready */
    char error[320];
};

struct local_engines {
    struct up *up;
    struct supervisor *supervisor;
    struct shared *shared;
    struct store *store;
    int64_t version;      /* of the database when the rows were read */
    uint64_t first_bytes; /* that the first model's engine had when it was last ready; 0: not yet */
    char beside[32];      /* a word of its command line */
    struct local_engine *checking; /* the only one whose plan is being made */
    int check_fd;
    double check_until_ms; /* clock_ms */
    struct local_engine at[LOCAL_ENGINES];
};

/* u->kept: the first engine's plan leaves room for models that are loaded at the start, or stay
 * once they are. One that can't be planned has none. */
bool local_engines_keep_room(struct up *u, struct err *e);
/* Their places among the children, between the engines and the pools, which end first. */
void local_engines_add_children(struct supervisor *s);
/* Before the pools start, which read the list. NULL: *e. */
struct local_engines *local_engines_begin(struct up *u, struct supervisor *s, struct err *e);
void local_engines_tick(struct local_engines *l);
void local_engines_end(struct local_engines **l);

/* local_first.c: RAM for all engines together. */
uint64_t local_engines_budget(const struct up *u);
/* local_rows.c: takes over what the database says now. True: the list of models is another one, and
 * was written for the workers. */
bool local_rows_read(struct local_engines *l);
/* Writes the list, for the workers and the admin's page. */
void local_rows_write(const struct local_engines *l);
/* local_records.c: removes prompts' folders and sockets of models that are not in the list. */
void local_records_sweep(const struct local_engines *l);
/* local_room.c */
struct local_plan_ask local_room_for(const struct local_engines *l, const struct local_engine *m);
/* What a GPU has is planned by what is free: another that starts has not taken its part yet. */
bool local_room_is_moving(const struct local_engines *l, const struct local_engine *m);
/* One after the other is ended, and then the plan is made anew. */
void local_room_make(struct local_engines *l, struct local_engine *m);
/* local_engines.c */
/* It gets no new answers, and ends when it has none, for another's room or (NULL) by itself. */
void local_engine_leave(struct local_engine *m, struct local_engine *other);
/* Begins its plan, in what local_room_for says. */
void local_engine_check(struct local_engines *l, struct local_engine *m);
void local_engine_enter(struct local_engine *m, enum local_state state);
bool local_engine_has_memory(const struct local_engine *m);
/* local_first.c, each tick: notes what the first engine has, and tells it what others have. */
void local_first_look(struct local_engines *l);
/* May others be planned? The first model's plan comes before theirs, unless it can't be loaded. */
bool local_first_settled(const struct local_engines *l);
