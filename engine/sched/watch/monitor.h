/* A thread that keeps the heartbeat of the status page going, since a load or a step may take
 * longer than readers wait, and counts memory: walking the page tables of a large model takes a
 * while and must delay neither jobs nor sockets. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"
#include "engine/experts/cache/expert_cache.h"
#include "engine/model/model.h"
#include "engine/wire/status.h"

struct monitor;

/* root: put before every path of /proc and /sys, as in machine.h; "" in service. It must stay
 * valid. */
struct monitor *monitor_create(struct status_writer *status, const char *root, struct err *e);
/* Sets the model whose mappings are counted; NULL: none. It must stay open until it is replaced
 * here or the monitor ends. */
void monitor_set_model(struct monitor *m, const struct model *model);
/* The loop begins (true) or has ended a step; one that lasts very long is reported on the page. Any
 * thread. */
void monitor_step(struct monitor *m, bool running);
/* Sets the expert cache that shrinks when memory runs short, and its smallest size; NULL: none. It
 * must stay open until it is replaced here. */
void monitor_set_expert_cache(struct monitor *m, struct expert_cache *experts, uint64_t least);
void monitor_destroy(struct monitor **m); /* ends the thread */
