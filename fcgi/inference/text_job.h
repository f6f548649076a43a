/* One request's texts, made into vectors or scores by the engine beside the one that answers
 * (fcgi/process/side_model.h): tokenized here, sent as one job, counted and limited as a prompt is.
 * Thread: the request's. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/engine.h"
#include "engine/tokenizer/tokenizer.h"
#include "fcgi/process/side_model.h"

struct request;

struct text_job { /* text_job_fini in any case; zeroed = empty */
    struct request *r;
    const struct side_model *model;
    bool own;                 /* set before it begins: for this server's own use, so that it is
                                 neither counted nor limited */
    bool truncate;            /* a text that is too long is cut at its end, instead of refused */
    double until;             /* clock_ms, after which it is given up: ERR_UNAVAILABLE; 0: never */
    int32_t n_ctx;            /* tokens of a text at most */
    struct ids ids;           /* of all texts */
    struct ids before, after; /* of each document: the query and what else stands around it */
    int32_t *ends, *firsts;
    int32_t n_texts;
    float *values; /* [n_texts, dimensions] after text_job_run */
    int32_t dimensions;
    int64_t tokens; /* that the engine read; of a job that failed: of the texts that came back */
    double queue_ms, compute_ms;
};

/* The engine for the task, if `name` (NULL: any) means its model. 404 where there is none or the
 * name is another's, 400 where the name is that of a model that does something else. 429: the
 * caller has as many jobs as they may have; the job counts as one of them until text_job_fini. */
bool text_job_begin(struct text_job *j, struct request *r, enum engine_task task, const char *name,
                    struct err *e);
/* One more text, with what the model wants around it. ERR_LIMIT: too long, or too many. Errors are
 * of the text numbered j->n_texts. ERR_CANCELLED: the client has gone. */
bool text_job_add(struct text_job *j, const char *text, struct err *e);
/* The same of tokens, as they are. */
bool text_job_add_ids(struct text_job *j, const int32_t *ids, int32_t n, struct err *e);
/* A query, once, before the documents that are scored with it, each of which is a text; a document
 * is cut, if it is, at its end. ERR_LIMIT naming "query": it leaves no room for a document.
 * instruction: for models that are told their task; NULL: the usual one. */
struct text_query {
    const char *text, *instruction;
};
bool text_job_begin_query(struct text_job *j, const struct text_query *q, struct err *e);
bool text_job_add_document(struct text_job *j, const char *document, struct err *e);
/* Runs all of them. dimensions: 0 for all. Values are finite. ERR_CANCELLED: the client has gone;
 * ERR_UNAVAILABLE: the engine ended the job; ERR_INTERNAL: the model gave what is no number. */
bool text_job_run(struct text_job *j, int32_t dimensions, struct err *e);
void text_job_fini(struct text_job *j);
