/* A pull's talk with the hub, one curl_multi loop in one thread: for pull_http.c (the loop),
 * pull_request.c (one request), pull_outcome.c (what became of it) and pull_hub_list.c (the list of
 * files). */
#pragma once
#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "fcgi/cli/pull/pull.h"

enum { PULL_JOBS_MAX = 64, PULL_REDIRECTS = 5 };

struct pull_answer { /* headers of the last response; linked_*: of any, since they stand in the
                        redirect */
    char etag[128], linked_etag[128];
    int64_t linked_size, range_from, range_total; /* -1: not said */
    int retry_after;                              /* seconds; -1 */
};

struct pull_request {
    struct pull_loop *loop;
    struct pull_file *file;
    struct pull_segment *segment; /* the file's ask: a HEAD request */
    CURL *easy;
    char *url;
    struct pull_answer answer;
    struct err why; /* why our side ended it */
    size_t skipped; /* bytes of an error's page */
    bool ours;      /* the disk failed: trying again won't help */
    bool checked;   /* the response's head was looked at */
    bool changed;   /* the hub's file is not what it was: ask again */
};

struct pull_loop {
    struct pull *p;
    CURLM *multi;
    struct pull_request requests[PULL_JOBS_MAX]; /* easy == NULL: free */
    struct pull_verify *verify;
    struct pull_progress progress;
    uint64_t pause, saved; /* clock_ns: until then the hub wants peace; of the last manifest */
    struct err fatal;
};

/* ---- pull_request.c */
bool pull_curl_setup(CURL *c, const struct pull *p, const char *url);
void pull_answer_forget(struct pull_answer *a); /* what one response said alone; before each */
/* curl's CURLOPT_HEADERFUNCTION; context: a struct pull_request, of which it fills `answer` and
 * reads nothing. */
size_t pull_on_header(char *data, size_t one, size_t n, void *context);
/* Asks for the file (s is &f->ask) or for a range of it. False: l->fatal. */
bool pull_request_start(struct pull_loop *l, struct pull_request *r, struct pull_file *f,
                        struct pull_segment *s);
void pull_request_end(struct pull_loop *l, struct pull_request *r); /* r is free then */

/* ---- pull_outcome.c */
bool pull_may_pass(CURLcode code, long status); /* a failure that another try may not meet */
/* The status in words, for a file or (name NULL) the repository. Always false. */
bool pull_refused(struct err *e, const struct pull *p, const char *name, long status);
/* Handles a request's end, good or bad: the file continues, waits, restarts, or l->fatal is set. */
void pull_request_finish(struct pull_loop *l, struct pull_request *r, CURLcode code);
/* The file is another one now, or what came was wrong: all of it anew, but not for ever. */
void pull_start_over(struct pull_loop *l, struct pull_file *f, const char *why);
