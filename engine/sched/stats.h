/* Statistics about jobs, tokens and steps for the status page. The loop thread counts them without
 * a lock where things happen, and copies them into the page at the end of each step. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/sched/job.h"
#include "engine/wire/status.h"

#define STATS_WINDOW 40 /* slices of 0.25 s of work: the last 10 s */

struct stats_slice {
    double prefill_s, decode_s; /* time of steps that had such rows */
    double prefill_tokens, decode_tokens;
};

struct stats {
    uint64_t jobs_done[OUTCOME__N], jobs_lossy;
    uint64_t prompt_tokens, cached_tokens, prefill_tokens, completion_tokens;
    uint64_t prefix_queries, prefix_hits;
    uint64_t drafted_tokens, accepted_tokens, draft_steps; /* draft_steps: counted per job */
    uint64_t grammar_waits; /* jobs that sat a step out, summed over the steps */
    double step_seconds, idle_seconds;
    struct status_histogram time_to_first_token, time_per_output_token, queue_time, job_time;
    struct stats_slice slices[STATS_WINDOW]; /* ring by time of work */
    int current;
    double slice_s; /* work time in the current slice */
};

void stats_init(struct stats *t);
/* Records one step of `seconds` with its rows of prompts and of answers. */
void stats_step(struct stats *t, double seconds, int32_t prefill_rows, int32_t decode_rows);
/* Rates over the last 10 s of work, tokens per second; 0 without work. */
double stats_prefill_rate(const struct stats *t);
double stats_decode_rate(const struct stats *t);
void stats_publish(const struct stats *t, struct status_page *p);
