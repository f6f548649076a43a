/* What the processes of a pool reach. Calls of the system are filtered in the master, before it
 * forks. Files are hidden in each child: the master opens the model that `sluice up` changes to,
 * wherever that is, and a child opens only what lies in the state, run and cache folder (a short
 * one reads the folders of models as well, which the admin's page lists).
 *
 * A child of the stream and short pool may run sluice-reader and what that becomes, nothing else;
 * the recorder runs nothing and makes no process. Only a pool whose worker.network is set gets
 * sockets other than unix ones, and the files by which names are looked up. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"
#include "fcgi/process/worker.h"

/* In the master, when it has opened its sockets. */
bool worker_walls_master(const struct worker *w, struct err *e);
/* In a child, before it serves anything. */
bool worker_walls_child(const struct worker *w, struct err *e);
