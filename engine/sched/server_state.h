/* The state of the I/O thread, shared by server.c (connections and their bytes) and
 * server_requests.c and server_feed.c (what the frames ask for). Private to these; owner: the I/O
 * thread. */
#pragma once
#include "engine/sched/connection.h"
#include "engine/sched/job_table.h"
#include "engine/sched/client/listener.h"
#include "engine/sched/server.h"

struct server {
    struct server_params params;
    struct listener listener;
    bool paused; /* the listener is not watched: see listener_accept */
    int epoll_fd, event_fd, signal_fd;
    struct connection *connections;
    int32_t n_connections, n_without_job;
    struct job_table jobs;
    struct connection *follower; /* of the cache feed; NULL: none */
    uint64_t followed;           /* number of the last event that was put into its `out` */
    double stop_at_ms;           /* > 0: stopping; when the grace is over */
    double ended_ms;             /* > 0: stopping, and when the last job was seen to have ended */
    bool cancelled_all;
    atomic_int quit_status; /* set by server_quit; -1: not set */
};

/* Does what one frame asks for. False: the request is refused with *e. */
bool server_handle_frame(struct server *s, struct connection *c, const struct frame *f,
                         struct err *e);

/* server_feed.c */
bool server_feed_frame(struct server *s, struct connection *c, const struct frame *f,
                       struct err *e);
/* Puts new events before the follower, as long as it takes them. True: there are some to send. */
bool server_feed_fill(struct server *s);
