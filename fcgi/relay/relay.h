/* The relay: the one process that asks other servers for answers. It speaks the engine's protocol
 * (engine/engine.h: engine_relay, attach, cancel) on a socket of its own, so that workers and the
 * recorder follow its jobs as they follow the engine's: an answer may be detached, attached to and
 * cancelled, whoever makes it. It alone has the upstreams' keys in clear, and of a request it sends
 * what the request says and nothing of who sent it.
 *
 * One process, one thread: connections to upstreams are kept and shared, and what decides about
 * them (load, health, breakers) is exact without any shared memory. If it dies, the answers that it
 * carried end with an error and its successor begins afresh; the engine's are not touched. */
#pragma once
#include "fcgi/process/worker.h"

#define RELAY_CONNECT_MS 5000L               /* an upstream that takes longer to accept is down */
#define RELAY_QUEUE_MS 30000.0               /* a job waits this long for room on an upstream */
#define RELAY_QUEUE_MAX 256                  /* jobs that wait */
#define RELAY_FIRST_WORD_MS 3000.0           /* a job that is not detached is accepted by then */
#define RELAY_HELD_BYTES ((size_t)256 << 20) /* requests that may still be sent to another */
#define RELAY_HELD_SHARE ((size_t)64 << 20)  /* of one user */
#define RELAY_LINE_BYTES ((size_t)4 << 20)   /* of an upstream's answer: more is rubbish */

/* The process's main: until SIGTERM, and until its jobs have ended or SIGUSR2. Exit status. */
int relay_run(const struct worker *w);
