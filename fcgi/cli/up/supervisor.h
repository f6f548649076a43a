/* Keeps a few child processes running in the foreground: starts them, restarts what dies with
 * back-off, stops all of them cleanly on SIGINT or SIGTERM. Children die with us
 * (PR_SET_PDEATHSIG), so a killed supervisor leaves nothing behind. One thread; one supervisor per
 * process. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "engine/base/err.h"
#include "fcgi/cli/up/run_as.h"

#define SUPERVISOR_MAX_CHILDREN 48
#define SUPERVISOR_MAX_ARGS 80

struct child {
    const char *name;
    char *argv[SUPERVISOR_MAX_ARGS]; /* NULL-terminated; strings owned by the caller */
    int stop_signal;                 /* SIGTERM; nginx: SIGQUIT */
    const struct run_as *as;         /* whom it runs as; NULL: as we do */
    /* run state */
    pid_t pid; /* 0: not running */
    int restarts;
    bool held;      /* not started again until the caller takes this back */
    bool on_demand; /* told of only while it runs */
    double started_ms, next_start_ms, backoff_ms;
};

struct supervisor {
    struct child children[SUPERVISOR_MAX_CHILDREN]; /* stopped in reverse order */
    size_t n_children;
    double stop_ms; /* grace period before SIGKILL */
    /* Called every 200 ms, or as often as tick_ms says; may be NULL. */
    void (*on_tick)(void *context);
    int tick_ms; /* 0: 200; on_tick may change it */
    void *context;
    const char *report_path; /* JSON file of pids and restarts for the admin page; NULL: none */
};

/* The child of that name; NULL: none. For on_tick, which may hold a child, change its arguments and
 * send it signals. */
struct child *supervisor_child(struct supervisor *s, const char *name);
/* Runs until a signal ends it; false when a child could not even be executed at the first start. */
bool supervisor_run(struct supervisor *s, struct err *e);
