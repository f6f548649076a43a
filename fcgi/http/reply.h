/* Whole replies: status, headers, JSON body. The only table from enum err_code to HTTP status,
 * OpenAI error type and code is in reply.c. Every reply carries x-request-id. Thread: the
 * request's. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct request;

/* Adds a header to the reply to come, e.g. ("Allow", "GET, POST"). Values with control characters
 * are dropped. */
void reply_header(struct request *r, const char *name, const char *value);

/* Each sends a whole reply and returns true, so that a handler may end with `return
 * reply_json(...)`. */
bool reply_bytes(struct request *r, int status, const char *content_type, const char *data,
                 size_t len);
bool reply_json(struct request *r, int status, const cJSON *v);
bool reply_json_buf(struct request *r, int status,
                    const struct buf *b);        /* b holds JSON text; 500 when it failed */
bool reply_empty(struct request *r, int status); /* 204 */
bool reply_error(struct request *r, const struct err *e); /* r->error_override may sharpen it */
/* Ends the reply, before its request has ended: the client need not wait for what is still to do.
 */
void reply_finish(struct request *r);
/* Answers nginx's question whether a request may bring its body (r->authorise_only). nginx
 * understands 401 and 403 alone and drops the body of the answer, so that the true status and the
 * error object travel in headers, and nginx makes the reply of them (nginx/server.conf.in). A fault
 * of the server's own lets the body through: the request that follows reports it. */
bool reply_refusal(struct request *r, const struct err *e);

/* The error object {"error":{...}} as text, for a stream that has begun. */
void reply_error_object(struct buf *out, const struct request *r, const struct err *e);
/* What is kept of an answer's failure beside its text, so that the page can say it in the reader's
 * language: {"code":...,"params":{...}}. code: the error's reason, else that of its enum err_code.
 */
void reply_error_detail(struct buf *out, const struct err *e);
int reply_status_of(enum err_code code);
/* The status that reply_error sends: r->error_override's, else the error code's. */
int reply_error_status(const struct request *r, const struct err *e);
const char *reply_reason(int status); /* "Not Found" */
