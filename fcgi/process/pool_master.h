/* The master of a pool: forks serving processes from one prepared image (text model mapped, nothing
 * opened that may not cross fork), keeps enough of them idle, replaces the dead at once, drains on
 * SIGTERM, renews all on SIGHUP. The only thread of its process. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"
#include "fcgi/process/worker.h"

struct child_service;
struct stream_abort_text;

struct pool_master_params {
    struct worker *worker;
    int listen_fd;   /* -1: the recorder, which listens on nothing of ours */
    int n_threads;   /* of each child */
    int reserved_fd; /* a second socket, for which each child has one thread more; 0: none */
    int min_idle;    /* stream: children kept waiting; short and record: how many there are */
    int max_children;
    int idle_ms;  /* a child above min_idle that waits longer leaves; 0: the number is fixed */
    int grace_ms; /* SIGTERM: what running requests get before their streams are ended with an error
                   */
    const struct child_service *service; /* child.h: what is done with a connection */
    const struct stream_abort_text *(*stream_abort)(
        int dialect); /* what ends a stream whose process died, by shared_child.dialect; see
                         stream_abort.h */
    int (*child_main)(const struct worker *w); /* instead of serving; NULL: serve */
    bool (*lock_in)(const struct worker *w,
                    struct err *e); /* in each child, before it serves; NULL: it is not confined */
    bool (*reload)(
        struct worker *w); /* SIGHUP: opens the text model anew; false: keep the old one */
};

/* Runs until SIGTERM or SIGINT; true: drained. */
bool pool_master_run(const struct pool_master_params *p, struct err *e);
