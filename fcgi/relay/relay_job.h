/* The relay's own structures: what its files share. One thread owns all of it.
 *
 *   relay.c         the process: its loop, its clock, its end
 *   relay_server.c  connections of workers and of the recorder: frames in, events out
 *   relay_job.c     a job: which upstream, what if that fails, when it is over
 *   relay_probe.c   asking upstreams how they are
 *   relay_call.c    one request to one upstream */
#pragma once
#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/engine.h"
#include "engine/wire/frame.h"
#include "fcgi/relay/relay_answer.h"
#include "fcgi/relay/relay_call.h"
#include "fcgi/relay/upstreams.h"

#define RELAY_MAX_TRIED 16
#define RELAY_READ_BYTES ((size_t)64 << 10)

struct relay_connection {
    struct relay *relay;
    int fd;
    struct buf in, out; /* out: HELLO and refusals, before a job's events */
    struct relay_job *job;
    uint64_t position; /* in the job's log */
    bool owner, greeted, closing, blocked;
    bool again;     /* it has had a job, and may have another */
    bool dead;      /* freed at the end of the round: an event of the same round may point at it */
    double idle_ms; /* clock_ms since when it has no job */
    struct relay_connection *next, *next_reader;
};

struct relay_job {
    struct relay *relay;
    uint64_t id, user, affinity;
    int64_t model, only;
    bool detached, text; /* text: as of engine_relay */
    char key[ENGINE_KEY_SIZE], request_id[48];
    char *chat;  /* [held] until the answer has begun: no other upstream is asked then */
    size_t held; /* 0: it is not kept any more */
    char via[ENGINE_VIA_SIZE];
    int64_t estimate; /* tokens of the prompt, until the upstream tells */
    struct buf log;   /* its events as frames, from position `base` on */
    uint64_t base;
    struct relay_connection *readers;
    bool accepted, over, cancelled, waiting;
    double asked_ms, over_ms, wait_until;
    struct relay_call *call;
    struct upstream *to;
    bool trial; /* it finds out whether `to` is well again */
    bool awake; /* its first words were waited for so */
    int64_t tried[RELAY_MAX_TRIED];
    int n_tried;
    struct relay_answer answer;
    struct relay_job *next, *before;
    struct relay_job *next_ended; /* in the relay's list of those that may be forgotten */
    bool unsent;                  /* in the relay's list of those whose readers are to be told */
    struct relay_job *next_unsent;
};

struct relay {
    const struct worker *w;
    struct store *store;
    int listen_fd, epoll_fd, signal_fd;
    CURLM *multi;
    double curl_at; /* clock_ms at which libcurl wants to be called; INFINITY: never */
    struct relay_connection *connections;
    int n_connections;
    struct relay_job *jobs, *last_job; /* the oldest first */
    struct relay_job *unsent, *ended;
    char *scratch; /* [RELAY_READ_BYTES] what one read brings */
    int n_waiting;
    uint64_t last_id;
    struct upstreams upstreams;
    struct relay_probe *probes;
    bool attend;   /* some job is to be looked at: it was cancelled, or room came */
    bool stopping; /* no new jobs; ends with the last one */
    bool abort;    /* ends now */
    double next_tick, next_load, next_status;
    double awake_until;        /* clock_ms: what is awaited comes at once; 0: it sleeps */
    int n_read;                /* connections that have a job */
    struct busy_poll next_job; /* waits from the end of all jobs to the next one */
    bool next_awake;           /* that wait */
    double idle_ms;            /* clock_ms, of that end; 0: there is a job */
};

/* relay.c: the waits that follow are awake for a moment where that one usually is short. Gives what
 * busy_poll_end wants to know. */
bool relay_wait_awake(struct relay *r, struct busy_poll *b);
/* relay_job.c */
/* Refused (*e): nothing was made. */
struct relay_job *relay_job_submit(struct relay *r, const struct engine_relay *p, struct err *e);
/* By the key of a detached job, or "#" and any job's number; NULL: there is none. */
struct relay_job *relay_job_find(struct relay *r, const char *key);
void relay_job_cancel(struct relay_job *j);
void relay_jobs_cancel_user(struct relay *r, uint64_t user);
/* libcurl has ended its transfer. */
void relay_job_ended(struct relay_job *j, CURLcode rc);
/* What came since the last call, to those who read it: one event of libcurl's is one frame. */
void relay_jobs_send(struct relay *r);
/* Cancelled jobs, jobs that wait for room. */
void relay_jobs_attend(struct relay *r);
/* Every now and then: patience, acceptance, forgetting. */
void relay_jobs_tick(struct relay *r, double now);
/* At a round's end, when nothing points at them: jobs that are over and that nobody can ask for. */
void relay_jobs_forget_ended(struct relay *r);
void relay_jobs_fail_all(struct relay *r);
void relay_jobs_fini(struct relay *r);

/* relay_server.c */
bool relay_server_open(struct relay *r, struct err *e);
void relay_server_accept(struct relay *r);
void relay_server_serve(struct relay_connection *c, uint32_t events);
/* Sends what is new in the job's log to all who read it. */
void relay_server_send(struct relay_job *j);
/* The job can't be begun: its owner gets an error in place of events. */
void relay_server_refuse(struct relay_job *j, const struct err *why);
/* No new jobs: connections that have had theirs are closed at once. What was asked there is not
 * read, and the client asks the successor; a refusal would be the user's to see. */
void relay_server_stop(struct relay *r);
void relay_server_sweep(struct relay *r, double now);
void relay_server_close(struct relay *r);

/* relay_probe.c */
void relay_probe_due(struct relay *r, double now);
/* False: the handle is none of a probe. */
bool relay_probe_ended(struct relay *r, CURL *easy, CURLcode rc);
void relay_probe_fini(struct relay *r);
