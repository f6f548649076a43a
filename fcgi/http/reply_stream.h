/* A reply whose body is written piece by piece and is never whole in memory. Thread: the request's.
 *
 *   reply_header(r, ...);
 *   if (reply_stream_begin(r, 200, "application/zip"))
 *       while (...) reply_stream_write(r, data, len, e);
 *   ok ? reply_stream_end(r) : reply_stream_break(r);  */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"

struct request;

bool reply_stream_begin(struct request *r, int status, const char *content_type);
/* Nothing for HEAD. ERR_CANCELLED: the client has gone. */
bool reply_stream_write(struct request *r, const void *data, size_t len, struct err *e);
void reply_stream_end(struct request *r);
/* The reply stays unfinished: the connection to nginx is cut. Whoever was told a Content-Length
 * sees that bytes are missing; without one nginx ends the reply as if it were whole, so what is
 * sent must show its own end. */
void reply_stream_break(struct request *r);
