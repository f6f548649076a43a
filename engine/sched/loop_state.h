/* What the loop's thread knows, for the files that are parts of it. */
#pragma once
#include <pthread.h>

#include "engine/draft/draft_plan.h"
#include "engine/memory/memory_load.h"
#include "engine/model/model.h"
#include "engine/sched/embedder.h"
#include "engine/sched/loop.h"
#include "engine/sched/scheduler.h"
#include "engine/text/text_model.h"

struct loop {
    struct loop_params params;
    pthread_t thread;
    /* the thread's own */
    struct text_model text;
    bool text_open;
    struct model *model;
    int32_t trained_top_k;     /* per token, as trained */
    struct memory_load memory; /* plan and backend */
    struct draft_load drafts;
    struct disk_tier disk;
    struct scheduler *scheduler; /* of answers; or */
    struct embedder *embedder;   /* of vectors and scores */
    struct speculation_applied speculate;
    double load_ms;
};

/* The most experts that a token uses in any layer; 0: no layer has experts. */
int32_t loop_most_experts(const struct model_plan *plan);
/* What the status page says of the model and of what computes it. */
void loop_describe_model(const struct loop *l, struct status_page *page);
void loop_describe_backend(const struct loop *l, struct status_page *page);
/* One line on standard output, for whoever started the engine. */
void loop_print_ready(const struct loop *l);
