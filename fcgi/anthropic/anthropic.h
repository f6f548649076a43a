/* Errors as Anthropic's API shapes them: for every failure under /v1/messages, OpenAI's object being everyone else's. */
#pragma once
#include <stdbool.h>

#include "engine/base/buf.h"
#include "engine/base/err.h"

struct request;

/* Is this request's path one of that API's? */
bool anthropic_speaks(const struct request *r);
/* {"type":"error","error":{"type","message"},"request_id"}; the status as reply.h has it. */
void anthropic_error(struct buf *out, const struct request *r, const struct err *e);
