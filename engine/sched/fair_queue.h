/* A queue of waiting jobs that is fair between users. Each user has a counter of tokens served
 * (what the device computed for them); the next job is the oldest one of the user with the smallest
 * counter. A user who arrives, or returns, starts at the smallest counter of those present, so idle
 * time earns no credit and nobody starves (virtual token counters: Sheng et al., "Fairness in
 * Serving Large Language Models", OSDI 2024). Compared with deficit round robin the shares are the
 * same, but the decode tokens of running jobs count while they run. No counter gets far ahead of
 * the smallest one, so that what was used while nobody else wanted it is not held against anyone.
 *
 * Background jobs are served only when no other job waits. Owner: the loop thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/sched/job.h"

struct fair_queue;

struct fair_queue *fair_queue_create(struct err *e);
void fair_queue_destroy(struct fair_queue **q); /* must be empty */
/* front: a preempted job goes before its user's other jobs. False: no memory. */
bool fair_queue_push(struct fair_queue *q, struct job *j, bool front);
struct job *
fair_queue_first(const struct fair_queue *q); /* the next one; stays in the queue; NULL: empty */
/* Of the users for whom fair_queue_first may pick, the one with the fewest running jobs; at equal
 * numbers the one whose first job has waited longest. That job, or NULL. */
struct job *fair_queue_neediest(const struct fair_queue *q);
void fair_queue_remove(struct fair_queue *q, struct job *j);
int32_t fair_queue_count(const struct fair_queue *q);
/* Calls visit for each job, which may remove that job. */
void fair_queue_each(struct fair_queue *q, void (*visit)(void *context, struct job *j),
                     void *context);

/* A user's job got a slot, or left it; the user stays registered in between. */
void fair_queue_enter(struct fair_queue *q, const struct job *j);
void fair_queue_leave(struct fair_queue *q, const struct job *j);
int32_t fair_queue_running(const struct fair_queue *q, const struct job *j); /* of its user */
/* Adds to what the device has computed for the job's user. */
void fair_queue_charge(struct fair_queue *q, const struct job *j, double tokens);
double fair_queue_served(const struct fair_queue *q, const struct job *j);
