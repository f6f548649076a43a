/* Counts what the loop thread did, and copies it into the status page. */
#include "engine/sched/stats.h"

#include <string.h>

#define SLICE_S 0.25

void stats_init(struct stats *t)
{
    *t = (struct stats){0};
    status_histogram_init(&t->time_to_first_token, 0.005, 2);    /* 5 ms .. 22 min */
    status_histogram_init(&t->time_per_output_token, 0.0005, 2); /* 0.5 ms .. 131 s */
    status_histogram_init(&t->queue_time, 0.001, 2.5);
    status_histogram_init(&t->job_time, 0.01, 2);
}

void stats_step(struct stats *t, double seconds, int32_t prefill_rows, int32_t decode_rows)
{
    if (t->slice_s >= SLICE_S) {
        t->current = (t->current + 1) % STATS_WINDOW;
        t->slices[t->current] = (struct stats_slice){0};
        t->slice_s = 0;
    }
    struct stats_slice *s = &t->slices[t->current];
    t->slice_s += seconds;
    t->step_seconds += seconds;
    t->prefill_tokens += (uint64_t)prefill_rows;
    if (prefill_rows) {
        s->prefill_s += seconds;
        s->prefill_tokens += prefill_rows;
    }
    if (decode_rows) {
        s->decode_s += seconds;
        s->decode_tokens += decode_rows;
    }
}

double stats_prefill_rate(const struct stats *t)
{
    double tokens = 0, seconds = 0;
    for (int i = 0; i < STATS_WINDOW; i++) {
        tokens += t->slices[i].prefill_tokens;
        seconds += t->slices[i].prefill_s;
    }
    return seconds > 0 ? tokens / seconds : 0;
}

double stats_decode_rate(const struct stats *t)
{
    double tokens = 0, seconds = 0;
    for (int i = 0; i < STATS_WINDOW; i++) {
        tokens += t->slices[i].decode_tokens;
        seconds += t->slices[i].decode_s;
    }
    return seconds > 0 ? tokens / seconds : 0;
}

void stats_publish(const struct stats *t, struct status_page *p)
{
    memcpy(p->jobs_done, t->jobs_done, sizeof p->jobs_done);
    p->jobs_lossy = t->jobs_lossy;
    p->prompt_tokens = t->prompt_tokens;
    p->cached_tokens = t->cached_tokens;
    p->prefill_tokens = t->prefill_tokens;
    p->completion_tokens = t->completion_tokens;
    p->prefix_queries = t->prefix_queries;
    p->prefix_hits = t->prefix_hits;
    p->drafted_tokens = t->drafted_tokens;
    p->accepted_tokens = t->accepted_tokens;
    p->draft_steps = t->draft_steps;
    p->grammar_waits = t->grammar_waits;
    p->step_seconds = t->step_seconds;
    p->idle_seconds = t->idle_seconds;
    p->time_to_first_token = t->time_to_first_token;
    p->time_per_output_token = t->time_per_output_token;
    p->queue_time = t->queue_time;
    p->job_time = t->job_time;
    p->prefill_tokens_per_s = stats_prefill_rate(t);
    p->decode_tokens_per_s = stats_decode_rate(t);
}
