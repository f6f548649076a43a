/* The loop thread loads the text model, the weights and the backend, then steps as long as there is
 * work. It alone owns the backend, the scheduler and the caches. When it fails (load failed, device
 * lost), it ends the server with an exit status of its own, so that the supervisor knows what to
 * do. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/cache/disk/disk_tier.h"
#include "engine/memory/memory_plan.h"
#include "engine/sched/inbox.h"
#include "engine/sched/watch/monitor.h"
#include "engine/sched/server.h"
#include "engine/wire/status.h"

/* exit statuses of sluice-engine */
enum { LOOP_EXIT_LOAD_FAILED = 1, LOOP_EXIT_DEVICE_LOST = 3 };

struct loop_params {
    const char *model, *backend, *cache_dir;
    int64_t ctx, slots, max_queue, threads, prefill_chunk;
    int64_t experts_per_token;    /* 0: as trained */
    int64_t kv_bytes;             /* 0: chosen by the planner */
    struct memory_request memory; /* strategy and budgets; sizes come from the fields here */
    enum engine_speculate speculate;
    enum engine_task task;
    const char *draft_model; /* "auto": the one in the model's folder, if there is one; "off"; or
                                where it lies */
    bool exact, prefix_cache;
    bool without_seccomp;         /* no filter was loaded, and none is later */
    const char *prompt_cache_dir; /* disk_tier.h, as the next */
    int64_t prompt_cache_bytes;
    int64_t prompt_cache_ram; /* likewise */
    struct record_feed *feed;
    struct inbox *inbox;
    struct server *server;
    struct status_writer *status;
    struct monitor *monitor;
};

struct loop;

struct loop *loop_start(const struct loop_params *p, struct err *e);
/* Tells the thread to end after the running step, and waits for it up to wait_ms. False: it is
 * stuck in a load or a step; the process must end without cleaning up. */
bool loop_stop(struct loop **l, int wait_ms);
