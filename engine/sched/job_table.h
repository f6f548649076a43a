/* The jobs that the I/O thread can name: all that run, and detached ones that ended a while ago.
 * Owner: the I/O thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/sched/job.h"

#define JOB_TABLE_KEEP_MS 300000.0              /* after a detached job's end */
#define JOB_TABLE_KEEP_BYTES ((size_t)64 << 20) /* of ended jobs' events, all together */

struct job_entry {
    struct job *job; /* one reference */
    double over_ms;  /* when its end was noticed; 0: runs */
    size_t bytes;    /* of its events, then */
};

struct job_table { /* zeroed = empty */
    struct job_entry *entries;
    int32_t n, cap;
    uint64_t last_id;
};

void job_table_fini(struct job_table *t);
uint64_t job_table_next_id(struct job_table *t);
bool job_table_add(struct job_table *t,
                   struct job *j); /* takes a reference of its own; false: no memory */
/* By key (detached jobs; one that runs before one that ended), or "#42" for an id. NULL: unknown.
 */
struct job *job_table_find(const struct job_table *t, const char *key);
/* Notices ended jobs; forgets those that are not detached or too old, then the oldest until the
 * rest fit the budget. */
void job_table_sweep(struct job_table *t, double now_ms);
int32_t job_table_running(const struct job_table *t);
/* Those that wait for a slot, and the tokens of those that are made of texts. */
struct jobs_waiting {
    int32_t own; /* of the user; 0 for no particular one */
    int64_t text_tokens, own_text_tokens;
};
struct jobs_waiting job_table_waiting(const struct job_table *t, uint64_t user);
int32_t job_table_kept(const struct job_table *t);
void job_table_cancel_all(struct job_table *t);
