/* The engine's socket: one thread (the caller's) that accepts connections, reads frames, and sends
 * events from the jobs' logs. It never waits for the device; the loop thread never waits for a
 * socket. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/err.h"
#include "engine/sched/inbox.h"
#include "engine/wire/status.h"

struct server;
struct record_feed;

struct server_params {
    const char *socket_path;
    gid_t group; /* peers of this group may connect beside our own user and root; (gid_t)-1: none */
    int grace_ms; /* at SIGTERM running jobs get this long to finish, then they are cancelled */
    struct inbox *inbox;
    struct status_writer *status;
    struct record_feed *feed; /* of the prompt cache on disk; NULL: followers are refused */
};

/* Listens at once. Blocks SIGTERM and SIGINT in the calling thread (threads made later inherit
 * that): call it first. ERR_CONFLICT: another engine answers there. */
struct server *server_open(const struct server_params *p, struct err *e);
/* Runs until a signal or server_quit; returns the exit status: 0 after a signal. */
int server_run(struct server *s);
/* Says that there are new events in the logs. Any thread. */
void server_wake(struct server *s);
/* Ends server_run with this exit status once the connections were served. Any thread. */
void server_quit(struct server *s, int exit_status);
void server_close(struct server **s); /* removes the socket */
