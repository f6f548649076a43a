/* A serving process of a pool: accepts, serves, and leaves when it is told to.
 *
 * Stream pool: one thread, so that a process that is killed or crashes takes exactly one stream
 * with it. Short pool: several threads. SIGTERM: finish the running requests, then exit. SIGUSR2:
 * end running streams with an error event now. */
#pragma once
#include "fcgi/process/shared.h"
#include "fcgi/process/worker.h"

struct FCGX_Request;
struct child_params;
struct store;

/* What a thread does with its connections: http/serve.h has the one of this program. Constant. */
struct child_service {
    /* Once in a thread. alone: the process, when it serves one request at a time, else NULL; it
     * stays. NULL: no memory. */
    void *(*open)(struct FCGX_Request *fcgx, const struct worker *w,
                  const struct child_params *alone);
    /* fcgx holds a connection that was accepted. store NULL: the database can't be opened. */
    void (*serve)(void *server, struct store *store);
    void (*close)(void *server);
    /* Of a process with one thread: before its first connection, and after its last. May be NULL.
     */
    void (*starting)(struct shared *s, struct store *store);
    void (*settle)(struct shared *s, struct store *store);
};

struct child_params {
    const struct worker *worker;
    const struct child_service *service;
    struct shared_child *slot; /* this process's row of the scoreboard */
    int slot_index;
    int stream_abort_fd; /* stream_abort.h; -1: none */
    int listen_fd;       /* non-blocking */
    int reserved_fd;     /* another, served by a thread of its own beside n_threads; 0: none */
    int wake_fd;         /* eventfd of the master: written when this child becomes busy and fewer */
    int min_idle;        /* than so many wait */
    int n_threads;
};

/* Returns the exit status: 1 when a thread could not start, so that the master delays the next
 * fork. */
int child_run(const struct child_params *p);
/* Signal handlers, before anything else in a forked child. False: no descriptors left. */
bool child_signals(void);
/* Readable once running streams must end; -1 outside a child. */
int child_abort_fd(void);
