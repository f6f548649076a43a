/* Errors as Anthropic's API shapes them: for every failure under /v1/messages, OpenAI's object
 * being everyone else's. */
#pragma once
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "fcgi/http/dialect.h"

struct request;

/* {"type":"error","error":{"type","message"},"request_id"}; the status as reply.h has it. */
void anthropic_error(struct buf *out, const struct request *r, const struct err *e);

extern const struct api_dialect anthropic_dialect; /* of the routes under /v1/messages */
