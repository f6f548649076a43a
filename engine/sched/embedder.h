/* The scheduler of an engine whose model embeds or scores: jobs of many texts, of which each step
 * takes as many as fit, whole ones, from the users in fair order (fair_queue.h). Nothing is kept
 * between steps: a text's keys and values live for the step that computes it.
 *
 * Owner: the loop thread, which calls it as it would the scheduler of answers (scheduler.h). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/backend/backend.h"
#include "engine/base/err.h"
#include "engine/sched/job.h"
#include "engine/wire/status.h"

struct embedder;

struct embedder_params {
    const struct backend_ops *ops; /* that embeds */
    struct backend *backend;
    const struct model_plan *plan;
    enum engine_task task;
    int32_t yes, no; /* text_vector.h */
    int32_t n_blocks, max_rows, max_sequences;
    struct status_writer *status; /* NULL: nothing is published */
};

/* Rows and blocks must hold the longest text that jobs may have. */
struct embedder *embedder_create(const struct embedder_params *p, struct err *e);
void embedder_destroy(struct embedder **m); /* fails the jobs that are left; accepts NULL inside */
void embedder_add(struct embedder *m, struct job *j); /* takes over one reference */
bool embedder_idle(const struct embedder *m);
/* One step. False: the device is lost. */
bool embedder_step(struct embedder *m, struct err *e);
void embedder_publish(struct embedder *m);
void embedder_note_idle(struct embedder *m, double seconds);
int32_t embedder_waiting(const struct embedder *m);
double embedder_expected_wait(const struct embedder *m); /* seconds, for a job that comes now */
