/* Detached jobs of the fake engine: a job's events go into a file beside its socket, so that other
 * processes of the engine can give them out from the first one on, and a cancel is a file as well.
 * One process uses each struct. */
#pragma once
#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/engine.h"

struct fake_detached {
    char events[300], cancel[300];
    int fd; /* of `events`, locked for as long as the job's process lives */
};

/* folder: the socket's. False: no such file can be made. */
bool fake_detached_begin(struct fake_detached *d, const char *folder, const char *key);
void fake_detached_note(struct fake_detached *d, const struct buf *event);
bool fake_detached_cancelled(const struct fake_detached *d);

/* In a process of its own: gives a job's events to a client until the job's end, its death or the
 * client's leaving. False: there is no such job. */
bool fake_detached_replay(const char *folder, const char *key, int client);
bool fake_detached_cancel(const char *folder, const char *key);
