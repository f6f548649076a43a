/* Reads what the server does now: the engine's status page, the workers' counters, /proc. Thread:
 * the recorder's. */
#pragma once
#include "fcgi/status/history.h"

struct shared;

struct history_source {
    const char *status_path;
    const struct shared *shared;
    uint64_t host_busy, host_all; /* /proc/stat at the sample before; 0: none */
};

void history_sample_take(struct history_source *from, struct history_sample *out);
