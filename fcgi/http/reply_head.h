/* The head of a reply, for reply*.c and sse.c only. */
#pragma once
#include <stdbool.h>

struct request;

/* Writes status line and headers, r->headers included. content_type may be NULL. Not flushed. */
bool reply_head(struct request *r, int status, const char *content_type);
