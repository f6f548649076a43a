/* One request's jobs on the engine, from submission to the last token: waits on the engine and on
 * the client at once, feeds each job's events to its generation, tells the listener. Shared by the
 * completions endpoints. Thread: the request's. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"
#include "engine/engine.h"
#include "engine/tokenizer/tokenizer.h"
#include "fcgi/inference/generation.h"

struct request;

#define INFERENCE_MAX_CHOICES 16

/* Any member may be NULL. */
struct inference_listener {
    void *context;
    /* New tokens of a choice, before their text becomes deltas: the place to note logprobs. */
    void (*tokens)(void *context, int choice, const struct engine_event *ev);
    /* The prompt's tokens with their log probabilities, where job.prompt_scores asks for them. */
    void (*scores)(void *context, int choice, const struct engine_event *ev);
    void (*delta)(void *context, int choice, const struct chat_delta *d);
    void (*progress)(void *context, int choice);
    void (*done)(void *context, int choice); /* the choice's generation has its finish and usage */
    void (*pause)(void *context);  /* nothing more is pending, and more will come: flush */
    int (*idle_ms)(void *context); /* longest wait before `idle` is called */
    void (*idle)(void *context);   /* silence: keepalive */
};

struct inference_params {
    struct engine_job_params job; /* seed of choice i: job.sampling.seed + i */
    const struct ids
        *prompts; /* NULL: job.prompt for all; else choice i has prompts[i / per_prompt] */
    int per_prompt;
    struct generation_params generation; /* on_delta and context are the inference's own */
    int n;
    struct engine_relay relay; /* request set: another server answers; of `job` only n_prompt
                                  counts, and is an estimate */
    bool one_call;             /* end a choice after its first tool call */
    bool aside;                /* a title: it is none of the answers that a user has at one time */
    const char *source; /* the request's field that holds the prompt, for errors; NULL: "prompt" */
    struct inference_listener listener;
};

struct inference {
    struct request *r;
    struct inference_listener listener;
    bool one_call;
    int n, n_running, per_prompt;
    int32_t n_prompt[INFERENCE_MAX_CHOICES]; /* tokens of the choice's prompt */
    bool relayed;                            /* n_prompt is an estimate until the end */
    bool started, noted;                     /* the engine took it; usage_note was here */
    struct engine_job *jobs[INFERENCE_MAX_CHOICES];
    struct generation *generations; /* [n], in the request's arena */
    struct inference_choice {
        struct inference *x;
        int index;
        bool cut; /* one_call: what comes now is dropped */
    } choices[INFERENCE_MAX_CHOICES];
};

/* Submits all; ERR_LIMIT (prompt over the context), ERR_BUSY (queue, or a limit of the key:
 * limits.h), ERR_UNAVAILABLE sharpen r->error_override. */
bool inference_start(struct inference *x, struct request *r, const struct inference_params *p,
                     struct err *e);
/* Until every choice is done. False: *e says why (ERR_CANCELLED: the client has gone); the jobs are
 * cancelled. */
bool inference_run(struct inference *x, struct err *e);
/* Cancels what still runs, counts what was used (usage.h), frees. Accepts a zeroed struct. */
void inference_end(struct inference *x);

/* Sums over the choices; each prompt is counted once. */
struct engine_usage inference_usage(const struct inference *x);
/* The tokens of it while choices still run; the rest is zero. */
struct engine_usage inference_usage_so_far(const struct inference *x);
